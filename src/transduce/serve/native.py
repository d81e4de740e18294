"""This server's own API: what a translation is made of, and what the model looked at.

JSON in, JSON out. A request is checked field by field before anything is computed.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from transduce.serve import native_models as models
from transduce.serve.answers import Reply, say
from transduce.serve.bodies import clean
from transduce.serve.call import WORKING, Call, Handler, Operation
from transduce.serve.detect import Detected
from transduce.serve.directions import AUTO, Direction, Directions
from transduce.serve.gate import char_limit, checked
from transduce.serve.job import How
from transduce.serve.native_said import described, sentence
from transduce.serve.refusal import Refusal
from transduce.serve.settings import Settings
from transduce.serve.texts import NOTHING, Told, guess, is_loaded, same, tell
from transduce.visualization.attention import traced_json
from transduce.visualization.traced import traced_text

T = TypeVar("T")
R = TypeVar("R", models.NativeTranslate, models.Alternatives, models.Attention)


class _Chosen(NamedTuple):
    """Who translates; None where the text is in the target language already."""

    direction: Direction | None
    source: str
    target: str
    detected: Detected | None


class Native:
    """Its handlers."""

    def __init__(self, directions: Directions, settings: Settings) -> None:
        """Take what is loaded and how it may be used."""
        self._directions = directions
        self._settings = settings
        self._models = say(
            models.Models([described(direction, settings) for direction in directions.all])
        )

    def operations(self) -> tuple[Operation, ...]:
        """What can be asked, and who answers."""
        return (
            Operation(
                path="/api/models",
                verb="GET",
                name="models",
                about="The models that are loaded.",
                handler=self.loaded,
                answer=models.Models,
            ),
            self._working(
                "translate",
                "Translate a text; with scores, confidence, alternatives and alignments.",
                self.translate,
                models.NativeTranslate,
                models.NativeTranslated,
            ),
            self._working(
                "alternatives",
                "How a translation could go on at one place, and what would follow.",
                self.alternatives,
                models.Alternatives,
                models.WaysOn,
            ),
            self._working(
                "attention",
                "What every attention looks at in a sentence: every layer, head and kind.",
                self.attention,
                models.Attention,
                models.Attentions,
            ),
        )

    async def loaded(self, call: Call) -> Reply:
        """Answer /api/models."""
        return self._models

    async def translate(self, call: Call) -> Reply:
        """Answer /api/translate."""
        asked, text = self._asked(call, models.NativeTranslate)
        chosen = await self._chosen(text, asked)
        told = Told(text)
        if chosen.direction is not None:
            beam = self._settings.beam if asked.beam is None else asked.beam
            most = chosen.direction.translator.search.beam if beam is None else beam
            if asked.nbest > most:
                raise Refusal(
                    400, f"nbest: {asked.nbest} translations need a beam of as many, not {most}"
                )
            (told,) = await tell(
                chosen.direction,
                [text],
                markup=asked.markup,
                how=How(beam, asked.alpha, asked.nbest, detail=True),
                prefix=clean(asked.prefix),
                align=True,
            )
        detected = chosen.detected
        return say(
            models.NativeTranslated(
                source=chosen.source,
                target=chosen.target,
                detected=detected
                and models.Detected(language=detected.language, confidence=detected.confidence),
                text=told.text,
                lost=list(told.lost),
                sentences=[sentence(answer) for answer in told.whole],
            )
        )

    async def alternatives(self, call: Call) -> Reply:
        """Answer /api/alternatives."""
        asked, text = self._asked(call, models.Alternatives)
        direction = await self._direction(text, asked)
        after, count = clean(asked.after), asked.count

        def look() -> models.WaysOn:
            ways = direction.translator.alternatives(text, after, count=count)
            return models.WaysOn(
                alternatives=[
                    models.GoingOn(piece=way.piece, probability=way.probability, text=way.text)
                    for way in ways
                ]
            )

        return say(await _run(direction, look))

    async def attention(self, call: Call) -> Reply:
        """Answer /api/attention."""
        asked, text = self._asked(call, models.Attention)
        direction = await self._direction(text, asked)
        given = None if asked.translation is None else clean(asked.translation)
        bundle = direction.bundle
        shown = await _run(direction, lambda: traced_json(traced_text(bundle, text, given)))
        return Reply(shown.encode())

    def _working(
        self,
        name: str,
        about: str,
        handler: Handler,
        asks: type[BaseModel],
        answer: type[BaseModel],
    ) -> Operation:
        return Operation(
            path=f"/api/{name}",
            verb="POST",
            name=f"api_{name}",
            about=about,
            handler=handler,
            asks=asks,
            bodies="json",
            answer=answer,
            errors=WORKING,
            most=self._settings.body_limit,
            seconds=self._settings.time_limit_s,
        )

    def _asked(self, call: Call, model: type[R]) -> tuple[R, str]:
        """The request, checked, and its text."""
        held = call.json()
        characters = char_limit(self._settings, call, held.get("api_key"))
        try:
            asked = model.model_validate(held, strict=True)
        except ValidationError as error:
            raise Refusal(400, _fault(error)) from None
        (text,) = checked(call, [asked.text], self._settings, characters=characters)
        return asked, text

    async def _direction(
        self, text: str, asked: models.Alternatives | models.Attention
    ) -> Direction:
        """Who looks into a sentence."""
        chosen = await self._chosen(text, asked)
        if chosen.direction is None:
            raise Refusal(400, f"the sentence is in the target language, {chosen.target}, already")
        return chosen.direction

    async def _chosen(
        self, text: str, asked: models.NativeTranslate | models.Alternatives | models.Attention
    ) -> _Chosen:
        found, source = None, asked.source
        if same(source, AUTO):
            found = await guess(self._directions, text)
            if found is NOTHING:  # any language will do
                found = None
            source = found.language if found else self._directions.all[0].source.code
        target = self._target(source) if asked.target is None else asked.target
        if (
            same(source, target)
            and asked.target is not None
            and is_loaded(self._directions, target)
        ):
            return _Chosen(None, source, target, found)
        direction = self._directions.find(source, target)
        return _Chosen(direction, direction.source.code, direction.target.code, found)

    def _target(self, source: str) -> str:
        """The target that is meant where none is named."""
        found = self._directions.targets_of(source)
        if not found:
            raise Refusal(400, f"{source} is not supported")
        first, *others = found
        if others:
            codes = ", ".join(language.code for language in found)
            raise Refusal(400, f"target: name one of {codes}")
        return first.code


async def _run(direction: Direction, look: Callable[[], T]) -> T:
    """Compute in turn with the batches; what a sentence is at fault for is a refusal."""
    try:
        return await direction.batcher.run(look)
    except ValueError as error:
        raise Refusal(400, f"Invalid request: {error}") from None


def _fault(error: ValidationError) -> str:
    """What is wrong with a request, in one line."""
    fault = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in fault["loc"])
    return f"Invalid request: {where}: {fault['msg']}"
