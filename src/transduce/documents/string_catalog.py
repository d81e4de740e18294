"""Xcode's String Catalogs (`.xcstrings`): JSON with the texts of all languages.

The target language is filled: a string without it gets a localization with the structure of the
source's (plurals, devices, substitutions), and texts of the state `new` are replaced. Both are
marked `needs_review`; every other byte stays.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, cast

from transduce.data.languages import normalized_base
from transduce.data.segmentation import MASK, has_words
from transduce.documents.catalogues import (
    APPLE_VARIABLE,
    JSONValue,
    json_string,
    json_values,
    load_json,
    value_slot,
)
from transduce.documents.document import Part, Slot
from transduce.documents.placeholders import mask_placeholders

_MAX_DEPTH = 50  # of nested objects; real ones have 12
_STATE = "needs_review"

_Path = tuple[str, ...]
_Object = Mapping[str, object]


class _Edit(NamedTuple):
    start: int
    end: int
    parts: list[Part]


def parse_string_catalog(name: str, text: str, *, target: str) -> Iterator[Part]:
    """Parse a String Catalog, to fill the language of the code `target`.

    Raises:
        ValueError: if it is malformed or nested too deeply, or if `target` is its source language.
    """
    data = _object(load_json(name, text))
    source, strings = data.get("sourceLanguage"), data.get("strings")
    if not isinstance(source, str) or not isinstance(strings, dict):
        raise ValueError(f"{name}: no String Catalog: expected sourceLanguage and strings")
    if source.casefold() == target.casefold():
        raise ValueError(f"{name}: its source language is {source}, as the target language is")
    positions = {value.path: value for value in json_values(name, text, max_depth=_MAX_DEPTH)}
    catalog = _Catalog(text, positions, source=source, target=target)
    edits = (edit for key, entry in _object(strings).items() for edit in catalog.edits(key, entry))
    end = 0
    for edit in sorted(edits, key=lambda edit: edit.start):
        yield text[end : edit.start]
        yield from edit.parts
        end = edit.end
    yield text[end:]


def _object(value: object) -> _Object:
    """A value if it is an object, else an empty one."""
    return cast(_Object, value) if isinstance(value, dict) else {}


def _units(localization: _Object, path: _Path = ()) -> Iterator[tuple[_Path, _Object]]:
    """The texts of a localization with their states, by the keys that lead to them."""
    for key, value in localization.items():
        if key == "stringUnit":
            yield path, _object(value)
        else:
            yield from _units(_object(value), (*path, key))


def _text(unit: _Object) -> str:
    value = unit.get("value")
    return value if isinstance(value, str) else ""


def _is_text(value: str) -> bool:
    return has_words(mask_placeholders(re.sub(APPLE_VARIABLE, MASK, value)))


def _code_in(localizations: _Object, target: str) -> str:
    """The code that a string has for a language: its own, or the only one of another region."""
    for key in (str.casefold, normalized_base):
        codes = [code for code in localizations if key(code) == key(target)]
        if len(codes) == 1:
            return codes[0]
    return target


def _joined(parts: list[Part]) -> list[Part]:
    """Slots alone: each writes what is before it, and the last also what is after it."""
    texts = [index for index, part in enumerate(parts) if isinstance(part, Slot)]
    starts = [0, *(index + 1 for index in texts[:-1])]
    joined: list[Part] = []
    for start, index in zip(starts, texts, strict=True):
        slot = parts[index]
        assert isinstance(slot, Slot)
        before = "".join(map(str, parts[start:index]))
        after = "".join(map(str, parts[index + 1 :])) if index == texts[-1] else ""
        joined.append(slot._replace(write=partial(_written, slot, before, after)))
    return joined


def _written(slot: Slot, before: str, after: str, text: str) -> str:
    return before + slot.write(text) + after


class _Catalog:
    """A file, and how it is written."""

    def __init__(
        self, text: str, positions: Mapping[_Path, JSONValue], *, source: str, target: str
    ) -> None:
        self._text, self._positions = text, positions
        self._source, self._target = source, target
        first = positions["strings",]
        self._colon = text[first.key : first.start].rpartition('"')[2]
        lines = re.match(r"\s*\{[ \t]*(\r?\n)([ \t]*)", text)
        self._line, self._step = (lines[1], lines[2]) if lines else ("", "")
        self._string: Callable[[str], str] = partial(json_string, text)

    def edits(self, key: str, value: object) -> Iterator[_Edit]:
        """What changes in the entry of a string."""
        entry = _object(value)
        localizations = _object(entry.get("localizations"))
        original = _object(localizations.get(self._source))
        original = original if any(_units(original)) else {"stringUnit": {"value": key}}
        units = {path: _text(unit) for path, unit in _units(original)}
        if entry.get("shouldTranslate") is False or not any(map(_is_text, units.values())):
            return
        path = ("strings", key, "localizations")
        language = _code_in(localizations, self._target)
        if language in localizations:
            localization = _object(localizations[language])
            yield from self._filled((*path, language), localization, originals=units)
        elif isinstance(entry.get("localizations"), dict):
            yield self._inserted(path, localizations, {language: original})
        elif isinstance(value, dict) and "localizations" not in entry:
            yield self._inserted(path[:-1], entry, {path[-1]: {language: original}})

    def _filled(
        self, path: _Path, localization: _Object, *, originals: Mapping[_Path, str]
    ) -> Iterator[_Edit]:
        """Replace the texts of a localization that are new."""
        for keys, unit in _units(localization):
            candidates = (keys, (*keys[:-1], "other"), *originals)
            original = next(
                originals[candidate] for candidate in candidates if candidate in originals
            )
            state = self._positions.get((*path, *keys, "stringUnit", "state"))
            value = self._positions.get((*path, *keys, "stringUnit", "value"))
            if unit.get("state") == "new" and state and value and _is_text(original):
                parts: list[tuple[JSONValue, Part]] = [
                    (state, f'"{_STATE}"'),
                    (value, self._slot(original)),
                ]
                (first, before), (last, after) = sorted(parts, key=lambda part: part[0].start)
                between = self._text[first.end : last.start]
                yield _Edit(first.start, last.end, _joined([before, between, after]))

    def _slot(self, value: str) -> Slot:
        return value_slot(self._string(value), value, self._string)

    def _inserted(self, path: _Path, existing: _Object, added: _Object) -> _Edit:
        """Add a member to an object, before the first whose key is later in the alphabet."""
        span = self._positions[path]
        (key,) = added
        outer = self._step * len(path)
        margin = self._line + outer + self._step
        member = list(self._rendered(added, indent=outer + self._step))[2:-1]
        if not existing:
            parts = [margin, *member, self._line + outer]
            return _Edit(span.start + 1, span.end - 1, _joined(parts))
        positions = {other: self._positions[*path, other] for other in existing}
        later = [position.key for other, position in positions.items() if other > key]
        if later:
            return _Edit(min(later), min(later), _joined([*member, ",", margin]))
        end = max(position.end for position in positions.values())
        return _Edit(end, end, _joined([",", margin, *member]))

    def _rendered(self, value: _Object, *, indent: str) -> Iterator[Part]:
        """An object of a localization as Xcode writes it; its texts are slots."""
        yield "{"
        for index, (key, child) in enumerate(value.items()):
            yield ("," if index else "") + self._line + indent
            yield self._string(key) + self._colon
            if key == "stringUnit":
                child = {"state": _STATE, "value": _text(_object(child))}
            if isinstance(child, dict):
                yield from self._rendered(_object(child), indent=indent + self._step)
            elif key == "value" and isinstance(child, str) and _is_text(child):
                yield self._slot(child)
            else:
                yield self._string(child) if isinstance(child, str) else json.dumps(child)
        yield f"{self._line}{indent.removesuffix(self._step)}}}"
