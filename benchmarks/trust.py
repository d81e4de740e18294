"""Confidence, alignment, loop detection and MBR decoding, measured against references.

    .venv/bin/python benchmarks/trust.py RUN --name multi30k-tok

Calibration is fitted on the run's validation pairs and measured on its test pairs. Loops are
detected in translations, and in references, where each detection is a false alarm. There are no
gold alignments: a link scores the Dice coefficient of its two words over the training pairs, 2 x
lines with both words / (lines with the first + lines with the second), which only compares ways of
reading alignments from attention. Minimum Bayes risk decoding is measured on validation pairs.
Writes benchmarks/results/trust-NAME/record.json.
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
from transduce.inference.translation import Translation
from transduce.inference.translator import Translator
from transduce.model.trace import trace
from transduce.pipeline.prepared import Prepared, open_prepared
from transduce.search.config import DecodingConstraints, Request, SamplingConfig

Numbers = dict[str, float]
WordAttention = Float[np.ndarray, "target source"]
ALIGNED_PAIRS = 300  # pairs to align
SAMPLED_SENTENCES = 500  # sentences to translate by sampling
SAMPLES = 16


def main() -> None:
    """Measure everything, print and write the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", type=Path, help="a finished run's folder")
    parser.add_argument("--name", required=True, help="suffix of the record's name")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    bundle, prepared = Bundle.load(arguments.run), open_prepared(arguments.run)
    translator = Translator.from_parts(bundle.model, bundle.tokenizer, search=bundle.search)
    translations = {
        name: translator.translate((pair.source for pair in pairs), retry_loops=False)
        for name, pairs in (("validation", prepared.validation), ("test", prepared.test))
    }
    record = {
        **header(f"python benchmarks/trust.py RUN --name {arguments.name}", "sacrebleu"),
        "calibration": calibration(translations, prepared),
        "loops": loops(translations, prepared),
        "alignment": alignment(bundle, prepared),
        "mbr": mbr(bundle, prepared),
    }
    text = write(f"trust-{arguments.name}", record)
    sys.stdout.write(text)


def calibration(
    translations: dict[str, list[Translation]], prepared: Prepared
) -> dict[str, Numbers]:
    """Measure expected calibration errors on the test pairs, calibrated and uncalibrated."""
    fitted, measured = (
        (translations[name], [tidy(pair.target) for pair in pairs])
        for name, pairs in (("validation", prepared.validation), ("test", prepared.test))
    )
    words, is_correct = word_correctness(*measured)
    word_calibration = fit_words(
        [scored_words(translation.pieces, translation.log_probs) for translation in fitted[0]],
        fitted[1],
    )
    means = [fmean(translation.log_probs) for translation in measured[0]]
    quality = [
        sentence_chrf(translation.text, target) / 100
        for translation, target in zip(*measured, strict=True)
    ]
    sentence_calibration = fit_sentences(
        [fmean(translation.log_probs) for translation in fitted[0]],
        [translation.text for translation in fitted[0]],
        fitted[1],
    )
    assert word_calibration is not None
    assert sentence_calibration is not None
    return {
        "words": errors(word_calibration, words, is_correct),
        "sentences": errors(sentence_calibration, means, quality),
    }


def word_correctness(
    translations: Sequence[Translation], targets: Sequence[str]
) -> tuple[list[float], ...]:
    """Return ln p of each word, and whether the word is in the reference."""
    log_probs: list[float] = []
    is_correct: list[float] = []
    for translation, target in zip(translations, targets, strict=True):
        words = scored_words(translation.pieces, translation.log_probs)
        log_probs += [word.log_prob for word in words]
        is_correct += map(float, words_in_reference([word.text for word in words], target))
    return log_probs, is_correct


def errors(
    calibration: Calibration, log_probs: Sequence[float], observed: Sequence[float]
) -> Numbers:
    """Measure the error of a calibration, and of the uncalibrated probabilities."""
    confidences = [calibration.confidence(log_prob) for log_prob in log_probs]
    probabilities = [math.exp(log_prob) for log_prob in log_probs]
    return {
        "measured_on": len(observed),
        "knots": len(calibration.worth),
        "mean_truth": round(fmean(observed), 4),
        "mean_confidence": round(fmean(confidences), 4),
        "error": round(calibration_error(confidences, observed), 4),
        "mean_probability": round(fmean(probabilities), 4),
        "error_of_probability": round(calibration_error(probabilities, observed), 4),
    }


def loops(translations: dict[str, list[Translation]], prepared: Prepared) -> dict[str, object]:
    """Detect loops in translations, and count false alarms in references."""
    tokenizer = prepared.tokenizer

    def pieces(text: str) -> list[str]:
        return tokenizer.pieces(tokenizer.encode(tidy(text)))

    repetitions = {
        name: [
            repetition
            for line in lines
            if (repetition := detect_repetition(pieces(line.source), line.pieces))
        ]
        for name, lines in translations.items()
    }
    train = [prepared.store.pair(index) for index in range(len(prepared.store))]
    sides = [(pieces(pair.source), pieces(pair.target)) for pair in train]
    alarms = [sum(bool(detect_repetition(a, b)) + bool(detect_repetition(b, a)) for a, b in sides)]
    return {**repetitions, "references": 2 * len(sides), "false_alarms": alarms[0]}


def alignment(bundle: Bundle, prepared: Prepared) -> Numbers:
    """Average the Dice coefficient of links for each reading of attention, by teacher forcing."""
    sources, targets, pair_counts = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for index in range(len(prepared.store)):
        source_words, target_words = (set(side.split()) for side in prepared.store.pair(index))
        sources.update(source_words)
        targets.update(target_words)
        pair_counts.update(product(source_words, target_words))
    dice: dict[str, list[float]] = {}
    for pair in prepared.validation[:ALIGNED_PAIRS]:
        for name, attention in attention_variants(bundle, pair).items():
            source_words, target_words = (tidy(side).split() for side in pair)
            aligned = [source_words[position] for position in attention.argmax(1).tolist()]
            dice.setdefault(name, []).extend(
                2 * pair_counts[source, target] / max(1, sources[source] + targets[target])
                for source, target in zip(aligned, target_words, strict=True)
            )
    return {name: round(fmean(values), 4) for name, values in dice.items()}


def attention_variants(bundle: Bundle, pair: Pair) -> dict[str, WordAttention]:
    """Return the attention between words for each way of combining heads and layers."""
    encode, eos = bundle.tokenizer.encode, bundle.tokenizer.EOS
    ids = [[*encode(tidy(side)), eos] for side in pair]
    source_groups, target_groups = (group_pieces(bundle.tokenizer.pieces(side)) for side in ids)
    cross = trace(bundle.model, *ids).cross
    shifted = np.concatenate([cross[:, :, 1:], cross[:, :, -1:]], axis=2)
    variants = {"agreed": combined_attention(cross), "all layers": cross.mean((0, 1))}
    for layer, (attention, shifted_attention) in enumerate(
        zip(cross, shifted, strict=True), start=1
    ):
        variants[f"layer {layer}"] = attention.mean(0)
        variants[f"layer {layer}, a step later"] = shifted_attention.mean(0)
    return {
        name: word_attention(weights, source_words=source_groups, target_words=target_groups)
        for name, weights in variants.items()
    }


def mbr(bundle: Bundle, prepared: Prepared) -> list[dict[str, object]]:
    """Score beam search, and the candidates selected from samples and from an n-best list."""
    pairs = prepared.validation[:SAMPLED_SENTENCES]
    targets = [tidy(pair.target) for pair in pairs]
    engine = TorchEngine(
        bundle.model, pad=bundle.tokenizer.pad, eos=bundle.tokenizer.EOS, device="cpu"
    )
    requests = [Request(tuple(bundle.tokenizer.encode(tidy(pair.source)))) for pair in pairs]

    def score(
        name: str,
        beam: int,
        sampling: SamplingConfig | None,
        choose: Callable[[list[str], list[float]], int],
    ) -> dict[str, object]:
        config, lines = replace(bundle.search, beam=beam), list[str]()
        for start in range(0, len(requests), 50):
            for hypotheses in engine.search(
                requests[start : start + 50], config, DecodingConstraints(sampling=sampling)
            ):
                texts = [
                    bundle.tokenizer.decode(hypothesis.ids).strip() for hypothesis in hypotheses
                ]
                lines.append(
                    texts[choose(texts, [hypothesis.log_prob for hypothesis in hypotheses])]
                )
        scores = (bleu(lines, targets, tokenize="none"), chrf(lines, targets))
        return {"way": name, **{metric.name: round(metric.value, 2) for metric in scores}}

    beam = bundle.search.beam
    by_agreement = lambda texts, _: select_mbr(texts)  # noqa: E731
    by_share = lambda texts, log_probs: select_mbr(texts, normalised_probabilities(log_probs))  # noqa: E731
    rows = [
        score(f"beam {beam}", beam, None, lambda *_: 0),
        score(f"{SAMPLES}-best of beam {SAMPLES}, by shares", SAMPLES, None, by_share),
    ]
    for temperature in (0.5, 1.0):
        sampling = SamplingConfig(temperature=temperature)
        name = f"{SAMPLES} draws, temperature {temperature}"
        rows += [score(f"{name}: the likeliest", SAMPLES, sampling, lambda *_: 0)]
        rows += [score(f"{name}: most agreed", SAMPLES, sampling, by_agreement)]
    return rows


def calibration_error(
    confidences: Sequence[float], quality: Sequence[float], *, bins: int = 10
) -> float:
    """Return the expected calibration error: mean distance of confidence and observed quality.

    Args:
        confidences: Predicted confidence of each observation, 0 to 1.
        quality: Observed quality of each, 0 to 1.
        bins: Number of equally filled bins, by confidence, whose means are compared.
    """
    predicted, observed = np.array(confidences), np.array(quality, dtype=np.float64)
    groups = [
        group for group in np.array_split(np.argsort(predicted, kind="stable"), bins) if len(group)
    ]
    gaps = [len(group) * abs(predicted[group].mean() - observed[group].mean()) for group in groups]
    return float(sum(gaps) / len(predicted))


if __name__ == "__main__":
    main()
