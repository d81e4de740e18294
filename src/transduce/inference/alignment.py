"""Word alignments: which words of the source each word of a translation comes from.

They are read off the cross-attention. Some heads look at a word's source while the word is due;
others, mostly in lower layers, a step later, while the word is read. The last layer has to know
what is due: so each head is read at the step at which it agrees better with the mean of the last
layer's heads, and weighs as much as it agrees.

Source:
    Garg et al. 2019 (a layer's mean of heads); Chen et al. 2020, "Accurate Word Alignment Induction
    from Neural Machine Translation" (the shift by a step). docs/decoding.md has what was measured.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from transduce.model.trace import Trace

_EOS = "</s>"
_BEGINS = "▁"


class Link(NamedTuple):
    """A word of the source and the word of the translation that it became, counted from 0."""

    source: int
    target: int


def words_of(pieces: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Return the places of the pieces of each word, as blanks part them in the text.

    Neither EOS nor a blank that no letter follows belongs to a word.

    >>> words_of(["▁a", "▁sun", "flower", "</s>"])
    ((0,), (1, 2))
    """
    found: list[list[int]] = []
    inside = False
    for place, piece in enumerate(pieces):
        if not inside or piece == _EOS or piece.startswith(_BEGINS):
            found.append([])
        found[-1].append(place)
        inside = piece != _EOS
    spelt = (places for places in found if any(_letters(pieces[place]) for place in places))
    return tuple(tuple(places) for places in spelt)


def align(
    trace: Trace, source_pieces: Sequence[str], target_pieces: Sequence[str]
) -> tuple[Link, ...]:
    """Link every word of a translation to the word of the source that it looks at most.

    A word's look is the mean over its pieces of what they take from all pieces of a source word.

    Args:
        trace: of the two sides (`model.trace`).
        source_pieces: what was read, EOS at the end.
        target_pieces: what was said, EOS at the end if it was reached.

    Returns:
        One link a target word, in their order; none if the source is blank.
    """
    assert trace.cross.shape[2:] == (len(target_pieces), len(source_pieces))
    read, said = words_of(source_pieces), words_of(target_pieces)
    if not read or not said:
        return ()
    looks = word_looks(agreed_look(trace.cross), read=read, said=said)
    return tuple(Link(int(best), word) for word, best in enumerate(looks.argmax(1).tolist()))


def pharaoh(links: Iterable[Link]) -> str:
    """Write links as other programs read them.

    >>> pharaoh([Link(0, 0), Link(2, 1)])
    '0-0 2-1'
    """
    return " ".join(f"{link.source}-{link.target}" for link in links)


def agreed_look(
    cross: Float[Tensor, "layers heads target source"],
) -> Float[Tensor, "target source"]:
    """Return the mean of all heads, each at its step and by its weight. Rows sum to 1."""
    usual = cross.flatten(0, 1)
    later = torch.cat([usual[:, 1:], usual[:, -1:]], dim=1)  # while the piece is read
    last = cross[-1].mean(0)
    agrees, agrees_later = ((heads * last).sum((1, 2)) for heads in (usual, later))
    shifted = agrees_later > agrees
    weights = torch.where(shifted, agrees_later, agrees)
    heads = torch.where(shifted[:, None, None], later, usual)
    return torch.einsum("h,hts->ts", weights / weights.sum(), heads)


def word_looks(
    look: Float[Tensor, "target source"],
    *,
    read: Sequence[Sequence[int]],
    said: Sequence[Sequence[int]],
) -> Float[Tensor, "said read"]:
    """Gather the look of pieces at pieces into that of words at words (`words_of` each side)."""
    by_word = torch.stack([look[:, list(places)].sum(1) for places in read], dim=1)
    return torch.stack([by_word[list(places)].mean(0) for places in said])


def _letters(piece: str) -> str:
    return "" if piece == _EOS else piece.strip(_BEGINS)
