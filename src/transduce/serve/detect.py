"""Which of the loaded source languages is a text in? lingua says, where there is a choice.

A guess is among the loaded languages alone: French text is given to English or German if these are
loaded. Where one is loaded there is nothing to guess, and no detector is needed. Short text gives
little to go by, and a word may be a word of both languages: the confidence says so.
"""

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from transduce.serve.refusal import Refusal

if TYPE_CHECKING:
    from lingua import LanguageDetector

_INSTALL = "name the source language, or have the operator pip install 'transduce[detect]'"


class Detected(NamedTuple):
    """A language that a text may be in."""

    language: str
    """Its code."""

    confidence: float
    """From 0 to 100, beside the other loaded languages; 0 for a text without a letter."""


class Detector:
    """Tells some languages apart."""

    def __init__(self, codes: Sequence[str]) -> None:
        """Take the languages to choose among, each once."""
        assert codes, "there is a language to find"
        self._codes = tuple(codes)
        self._lock = threading.Lock()

    def detect(self, text: str) -> list[Detected]:
        """Return what a text may be in, the likeliest first.

        Raises:
            Refusal: if there is a choice but nobody who can make it; it says what to install.
        """
        if not any(character.isalpha() for character in text):
            return [Detected(code, 0.0) for code in self._codes]
        if len(self._codes) == 1:
            return [Detected(self._codes[0], 100.0)]
        with self._lock:
            lingua = self._lingua
        shares = {
            one.language.iso_code_639_1.name.lower(): one.value
            for one in lingua.compute_language_confidence_values(text)
        }
        found = [Detected(code, round(100 * shares[_two(code)], 1)) for code in self._codes]
        return sorted(found, key=lambda one: -one.confidence)

    @cached_property
    def _lingua(self) -> "LanguageDetector":
        try:
            from lingua import IsoCode639_1, LanguageDetectorBuilder
        except ImportError:
            raise Refusal(
                400, f"the source language cannot be found out here: {_INSTALL}"
            ) from None
        known = {name.lower() for name in dir(IsoCode639_1) if len(name) == 2}
        for code in self._codes:
            if _two(code) not in known:
                raise Refusal(
                    400, f"{code} cannot be told from other languages: name the source language"
                )
        codes = [IsoCode639_1.from_str(_two(code)) for code in self._codes]
        return LanguageDetectorBuilder.from_iso_codes_639_1(*codes).build()


def _two(code: str) -> str:
    """The two letters by which lingua knows a language."""
    return code.partition("-")[0].lower()
