"""BLEU in two ways: sacreBLEU's, with its signature, and the paper's, which is another scale.

The paper's English-German figures are of text cut by the tokeniser of Moses, in which compounds
are split at their hyphens as well (get_ende_bleu.sh of tensor2tensor), scored by multi-bleu.perl:
more and shorter words, some of them easy, so the same translations score higher.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from sacrebleu.metrics.bleu import BLEU

from transduce.evaluation.metrics import Score, check_lines
from transduce.paper.report import json_text, render_page, write_files
from transduce.paper.table2.run import P100

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


def paper_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    language: str = "de",
    tokenise: Tokenise | None = None,
) -> Score:
    """Tokenised BLEU as the paper measured it, German with its compounds split.

    Args: those of `bleu`, of text that is not tokenised; `tokenise` replaces Moses' tokeniser.

    Raises:
        ValueError: for unequal numbers of lines or none, or without sacremoses.
    """
    check_lines(hypotheses, references)
    tokenizer = tokenise or moses(language)
    split = split_compounds if language == "de" else str
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    tokens, expected = (
        [split(tokenizer(line)) for line in lines] for lines in (hypotheses, references)
    )
    score = metric.corpus_score(tokens, [expected])
    method = "Moses tokens, compounds split" if language == "de" else "Moses tokens"
    return Score(
        name="tokenised BLEU", value=score.score, signature=f"{method}; {metric.get_signature()}"
    )


def write(record: Mapping[str, object], out: Path) -> str:
    """Write table2.json and table2.md into a folder, and return the page."""
    text = page(record)
    write_files(out, {"table2.json": json_text(record), "table2.md": text})
    return text


def page(record: Mapping[str, object]) -> str:
    """Format the page of a record."""
    return render_page("table2", {"quick": False, **record}, p100=P100)
