"""The shape of DeepL's API, so that its official clients work when they are pointed here.

Only what such a client needs to translate text: translate, languages, usage. Wishes that would
change a translation and that no model here can meet (a glossary of DeepL's, a formality that is
demanded) are refused; preferences and hints are taken and have no effect.
"""

from collections.abc import Iterable

from pydantic import BaseModel

from transduce.serve import deepl_models as models
from transduce.serve.answers import Reply, say
from transduce.serve.bodies import Sent
from transduce.serve.call import WORKING, Call, Operation
from transduce.serve.directions import AUTO, Directions, Language
from transduce.serve.gate import char_limit, checked
from transduce.serve.refusal import Refusal
from transduce.serve.settings import Settings
from transduce.serve.texts import how_many, same, translated

BODY_LIMIT = 128 * 1024
"""Bytes of a request, as DeepL has it."""

UNLIMITED = 10**12
"""DeepL's word for an account without a limit."""

_CANNOT = (
    *("glossary_id", "glossary_ids", "style_id", "custom_instructions"),
    *("translation_memory_id", "ignore_tags"),
)
_FLAGS = {"1": True, "true": True, "0": False, "false": False}


def message(text: str) -> BaseModel:
    """The shape of DeepL's errors."""
    return models.DeepLError(message=text)


class DeepL:
    """Its handlers, and the count of characters."""

    def __init__(self, directions: Directions, settings: Settings) -> None:
        """Take what is loaded and how it may be used."""
        self._directions = directions
        self._settings = settings
        self._count = 0
        self._most = min(BODY_LIMIT, settings.body_limit)

    def operations(self) -> tuple[Operation, ...]:
        """What can be asked, and who answers."""
        languages = [
            Operation(
                path="/v2/languages",
                verb=verb,
                name=f"deepl_languages_{verb.lower()}",
                about="The languages that can be translated from, or into.",
                handler=self.languages,
                asks=models.DeepLWhich,
                bodies="any",
                answer=models.DeepLLanguages,
                errors=(400, 413, 500),
                error=models.DeepLError,
                shape=message,
                most=self._most,
            )
            for verb in ("GET", "POST")
        ]
        return (
            Operation(
                path="/v2/translate",
                verb="POST",
                name="deepl_translate",
                about="Translate texts, asked and answered as DeepL does.",
                handler=self.translate,
                asks=models.DeepLTranslate,
                bodies="any",
                answer=models.DeepLTranslated,
                errors=WORKING,
                error=models.DeepLError,
                shape=message,
                most=self._most,
                seconds=self._settings.time_limit_s,
            ),
            *languages,
            Operation(
                path="/v2/usage",
                verb="GET",
                name="deepl_usage",
                about="How many characters were translated since the server was started.",
                handler=self.usage,
                answer=models.Usage,
                errors=(500,),
                error=models.DeepLError,
                shape=message,
            ),
        )

    async def translate(self, call: Call) -> Reply:
        """Answer /v2/translate."""
        characters = char_limit(self._settings, call, None, missing=403)
        sent = call.sent()
        texts = checked(call, _texts(sent), self._settings, characters=characters)
        target = _code(_text(sent, "target_lang"), self._targets(), "target_lang")
        said = _text(sent, "source_lang", wanted=False)
        source = _code(said, self._directions.sources(), "source_lang") if said else AUTO
        markup = "html" if _tags(sent) else "placeholders"
        billed = _flag(sent, "show_billed_characters")
        _refuse_wishes(sent)
        found = await translated(
            self._directions,
            texts,
            source=source,
            target=target,
            markup=markup,
            how=how_many(1, 0, self._settings.beam),
        )
        self._count += sum(map(len, texts))
        translations: list[models.DeepLTranslation] = []
        for text, item in zip(texts, found, strict=True):
            language = item.source.upper()
            if billed:
                one = models.DeepLTranslation(
                    detected_source_language=language,
                    text=item.told.text,
                    billed_characters=len(text),
                )
            else:
                one = models.DeepLTranslation(
                    detected_source_language=language, text=item.told.text
                )
            translations.append(one)
        return say(models.DeepLTranslated(translations=translations))

    async def languages(self, call: Call) -> Reply:
        """Answer /v2/languages."""
        which = _text(call.sent(), "type", wanted=False) or "source"
        if which == "source":
            entries = [
                models.DeepLLanguage(language=one.code.upper(), name=one.name)
                for one in self._directions.sources()
            ]
        elif which == "target":
            entries = [
                models.DeepLLanguage(
                    language=one.code.upper(), name=one.name, supports_formality=False
                )
                for one in self._targets()
            ]
        else:
            raise Refusal(400, "Value for 'type' not supported: say source or target.")
        return say(models.DeepLLanguages(entries))

    async def usage(self, call: Call) -> Reply:
        """Answer /v2/usage."""
        return say(models.Usage(character_count=self._count, character_limit=UNLIMITED))

    def _targets(self) -> tuple[Language, ...]:
        return tuple({way.target.code: way.target for way in self._directions.all}.values())


def _texts(sent: Sent) -> list[str]:
    if sent.json is None:
        texts = list(sent.texts.get("text", ()))
    else:
        said = sent.json.get("text")
        said = [said] if isinstance(said, str) else said
        if not isinstance(said, list) or not all(isinstance(text, str) for text in said):
            raise Refusal(400, "Parameter 'text' must be a list of texts.")
        texts = [text for text in said if isinstance(text, str)]
    if not texts:
        raise Refusal(400, "Parameter 'text' not specified.")
    return texts


def _text(sent: Sent, name: str, *, wanted: bool = True) -> str:
    value = sent.value(name)
    if value is None or value == "":
        if wanted:
            raise Refusal(400, f"Parameter '{name}' not specified.")
        return ""
    if not isinstance(value, str):
        raise Refusal(400, f"Value for '{name}' not supported: it must be a text.")
    return value


def _code(said: str, loaded: Iterable[Language], name: str) -> str:
    """The loaded language that a client means: itself, else the same without its variant."""
    codes = [language.code for language in loaded]
    for code in codes:
        if same(code, said):
            return code
    plain = said.partition("-")[0]
    for code in codes:
        if same(code.partition("-")[0], plain):
            return code
    have = ", ".join(code.upper() for code in codes)
    raise Refusal(400, f"Value for '{name}' not supported: {said[:60]!r}; there is {have}.")


def _tags(sent: Sent) -> bool:
    said = _text(sent, "tag_handling", wanted=False)
    if said not in ("", "html", "xml"):
        raise Refusal(400, "Value for 'tag_handling' not supported: say html or xml.")
    split = sent.value("split_sentences")
    if split not in (None, "", "0", "1", "nonewlines"):
        raise Refusal(400, "Value for 'split_sentences' not supported: say 0, 1 or nonewlines.")
    _flag(sent, "preserve_formatting")
    return bool(said)


def _flag(sent: Sent, name: str) -> bool:
    said = sent.value(name)
    if said is None or isinstance(said, bool):
        return bool(said)
    flag = _FLAGS.get(str(said).lower())
    if flag is None:
        raise Refusal(400, f"Value for '{name}' not supported: say true or false.")
    return flag


def _refuse_wishes(sent: Sent) -> None:
    for name in _CANNOT:
        if sent.value(name):
            raise Refusal(400, f"Parameter '{name}' is not supported by this server: leave it out.")
    formality = sent.value("formality")
    if formality not in (None, "", "default", "prefer_more", "prefer_less"):
        raise Refusal(
            400,
            "Value for 'formality' not supported: this server's models know no formality; "
            "leave it out, or say prefer_more or prefer_less.",
        )
