"""DeepL's glossaries: named sets of dictionaries, each with the terms of one language pair.

Version 3 of the API has several dictionaries per glossary; version 2 shows the glossaries that have
one. A glossary belongs to the API key that created it, and lasts until the server stops, or as long
as the translation memory of the server.
"""

import asyncio
import csv
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from io import StringIO
from typing import Final, Literal

from pydantic import Field
from starlette.responses import Response

from transduce.data.corpus import tidy
from transduce.data.languages import base_language
from transduce.inference.glossary import Term
from transduce.serve.client_store import ClientStore
from transduce.serve.errors import HTTPError
from transduce.serve.model_registry import ModelRegistry
from transduce.serve.parameters import read_fields, unsupported
from transduce.serve.requests import HTTPRequest
from transduce.serve.routing import Content, LenientModel, Operation, StrictModel

MAX_BYTES = 64 * 2**20
"""Maximum size of the glossaries of an API key."""

MAX_GLOSSARY_BYTES = 10 * 2**20
"""Maximum size of a glossary, as in DeepL's API."""

TSV: Final = "text/tab-separated-values"

_HEAD = {"glossary_id", "name", "creation_time"}

Dictionaries = Mapping[str, tuple[Term, ...]]
"""Terms by language pair: the codes without variants, in lower case, as "en-de"."""


class LanguagePairFields(LenientModel):
    """The languages of a dictionary."""

    source_lang: str = Field(min_length=1)
    target_lang: str = Field(min_length=1)


class DictionaryFields(LanguagePairFields):
    """A dictionary."""

    entries: str = Field(min_length=1)
    """A line per term: source and target, separated by a tab or, as CSV, a comma."""
    entries_format: Literal["tsv", "csv"] = "tsv"


class CreateGlossaryV2(DictionaryFields):
    """A glossary with one dictionary."""

    name: str = Field(min_length=1)


class CreateGlossary(LenientModel):
    """A glossary."""

    name: str = Field(min_length=1)
    dictionaries: list[DictionaryFields] = Field(min_length=1)


class ChangeGlossary(LenientModel):
    """A new name, or terms to add or replace."""

    name: str = ""
    dictionaries: list[DictionaryFields] = Field(default=[])


class Glossary(StrictModel):
    """A glossary."""

    glossary_id: str
    owner: str
    """A hash of the API key that created it."""
    name: str
    creation_time: str
    dictionaries: Dictionaries

    @property
    def info(self) -> Content:
        """Describe it in version 3."""
        dictionaries = [_info(pair, terms) for pair, terms in self.dictionaries.items()]
        return self.model_dump(include=_HEAD) | {"dictionaries": dictionaries}

    @property
    def info_v2(self) -> Content:
        """Describe it in version 2."""
        ((pair, terms),) = self.dictionaries.items()
        return self.model_dump(include=_HEAD) | _info(pair, terms) | {"ready": True}

    def terms(self, source: str, target: str) -> tuple[Term, ...]:
        """Return the terms of a language pair.

        Raises:
            HTTPError: 404 if it has none.
        """
        pair = _pair(source, target)
        if pair not in self.dictionaries:
            languages = f"{source[:60]} to {target[:60]}"
            raise HTTPError(404, f"The glossary has no dictionary for {languages}.")
        return self.dictionaries[pair]


class GlossaryAPI:
    """Handlers of DeepL's glossaries, and the glossaries."""

    def __init__(self, registry: ModelRegistry, store: ClientStore) -> None:
        directions = registry.directions
        self._pairs = dict.fromkeys(
            _pair(direction.source.code, direction.target.code) for direction in directions
        )
        self._store = store
        self._changing = asyncio.Lock()  # only other processes make a change start again

    async def find(self, owner: str, glossary_id: str) -> Glossary:
        """Return a glossary of an API key.

        Raises:
            HTTPError: 404 if the key has none of that ID.
        """
        return await asyncio.to_thread(_parsed, self._stored(owner, glossary_id))

    @Operation("GET", "/v2/glossary-language-pairs")
    async def language_pairs(self, request: HTTPRequest) -> Content:
        """List the language pairs that a glossary can have."""
        return {"supported_languages": [_languages(pair) for pair in self._pairs]}

    @Operation("POST", "/v2/glossaries", CreateGlossaryV2, success_status=201)
    async def create_v2(self, request: HTTPRequest) -> Content:
        """Create a glossary with one dictionary."""
        fields = read_fields(request, CreateGlossaryV2)
        return (await self._create(request, fields.name, [fields])).info_v2

    @Operation("POST", "/v3/glossaries", CreateGlossary, success_status=201)
    async def create(self, request: HTTPRequest) -> Content:
        """Create a glossary."""
        fields = read_fields(request, CreateGlossary)
        return (await self._create(request, fields.name, fields.dictionaries)).info

    @Operation("GET", "/v2/glossaries")
    async def list_v2(self, request: HTTPRequest) -> Content:
        """List the glossaries with one dictionary."""
        own = self._own(request)

        def infos() -> list[Content]:
            return [glossary.info_v2 for glossary in own if len(glossary.dictionaries) == 1]

        return {"glossaries": await asyncio.to_thread(infos)}

    @Operation("GET", "/v3/glossaries")
    async def list_all(self, request: HTTPRequest) -> Content:
        """List the glossaries."""
        own = self._own(request)
        infos = await asyncio.to_thread(lambda: [glossary.info for glossary in own])
        return {"glossaries": infos}

    @Operation("GET", "/v2/glossaries/{glossary_id}")
    async def info_v2(self, request: HTTPRequest) -> Content:
        """Describe a glossary with one dictionary."""
        return (await self._requested_v2(request)).info_v2

    @Operation("GET", "/v3/glossaries/{glossary_id}")
    async def info(self, request: HTTPRequest) -> Content:
        """Describe a glossary."""
        return (await self._requested(request)).info

    @Operation("GET", "/v2/glossaries/{glossary_id}/entries")
    async def entries_v2(self, request: HTTPRequest) -> Response:
        """Return the terms of a glossary with one dictionary, a line per term."""
        (terms,) = (await self._requested_v2(request)).dictionaries.values()
        return Response(await asyncio.to_thread(_tsv, terms), media_type=TSV)

    @Operation("GET", "/v3/glossaries/{glossary_id}/entries", LanguagePairFields)
    async def entries(self, request: HTTPRequest) -> Content:
        """Return the terms of a language pair."""
        glossary, fields = await self._requested(request), read_fields(request, LanguagePairFields)
        terms = glossary.terms(fields.source_lang, fields.target_lang)
        dictionary = {
            **_languages(_pair(fields.source_lang, fields.target_lang)),
            "entries": await asyncio.to_thread(_tsv, terms),
            "entries_format": "tsv",
        }
        return {"dictionaries": [dictionary]}

    @Operation("PATCH", "/v3/glossaries/{glossary_id}", ChangeGlossary)
    async def change(self, request: HTTPRequest) -> Content:
        """Rename a glossary; add terms, or replace their translations."""
        fields = read_fields(request, ChangeGlossary)

        def changed(glossary: Glossary) -> dict[str, object]:
            merged = self._merged(glossary, fields.dictionaries)
            return {"name": fields.name or glossary.name, "dictionaries": merged}

        return (await self._change(request, changed)).info

    @Operation("PUT", "/v3/glossaries/{glossary_id}/dictionaries", DictionaryFields)
    async def replace_dictionary(self, request: HTTPRequest) -> Content:
        """Replace or add the dictionary of a language pair."""
        fields = read_fields(request, DictionaryFields)
        new = await asyncio.to_thread(self._dictionaries, [fields])

        def changed(glossary: Glossary) -> dict[str, object]:
            return {"dictionaries": {**glossary.dictionaries, **new}}

        await self._change(request, changed)
        ((pair, terms),) = new.items()
        return _info(pair, terms)

    @Operation("DELETE", "/v3/glossaries/{glossary_id}/dictionaries", LanguagePairFields)
    async def delete_dictionary(self, request: HTTPRequest) -> None:
        """Delete the dictionary of a language pair."""
        fields = read_fields(request, LanguagePairFields)

        def changed(glossary: Glossary) -> dict[str, object]:
            glossary.terms(fields.source_lang, fields.target_lang)
            remaining = dict(glossary.dictionaries)
            del remaining[_pair(fields.source_lang, fields.target_lang)]
            return {"dictionaries": remaining}

        await self._change(request, changed)

    @Operation("DELETE", "/v2/glossaries/{glossary_id}")
    @Operation("DELETE", "/v3/glossaries/{glossary_id}")
    async def delete(self, request: HTTPRequest) -> None:
        """Delete a glossary."""
        glossary = await self._requested(request)
        self._store.delete(_kind(request.user), glossary.glossary_id)

    def _own(self, request: HTTPRequest) -> Iterator[Glossary]:
        """Parse the glossaries of a key one after the other, as they are taken."""
        return map(Glossary.model_validate_json, self._store.values(_kind(request.user)))

    def _stored(self, owner: str, glossary_id: str) -> bytes:
        value = self._store.get(_kind(owner), glossary_id)
        if value is None:
            raise HTTPError(404, f"Glossary {glossary_id[:60]!r} not found.")
        return value

    async def _requested(self, request: HTTPRequest) -> Glossary:
        return await self.find(request.user, request.path_params["glossary_id"])

    async def _requested_v2(self, request: HTTPRequest) -> Glossary:
        glossary = await self._requested(request)
        if len(glossary.dictionaries) != 1:
            count = len(glossary.dictionaries)
            raise HTTPError(400, f"The glossary has {count} dictionaries: use /v3/glossaries.")
        return glossary

    async def _create(
        self, request: HTTPRequest, name: str, dictionaries: Sequence[DictionaryFields]
    ) -> Glossary:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

        def build() -> Glossary:
            return Glossary(
                glossary_id=str(uuid.uuid4()),
                owner=request.user,
                name=name,
                creation_time=now,
                dictionaries=self._dictionaries(dictionaries),
            )

        glossary = await asyncio.to_thread(build)
        value = await self._encoded(glossary)
        self._store.put(_kind(glossary.owner), glossary.glossary_id, value)
        return glossary

    async def _change(
        self, request: HTTPRequest, changed: Callable[[Glossary], dict[str, object]]
    ) -> Glossary:
        """Replace fields of a glossary: again, if another process has changed it meanwhile."""
        owner, glossary_id = request.user, request.path_params["glossary_id"]
        async with self._changing:
            while True:
                old = self._stored(owner, glossary_id)
                glossary = await asyncio.to_thread(_parsed, old)
                update = await asyncio.to_thread(changed, glossary)
                glossary = glossary.model_copy(update=update)
                value = await self._encoded(glossary, old=old)
                if self._store.replace(_kind(owner), glossary_id, value, old=old):
                    return glossary

    async def _encoded(self, glossary: Glossary, *, old: bytes = b"") -> bytes:
        value = await asyncio.to_thread(lambda: glossary.model_dump_json().encode())
        if len(value) > MAX_GLOSSARY_BYTES:
            raise HTTPError(400, f"The glossary exceeds {MAX_GLOSSARY_BYTES:,} bytes: split it.")
        if self._store.size(_kind(glossary.owner)) - len(old) + len(value) > MAX_BYTES:
            raise HTTPError(400, f"The glossaries exceed {MAX_BYTES:,} bytes: delete some first.")
        return value

    def _merged(self, glossary: Glossary, fields: Sequence[DictionaryFields]) -> Dictionaries:
        merged = dict(glossary.dictionaries)
        for pair, terms in self._dictionaries(fields).items():
            targets = dict([*merged.get(pair, ()), *terms])
            merged[pair] = tuple(Term(*term) for term in targets.items())
        return merged

    def _dictionaries(self, fields: Sequence[DictionaryFields]) -> Dictionaries:
        dictionaries: dict[str, tuple[Term, ...]] = {}
        for dictionary in fields:
            pair = _pair(dictionary.source_lang, dictionary.target_lang)
            if pair not in self._pairs:
                available = ", ".join(self._pairs)
                text = pair.replace("-", " to ")[:60]
                raise unsupported("target_lang", f"{text!r}; available: {available}")
            if pair in dictionaries:
                raise unsupported("dictionaries", f"{pair} occurs twice")
            dictionaries[pair] = _terms(dictionary.entries, dictionary.entries_format)
        return dictionaries


def _terms(entries: str, entries_format: str) -> tuple[Term, ...]:
    """Parse the lines of a dictionary; CSV may have two more columns, the languages."""
    terms: dict[str, str] = {}
    for number, columns in enumerate(_rows(entries, entries_format), start=1):
        cells = [tidy(cell) for cell in columns[:2]]
        if not any(cells):
            continue
        if len(cells) < 2 or not all(cells) or len(columns) not in (2, 4):
            raise unsupported("entries", f"line {number} is not a source and a target")
        if cells[0] in terms:
            raise unsupported("entries", f"line {number} repeats the source {cells[0][:60]!r}")
        terms[cells[0]] = cells[1]
    if not terms:
        raise unsupported("entries", "there is no term")
    return tuple(Term(*term) for term in terms.items())


def _rows(entries: str, entries_format: str) -> Iterable[list[str]]:
    if entries_format == "tsv":
        return (line.split("\t") for line in entries.splitlines())
    try:
        return list(csv.reader(StringIO(entries), strict=True))
    except csv.Error as error:
        raise unsupported("entries", f"malformed CSV: {error}") from None


def _tsv(terms: Sequence[Term]) -> str:
    return "\n".join(map("\t".join, terms))


def _pair(source: str, target: str) -> str:
    return f"{base_language(source)}-{base_language(target)}"


def _languages(pair: str) -> dict[str, str]:
    source, target = pair.split("-")
    return {"source_lang": source, "target_lang": target}


def _info(pair: str, terms: Sequence[Term]) -> dict[str, object]:
    return {**_languages(pair), "entry_count": len(terms)}


def _kind(owner: str) -> str:
    """The kind of value that the glossaries of an API key are in the store."""
    return f"glossary {owner}"


_parsed = lru_cache(maxsize=4)(Glossary.model_validate_json)
"""Parses a stored glossary; the last ones are kept."""
