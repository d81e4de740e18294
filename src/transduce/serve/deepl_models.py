"""What DeepL's clients ask and are told, field by field."""

from typing import Literal

from pydantic import ConfigDict, Field, RootModel

from transduce.serve.answers import Exact, Loose


class DeepLTranslate(Loose):
    """Texts to be translated. What only DeepL's models can do is refused if it would be missed."""

    text: list[str] = Field(min_length=1)
    """In a form, `text` is repeated."""
    target_lang: str = Field(min_length=1)
    """Code of the language that is wanted; a variant such as EN-GB takes what is loaded."""
    source_lang: str | None = None
    """Code of the language of the texts; without it, it is found out."""
    tag_handling: Literal["html", "xml"] | None = None
    """With it tags stay what and where they are."""
    split_sentences: Literal["0", "1", "nonewlines"] | None = None
    """Taken, and of no effect: the model reads one sentence at a time."""
    preserve_formatting: bool | None = None
    """Taken, and of no effect: white space always comes back as it was."""
    show_billed_characters: bool | None = None
    """Say how many characters were counted; nothing is billed."""
    formality: Literal["default", "prefer_more", "prefer_less"] | None = None
    """A preference that these models cannot meet; "more" and "less" are refused."""


class DeepLWhich(Loose):
    """Which languages are wanted."""

    type: Literal["source", "target"] = "source"


class DeepLTranslation(Exact):
    """A translated text."""

    detected_source_language: str
    text: str
    billed_characters: int | None = None


class DeepLTranslated(Exact):
    """The translations, in the order of the texts."""

    translations: list[DeepLTranslation]


class DeepLLanguage(Exact):
    """A language."""

    language: str
    name: str
    supports_formality: bool | None = None
    """Of target languages."""


class Usage(Exact):
    """What was translated since the server was started."""

    character_count: int
    character_limit: int
    """As good as none."""


class DeepLError(Exact):
    """Why there is no answer."""

    message: str


class DeepLLanguages(RootModel[list[DeepLLanguage]]):
    """Languages."""

    model_config = ConfigDict(frozen=True)
