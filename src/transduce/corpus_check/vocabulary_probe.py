"""A tokenizer tried on text that it was not trained on."""

from collections.abc import Sequence
from typing import NamedTuple

from transduce.corpus_check.findings import Example, Finding, Kind, Part
from transduce.data.corpus import Pair, tidy
from transduce.data.tokenizer import UNK, Tokenizer

_EXAMPLES = 3


class Tried(NamedTuple):
    """How a tokenizer does on some pairs."""

    findings: tuple[Finding, ...]
    words: int
    """Between spaces, of both sides."""
    pieces: int


def try_pieces(
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    *,
    part: Part,
    max_pieces: int,
    lines: Sequence[int] = (),
) -> Tried:
    """Cut pairs into pieces and join them again.

    Args:
        tokenizer: as it was trained.
        pairs: what to try it on.
        part: what they are.
        max_pieces: longest side of a training pair.
        lines: where they stand in their files, if not from line 1 on.
    """
    marks: dict[Kind, list[Example]] = {"unknown piece": [], "round trip": [], "over-long": []}
    texts = [tidy(side) for pair in pairs for side in pair]
    sources = tokenizer.encode_all(texts[::2])
    targets = tokenizer.target.encode_all(texts[1::2])
    encoded = [ids for both in zip(sources, targets, strict=True) for ids in both]
    for index, pair in enumerate(pairs):
        example = Example(lines[index] if lines else index + 1, *pair)
        sides = slice(2 * index, 2 * index + 2)
        cut = encoded[sides]
        if any(UNK in ids for ids in cut):
            marks["unknown piece"].append(example)
        elif [tokenizer.decode(ids) for ids in cut] != texts[sides]:
            marks["round trip"].append(example)
        if max(map(len, cut)) > max_pieces:
            marks["over-long"].append(example)
    pieces, unknown = sum(map(len, encoded)), sum(ids.count(UNK) for ids in encoded)
    advice = {"unknown piece": f"they are {unknown:,} of {pieces:,} pieces"}
    findings = [
        Finding(
            kind=kind,
            part=part,
            count=len(found),
            of=len(pairs),
            examples=tuple(found[:_EXAMPLES]),
            advice=advice.get(kind, ""),
        )
        for kind, found in marks.items()
        if found
    ]
    return Tried(tuple(findings), sum(len(text.split()) for text in texts), pieces)
