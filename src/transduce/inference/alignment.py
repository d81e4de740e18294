"""Word alignment: which source word each word of a translation comes from.

Alignments are extracted from the cross-attention. Some heads attend to a word's source at the step
that predicts the word; others, mostly in lower layers, one step later, when the word is the input.
The last layer attends at prediction: so each head is read at whichever step agrees better with the
mean of the last layer's heads, and is weighted by that agreement.

Source:
    Garg et al. 2019 (mean of a layer's heads); Chen et al. 2020, "Accurate Word Alignment Induction
    from Neural Machine Translation" (the shift by one step). docs/decoding.md has measurements.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

_EOS = "</s>"
_WORD_START = "▁"


class Link(NamedTuple):
    """A source word and the target word aligned to it, as indices from 0."""

    source: int
    target: int


def group_pieces(pieces: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Group pieces into words, which spaces separate; return the piece indices of each word.

    EOS belongs to no word, and a piece that is only a space is none.

    >>> group_pieces(["▁a", "▁sun", "flower", "</s>"])
    ((0,), (1, 2))
    """
    groups: list[list[int]] = []
    inside = False
    for index, piece in enumerate(pieces):
        if not inside or piece == _EOS or piece.startswith(_WORD_START):
            groups.append([])
        groups[-1].append(index)
        inside = piece != _EOS
    letters = {i for i, piece in enumerate(pieces) if piece != _EOS and piece.strip(_WORD_START)}
    return tuple(tuple(group) for group in groups if not letters.isdisjoint(group))


def align(
    cross: Float[np.ndarray, "layers heads target source"],
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
) -> tuple[Link, ...]:
    """Align every target word to the source word with the most attention; none if that is blank.

    A word's attention is the mean over its pieces of their total attention to a source word's.

    Args:
        cross: attention weights of the pair (`model.trace`).
        source_pieces: the source, ending in EOS.
        target_pieces: the translation, ending in EOS if it was reached.
    """
    assert cross.shape[2:] == (len(target_pieces), len(source_pieces))
    source_words, target_words = group_pieces(source_pieces), group_pieces(target_pieces)
    if not source_words or not target_words:
        return ()
    attention = word_attention(
        combined_attention(cross), source_words=source_words, target_words=target_words
    )
    return tuple(Link(int(best), word) for word, best in enumerate(attention.argmax(1).tolist()))


def to_pharaoh(links: Iterable[Link]) -> str:
    """Format links as in the Pharaoh format of alignment tools.

    >>> to_pharaoh([Link(0, 0), Link(2, 1)])
    '0-0 2-1'
    """
    return " ".join(f"{link.source}-{link.target}" for link in links)


def combined_attention(
    cross: Float[np.ndarray, "layers heads target source"],
) -> Float[np.ndarray, "target source"]:
    """Return the weighted mean of all heads, each at its better step. Rows sum to 1."""
    current = cross.reshape(-1, *cross.shape[2:])
    later = np.concatenate([current[:, 1:], current[:, -1:]], axis=1)  # when the piece is the input
    last = cross[-1].mean(0)
    agreement, later_agreement = ((heads * last).sum((1, 2)) for heads in (current, later))
    shifted = later_agreement > agreement
    weights = np.where(shifted, later_agreement, agreement)
    heads = np.where(shifted[:, None, None], later, current)
    return np.tensordot(weights / weights.sum(), heads, axes=1)


def word_attention(
    attention: Float[np.ndarray, "target source"],
    *,
    source_words: Sequence[Sequence[int]],
    target_words: Sequence[Sequence[int]],
) -> Float[np.ndarray, "target_words source_words"]:
    """Reduce attention between pieces to attention between words.

    Args:
        attention: of target pieces to source pieces.
        source_words: the source's piece indices by word (`group_pieces`).
    """
    by_word = np.stack([attention[:, list(word)].sum(1) for word in source_words], axis=1)
    return np.stack([by_word[list(word)].mean(0) for word in target_words])
