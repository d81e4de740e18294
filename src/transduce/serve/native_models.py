"""What this server's own API is asked and tells, field by field."""

from typing import Literal

from pydantic import ConfigDict, Field, RootModel

from transduce.serve.answers import Exact
from transduce.serve.libretranslate_models import Named
from transduce.serve.texts import WIDEST


class Limits(Exact):
    """What a request may not exceed."""

    characters: int
    """-1 is no limit."""


class Model(Exact):
    """A loaded model."""

    name: str
    source: Named
    target: Named
    parameters: int
    engine: str
    """Who computes, in one line."""
    beam: int
    """Hypotheses followed where a request does not say: most translations that it can ask for."""
    example: str
    """A sentence to try it with; empty if there is none."""
    calibrated: bool
    """Whether its confidence was learned."""
    limits: Limits


class _Text(Exact):
    """What all requests have."""

    text: str = Field(min_length=1)
    source: str = "auto"
    """Code of its language; "auto" lets it be found out."""
    target: str | None = None
    """Code of the language that is wanted; may be left out where only one can be meant."""
    api_key: str = ""


class NativeTranslate(_Text):
    """A text to be translated."""

    beam: int | None = Field(default=None, ge=1, le=WIDEST)
    """Hypotheses followed; without it, as the model was made."""
    alpha: float | None = Field(default=None, ge=0, le=10, allow_inf_nan=False)
    """Exponent of the length penalty; without it, as the model was made."""
    nbest: int = Field(default=1, ge=1, le=WIDEST)
    """Translations wanted of each sentence; at most the beam."""
    prefix: str = ""
    """What the translation of the first sentence begins with."""
    markup: Literal["none", "placeholders", "html"] = "placeholders"
    """What in the text is to stay whole."""


class Alternatives(_Text):
    """A place in a translation: how else could it go on?"""

    after: str = ""
    """How the translation begins; the place is behind it."""
    count: int = Field(default=5, ge=1, le=WIDEST)


class Attention(_Text):
    """A sentence to be looked into."""

    translation: str | None = Field(default=None, min_length=1)
    """A given translation; without it, the model's own."""


class Detected(Exact):
    """The language that was found out."""

    language: str
    confidence: float
    """From 0 to 100."""


class Piece(Exact):
    """A piece that the model said."""

    piece: str
    log_prob: float | None
    """ln p."""


class Word(Exact):
    """A word of a translation."""

    text: str
    confidence: float


class Other(Exact):
    """Another translation of a sentence."""

    text: str
    score: float


class Sentence(Exact):
    """What became of a sentence."""

    source: str
    text: str
    score: float
    """ln p over the length penalty."""
    flag: str
    """What was odd about the first translation; empty if nothing."""
    mended: bool
    """Whether it was translated again for that."""
    parts: int
    """In how many parts, as it was too long for one."""
    confidence: float | None
    """From 0 to 1, where the model is calibrated."""
    pieces: list[Piece]
    words: list[Word]
    others: list[Other]
    alignment: list[tuple[int, int]]
    """Pairs of a source word and the word that it became, counted from 0."""


class NativeTranslated(Exact):
    """A translated text."""

    source: str
    target: str
    detected: Detected | None
    text: str
    lost: list[str]
    """What of tags, placeholders and URLs did not come out whole."""
    sentences: list[Sentence]
    """Those that were asked whole, in order."""


class GoingOn(Exact):
    """A way to go on."""

    piece: str
    probability: float
    text: str
    """The best translation that goes on so."""


class WaysOn(Exact):
    """Ways to go on, likeliest first."""

    alternatives: list[GoingOn]


Heads = list[list[list[list[float]]]]
"""[layer][head][query][key]"""


class Attentions(Exact):
    """What every attention looked at while a sentence was translated."""

    source_pieces: list[str]
    target_pieces: list[str]
    target_read: list[str]
    """What the decoder read when it said each piece."""
    encoder: Heads
    decoder: Heads
    cross: Heads
    log_probs: list[float]
    source: str
    text: str


class Models(RootModel[list[Model]]):
    """The models that are loaded."""

    model_config = ConfigDict(frozen=True)
