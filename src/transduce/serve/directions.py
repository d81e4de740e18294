"""The directions that a server translates in: one loaded model each, found by what clients say."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from transduce.bundle.bundle import Bundle
from transduce.inference.engines.ct2_calls import Plan
from transduce.inference.engines.selection import EngineName
from transduce.inference.translator import Translator
from transduce.serve.batcher import Batcher
from transduce.serve.detect import Detected, Detector
from transduce.serve.refusal import Refusal
from transduce.serve.settings import Settings

AUTO = "auto"
"""What a client says for a source language that is to be found out."""

_ALIASES = {"zh": "zh-hans", "zt": "zh-hant", "pb": "pt-br"}  # LibreTranslate's older names


class Language(NamedTuple):
    """A language as programs and people name it."""

    code: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Direction:
    """From one language into another, and who translates."""

    name: str
    """Its two codes, as "en-de"."""

    source: Language
    target: Language
    translator: Translator
    bundle: Bundle
    batcher: Batcher


class Chosen(NamedTuple):
    """A direction for a text, and what the source language was taken from."""

    direction: Direction

    detected: Detected | None
    """What was found out; None where the client said the language."""


class Directions:
    """All that are loaded."""

    def __init__(self, directions: Sequence[Direction]) -> None:
        """Take them in the order in which they are shown.

        Raises:
            ValueError: if two are the same.
        """
        assert directions, "a server translates in one direction at least"
        self.all = tuple(directions)
        names = [(_plain(one.source.code), _plain(one.target.code)) for one in directions]
        for one, name in zip(directions, names, strict=True):
            if names.count(name) > 1:
                raise ValueError(
                    f"two models translate {one.source.code} into {one.target.code}: name one of "
                    f"them"
                )
        self.detector = Detector([language.code for language in self.sources()])

    def sources(self) -> tuple[Language, ...]:
        """The languages that are translated from, each once."""
        return _once([one.source for one in self.all])

    def targets_of(self, code: str) -> tuple[Language, ...]:
        """The languages that one is translated into."""
        return _once([one.target for one in self.all if _plain(one.source.code) == _plain(code)])

    def find(self, source: str, target: str) -> Direction:
        """Return the direction between two languages; "auto" is fine where it leaves no choice.

        Raises:
            Refusal: 400, in LibreTranslate's words, if there is none.
        """
        into = self._known(target)
        ways = [one for one in self.all if _plain(one.target.code) == _plain(target)]
        if _plain(source) == AUTO:
            if len(ways) == 1:
                return ways[0]
            raise Refusal(400, f"{AUTO} is not supported: name the source language")
        out_of = self._known(source)
        for one in ways:
            if _plain(one.source.code) == _plain(source):
                return one
        raise Refusal(
            400,
            f"{into.name} ({into.code}) is not available as a target language from {out_of.name} "
            f"({out_of.code})",
        )

    def choose(self, text: str, source: str, target: str) -> Chosen:
        """Return the direction for a text, whose language is found out where source is "auto".

        Raises:
            Refusal: 400, if there is no such direction, or nobody who can find out.
        """
        if _plain(source) != AUTO:
            return Chosen(self.find(source, target), None)
        self._known(target)
        likely = self.detector.detect(text)
        return Chosen(self.find(likely[0].language, target), likely[0])

    def close(self) -> None:
        """Finish what was accepted, and end the threads."""
        for one in self.all:
            one.batcher.close()

    def _known(self, code: str) -> Language:
        """The language that a client means."""
        for one in self.all:
            for language in (one.source, one.target):
                if _plain(language.code) == _plain(code):
                    return language
        raise Refusal(400, f"{code[:60]} is not supported")


def load_directions(
    models: Sequence[Path],
    settings: Settings,
    *,
    engine: EngineName = "auto",
    compute_type: str = "float32",
    plan: Plan | None = None,
) -> Directions:
    """Load models, one a direction, and translate a word with each, so that nobody has to wait.

    Args:
        models: bundles, or runs' folders.
        settings: how they are asked.
        engine: "auto" takes the fastest that can express a model.
        compute_type: the kind of CTranslate2's numbers.
        plan: workers and threads of CTranslate2, in place of what a measurement says.

    Raises:
        ValueError: one line that names the file at fault, why an engine cannot be had, or a
            direction that two models have.
    """
    taken: dict[tuple[str, str], Path] = {}
    loaded: list[Direction] = []
    for path in models:
        bundle = Bundle.load(path)
        source, target = bundle.languages.source, bundle.languages.target
        before = taken.setdefault((_plain(source), _plain(target)), path)
        if before is not path:
            raise ValueError(
                f"{before} and {path} both translate {source} into {target}: name one of them"
            )
        translator = Translator.of(bundle, engine=engine, compute_type=compute_type, plan=plan)
        loaded.append(_direction(bundle, translator, settings))
    return Directions(loaded)


def _direction(bundle: Bundle, translator: Translator, settings: Settings) -> Direction:
    said = bundle.languages
    translator.translate(["a"], beam=settings.beam)
    return Direction(
        name=f"{said.source}-{said.target}",
        source=Language(said.source, said.source_name or said.source),
        target=Language(said.target, said.target_name or said.target),
        translator=translator,
        bundle=bundle,
        batcher=Batcher(
            translator,
            wait=settings.wait_ms / 1000,
            most=settings.batch_sentences,
            queue=settings.queue,
        ),
    )


def _plain(code: str) -> str:
    """A code as codes are compared: in lower case, an older name as the newer."""
    low = code.strip().lower().replace("_", "-")
    return _ALIASES.get(low, low)


def _once(languages: Sequence[Language]) -> tuple[Language, ...]:
    return tuple({_plain(one.code): one for one in reversed(languages)}.values())[::-1]
