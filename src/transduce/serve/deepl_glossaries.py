"""DeepL's glossaries: named sets of dictionaries, each with the terms of one language pair.

Version 3 of the API has several dictionaries per glossary; version 2 shows the glossaries that have
one. A glossary belongs to the API key that created it, and lasts until the server stops, or as long
as the translation memory of the server.
"""

import csv
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from io import StringIO
from typing import Final, Literal

from pydantic import Field
from starlette.responses import Response

from transduce.data.corpus import tidy
from transduce.inference.glossary import Term
from transduce.serve.client_store import ClientStore
from transduce.serve.errors import HTTPError
from transduce.serve.model_registry import ModelRegistry
from transduce.serve.parameters import base_code, read_fields, unsupported
from transduce.serve.requests import HTTPRequest
from transduce.serve.routing import JSON, LenientModel, Operation, OperationRow, StrictModel

MAX_BYTES = 64 * 2**20
"""Maximum size of all glossaries of a server."""

TSV: Final = "text/tab-separated-values"

_KIND = "glossary"
_HEAD = {"glossary_id", "name", "creation_time"}
_OVERHEAD = 1000  # bytes that a glossary counts besides its content

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


class GlossaryLanguagePair(StrictModel):
    """A language pair that a glossary can have."""

    source_lang: str
    target_lang: str


class GlossaryLanguagePairs(StrictModel):
    """The loaded language pairs."""

    supported_languages: list[GlossaryLanguagePair]


class DictionaryInfo(GlossaryLanguagePair):
    """A dictionary without its terms."""

    entry_count: int


class DictionaryEntries(GlossaryLanguagePair):
    """A dictionary with its terms."""

    entries: str
    entries_format: Literal["tsv"]


class GlossaryEntries(StrictModel):
    """The dictionary of a language pair."""

    dictionaries: list[DictionaryEntries]


class GlossaryInfo(StrictModel):
    """A glossary without its terms."""

    glossary_id: str
    name: str
    creation_time: str
    dictionaries: list[DictionaryInfo]


class GlossaryInfoV2(DictionaryInfo):
    """A glossary with one dictionary, without its terms."""

    glossary_id: str
    name: str
    ready: bool
    creation_time: str


class GlossaryList(StrictModel):
    """All glossaries of the key."""

    glossaries: list[GlossaryInfo]


class GlossaryListV2(StrictModel):
    """All glossaries of the key that have one dictionary."""

    glossaries: list[GlossaryInfoV2]


class Glossary(StrictModel):
    """A glossary."""

    glossary_id: str
    owner: str
    """A hash of the API key that created it."""
    name: str
    creation_time: str
    dictionaries: Dictionaries

    @property
    def info(self) -> GlossaryInfo:
        """Describe it in version 3."""
        dictionaries = [_info(pair, terms) for pair, terms in self.dictionaries.items()]
        return GlossaryInfo(**self.model_dump(include=_HEAD), dictionaries=dictionaries)

    @property
    def info_v2(self) -> GlossaryInfoV2:
        """Describe it in version 2."""
        (dictionary,) = self.info.dictionaries
        return GlossaryInfoV2(
            **dictionary.model_dump(), **self.model_dump(include=_HEAD), ready=True
        )

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
        ways = registry.directions
        self._pairs = dict.fromkeys(_pair(way.source.code, way.target.code) for way in ways)
        self._store = store

    def find(self, owner: str, glossary_id: str) -> Glossary:
        """Return a glossary of an API key.

        Raises:
            HTTPError: 404 if the key has none of that ID.
        """
        value = self._store.get(_KIND, glossary_id)
        if value is None or (glossary := _parsed(value)).owner != owner:
            raise HTTPError(404, f"Glossary {glossary_id[:60]!r} not found.")
        return glossary

    def operations(self) -> tuple[Operation, ...]:
        """Return the operations of both versions."""
        v2, v3 = "/v2/glossaries", "/v3/glossaries"
        v2_id, v3_id = f"{v2}/{{glossary_id}}", f"{v3}/{{glossary_id}}"
        dictionaries, pair = f"{v3_id}/dictionaries", LanguagePairFields
        pairs = self.language_pairs
        table: tuple[OperationRow, ...] = (
            ("GET", "/v2/glossary-language-pairs", pairs, None),
            ("POST", v2, self.create_v2, CreateGlossaryV2),
            ("GET", v2, self.list_v2, None),
            ("GET", v2_id, self.info_v2, None),
            ("GET", f"{v2_id}/entries", self.entries_v2, None),
            ("DELETE", v2_id, self.delete, None),
            ("POST", v3, self.create, CreateGlossary),
            ("GET", v3, self.list_all, None),
            ("GET", v3_id, self.info, None),
            ("PATCH", v3_id, self.change, ChangeGlossary),
            ("DELETE", v3_id, self.delete, None),
            ("GET", f"{v3_id}/entries", self.entries, pair),
            ("PUT", dictionaries, self.replace_dictionary, DictionaryFields),
            ("DELETE", dictionaries, self.delete_dictionary, pair),
        )
        return tuple(
            Operation(
                method,
                path,
                request,
                handler=handler,
                operation_id=f"deepl_{path[1:3]}_{handler.__name__}",
                media_type=TSV if handler == self.entries_v2 else JSON,
                success_status={"POST": 201, "DELETE": 204}.get(method, 200),
                error_statuses=(400, 404, 413),
            )
            for method, path, handler, request in table
        )

    async def language_pairs(self, request: HTTPRequest) -> GlossaryLanguagePairs:
        """List the language pairs that a glossary can have."""
        pairs = [
            GlossaryLanguagePair(source_lang=source, target_lang=target)
            for source, target in (pair.split("-") for pair in self._pairs)
        ]
        return GlossaryLanguagePairs(supported_languages=pairs)

    async def create_v2(self, request: HTTPRequest) -> GlossaryInfoV2:
        """Create a glossary with one dictionary."""
        fields = read_fields(request, CreateGlossaryV2)
        return self._create(request, fields.name, [fields]).info_v2

    async def create(self, request: HTTPRequest) -> GlossaryInfo:
        """Create a glossary."""
        fields = read_fields(request, CreateGlossary)
        return self._create(request, fields.name, fields.dictionaries).info

    async def list_v2(self, request: HTTPRequest) -> GlossaryListV2:
        """List the glossaries with one dictionary."""
        own = [glossary for glossary in self._own(request) if len(glossary.dictionaries) == 1]
        return GlossaryListV2(glossaries=[glossary.info_v2 for glossary in own])

    async def list_all(self, request: HTTPRequest) -> GlossaryList:
        """List the glossaries."""
        return GlossaryList(glossaries=[own.info for own in self._own(request)])

    async def info_v2(self, request: HTTPRequest) -> GlossaryInfoV2:
        """Describe a glossary with one dictionary."""
        return self._requested_v2(request).info_v2

    async def info(self, request: HTTPRequest) -> GlossaryInfo:
        """Describe a glossary."""
        return self._requested(request).info

    async def entries_v2(self, request: HTTPRequest) -> Response:
        """Return the terms of a glossary with one dictionary, a line per term."""
        (terms,) = self._requested_v2(request).dictionaries.values()
        return Response(_tsv(terms), media_type=TSV)

    async def entries(self, request: HTTPRequest) -> GlossaryEntries:
        """Return the terms of a language pair."""
        glossary, fields = self._requested(request), read_fields(request, LanguagePairFields)
        dictionary = DictionaryEntries(
            source_lang=base_code(fields.source_lang),
            target_lang=base_code(fields.target_lang),
            entries=_tsv(glossary.terms(fields.source_lang, fields.target_lang)),
            entries_format="tsv",
        )
        return GlossaryEntries(dictionaries=[dictionary])

    async def change(self, request: HTTPRequest) -> GlossaryInfo:
        """Rename a glossary; add terms, or replace their translations."""
        glossary = self._requested(request)
        fields = read_fields(request, ChangeGlossary)
        merged = dict(glossary.dictionaries)
        for pair, terms in self._dictionaries(fields.dictionaries).items():
            targets = dict([*merged.get(pair, ()), *terms])
            merged[pair] = tuple(Term(*term) for term in targets.items())
        update = {"name": fields.name or glossary.name, "dictionaries": merged}
        return self._put(glossary.model_copy(update=update)).info

    async def replace_dictionary(self, request: HTTPRequest) -> DictionaryInfo:
        """Replace or add the dictionary of a language pair."""
        glossary = self._requested(request)
        fields = read_fields(request, DictionaryFields)
        new = self._dictionaries([fields])
        self._put(glossary.model_copy(update={"dictionaries": {**glossary.dictionaries, **new}}))
        ((pair, terms),) = new.items()
        return _info(pair, terms)

    async def delete_dictionary(self, request: HTTPRequest) -> None:
        """Delete the dictionary of a language pair."""
        glossary, fields = self._requested(request), read_fields(request, LanguagePairFields)
        glossary.terms(fields.source_lang, fields.target_lang)
        rest = dict(glossary.dictionaries)
        del rest[_pair(fields.source_lang, fields.target_lang)]
        self._put(glossary.model_copy(update={"dictionaries": rest}))

    async def delete(self, request: HTTPRequest) -> None:
        """Delete a glossary."""
        self._store.delete(_KIND, self._requested(request).glossary_id)

    def _own(self, request: HTTPRequest) -> list[Glossary]:
        glossaries = map(_parsed, self._store.values(_KIND))
        return [glossary for glossary in glossaries if glossary.owner == request.user]

    def _requested(self, request: HTTPRequest) -> Glossary:
        return self.find(request.user, request.path_params["glossary_id"])

    def _requested_v2(self, request: HTTPRequest) -> Glossary:
        glossary = self._requested(request)
        if len(glossary.dictionaries) != 1:
            count = len(glossary.dictionaries)
            raise HTTPError(400, f"The glossary has {count} dictionaries: use /v3/glossaries.")
        return glossary

    def _create(
        self, request: HTTPRequest, name: str, dictionaries: Sequence[DictionaryFields]
    ) -> Glossary:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        new = Glossary(
            glossary_id=str(uuid.uuid4()),
            owner=request.user,
            name=name,
            creation_time=now,
            dictionaries=self._dictionaries(dictionaries),
        )
        return self._put(new)

    def _put(self, glossary: Glossary) -> Glossary:
        value = glossary.model_dump_json().encode()
        stored = {_parsed(other).glossary_id: other for other in self._store.values(_KIND)}
        stored[glossary.glossary_id] = value
        if sum(_OVERHEAD + len(content) for content in stored.values()) > MAX_BYTES:
            raise HTTPError(400, f"The glossaries exceed {MAX_BYTES:,} bytes: delete some first.")
        self._store.put(_KIND, glossary.glossary_id, value)
        return glossary

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
    return f"{base_code(source)}-{base_code(target)}"


def _info(pair: str, terms: Sequence[Term]) -> DictionaryInfo:
    source, target = pair.split("-")
    return DictionaryInfo(source_lang=source, target_lang=target, entry_count=len(terms))


_parsed = lru_cache(maxsize=64)(Glossary.model_validate_json)
"""Parses a stored glossary; the last ones are kept."""
