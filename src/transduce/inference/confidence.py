"""Confidence: how far to believe a translation, in numbers that mean what they say.

A model's own probabilities do not: a piece of p = 0.9 may be right less often, and a word may be
right and still have had rivals. So a validation set is translated once, and what came of it says:

- of a word: how often words whose unlikeliest piece has such a ln p stand in the reference. Words
  are what blanks part, without marks at their ends; one of the reference answers for one only;
- of a sentence: the chrF, over 100, of sentences whose pieces have such a mean ln p.

Both rise with ln p (isotonic regression: pool adjacent violators), and no value rests on fewer than
50 observations. Where nothing was measured there is no confidence: it is None, never a guess.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from transduce.bundle.calibration import Calibration, Confidence
from transduce.inference.alignment import words_of
from transduce.inference.mbr import chrf

FEWEST = 50
"""Observations that a value rests on at least."""
_MOST = 100  # values of a calibration: more would be noise


class SaidWord(NamedTuple):
    """A word of a translation, and what its confidence is told from."""

    text: str

    log_prob: float
    """ln p of the unlikeliest of its pieces, given all before it."""


def words_with_confidence(
    confidence: Confidence, pieces: Sequence[str], log_probs: Sequence[float]
) -> tuple[tuple[str, float], ...]:
    """Return each word of a translation with its confidence; none where nothing was learned."""
    worth = confidence.words
    if worth is None or len(log_probs) != len(pieces):
        return ()
    return tuple(
        (word.text, worth.confidence(word.log_prob)) for word in said_words(pieces, log_probs)
    )


def learn(
    pieces: Sequence[Sequence[str]],
    log_probs: Sequence[Sequence[float]],
    *,
    translations: Sequence[str],
    references: Sequence[str],
) -> Confidence:
    """Learn what a model's words and sentences are worth, from translations and their references.

    Args:
        pieces: of each translation, EOS among them.
        log_probs: ln p of each of them.
        translations: their text.
        references: what each should have been.
    """
    said = [said_words(*one) for one in zip(pieces, log_probs, strict=True)]
    spoken = [place for place, one in enumerate(log_probs) if one]
    return Confidence(
        words=fit_words(said, references),
        sentences=fit_sentences(
            [math.fsum(log_probs[place]) / len(log_probs[place]) for place in spoken],
            [translations[place] for place in spoken],
            [references[place] for place in spoken],
        ),
    )


def said_words(pieces: Sequence[str], log_probs: Sequence[float]) -> tuple[SaidWord, ...]:
    """Put pieces together to words, as blanks part them.

    >>> said_words(["▁sun", "flower", "</s>"], [-0.5, -2.0, -0.1])
    (SaidWord(text='sunflower', log_prob=-2.0),)
    """
    assert len(pieces) == len(log_probs)
    return tuple(
        SaidWord(
            "".join(pieces[place] for place in places).replace("▁", " ").strip(),
            min(log_probs[place] for place in places),
        )
        for places in words_of(pieces)
    )


def fit_words(said: Sequence[Sequence[SaidWord]], references: Sequence[str]) -> Calibration | None:
    """Learn what words are worth from translations and their references; None from too few.

    Args:
        said: the words of each translation (`said_words`).
        references: what each should have been.
    """
    log_probs = [word.log_prob for words in said for word in words]
    right = [
        one
        for words, reference in zip(said, references, strict=True)
        for one in in_reference([word.text for word in words], reference)
    ]
    return fit(np.array(log_probs, dtype=np.float64), np.array(right, dtype=np.float64))


def fit_sentences(
    log_probs: Sequence[float], translations: Sequence[str], references: Sequence[str]
) -> Calibration | None:
    """Learn what sentences are worth; None from too few.

    Args:
        log_probs: the mean ln p of each translation's pieces, EOS among them.
        translations: their text.
        references: what each should have been.
    """
    worth = [chrf(*pair) / 100 for pair in zip(translations, references, strict=True)]
    return fit(np.array(log_probs, dtype=np.float64), np.array(worth, dtype=np.float64))


def in_reference(words: Sequence[str], reference: str) -> list[bool]:
    """Tell of each word whether the reference has it, and not fewer times than said so far.

    >>> in_reference(["ein", "Hund,", "ein"], "Ein Hund und ein Kind.")
    [True, True, False]
    """
    left = Counter(map(_bare, reference.split()))
    right: list[bool] = []
    for word in map(_bare, words):
        right.append(left[word] > 0)
        left[word] -= 1
    return right


def fit(
    log_probs: Float64[np.ndarray, " seen"], worth: Float64[np.ndarray, " seen"]
) -> Calibration | None:
    """Fit a line that never falls; None where there are fewer than twice `FEWEST` observations."""
    if len(log_probs) < 2 * FEWEST:
        return None
    order = np.argsort(log_probs, kind="stable")
    count = min(_MOST, len(order) // FEWEST)
    groups = np.array_split(order, count)
    knots, values = pooled(
        np.array([log_probs[group].mean() for group in groups]),
        np.array([worth[group].mean() for group in groups]),
        weights=np.array([len(group) for group in groups], dtype=np.float64),
    )
    return Calibration(
        log_probs=tuple(knots.tolist()),
        worth=tuple(values.clip(0.0, 1.0).tolist()),
        observations=len(order),
    )


def pooled(
    x: Float64[np.ndarray, " points"],
    y: Float64[np.ndarray, " points"],
    *,
    weights: Float64[np.ndarray, " points"],
) -> tuple[Float64[np.ndarray, " blocks"], Float64[np.ndarray, " blocks"]]:
    """Pool adjacent violators: neighbours that fall, or share their x, become one, their mean.

    Args:
        x: rising or equal.
        y: what is to rise with it.
        weights: of each point.

    Returns:
        The mean x and the mean y of each block: the x rise, the y do as well.

    Source:
        Ayer et al. 1955.
    """
    blocks: list[tuple[float, float, float]] = []  # weight, and the sums of x and y by weight
    for here, value, weight in zip(x.tolist(), y.tolist(), weights.tolist(), strict=True):
        blocks.append((weight, here * weight, value * weight))
        while len(blocks) > 1 and not _rises(blocks[-2], blocks[-1]):
            (w1, x1, y1), (w2, x2, y2) = blocks[-2:]
            blocks[-2:] = [(w1 + w2, x1 + x2, y1 + y2)]
    total, xs, ys = np.array(blocks).T
    return xs / total, ys / total


def calibration_error(
    confidences: Sequence[float], worth: Sequence[float], *, bins: int = 10
) -> float:
    """Return the expected calibration error: how far confidence and truth lie apart, on average.

    The observations are put in bins of equally many, by confidence, and the means compared.
    """
    given, truth = np.array(confidences), np.array(worth, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    groups = [group for group in np.array_split(order, bins) if len(group)]
    gaps = [len(group) * abs(given[group].mean() - truth[group].mean()) for group in groups]
    return float(sum(gaps) / len(order))


def _rises(before: tuple[float, float, float], after: tuple[float, float, float]) -> bool:
    (w1, x1, y1), (w2, x2, y2) = before, after
    return x1 / w1 < x2 / w2 and y1 / w1 < y2 / w2


def _bare(word: str) -> str:
    """A word without marks at its ends, unless it is all marks."""
    letters = [place for place, letter in enumerate(word) if letter.isalnum()]
    return word[letters[0] : letters[-1] + 1] if letters else word
