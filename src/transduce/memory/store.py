"""A translation memory in an SQLite file.

A write is committed and synchronised to disk before the call returns. Similar sources are found
through SQLite's full-text index and compared by Levenshtein distance.
"""

import re
import sqlite3
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations, islice
from math import prod
from pathlib import Path
from threading import Lock

from transduce.data.languages import normalized_base
from transduce.data.segmentation import UNSPACED_SCRIPTS

CORRECTION = "correction"
"""Origin of entries that people corrected; other entries have the name of their file."""

_APPLICATION = 0x7472616D  # "tram", in the file's header
_VERSION = 1  # of the schema, in the file's header
_UNSPACED = re.compile(f"[{UNSPACED_SCRIPTS}]")
# FTS5 takes a run of letters as a word: in scripts without spaces each character is to be one.
_TRIGGER = """
CREATE TRIGGER IF NOT EXISTS index_words AFTER INSERT ON entries BEGIN
    INSERT INTO words (rowid, source) VALUES (new.id, spaced(new.source));
END;
"""
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS entries (
    id INTEGER PRIMARY KEY, source_lang TEXT NOT NULL, target_lang TEXT NOT NULL,
    source TEXT NOT NULL, target TEXT NOT NULL, context TEXT NOT NULL, origin TEXT NOT NULL,
    created TEXT NOT NULL, user TEXT NOT NULL, model TEXT NOT NULL,
    UNIQUE (source_lang, target_lang, source, target, context)
);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING
    fts5(source, content=entries, content_rowid=id, detail=none);
{_TRIGGER}
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
COMMIT;
"""
# Of a store without version, whose index and codes are as given; two processes may do it in turn.
_UPGRADE = f"""
BEGIN IMMEDIATE;
DROP TRIGGER index_words;
{_TRIGGER}
UPDATE OR IGNORE entries SET
    source_lang = normalized_base(source_lang), target_lang = normalized_base(target_lang);
INSERT INTO words (words) VALUES ('delete-all');
INSERT INTO words (rowid, source) SELECT id, spaced(source) FROM entries;
PRAGMA user_version = {_VERSION};
COMMIT;
"""
# A pair that is there already is new again if a person gives it; an import changes no correction.
_INSERT = f"""
INSERT INTO entries
    (source, target, source_lang, target_lang, context, origin, created, user, model)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET origin = excluded.origin, created = excluded.created,
    user = excluded.user, model = excluded.model WHERE excluded.origin = '{CORRECTION}'
"""
_COLUMNS = "source, target, source_lang, target_lang, context, origin, created, user, model"
_NEWEST = f"origin = '{CORRECTION}' DESC, created DESC, id DESC"
_BATCH = 10_000  # entries of a transaction
_RARE = 300  # a word of fewer entries selects candidates by itself
_CANDIDATES = 300  # entries that are compared with a source
_MAX_WORDS = 40  # of a source, that select candidates
_COMBINED = 4  # frequent words that select candidates together
_READ = 200_000  # entries of a frequent word that are read at most, the newest ones


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A translation in a memory."""

    source: str
    target: str
    source_lang: str
    """Language code; regions, case and three letters for two make no difference."""
    target_lang: str
    context: str = ""
    """The sentence before the source, if known."""
    origin: str = CORRECTION
    created: str = ""
    """Time, ISO 8601 in UTC; the time of writing if empty."""
    user: str = ""
    """Key of the user who gave it."""
    model: str = ""
    """Checksum of the model that was corrected."""


@dataclass(frozen=True)
class Match:
    """An entry found for a source."""

    entry: Entry
    score: int
    """Similarity of the sources in percent; 100 only if they are equal."""
    in_context: bool = False
    """Whether the sentence before it is the same too."""

    def replace(self, text: str) -> str:
        """Return the stored target with the white space around `text`."""
        return text.replace(text.strip(), self.entry.target)


class TranslationMemory:
    """A store of translations; may be used by several threads and processes.

    Its methods raise ValueError if the file cannot be read or written.
    """

    def __init__(self, path: str | Path, *, create: bool = True) -> None:
        """Open a store, or make it if it is missing; ":memory:" is one that is not kept.

        Raises:
            ValueError: if the file is no translation memory.
            FileNotFoundError: if it is missing and not to be created.
        """
        self._lock = Lock()
        self._path, self.in_memory = path, str(path) == ":memory:"
        if not create and not Path(path).exists():
            raise FileNotFoundError(2, "no such translation memory", str(path))
        try:
            self._database = sqlite3.connect(path, timeout=30, check_same_thread=False)
            self._prepare()
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{path}: cannot be opened as a translation memory: {error}") from None

    def _prepare(self) -> None:
        database = self._database
        database.create_function("spaced", 1, _spaced, deterministic=True)
        database.create_function("normalized_base", 1, normalized_base, deterministic=True)
        if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            database.execute("PRAGMA journal_mode = WAL")
            database.executescript(_SCHEMA)
        if database.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
            raise sqlite3.DatabaseError("a database of another program")
        if database.execute("PRAGMA user_version").fetchone() < (_VERSION,):
            database.executescript(_UPGRADE)
        database.execute("PRAGMA synchronous = FULL")

    @contextmanager
    def _statements(self) -> Generator[sqlite3.Connection]:
        """Use the database alone; its errors name the file."""
        try:
            with self._lock:
                yield self._database
        except sqlite3.DatabaseError as error:
            hint = "check that the file is intact, writable and not locked, and its disk not full"
            raise ValueError(f"{self._path}: {error}: {hint}") from None

    def __enter__(self) -> "TranslationMemory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def __len__(self) -> int:
        with self._statements() as database:
            return database.execute("SELECT count(*) FROM entries").fetchone()[0]

    @property
    def state(self) -> str:
        """What changes with every write: the number of entries and the newest time."""
        with self._statements() as database:
            rows = database.execute("SELECT count(*), max(created) FROM entries")
            return " ".join(map(str, rows.fetchone()))

    def add(self, entries: Iterable[Entry]) -> int:
        """Store entries, durably when the call returns, and return how many.

        Those without source or target are left out.
        """
        count = 0
        rows = (_row(entry) for entry in entries if entry.source.strip() and entry.target.strip())
        while batch := list(islice(rows, _BATCH)):
            with self._statements() as database, database:
                database.executemany(_INSERT, batch)
            count += len(batch)
        return count

    def entries(self) -> Iterator[Entry]:
        """Return all entries in the order of their first writing."""
        last = 0
        while True:
            with self._statements() as database:
                rows = database.execute(
                    f"SELECT id, {_COLUMNS} FROM entries WHERE id > ? ORDER BY id LIMIT {_BATCH}",
                    (last,),
                ).fetchall()
            if not rows:
                return
            last = rows[-1][0]
            yield from (_entry(row[1:]) for row in rows)

    def exact(self, source: str, *, languages: tuple[str, str], context: str = "") -> Match | None:
        """Return the best entry of this very source: in context, then corrections, then the newest.

        Args:
            languages: codes of source and target language.
            context: the sentence before the source, if known.
        """
        with self._statements() as database:
            row = database.execute(
                f"SELECT {_COLUMNS} FROM entries WHERE source_lang = ? AND target_lang = ? AND "
                f"source = ? ORDER BY context = ? AND context != '' DESC, {_NEWEST} LIMIT 1",
                (*map(normalized_base, languages), source.strip(), context.strip()),
            ).fetchone()
        if row is None:
            return None
        entry = _entry(row)
        return Match(
            entry, 100, in_context=entry.context != "" and entry.context == context.strip()
        )

    def lookup(
        self, source: str, *, languages: tuple[str, str], minimum: int = 70, limit: int = 5
    ) -> list[Match]:
        """Return the most similar entries, best first; of equal sources only the best entry.

        Args:
            minimum: least similarity in percent.
            limit: maximum number of matches.

        Raises:
            ValueError: if rapidfuzz is not installed.
        """
        try:
            from rapidfuzz import process
            from rapidfuzz.distance import Levenshtein
        except ImportError:
            raise ValueError(
                "similar matches need rapidfuzz: pip install 'transduce[memory]'"
            ) from None

        source = source.strip()
        exact = self.exact(source, languages=languages)
        matches = [exact] if exact else []
        candidates = self._candidates(source, languages=languages)
        scored = process.extract(
            source,
            [text for _, text in candidates],
            scorer=Levenshtein.normalized_similarity,
            score_cutoff=minimum / 100,
            limit=None,
        )
        similar = {source: (0, 0)}  # identifier and score of the best entry of each text
        for text, similarity, index in scored:
            similar.setdefault(text, (candidates[index][0], min(int(100 * similarity), 99)))
        for identifier, score in list(similar.values())[1 : limit + 1]:
            with self._statements() as database:
                row = database.execute(
                    f"SELECT {_COLUMNS} FROM entries WHERE id = ?", (identifier,)
                ).fetchone()
            matches.append(Match(_entry(row), score))
        return matches[:limit]

    def _candidates(self, source: str, *, languages: tuple[str, str]) -> list[tuple[int, str]]:
        """Identifiers and sources of entries that share rare words with a source, best ones first.

        Where fewer than two words are rare, a change may have taken both: then entries that share
        frequent words are compared too.
        """
        words = re.findall(r"[^\W_]+", _spaced(source.lower()))
        words = list(dict.fromkeys(words))[:_MAX_WORDS]
        votes: Counter[int] = Counter()
        frequent: list[tuple[float, str]] = []
        newest = rare = 0
        for word in words:
            ids = self._ids(f'"{word}"', limit=_RARE)
            if len(ids) == _RARE:
                newest = max(newest, ids[0])
                frequent.append((_RARE / (ids[0] - ids[-1] + 1), f'"{word}"'))
            else:
                rare += bool(ids)
                votes.update(dict.fromkeys(ids, _MAX_WORDS))  # more than all combinations
        if rare < 2 and frequent:
            votes.update(self._combined(sorted(frequent)[:_COMBINED], newest=newest))
        ids = [number for number, _ in votes.most_common(_CANDIDATES)]
        with self._statements() as database:
            # The unary plus keeps SQLite from searching all entries of the languages instead.
            return database.execute(
                f"SELECT id, source FROM entries WHERE id IN ({','.join('?' * len(ids))}) AND "
                f"+source_lang = ? AND +target_lang = ? ORDER BY {_NEWEST}",
                (*ids, *map(normalized_base, languages)),
            ).fetchall()

    def _combined(self, frequent: Sequence[tuple[float, str]], *, newest: int) -> Counter[int]:
        """Votes for the entries that share all, or all but one, of up to four words, rarest first.

        These have two of any three words, so the entries of the fourth, the most frequent one, are
        read only where too many have two of the others.
        """
        first, fourth = frequent[: _COMBINED - 1], frequent[_COMBINED - 1 :]
        votes: Counter[int] = Counter()
        parts = list(combinations(first, max(1, len(first) - 1)))
        several: list[str] = []

        def find(query: str, share: float, *, weight: int = 1) -> int:
            ids = self._ids(query, limit=_CANDIDATES, oldest=newest - int(_READ / share))
            votes.update(dict.fromkeys(ids, weight))
            return len(ids)

        for part in parts:
            query = " AND ".join(word for _, word in part)
            expected = newest * prod(share for share, _ in part)
            if expected > 2 * _CANDIDATES or find(query, part[-1][0]) == _CANDIDATES:
                several.append(f"({query})")
        # What has one word more counts more than all parts together.
        if len(several) == len(parts):
            find(" AND ".join(word for _, word in first), first[-1][0], weight=_COMBINED)
        if several and fourth:
            share, word = fourth[0]
            find(f"{word} AND ({' OR '.join(several)})", share, weight=_COMBINED)
        return votes

    def _ids(self, query: str, *, limit: int, oldest: int = 0) -> list[int]:
        """The newest entries of a query; none below `oldest`."""
        with self._statements() as database:
            rows = database.execute(
                "SELECT rowid FROM words WHERE words MATCH ? AND rowid >= ? "
                "ORDER BY rowid DESC LIMIT ?",
                (query, oldest, limit),
            )
            return [row[0] for row in rows]


def _spaced(text: str) -> str:
    return _UNSPACED.sub(r" \g<0> ", text)


def _row(entry: Entry) -> tuple[str, ...]:
    return (
        *(entry.source.strip(), entry.target.strip()),
        *(normalized_base(entry.source_lang), normalized_base(entry.target_lang)),
        *(entry.context.strip(), entry.origin),
        *(entry.created or datetime.now(UTC).isoformat(), entry.user, entry.model),
    )


def _entry(row: Sequence[str]) -> Entry:
    return Entry(**dict(zip(_COLUMNS.split(", "), row, strict=True)))
