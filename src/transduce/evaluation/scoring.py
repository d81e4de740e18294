"""Evaluate a model: translate and score a test set, compute its perplexity; results.json."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from pydantic import TypeAdapter, ValidationError

from transduce.bundle.bundle import Bundle
from transduce.bundle.calibration import Confidence
from transduce.data.corpus import Pair, tidy
from transduce.data.protection import count_copies
from transduce.data.tokenizer import Tokenizer
from transduce.evaluation.comet import comet
from transduce.evaluation.metrics import (
    Perplexity,
    Score,
    bleu,
    check_lines,
    chrf,
    exact_match,
    ter,
)
from transduce.inference.confidence import calibrate, fragmentation
from transduce.inference.engines.base import reference_engine
from transduce.inference.engines.interface import IdPair
from transduce.inference.translation import Translation
from transduce.inference.translator import Translator, add_target_tag, find_target_tag
from transduce.search.config import SearchConfig

if TYPE_CHECKING:
    from transduce.model.transformer import Transformer

Metric = Literal["bleu", "chrf", "ter", "exact", "copies", "chrf++", "comet", "perplexity"]

TEXT_METRICS: Final[tuple[Metric, ...]] = ("bleu", "chrf", "ter", "exact", "copies")
"""Those that need no model."""

_ON_REQUEST: Final[tuple[Metric, ...]] = ("chrf++", "comet")

MAX_TESTED_LINES: Final = 10_000
"""Largest test set, in lines, for bootstrap, which needs 50 to 100 kB of memory per line."""


class ScoringOptions(NamedTuple):
    """How translations are scored."""

    language: str = ""
    """Code of the target language."""
    tokenize: str = ""
    """BLEU's tokeniser, overriding the language's."""
    metrics: Sequence[Metric] = (*TEXT_METRICS, "perplexity")
    """In the order of the scores; where BLEU has a note it comes last, and exact match first."""
    lower_case: bool = False
    """Compare lower-cased text, as for a model that lower-cases (TER always does)."""
    comet_model: Path | None = None
    """Folder of COMET's model."""
    intervals: bool = False
    """Estimate confidence intervals, up to `MAX_TESTED_LINES`."""


DEFAULT_SCORING: Final = ScoringOptions()
"""All metrics but those on request, no particular language."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationResult:
    """A model's scores on one set of pairs."""

    pairs: int
    loss: float
    """Nats per target piece, EOS included."""
    perplexity: float
    decoding: str = ""
    """How the text was decoded; "" in files of earlier versions, which retried no repetition."""
    scores: tuple[Score, ...]
    """BLEU, chrF, TER and exact match with their signatures; a BLEU that says nothing is last."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """The outcome of a training run, stored as results.json."""

    recipe: str
    """The recipe's name."""
    chosen: str
    """Which weights were selected, and why."""
    updates: int
    seconds: float
    """Training and validation time, summed over resumed sessions."""
    parameters: int
    validation: EvaluationResult
    test: EvaluationResult | None
    directions: Mapping[str, EvaluationResult] = field(default_factory=dict[str, EvaluationResult])
    """Of a model of several: by set, direction, and whether it is zero-shot."""

    def __str__(self) -> str:
        """Format the scores of both sets, one per line."""
        lines: list[str] = []
        results = {"validation": self.validation, "test": self.test, **self.directions}
        for name, result in results.items():
            if result is not None:
                lines.append(f"{name}, {result.pairs:,} pairs: perplexity {result.perplexity:.2f}")
                lines += [f"  {result.decoding}"] if result.decoding else []
                lines += [f"  {score}" for score in result.scores]
        return "\n".join(lines)

    def to_json(self) -> str:
        """The text of results.json."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, file: Path) -> "RunResult":
        """Read results.json.

        Raises:
            ValueError: if it is missing or damaged.
        """
        try:
            return TypeAdapter(cls).validate_json(file.read_bytes())
        except (OSError, ValidationError):
            raise ValueError(
                f"{file} is missing or damaged: score the model again with `transduce evaluate`"
            ) from None


def select_metrics(names: Sequence[str]) -> tuple[Metric, ...]:
    """Return the named metrics in canonical order; if `names` is empty, all but chrF++ and COMET.

    Raises:
        ValueError: for an unknown name.

    >>> select_metrics(["ter"])
    ('ter',)
    """
    known: tuple[Metric, ...] = (*TEXT_METRICS, *_ON_REQUEST, "perplexity")
    for name in names:
        if name not in known:
            raise ValueError(f"unknown metric {name!r}: use {', '.join(known)}")
    selected = names or (*TEXT_METRICS, "perplexity")
    return tuple(metric for metric in known if metric in selected)


def score_lines(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    sources: Sequence[str] | None = None,
    options: ScoringOptions = DEFAULT_SCORING,
) -> tuple[Score, ...]:
    """Score translations with the text-based metrics.

    Args:
        hypotheses: translations, a line each.
        references: reference translations.
        sources: source lines, for copy rates and COMET; None skips copy rates.
        options: language, tokeniser and metrics, of which perplexity is skipped.

    Raises:
        ValueError: for unequal numbers of lines or none, or a COMET that is not available.
    """
    if sources is not None:
        check_lines(sources, references, name="the source")
    language, tokenize, metrics, lower_case, comet_model, intervals = options
    interval = intervals and len(references) <= MAX_TESTED_LINES
    character_f = partial(chrf, hypotheses, references, lower_case=lower_case, interval=interval)
    measures = {
        "bleu": lambda: bleu(
            hypotheses,
            references,
            language=language,
            tokenize=tokenize,
            lower_case=lower_case,
            interval=interval,
        ),
        "chrf": character_f,
        "ter": lambda: ter(hypotheses, references, language=language, interval=interval),
        "exact": lambda: exact_match(hypotheses, references, lower_case=lower_case),
        "chrf++": lambda: character_f(word_order=2),
        "comet": lambda: comet(
            sources, hypotheses, references, model=comet_model, interval=interval
        ),
    }
    scores = [measures[name]() for name in metrics if name in measures]
    if sources is not None and "copies" in metrics:
        texts = (sources, hypotheses, references)
        if lower_case:
            texts = tuple([line.lower() for line in text] for text in texts)
        scores += copy_scores(*texts)
    if any(score.note for score in scores):
        scores.sort(key=lambda score: (bool(score.note), score.name != "exact match"))
    return tuple(scores)


def copy_scores(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
) -> list[Score]:
    """Share of the identifiers, numbers and the like that translations keep, by built-in pattern.

    Args:
        sources: source lines.
        hypotheses: the translation of each.
        references: the reference translation of each; what it does not keep is not counted.
    """
    copies = count_copies(sources, hypotheses, references)
    return [
        Score(
            name=f"copied {kind}",
            value=100 * (times - copies.lost[kind]) / times,
            signature=f"% of {times:,} in source and reference",
        )
        for kind, times in copies.times.items()
        if times
    ]


def with_tags(bundle: Bundle, sources: Sequence[str], language: str) -> Sequence[str]:
    """Put the target language's tag before each source if the model has several directions."""
    if not bundle.directions:
        return sources
    tokenizer, directions = bundle.tokenizer, bundle.directions
    tag = find_target_tag(tokenizer, directions, language)
    return [add_target_tag(source, tokenizer, directions, tag=tag) for source in sources]


def perplexity_score(bundle: Bundle, sources: Sequence[str], references: Sequence[str]) -> Score:
    """Compute a model's perplexity on references, with what it is counted in as signature."""
    pairs = [Pair(*sides) for sides in zip(sources, references, strict=True)]
    scores = reference_engine(bundle).score(encode_pairs(pairs, bundle.tokenizer))
    tokens = sum(map(len, scores))
    measured = Perplexity(loss_sum=-math.fsum(chain.from_iterable(scores)), tokens=tokens)
    signature = f"per piece, vocabulary {bundle.tokenizer.vocab_size}, EOS included"
    return Score(name="perplexity", value=measured.perplexity, signature=signature)


def encode_pairs(pairs: Sequence[Pair], tokenizer: Tokenizer) -> list[IdPair]:
    """Normalise and encode pairs as for training."""
    tidied = [Pair(*map(tidy, pair)) for pair in pairs]
    masked = [tokenizer.protection.mask_pair(pair, every=True) for pair in tidied]
    sources = tokenizer.encode_all([pair.source for pair in masked])
    targets = tokenizer.target.encode_all([pair.target for pair in masked])
    return list(zip(sources, targets, strict=True))


def translate_with(
    bundle: Bundle, sources: Sequence[str], *, as_is: bool = False
) -> tuple[Translation, ...]:
    """Translate with a bundle as `transduce translate` does by default, or with `--as-is`."""
    translator = Translator.from_bundle(bundle)
    return tuple(translator.translate(sources, retry_loops=not as_is, recase=not as_is))


def translate_pairs(
    model: "Transformer",
    tokenizer: Tokenizer,
    *,
    pairs: Sequence[Pair],
    search: SearchConfig,
    retry_loops: bool = True,
) -> tuple[Translation, ...]:
    """Translate the sources of `pairs` with a model in memory.

    Args:
        model: the model, on any device.
        tokenizer: its tokenizer.
        pairs: sentence pairs, of which only the sources are used.
        search: beam size and length penalty.
        retry_loops: translate repetitive lines again, and capitals in their usual case, as
            `transduce translate` does.
    """
    translator = Translator.from_parts(model, tokenizer, search=search)
    sources = [pair.source for pair in pairs]
    return tuple(translator.translate(sources, retry_loops=retry_loops, recase=retry_loops))


def describe_decoding(
    search: SearchConfig, translations: Sequence[Translation], *, as_is: bool = False
) -> str:
    """Describe how translations were made: beam, length penalty, and repetitive lines."""
    beam = f"beam {search.beam}, length penalty {search.alpha:g}, repetitive lines"
    if as_is:
        return f"{beam} not retried"
    flagged = sum(bool(translation.flag) for translation in translations)
    replaced = sum(translation.mended for translation in translations)
    return f"{beam} retried ({flagged:,} of {len(translations):,}, {replaced:,} replaced)"


def translation_texts(translations: Sequence[Translation]) -> tuple[str, ...]:
    """Return the text of each translation."""
    return tuple(translation.text for translation in translations)


def fit_confidence(
    translations: Sequence[Translation], pairs: Sequence[Pair], *, tokenizer: Tokenizer
) -> Confidence:
    """Fit the confidence calibration to a model's translations of `pairs`.

    Args:
        translations: of each pair's source.
        pairs: held-out pairs.
        tokenizer: the model's.
    """
    sources = [tokenizer.split_tag(tidy(pair.source))[1].strip() for pair in pairs]
    pieces = map(tokenizer.pieces, tokenizer.encode_all(sources))
    surface = tokenizer.target.surface  # case does not count for a model that lower-cases
    return calibrate(
        [translation.pieces for translation in translations],
        [translation.log_probs for translation in translations],
        translations=[surface(text) for text in translation_texts(translations)],
        references=[surface(tidy(pair.target)) for pair in pairs],
        fragmentations=[*map(fragmentation, sources, pieces)],
    )
