"""LibreTranslate's API, so that its clients work unchanged.

Paths, names, statuses and messages are those that its clients see; the page it is described on is
its own. A request is JSON, a form of either kind, or a query string.
"""

from collections.abc import Sequence

from transduce.documents.formats import FORMATS
from transduce.serve import libretranslate_models as models
from transduce.serve.answers import Reply, say
from transduce.serve.bodies import Sent, clean
from transduce.serve.call import WORKING, Call, Operation
from transduce.serve.detect import Detected
from transduce.serve.directions import AUTO, Directions
from transduce.serve.gate import char_limit, checked
from transduce.serve.refusal import Refusal
from transduce.serve.settings import NO_LIMIT, Settings
from transduce.serve.texts import Translated, guesses, how_many, translated


class LibreTranslate:
    """Its handlers."""

    def __init__(self, directions: Directions, settings: Settings) -> None:
        """Take what is loaded and how it may be used."""
        self._directions = directions
        self._settings = settings
        self._languages = say(models.LanguageEntries(_entries(directions)))
        first = directions.all[0]
        self._beam = max(way.translator.search.beam for way in directions.all)
        self._page = say(
            models.FrontendSettings(
                apiKeys=bool(settings.keys),
                charLimit=settings.char_limit,
                filesTranslation=True,
                frontendTimeout=settings.frontend_timeout,
                keyRequired=bool(settings.keys),
                language=models.Sides(
                    source=models.Named(code=first.source.code, name=first.source.name),
                    target=models.Named(code=first.target.code, name=first.target.name),
                ),
                suggestions=False,
                supportedFilesFormat=list(FORMATS),
            )
        )

    def operations(self) -> tuple[Operation, ...]:
        """What can be asked, and who answers."""
        limits = self._settings
        return (
            Operation(
                path="/translate",
                verb="POST",
                name="translate",
                about="Translate a text, or a list of texts.",
                handler=self.translate,
                asks=models.Translate,
                bodies="any",
                answer=models.Translated,
                errors=WORKING,
                most=limits.body_limit,
                seconds=limits.time_limit_s,
            ),
            Operation(
                path="/detect",
                verb="POST",
                name="detect",
                about="Say which of the loaded languages a text may be in, likeliest first.",
                handler=self.detect,
                asks=models.Detect,
                bodies="any",
                answer=models.DetectedLanguages,
                errors=(400, 403, 413, 500),
                most=limits.body_limit,
            ),
            Operation(
                path="/languages",
                verb="GET",
                name="languages",
                about="The languages that are loaded, and what each can be translated into.",
                handler=self.languages,
                answer=models.LanguageEntries,
            ),
            Operation(
                path="/frontend/settings",
                verb="GET",
                name="frontend_settings",
                about="What a page needs to know of this server.",
                handler=self.frontend,
                answer=models.FrontendSettings,
            ),
            Operation(
                path="/health",
                verb="GET",
                name="health",
                about="Whether the server is there.",
                handler=self.health,
                answer=models.Health,
            ),
            Operation(
                path="/suggest",
                verb="POST",
                name="suggest",
                about="Better translations are not collected here.",
                handler=self.suggest,
                asks=models.Suggest,
                bodies="any",
                answer=None,
                errors=(403, 413, 500),
                most=limits.body_limit,
                answers_well=False,
            ),
        )

    async def translate(self, call: Call) -> Reply:
        """Answer /translate."""
        sent = call.sent()
        characters = char_limit(self._settings, call, sent.value("api_key"))
        one, texts = _texts(sent)
        source, target = text_of(sent, "source"), text_of(sent, "target")
        html = _is_html(sent)
        alternatives = self._alternatives(sent)
        found = await translated(
            self._directions,
            checked(call, texts, self._settings, characters=characters),
            source=source,
            target=target,
            markup="html" if html else "placeholders",
            how=how_many(self._beam, 0 if html else alternatives, self._settings.beam),
        )
        fields: dict[str, object] = {
            "translatedText": _form(one, [item.told.text for item in found])
        }
        if source.lower() == AUTO:
            fields["detectedLanguage"] = _form(one, [_guess(item) for item in found])
        if alternatives > 0:
            others = [list(item.told.others[:alternatives]) for item in found]
            fields["alternatives"] = _form(one, others)
        return say(models.Translated.model_validate(fields))

    async def detect(self, call: Call) -> Reply:
        """Answer /detect."""
        sent = call.sent()
        characters = char_limit(self._settings, call, sent.value("api_key"))
        (text,) = checked(call, [text_of(sent, "q")], self._settings, characters=characters)
        found = await guesses(self._directions, text)
        return say(models.DetectedLanguages([_detected(guess) for guess in found]))

    async def languages(self, call: Call) -> Reply:
        """Answer /languages."""
        return self._languages

    async def frontend(self, call: Call) -> Reply:
        """Answer /frontend/settings."""
        return self._page

    async def health(self, call: Call) -> Reply:
        """Answer /health."""
        return say(models.Health(status="ok"))

    async def suggest(self, call: Call) -> Reply:
        """Refuse: nobody would read a suggestion."""
        raise Refusal(403, "Suggestions are disabled on this server.")

    def _alternatives(self, sent: Sent) -> int:
        said = sent.value("alternatives")
        if said is None or said == "":
            return 0
        try:
            if isinstance(said, bool) or not isinstance(said, int | str):
                raise ValueError
            number = int(said)
        except ValueError:
            raise Refusal(400, "Invalid request: alternatives parameter is not a number") from None
        limit = self._settings.alternatives_limit
        if number < 0:
            raise Refusal(400, "Invalid request: alternatives parameter must be >= 0")
        if limit != NO_LIMIT and number > limit:
            raise Refusal(400, f"Invalid request: alternatives parameter must be <= {limit}")
        return number


def text_of(sent: Sent, name: str) -> str:
    """A text that must be there.

    Raises:
        Refusal: 400 if it is missing, empty, or no text.
    """
    value = sent.value(name)
    if value is None or value == "":
        raise Refusal(400, f"Invalid request: missing {name} parameter")
    if not isinstance(value, str):
        raise Refusal(400, f"Invalid request: {name} parameter is not a text")
    return value


def _texts(sent: Sent) -> tuple[bool, list[str]]:
    """Whether there is one text, not a list, and what there is."""
    value = sent.value("q")
    if isinstance(value, list) and value:
        texts = [text for text in value if isinstance(text, str)]
        if len(texts) < len(value):
            raise Refusal(400, "Invalid request: q parameter is not a text or a list of texts")
        return False, texts
    text = text_of(sent, "q") if value != [] else ""
    if not text:
        raise Refusal(400, "Invalid request: missing q parameter")
    if sent.json is None:  # forms send line ends as CR LF
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return True, [text]


def _is_html(sent: Sent) -> bool:
    said = sent.value("format")
    if said is None or said == "":
        return False
    if said not in ("text", "html"):
        raise Refusal(400, f"{clean(str(said))[:60]} format is not supported")
    return said == "html"


def _form(one: bool, items: Sequence[object]) -> object:
    return items[0] if one else list(items)


def _guess(item: Translated) -> models.DetectedLanguage:
    assert item.detected is not None
    return _detected(item.detected)


def _detected(guess: Detected) -> models.DetectedLanguage:
    return models.DetectedLanguage(confidence=guess.confidence, language=guess.language)


def _entries(directions: Directions) -> list[models.LanguageEntry]:
    """Every language that is loaded; one that is only translated into has no targets."""
    languages = {
        language.code: language
        for language in (
            *directions.sources(),
            *(way.target for way in directions.all),
        )
    }
    return [
        models.LanguageEntry(
            code=language.code,
            name=language.name,
            targets=[target.code for target in directions.targets_of(language.code)],
        )
        for language in languages.values()
    ]
