"""BLEU in two ways: sacreBLEU's, with its signature, and the paper's, which is another scale.

The paper's English-German figures are of text cut by the tokeniser of Moses, in which compounds
are split at their hyphens as well (get_ende_bleu.sh of tensor2tensor), scored by multi-bleu.perl:
more and shorter words, some of them easy, so the same translations score higher.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from sacrebleu.metrics.bleu import BLEU

from transduce.evaluation.metrics import Score, bleu

_COMPOUND: Final = re.compile(r"(\S)-(\S)")

Tokenise = Callable[[str], str]


def split_compounds(text: str) -> str:
    """Split words at their hyphens, as the scripts of the time did.

    >>> split_compounds("rich-text format")
    'rich ##AT##-##AT## text format'
    """
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", text)


def moses(language: str) -> Tokenise:
    """The tokeniser of Moses for a language.

    Raises:
        ValueError: if sacremoses is not installed.
    """
    try:
        from sacremoses import MosesTokenizer
    except ImportError:
        raise ValueError(
            "the paper's scoring needs the tokeniser of Moses: pip install 'transduce[moses]'"
        ) from None
    tokenizer = MosesTokenizer(lang=language)
    return lambda text: str(tokenizer.tokenize(text, return_str=True))


def as_the_paper(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    language: str = "de",
    tokenise: Tokenise | None = None,
) -> Score:
    """Tokenised BLEU as the paper measured it, German with its compounds split.

    Args:
        hypotheses: translations, a line each, not tokenised.
        references: what they should be, line by line.
        language: code of the target language.
        tokenise: in place of the tokeniser of Moses.

    Raises:
        ValueError: for unequal numbers of lines or none, or without sacremoses.
    """
    if len(hypotheses) != len(references) or not hypotheses:
        raise ValueError(
            f"there are {len(hypotheses)} translations but {len(references)} references: line n "
            f"must translate line n"
        )
    cut = tokenise or moses(language)
    split = split_compounds if language == "de" else str
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    found = metric.corpus_score(
        [split(cut(line)) for line in hypotheses], [[split(cut(line)) for line in references]]
    )
    how = "Moses tokens, compounds split" if language == "de" else "Moses tokens"
    return Score(
        name="tokenised BLEU", value=found.score, signature=f"{how}; {metric.get_signature()}"
    )


def both_ways(
    hypotheses: Sequence[str], references: Sequence[str], *, language: str = "de"
) -> tuple[Score, Score]:
    """Score translations by sacreBLEU, then as the paper did.

    Raises:
        ValueError: as `as_the_paper`.
    """
    return (
        bleu(hypotheses, references, language=language),
        as_the_paper(hypotheses, references, language=language),
    )
