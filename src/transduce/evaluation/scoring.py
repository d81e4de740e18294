"""What a model is worth, measured: its translations scored, its surprise at the given ones summed.

`evaluate` knows the scores; here they meet a model, a tokenizer and text. A run's results.json is
written and read here too.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import TypeAdapter, ValidationError

from transduce.bundle.bundle import Bundle
from transduce.bundle.calibration import Confidence
from transduce.data.batch import Batch, collate
from transduce.data.config import BatchConfig
from transduce.data.corpus import Pair, tidy
from transduce.data.sampler import Place, Sampler
from transduce.data.tokenizer import Tokenizer
from transduce.evaluation.metrics import Perplexity, Score, bleu, chrf, perplexity, ter
from transduce.inference.confidence import learn
from transduce.inference.translation import Translation
from transduce.inference.translator import Extras, Translator
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig

Metric = Literal["bleu", "chrf", "ter", "perplexity"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a model is worth on one set of pairs."""

    pairs: int
    loss: float
    """Nats per target piece, EOS counted."""
    perplexity: float
    scores: tuple[Score, ...]
    """BLEU, chrF and TER with their signatures."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """How a run ended: the content of results.json. The bundle lies beside it, in model/."""

    recipe: str
    """The recipe's name."""
    chosen: str
    """Which weights became the model, and why."""
    updates: int
    seconds: float
    """Spent in training and validating, over all sittings."""
    parameters: int
    validation: Result
    test: Result | None

    def __str__(self) -> str:
        """Say the scores of both sets, a line each."""
        lines: list[str] = []
        for name, result in (("validation", self.validation), ("test", self.test)):
            if result is not None:
                lines.append(f"{name}, {result.pairs:,} pairs: perplexity {result.perplexity:.2f}")
                lines += [f"  {score}" for score in result.scores]
        return "\n".join(lines)

    def to_json(self) -> str:
        """The text of results.json."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, file: Path) -> "Finished":
        """Read results.json.

        Raises:
            ValueError: if it is missing or damaged.
        """
        try:
            return TypeAdapter(cls).validate_json(file.read_bytes())
        except (OSError, ValidationError):
            raise ValueError(
                f"{file} is missing or damaged: `transduce evaluate` scores the model anew"
            ) from None


def metrics_of(names: Sequence[str]) -> tuple[Metric, ...]:
    """The metrics of these names, or all of them where none is named.

    Raises:
        ValueError: for a name that is none.

    >>> metrics_of(["ter"])
    ('ter',)
    """
    known: tuple[Metric, ...] = ("bleu", "chrf", "ter", "perplexity")
    for name in names:
        if name not in known:
            raise ValueError(f"a metric is one of {', '.join(known)}, not {name!r}")
    return tuple(metric for metric in known if not names or metric in names)


def score_lines(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    language: str = "",
    tokenize: str = "",
    metrics: Sequence[Metric] = ("bleu", "chrf", "ter"),
) -> tuple[Score, ...]:
    """Score translations by the metrics that need nothing but text.

    Args:
        hypotheses: translations, a line each.
        references: what they should be.
        language: code of the target language.
        tokenize: BLEU's tokeniser, over the language's.
        metrics: which, in the order of the answer; a perplexity is passed over.

    Raises:
        ValueError: for unequal numbers of lines or none.
    """
    measures = {
        "bleu": lambda: bleu(hypotheses, references, language=language, tokenize=tokenize),
        "chrf": lambda: chrf(hypotheses, references),
        "ter": lambda: ter(hypotheses, references, language=language),
    }
    return tuple(measures[name]() for name in metrics if name != "perplexity")


def score_model(
    bundle: Bundle,
    sources: Sequence[str],
    *,
    references: Sequence[str],
    language: str = "",
    tokenize: str = "",
    metrics: Sequence[Metric] = ("bleu", "chrf", "ter", "perplexity"),
) -> tuple[Score, ...]:
    """Translate `sources` as the bundle says and score what comes out.

    Raises:
        ValueError: for unequal numbers of lines or none.
    """
    if len(sources) != len(references):
        raise ValueError(
            f"there are {len(sources)} source lines but {len(references)} references: line n must "
            f"translate line n"
        )
    pairs = [Pair(*sides) for sides in zip(sources, references, strict=True)]
    scores: tuple[Score, ...] = ()
    if set(metrics) != {"perplexity"}:
        found = translate_pairs(bundle.model, bundle.tokenizer, pairs=pairs, search=bundle.search)
        scores = score_lines(
            texts(found),
            references,
            language=language or bundle.languages.target,
            tokenize=tokenize,
            metrics=metrics,
        )
    if "perplexity" in metrics:
        surprise = foresee(bundle.model, bundle.tokenizer, pairs=pairs)
        told = f"per piece of {bundle.tokenizer.vocab_size}, EOS counted"
        scores += (Score(name="perplexity", value=surprise.perplexity, signature=told),)
    return scores


def translate_pairs(
    model: Transformer, tokenizer: Tokenizer, *, pairs: Sequence[Pair], search: SearchConfig
) -> tuple[Translation, ...]:
    """Translate the sources of some pairs with a model in memory, by torch and by search alone."""
    return tuple(
        Translator.from_parts(model, tokenizer, search=search).translate(
            [pair.source for pair in pairs], extras=Extras(mend=False)
        )
    )


def texts(translations: Sequence[Translation]) -> tuple[str, ...]:
    """The text of each translation."""
    return tuple(translation.text for translation in translations)


def learn_confidence(translations: Sequence[Translation], pairs: Sequence[Pair]) -> Confidence:
    """Learn what a model's probabilities are worth, from its translations of some pairs."""
    return learn(
        [one.pieces for one in translations],
        [one.log_probs for one in translations],
        translations=texts(translations),
        references=[tidy(pair.target) for pair in pairs],
    )


def foresee(
    model: Transformer, tokenizer: Tokenizer, *, pairs: Sequence[Pair], micro_tokens: int = 4096
) -> Perplexity:
    """Measure how well a model foresees the targets of some pairs, none of them left out."""
    return perplexity(model, _batches(pairs, tokenizer, micro_tokens=micro_tokens))


def _batches(pairs: Sequence[Pair], tokenizer: Tokenizer, *, micro_tokens: int) -> Iterator[Batch]:
    """Pairs tidied as for training and encoded, those of like length together."""
    sources = tokenizer.encode_all([tidy(pair.source) for pair in pairs])
    targets = tokenizer.target.encode_all([tidy(pair.target) for pair in pairs])
    lengths = np.array([*zip(map(len, sources), map(len, targets), strict=True)], dtype=np.int64)
    one_update = BatchConfig(tokens=int(lengths.sum()) + len(pairs), micro_tokens=micro_tokens)
    sampler = Sampler(lengths.reshape(-1, 2), config=one_update, seed=0)
    for numbers in next(sampler.updates(Place())).micro_batches:
        yield collate(
            [sources[number] for number in numbers.tolist()],
            [targets[number] for number in numbers.tolist()],
            pad=tokenizer.pad,
            eos=tokenizer.EOS,
        )
