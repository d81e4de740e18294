"""Confidence, alignments, loop detection and MBR of the decoder, measured against references.

    .venv/bin/python benchmarks/trust.py RUN --name multi30k-tok

Calibration is fitted on the run's validation pairs and measured on its test pairs. Loops are looked
for in translations, and in references, where each one found is a false alarm. Alignments have no
truth here: a link is worth the Dice coefficient of its two words over the training pairs, 2 x lines
with both / (lines with the one + lines with the other), so only the ways to read attention can be
told apart. Minimum Bayes risk is tried on validation pairs. Written to
benchmarks/results/trust-NAME/record.json.
"""

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from jaxtyping import Float
from record import header, write

from transduce.bundle.bundle import Bundle
from transduce.bundle.calibration import Calibration
from transduce.data.corpus import Pair, tidy
from transduce.evaluation.metrics import bleu, chrf
from transduce.inference.alignment import combined_attention, group_pieces, word_attention
from transduce.inference.confidence import (
    fit_sentences,
    fit_words,
    scored_words,
    words_in_reference,
)
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.inference.mbr import chrf as sentence_chrf
from transduce.inference.mbr import normalised_probabilities, select_mbr
from transduce.inference.repetition import detect_repetition
from transduce.inference.translator import Translation, Translator
from transduce.model.trace import trace
from transduce.pipeline.prepared import Prepared, open_prepared
from transduce.search.config import DecodingConstraints, Request, SamplingConfig

Numbers = dict[str, float]
Look = Float[np.ndarray, "target source"]
ALIGNED = 300  # pairs that are traced
DRAWN = 500  # sentences that are sampled from
DRAWS = 16


def main() -> None:
    """Measure it all, print it, write one record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", type=Path, help="a finished run's folder")
    parser.add_argument("--name", required=True, help="of the record")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    bundle, prepared = Bundle.load(arguments.run), open_prepared(arguments.run)
    translator = Translator.from_parts(bundle.model, bundle.tokenizer, search=bundle.search)
    said = {
        name: translator.translate((pair.source for pair in pairs), retry_loops=False)
        for name, pairs in (("validation", prepared.validation), ("test", prepared.test))
    }
    record = {
        **header(f"python benchmarks/trust.py RUN --name {arguments.name}", "sacrebleu"),
        "calibration": calibration(said, prepared),
        "loops": loops(said, prepared),
        "alignment": alignment(bundle, prepared),
        "mbr": mbr(bundle, prepared),
    }
    text = write(f"trust-{arguments.name}", record)
    sys.stdout.write(text)


def calibration(said: dict[str, list[Translation]], prepared: Prepared) -> dict[str, Numbers]:
    """Expected calibration errors on the test pairs, and those of the model's bare numbers."""
    learned, held = (
        (said[name], [tidy(pair.target) for pair in pairs])
        for name, pairs in (("validation", prepared.validation), ("test", prepared.test))
    )
    words, right = words_right(*held)
    of_words = fit_words(
        [scored_words(one.pieces, one.log_probs) for one in learned[0]], learned[1]
    )
    means = [fmean(one.log_probs) for one in held[0]]
    worth = [sentence_chrf(one.text, target) / 100 for one, target in zip(*held, strict=True)]
    of_sentences = fit_sentences(
        [fmean(one.log_probs) for one in learned[0]], [one.text for one in learned[0]], learned[1]
    )
    assert of_words is not None
    assert of_sentences is not None
    return {
        "words": errors(of_words, words, right),
        "sentences": errors(of_sentences, means, worth),
    }


def words_right(said: Sequence[Translation], targets: Sequence[str]) -> tuple[list[float], ...]:
    """ln p of each word, and whether its reference has it."""
    log_probs: list[float] = []
    right: list[float] = []
    for one, target in zip(said, targets, strict=True):
        words = scored_words(one.pieces, one.log_probs)
        log_probs += [word.log_prob for word in words]
        right += map(float, words_in_reference([word.text for word in words], target))
    return log_probs, right


def errors(learned: Calibration, log_probs: Sequence[float], truth: Sequence[float]) -> Numbers:
    """What a calibration is worth."""
    given = [learned.confidence(one) for one in log_probs]
    bare = [math.exp(one) for one in log_probs]
    return {
        "measured_on": len(truth),
        "knots": len(learned.worth),
        "mean_truth": round(fmean(truth), 4),
        "mean_confidence": round(fmean(given), 4),
        "error": round(calibration_error(given, truth), 4),
        "mean_probability": round(fmean(bare), 4),
        "error_of_probability": round(calibration_error(bare, truth), 4),
    }


def loops(said: dict[str, list[Translation]], prepared: Prepared) -> dict[str, object]:
    """Faults found in translations, and in what people wrote."""
    tokenizer = prepared.tokenizer

    def pieces(text: str) -> list[str]:
        return tokenizer.pieces(tokenizer.encode(tidy(text)))

    found = {
        name: [text for one in some if (text := detect_repetition(pieces(one.source), one.pieces))]
        for name, some in said.items()
    }
    train = [prepared.store.pair(index) for index in range(len(prepared.store))]
    sides = [(pieces(pair.source), pieces(pair.target)) for pair in train]
    alarms = [sum(bool(detect_repetition(a, b)) + bool(detect_repetition(b, a)) for a, b in sides)]
    return {**found, "references": 2 * len(sides), "false_alarms": alarms[0]}


def alignment(bundle: Bundle, prepared: Prepared) -> Numbers:
    """The mean worth of links by the way attention is read, on references read by force."""
    sources, targets, both = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for index in range(len(prepared.store)):
        read, said = (set(side.split()) for side in prepared.store.pair(index))
        sources.update(read)
        targets.update(said)
        both.update(product(read, said))
    worth: dict[str, list[float]] = {}
    for pair in prepared.validation[:ALIGNED]:
        for name, looks in ways(bundle, pair).items():
            read, said = (tidy(side).split() for side in pair)
            links = zip(said, looks.argmax(1).tolist(), strict=True)
            worth.setdefault(name, []).extend(
                2 * both[read[at], word] / max(1, sources[read[at]] + targets[word])
                for word, at in links
            )
    return {name: round(fmean(values), 4) for name, values in worth.items()}


def ways(bundle: Bundle, pair: Pair) -> dict[str, Look]:
    """How words look at words, by the way the heads are read."""
    encode, eos = bundle.tokenizer.encode, bundle.tokenizer.EOS
    ids = [[*encode(tidy(side)), eos] for side in pair]
    read, said = (group_pieces(bundle.tokenizer.pieces(side)) for side in ids)
    cross = trace(bundle.model, *ids).cross
    later = np.concatenate([cross[:, :, 1:], cross[:, :, -1:]], axis=2)
    looks = {"agreed": combined_attention(cross), "all layers": cross.mean((0, 1))}
    for layer, (due, read_later) in enumerate(zip(cross, later, strict=True), start=1):
        looks[f"layer {layer}"] = due.mean(0)
        looks[f"layer {layer}, a step later"] = read_later.mean(0)
    return {
        name: word_attention(look, source_words=read, target_words=said)
        for name, look in looks.items()
    }


def mbr(bundle: Bundle, prepared: Prepared) -> list[dict[str, object]]:
    """Scores of what search finds, and of what is chosen from draws and from an n-best list."""
    pairs = prepared.validation[:DRAWN]
    targets = [tidy(pair.target) for pair in pairs]
    engine = TorchEngine(
        bundle.model, pad=bundle.tokenizer.pad, eos=bundle.tokenizer.EOS, device="cpu"
    )
    asked = [Request(tuple(bundle.tokenizer.encode(tidy(pair.source)))) for pair in pairs]

    def score(
        name: str,
        beam: int,
        draw: SamplingConfig | None,
        choose: Callable[[list[str], list[float]], int],
    ) -> dict[str, object]:
        config, lines = replace(bundle.search, beam=beam), list[str]()
        for start in range(0, len(asked), 50):
            for found in engine.search(
                asked[start : start + 50], config, DecodingConstraints(sampling=draw)
            ):
                texts = [bundle.tokenizer.decode(one.ids).strip() for one in found]
                lines.append(texts[choose(texts, [one.log_prob for one in found])])
        scores = (bleu(lines, targets, tokenize="none"), chrf(lines, targets))
        return {"way": name, **{one.name: round(one.value, 2) for one in scores}}

    beam = bundle.search.beam
    agreed = lambda texts, _: select_mbr(texts)  # noqa: E731
    by_share = lambda texts, log_probs: select_mbr(texts, normalised_probabilities(log_probs))  # noqa: E731
    rows = [
        score(f"beam {beam}", beam, None, lambda *_: 0),
        score(f"{DRAWS}-best of beam {DRAWS}, by shares", DRAWS, None, by_share),
    ]
    for temperature in (0.5, 1.0):
        draw = SamplingConfig(temperature=temperature)
        name = f"{DRAWS} draws, temperature {temperature}"
        rows += [score(f"{name}: the likeliest", DRAWS, draw, lambda *_: 0)]
        rows += [score(f"{name}: most agreed", DRAWS, draw, agreed)]
    return rows


def calibration_error(
    confidences: Sequence[float], quality: Sequence[float], *, bins: int = 10
) -> float:
    """Return the expected calibration error: mean distance of confidence and observed quality.

    Args:
        confidences: predicted confidence of each observation, 0 to 1.
        quality: observed quality of each, 0 to 1.
        bins: number of equally filled bins, by confidence, whose means are compared.
    """
    predicted, observed = np.array(confidences), np.array(quality, dtype=np.float64)
    groups = [g for g in np.array_split(np.argsort(predicted, kind="stable"), bins) if len(g)]
    gaps = [len(group) * abs(predicted[group].mean() - observed[group].mean()) for group in groups]
    return float(sum(gaps) / len(predicted))


if __name__ == "__main__":
    main()
