"""Confidence: calibrated estimates of how good a translation is.

A model's probabilities are not calibrated: a piece with p = 0.9 may be right less often, and a word
may be right although it had close rivals. So a validation set is translated once and measured:

- word confidence: how often words whose least probable piece has such a log-probability occur in
  the reference. Words are separated by spaces and stripped of punctuation; each word of the
  reference matches one only;
- sentence confidence: chrF / 100 of sentences with such a mean log-probability per piece.

Both increase with the log-probability (isotonic regression: pool adjacent violators), and every
value averages at least 50 observations. Without a measurement, confidence is None, never a guess.

Nonsense is less probable than anything in the validation set, or splits into more pieces; there the
confidence falls from the lowest one observed towards 0, which is an extrapolation.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from transduce.bundle.calibration import Calibration, Confidence
from transduce.inference.alignment import group_pieces
from transduce.inference.mbr import chrf

MIN_OBSERVATIONS = 50
"""Observations averaged in one value of a calibration, at least."""
_MAX_VALUES = 100  # of a calibration: more would be noise
_SPECIAL_PIECE = re.compile("<unk>|<0x[0-9A-F]{2}>|</s>")


class ScoredWord(NamedTuple):
    """A word of a translation and the score that its confidence depends on."""

    text: str
    log_prob: float
    """Lowest log-probability of its pieces."""


def word_confidences(
    confidence: Confidence, pieces: Sequence[str], log_probs: Sequence[float]
) -> tuple[tuple[str, float], ...]:
    """Return each word of a translation and its confidence; none without calibration or scores."""
    calibration = confidence.words
    if calibration is None or len(log_probs) != len(pieces):
        return ()
    words = scored_words(pieces, log_probs)
    return tuple((word.text, calibration.confidence(word.log_prob)) for word in words)


def calibrate(
    pieces: Sequence[Sequence[str]],
    log_probs: Sequence[Sequence[float]],
    *,
    translations: Sequence[str],
    references: Sequence[str],
    fragmentations: Sequence[float] = (),
) -> Confidence:
    """Calibrate a model's word and sentence confidence on translations and their references.

    Args:
        pieces: the pieces of each translation, EOS included.
        log_probs: log-probability of each piece.
        fragmentations: fragmentation of each source; empty if they are not to be examined.
    """
    translated_words = [scored_words(*pair) for pair in zip(pieces, log_probs, strict=True)]
    nonblank = [index for index, scores in enumerate(log_probs) if scores]
    return Confidence(
        words=fit_words(translated_words, references),
        sentences=fit_sentences(
            [math.fsum(log_probs[index]) / len(log_probs[index]) for index in nonblank],
            [translations[index] for index in nonblank],
            [references[index] for index in nonblank],
        ),
        max_fragmentation=float(np.percentile(fragmentations, 99)) if fragmentations else None,
    )


def fragmentation(text: str, pieces: Sequence[str]) -> float:
    """Return the pieces per character of a source; an unknown character counts as two pieces.

    Words that training did not contain split into short pieces.

    >>> fragmentation("sun", ["▁sun"]), fragmentation("xyz", ["▁x", "y", "z"])
    (0.3333333333333333, 1.0)
    >>> fragmentation("xy猫", ["▁x", "y", "<unk>"])
    1.3333333333333333
    """
    characters = sum(not char.isspace() for char in text)
    known = [piece.replace("▁", "") for piece in pieces if not _SPECIAL_PIECE.fullmatch(piece)]
    known = [piece for piece in known if piece]
    unknown = max(0, characters - sum(map(len, known)))
    return (len(known) + 2 * unknown) / max(characters, 1)


def scored_words(pieces: Sequence[str], log_probs: Sequence[float]) -> tuple[ScoredWord, ...]:
    """Join pieces into words, which spaces separate.

    >>> scored_words(["▁sun", "flower", "</s>"], [-0.5, -2.0, -0.1])
    (ScoredWord(text='sunflower', log_prob=-2.0),)
    """
    assert len(pieces) == len(log_probs)
    return tuple(
        ScoredWord(
            "".join(pieces[index] for index in word).replace("▁", " ").strip(),
            min(log_probs[index] for index in word),
        )
        for word in group_pieces(pieces)
    )


def fit_words(
    translations: Sequence[Sequence[ScoredWord]], references: Sequence[str]
) -> Calibration | None:
    """Calibrate word confidence on the words of each translation; None if they are too few."""
    log_probs = [word.log_prob for words in translations for word in words]
    correct = [
        matched
        for words, reference in zip(translations, references, strict=True)
        for matched in words_in_reference([word.text for word in words], reference)
    ]
    return fit_calibration(np.array(log_probs), np.array(correct, dtype=np.float64))


def fit_sentences(
    log_probs: Sequence[float], translations: Sequence[str], references: Sequence[str]
) -> Calibration | None:
    """Calibrate sentence confidence; None if there are too few sentences.

    Args:
        log_probs: mean log-probability of each translation's pieces, EOS included.
    """
    quality = [chrf(*pair) / 100 for pair in zip(translations, references, strict=True)]
    return fit_calibration(np.array(log_probs), np.array(quality))


def words_in_reference(words: Sequence[str], reference: str) -> list[bool]:
    """Return for each word whether the reference contains it, as often as it occurred so far.

    >>> words_in_reference(["ein", "Hund,", "ein"], "Ein Hund und ein Kind.")
    [True, True, False]
    """
    remaining = Counter(map(_strip_punctuation, reference.split()))
    matched: list[bool] = []
    for word in map(_strip_punctuation, words):
        matched.append(remaining[word] > 0)
        remaining[word] -= 1
    return matched


def fit_calibration(
    log_probs: Float64[np.ndarray, " observations"], quality: Float64[np.ndarray, " observations"]
) -> Calibration | None:
    """Fit a non-decreasing function; None below 2 x `MIN_OBSERVATIONS` observations."""
    if len(log_probs) < 2 * MIN_OBSERVATIONS:
        return None
    order = np.argsort(log_probs, kind="stable")
    groups = np.array_split(order, min(_MAX_VALUES, len(order) // MIN_OBSERVATIONS))
    knots, values = isotonic_regression(
        np.array([log_probs[group].mean() for group in groups]),
        np.array([quality[group].mean() for group in groups]),
        weights=np.array([len(group) for group in groups], dtype=np.float64),
    )
    return Calibration(
        log_probs=tuple(knots.tolist()),
        worth=tuple(values.clip(0.0, 1.0).tolist()),
        observations=len(order),
        lowest=min(float(np.percentile(log_probs, 1)), float(knots[0]), 0.0),
    )


def isotonic_regression(
    x: Float64[np.ndarray, " points"],
    y: Float64[np.ndarray, " points"],
    *,
    weights: Float64[np.ndarray, " points"],
) -> tuple[Float64[np.ndarray, " blocks"], Float64[np.ndarray, " blocks"]]:
    """Pool adjacent violators: merge neighbours that decrease, or share their x, into their mean.

    Args:
        x: non-decreasing.
        y: the values to make non-decreasing.

    Returns:
        The mean x and mean y of each block, both strictly increasing.

    Source:
        Ayer et al. 1955.
    """
    blocks: list[tuple[float, float, float]] = []  # weight, weighted sums of x and y
    for point, value, weight in zip(x.tolist(), y.tolist(), weights.tolist(), strict=True):
        blocks.append((weight, point * weight, value * weight))
        while len(blocks) > 1:
            (w1, x1, y1), (w2, x2, y2) = blocks[-2:]
            if x1 / w1 < x2 / w2 and y1 / w1 < y2 / w2:
                break
            blocks[-2:] = [(w1 + w2, x1 + x2, y1 + y2)]
    total, xs, ys = np.array(blocks).T
    return xs / total, ys / total


def _strip_punctuation(word: str) -> str:
    """Strip punctuation from both ends, unless the word is only punctuation."""
    letters = [index for index, letter in enumerate(word) if letter.isalnum()]
    return word[letters[0] : letters[-1] + 1] if letters else word
