"""What LibreTranslate's clients ask and are told, field by field."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, RootModel

from transduce.serve.answers import Exact, Loose


class Translate(Loose):
    """Texts to be translated."""

    q: Annotated[str, Field(min_length=1)] | Annotated[list[str], Field(min_length=1)]
    """A text, or a list of texts; the answer has the same form. NUL counts as white space."""
    source: str = Field(min_length=1)
    """Code of the language that it is in; "auto" lets it be found out."""
    target: str = Field(min_length=1)
    """Code of the language that it is wanted in."""
    format: Literal["text", "html"] = "text"
    """In "html" the tags stay what and where they are."""
    alternatives: int = Field(default=0, ge=0)
    """Further translations wanted, at most 19; of HTML there are none. Of several sentences the
    k-th joins the k-th best of each. More than the beam has room for make it wider."""
    api_key: str = ""


class Detect(Loose):
    """A text whose language is wanted."""

    q: str = Field(min_length=1)
    api_key: str = ""


class TranslateFile(Loose):
    """A document to be translated."""

    file: bytes = Field(json_schema_extra={"format": "binary"})
    source: str = Field(min_length=1)
    target: str = Field(min_length=1)
    api_key: str = ""


class Suggest(Loose):
    """A better translation."""

    q: str = ""
    s: str = ""
    source: str = ""
    target: str = ""


class DetectedLanguage(Exact):
    """A language that a text may be in."""

    confidence: float = Field(ge=0, le=100)
    language: str


class Translated(Exact):
    """Translations; lists where a list of texts was asked for."""

    translatedText: str | list[str]
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None
    """Only where the source was "auto"."""
    alternatives: list[str] | list[list[str]] | None = None
    """Only where some were asked for."""


class TranslatedFile(Exact):
    """Where the translated document can be had for a while."""

    translatedFileUrl: str


class LanguageEntry(Exact):
    """A language, and those that it can be translated into."""

    code: str
    name: str
    targets: list[str]


class Named(Exact):
    """A language as programs and people name it."""

    code: str
    name: str


class Sides(Exact):
    """The languages that a page begins with."""

    source: Named
    target: Named


class FrontendSettings(Exact):
    """What a page needs to know."""

    apiKeys: bool
    charLimit: int
    filesTranslation: bool
    frontendTimeout: int
    keyRequired: bool
    language: Sides
    suggestions: bool
    supportedFilesFormat: list[str]


class Health(Exact):
    """That the server is there."""

    status: Literal["ok"]


class LanguageEntries(RootModel[list[LanguageEntry]]):
    """All languages that are loaded."""

    model_config = ConfigDict(frozen=True)


class DetectedLanguages(RootModel[list[DetectedLanguage]]):
    """Languages that a text may be in, likeliest first."""

    model_config = ConfigDict(frozen=True)
