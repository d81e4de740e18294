"""Prepare a corpus: tokenizer, encoded training pairs, validation and test text.

Everything is read once before anything is written, so that a corpus with an error in its last line
leaves nothing behind. The result is self-contained: resuming a run never needs the corpus again.
Validation and test text stay as written; no line of them is dropped.

The training text is never kept in memory: it is read again for each purpose, which costs little
compared to encoding it. Of a pair only its lengths stay, and until the held-out pairs are drawn its
line number and a hash of its source.
"""

import itertools
import json
import sys
import time
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from transduce.config import Recipe, warnings
from transduce.corpus_check.check import probe_vocabulary
from transduce.corpus_check.fingerprint import CorpusProfile, EvenSample, fold, profile_pairs
from transduce.corpus_check.inspection import EXCHANGE, DataSplit, inspect_corpus
from transduce.data.augmentation import vary
from transduce.data.config import Languages
from transduce.data.corpus import (
    CleaningCounts,
    NumberedPair,
    Pair,
    clean,
    hold_out,
    read_pairs,
    tidy,
)
from transduce.data.languages import LanguagePair, zero_shot_pairs
from transduce.data.pair_tokenizer import PairTokenizer, read_tokenizer
from transduce.data.protection import protection_of
from transduce.data.sampler import Mixture, Sampler, balanced_passes, target_tokens
from transduce.data.store import PREPARED_FOLDER, Count, Store
from transduce.data.tokenizer import Tokenizer, target_tag, without_tag
from transduce.data.tokenizer_extension import extend_tokenizer
from transduce.io.atomic_folder import atomic_folder, check_folder, sanitise, sha256
from transduce.pipeline.finetune import FOLDER as START
from transduce.pipeline.finetune import StartModel, extend_vocabulary
from transduce.train.events import EventHandler, LogMessage

_SAMPLE_PAIRS = 500_000  # that a vocabulary is trained on; more would hardly change it


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedDirection:
    """One of several directions in a prepared corpus, whose pairs follow those of the last."""

    source: str
    target: str
    first_line: Count
    """Line number of its first pair."""
    pairs: Count
    """Training pairs; 0 of a zero-shot direction."""
    validation_pairs: Count
    test_pairs: Count

    def __str__(self) -> str:
        """Format as "en-de"."""
        return f"{self.source}-{self.target}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A prepared corpus, as training and evaluation read it."""

    tokenizer: Tokenizer
    store: Store
    """The encoded training pairs."""
    validation: tuple[Pair, ...]
    test: tuple[Pair, ...]
    """Empty when the recipe names no test files."""
    data_sha256: Mapping[str, str]
    """SHA-256 of every corpus file, by name."""
    start: Path | None = None
    """The bundle that training starts from, its vocabulary extended; None: random weights."""
    started_from: Mapping[str, str] = field(default_factory=dict[str, str])
    """SHA-256 of its weights before that, by the model's name."""
    directions: tuple[PreparedDirection, ...] = ()
    """In the order of their pairs; empty for a model of one direction."""

    def mixture(self, temperature: float) -> Mixture | None:
        """How often the pairs of each direction are used; None for one direction.

        Args:
            temperature: `CorpusConfig.temperature`.
        """
        trained = [direction for direction in self.directions if direction.pairs]
        if not trained or temperature == 1.0:
            return None
        passes = balanced_passes([part.pairs for part in trained], temperature=temperature)
        firsts = [part.first_line for part in trained]
        parts = np.searchsorted(firsts, self.store.lines, side="right") - 1
        return Mixture(parts.astype(np.int32), passes)


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparationRecord:
    """The content of prepared.json."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    files: Mapping[str, str]
    """SHA-256 of every file of the corpus, by name."""
    read: Count
    """Training pairs in the files, before cleaning."""
    dropped: Mapping[str, Count]
    """Training pairs lost, by reason."""
    mended: Mapping[str, Count]
    """Training pairs whose text was changed, by what was changed."""
    training_pairs: Count
    validation_pairs: Count
    test_pairs: Count
    target_tokens: Count
    """Of the training pairs, EOS counted."""
    vocab_size: Count
    """Of the tokenizer, PAD included."""
    updates_per_epoch: Count
    padding_share: Annotated[float, Field(ge=0, le=1)]
    started_from: Mapping[str, str] = field(default_factory=dict[str, str])
    """SHA-256 of the weights that training starts from, by the model's name."""
    directions: tuple[PreparedDirection, ...] = ()
    """In the order of their pairs; empty for a model of one direction."""


class _Survey(NamedTuple):
    """Results of reading the corpus once."""

    recipe: Recipe
    cleaning: CleaningCounts
    held_out: frozenset[int]
    """Lines of the training files that are held out for validation."""
    excluded: frozenset[int]
    """Lines that are not trained on: those, and duplicates."""
    validation: tuple[Pair, ...]
    test: tuple[Pair, ...]
    data_sha256: Mapping[str, str]
    usual: CorpusProfile
    """Typical properties of the training pairs."""
    directions: tuple[PreparedDirection, ...]

    @property
    def training_pairs(self) -> int:
        """Training pairs, before those with too many pieces are dropped."""
        return self.cleaning.kept - len(self.held_out)

    def training(self) -> Iterator[NumberedPair]:
        """Read the training pairs again, cleaned."""
        return _cleaned(self.recipe, CleaningCounts(), only=lambda i: i not in self.excluded)

    def vocabulary_sample(self) -> Iterator[NumberedPair]:
        """The pairs that the vocabulary is trained on: all, or a fixed random sample of many.

        Of several directions they are drawn as often as training draws them, without tags.
        """
        share = _SAMPLE_PAIRS / max(1, self.training_pairs)
        if self.directions:
            return self._balanced_sample(min(1.0, share))
        if share >= 1.0:
            return self.training()
        # Excluded lines draw too: the sample depends on the seed and the lines alone.
        chance, excluded = Random(self.recipe.train.seed).random, self.excluded
        return _cleaned(
            self.recipe, CleaningCounts(), only=lambda i: chance() < share and i not in excluded
        )

    def _balanced_sample(self, share: float) -> Iterator[NumberedPair]:
        trained = [direction for direction in self.directions if direction.pairs]
        sizes, data = [direction.pairs for direction in trained], self.recipe.data
        passes = balanced_passes(sizes, temperature=data.temperature)
        firsts = [direction.first_line for direction in trained]
        chance = Random(self.recipe.train.seed).random
        for line, pair in self.training():
            expected = share * passes[bisect_right(firsts, line) - 1]
            for _ in range(int(expected) + (chance() < expected % 1)):
                yield NumberedPair(line, pair._replace(source=without_tag(pair.source)))

    def parts(self) -> Iterator[tuple[Recipe, Sequence[Pair], Sequence[Pair], range]]:
        """Each direction's recipe, validation and test pairs, without tags, and training lines."""
        if not self.directions:
            yield self.recipe, self.validation, self.test, range(1, sys.maxsize)
            return
        validation, test = iter(self.validation), iter(self.test)
        firsts = [part.first_line for part in self.directions if part.pairs]
        ends = dict(zip(firsts, [*firsts[1:], sys.maxsize], strict=True))
        for part in self.directions:
            languages = Languages(source=part.source, target=part.target)
            held = [
                [pair._replace(source=without_tag(pair.source)) for pair in pairs]
                for pairs in (
                    itertools.islice(validation, part.validation_pairs),
                    itertools.islice(test, part.test_pairs),
                )
            ]
            if part.pairs:
                lines = range(part.first_line, ends[part.first_line])
                yield replace(self.recipe, languages=languages), held[0], held[1], lines


def prepare(
    recipe: Recipe,
    out: Path,
    *,
    start: StartModel | None = None,
    vocabulary: Tokenizer | None = None,
    on_event: EventHandler,
) -> Prepared:
    """Read, clean, hold out, train the tokenizer and encode; write the result to `out`/prepared.

    Args:
        recipe: names the corpus.
        out: the run's folder.
        start: a model to start from; its tokenizer is used, and it is stored with the corpus.
        vocabulary: a tokenizer to use as it is.
        on_event: called with each event.

    Raises:
        ValueError: if the corpus cannot be used; one line with file, line and what to change.
    """
    if not recipe.data.files:
        raise ValueError(
            "there is no corpus: name two files, --source FILE --target FILE, or data.train"
        )
    if recipe.tokenizer.extend and start is None:
        raise ValueError("tokenizer.extend adds to a model's vocabulary: name one, --from MODEL")
    survey = _survey(recipe, progress_reporter(on_event, "read"))
    on_event(LogMessage(survey.cleaning.summary()))
    _check_corpus(survey, start=start, on_event=on_event)
    on_event(LogMessage(_vocabulary_message(recipe, start, given=vocabulary is not None)))
    with atomic_folder(out / PREPARED_FOLDER) as folder:
        protection = protection_of(recipe.tokenizer.protect)
        augment, seed = recipe.augment, recipe.train.seed

        def sampled() -> Iterator[Pair]:
            for line, pair in survey.vocabulary_sample():
                masked = protection.mask_pair(pair)
                varied = (
                    vary(masked, augment, Random(f"{seed}/{line}")) if augment.active else masked
                )
                for side, text in zip(characters, varied, strict=True):
                    side.update(text)
                yield varied

        characters = (set[str](), set[str]())
        tokenizer = vocabulary or _tokenizer(recipe, sampled, start=start)
        (folder / "tokenizer.model").write_bytes(tokenizer.to_bytes())
        store = Store.write(
            folder / "train",
            survey.training(),
            tokenizer=tokenizer,
            max_pieces=recipe.data.max_pieces,
            progress=progress_reporter(on_event, "encoded", of=survey.training_pairs),
        )
        for name, pairs in (("validation", survey.validation), ("test", survey.test)):
            write_pairs(folder, (f"{name}.source", f"{name}.target"), pairs)
        if start:
            extend_vocabulary(start.bundle, tokenizer).save(folder / START)
        facts = _facts(survey, tokenizer=tokenizer, store=store, start=start)
        (folder / "prepared.json").write_text(
            json.dumps(asdict(facts), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    if tokenizer.shared:
        characters = (set[str].union(*characters),)
    lost = 0
    for side, letters in zip((tokenizer, tokenizer.target), characters, strict=False):
        lost += sum(side.UNK in ids for ids in side.encode_all(sorted(letters)))
    if lost and recipe.tokenizer.kind != "word":
        count = sum(map(len, characters))
        text = f"{lost:,} of the {count:,} characters are rare and have no piece"
        remedy = "raise tokenizer.vocab_size or tokenizer.character_coverage"
        on_event(LogMessage(f"{text}: {remedy}"))
    for text in (*_summary(facts, recipe), *_vocabulary_findings(survey, tokenizer)):
        on_event(LogMessage(text))
    return open_prepared(out)


def open_prepared(out: Path) -> Prepared:
    """Open what `prepare` wrote below `out`.

    Raises:
        ValueError: if it is damaged; one line that names the file.
    """
    folder = out / PREPARED_FOLDER
    check_folder(folder, expected="a prepared corpus")
    tokenizer = read_tokenizer((folder / "tokenizer.model").read_bytes())
    facts = _read_facts(folder / "prepared.json")
    return Prepared(
        tokenizer=tokenizer,
        store=Store.open(folder / "train", tokenizer_checksum=tokenizer.checksum, verify=False),
        validation=_read_text(folder, "validation"),
        test=_read_text(folder, "test"),
        data_sha256=facts.files,
        start=folder / START if facts.started_from else None,
        started_from=facts.started_from,
        directions=facts.directions,
    )


def check_positions(recipe: Recipe, prepared: Prepared) -> None:
    """Refuse text too long for learned positions now, not at the first validation.

    Raises:
        ValueError: one line that names the set, the pair and the setting.
    """
    if recipe.model.positions != "learned":
        return
    for name, pairs in (("validation", prepared.validation), ("test", prepared.test)):
        tokenizer = prepared.tokenizer
        sources = tokenizer.encode_all([tidy(pair.source) for pair in pairs])
        targets = tokenizer.target.encode_all([tidy(pair.target) for pair in pairs])
        for number, sides in enumerate(zip(sources, targets, strict=True), 1):
            pieces = max(map(len, sides))
            if pieces + 1 > recipe.model.longest:
                raise ValueError(
                    f"pair {number} of the {name} set has {pieces} pieces and EOS, more than "
                    f"model.max_positions {recipe.model.max_positions}: raise it to {pieces + 1}, "
                    f'or set model.positions to "sinusoid"'
                )


def is_up_to_date(recipe: Recipe, out: Path, *, start: StartModel | None = None) -> bool:
    """Whether `out`/prepared was made from these corpus files.

    Args:
        recipe: names the corpus.
        out: the run's folder.
        start: the model to start from, which must be the same too.
    """
    try:
        facts = _read_facts(out / PREPARED_FOLDER / "prepared.json")
    except (OSError, ValueError):
        return False
    same_start = [*facts.started_from.values()] == ([start.sha256] if start else [])
    return same_start and facts.files == corpus_sha256(recipe)


def _read_facts(file: Path) -> PreparationRecord:
    """Read and validate prepared.json."""
    try:
        return TypeAdapter(PreparationRecord).validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        fault = sanitise(": ".join([*map(str, first["loc"]), first["msg"]]))
        raise ValueError(f"{file} is damaged ({fault}): prepare the corpus again") from None


def _tokenizer(
    recipe: Recipe, pairs: Callable[[], Iterator[Pair]], *, start: StartModel | None
) -> Tokenizer:
    """The run's tokenizer; `pairs` reads what it is trained on, once for each vocabulary."""
    if start and not recipe.tokenizer.extend:
        return start.bundle.tokenizer
    if not recipe.tokenizer.shared:
        sources, targets = (pair.source for pair in pairs()), (pair.target for pair in pairs())
        return PairTokenizer.train_pair(sources, targets, recipe.tokenizer)
    texts = itertools.chain.from_iterable(pairs())
    if start is None:
        targets = dict.fromkeys(direction.target for direction in recipe.data.directions)
        return Tokenizer.train(texts, recipe.tokenizer, tags=[*map(target_tag, targets)])
    texts = map(start.bundle.tokenizer.surface, texts)
    return extend_tokenizer(start.bundle.tokenizer, texts, count=recipe.tokenizer.extend)


def _vocabulary_message(recipe: Recipe, start: StartModel | None, *, given: bool) -> str:
    if given:
        return "using the given vocabulary, encoding"
    a_side = "" if recipe.tokenizer.shared else " a side"
    if start is None and recipe.tokenizer.kind in ("char", "word"):
        units = "characters" if recipe.tokenizer.kind == "char" else "most frequent words"
        return f"making a vocabulary{a_side} of the {units}, encoding"
    if start is None:
        pieces = f"{recipe.tokenizer.vocab_size:,} pieces"
        return f"training a vocabulary{a_side} of {pieces}, encoding"
    kept = f"keeping the vocabulary of {start.name}"
    more = recipe.tokenizer.extend
    return f"{kept}, adding up to {more:,} pieces, encoding" if more else f"{kept}, encoding"


def _survey(recipe: Recipe, progress: Callable[[int], None]) -> _Survey:
    """Read every file to its end."""
    data = recipe.data
    cleaning, spread = CleaningCounts(), EvenSample()
    drop = data.duplicates == "drop"
    lines, sources, pairs = array("I"), array("q"), array("q")
    starts, given = list[int](), any(part.validation for part in data.directions)
    for line, pair in spread.sample(_cleaned(recipe, cleaning, starts=starts)):
        lines.append(line)
        if not data.validation and not given:
            sources.append(_held_out_key(pair, both=bool(data.directions)))
        if drop:
            pairs.append(hash(pair))
        progress(line)
    rows = np.asarray(lines)
    kept = np.ones(len(rows), dtype=bool)
    if drop:  # of equal pairs the first stays
        kept[:] = False
        kept[np.unique(np.asarray(pairs), return_index=True)[1]] = True
    duplicates = rows[~kept].tolist()
    cleaning.drop_kept("duplicate", duplicates)
    held_out: frozenset[int] = frozenset()
    validation_sizes, validation = _read(recipe, "validation")
    if not validation:
        held_out = hold_out(
            rows[kept].tolist(),
            sources=np.asarray(sources)[kept].tolist(),
            count=data.held_out,
            seed=recipe.train.seed,
        )
        cleaned = [*_cleaned(recipe, CleaningCounts(), only=held_out.__contains__)]
        validation = tuple(pair for _, pair in cleaned)
        validation_sizes = _sizes([line for line, _ in cleaned], starts)
    if not validation:
        raise ValueError(
            "there is nothing to validate on: name files in data.validation, or set data.held_out "
            "above 0"
        )
    test_sizes, test = _read(recipe, "test")
    sizes = (
        _sizes(rows[kept].tolist(), starts) if starts else [],
        _sizes([*held_out], starts),
        validation_sizes,
        test_sizes,
    )
    usual = profile_pairs(spread.pairs)
    return _Survey(
        recipe,
        cleaning,
        held_out,
        held_out.union(duplicates),
        validation,
        test,
        corpus_sha256(recipe),
        usual,
        _prepared_directions(recipe, starts, sizes),
    )


def _held_out_key(pair: Pair, *, both: bool) -> int:
    """A hash of what keeps pairs on one side: the source, or text that either side may be."""
    if not both:
        return hash(fold(pair.source))
    bare = fold(without_tag(pair.source))
    return min(hash(bare), hash(fold(pair.target)))


def _sizes(lines: Sequence[int], starts: Sequence[int]) -> list[int]:
    """Count line numbers by direction; `starts` has the line before each direction's first."""
    counts = Counter(bisect_left(starts, line) - 1 for line in lines)
    return [counts[number] for number in range(len(starts))]


def _prepared_directions(
    recipe: Recipe, starts: Sequence[int], sizes: Sequence[Sequence[int]]
) -> tuple[PreparedDirection, ...]:
    """Describe the directions, by their kept, held-out, validation and test pairs."""
    directions: list[PreparedDirection] = []
    kept, held_out, validation, test = (
        [*size, *[0] * len(recipe.data.directions)] for size in sizes
    )
    trained = 0
    for number, part in enumerate(recipe.data.directions):
        pairs = kept[trained] - held_out[trained] if part.train else 0
        if part.train and not pairs:
            raise ValueError(f"data.directions: no pair of {part.pair} is left to train on")
        directions.append(
            PreparedDirection(
                source=part.source,
                target=part.target,
                first_line=starts[trained] + 1 if part.train else 0,
                pairs=pairs,
                validation_pairs=validation[trained] if part.train else 0,
                test_pairs=test[number],
            )
        )
        trained += bool(part.train)
    return tuple(directions)


def _check_corpus(survey: _Survey, *, start: StartModel | None, on_event: EventHandler) -> None:
    """Report odd settings and problems of the corpus before training on them."""
    for warning in warnings(survey.recipe):
        on_event(LogMessage(warning))
    for recipe, validation, test, lines in survey.parts():
        _check_part(survey, recipe, (validation, test), lines=lines, start=start, on_event=on_event)


def _check_part(
    survey: _Survey,
    recipe: Recipe,
    held: tuple[Sequence[Pair], Sequence[Pair]],
    *,
    lines: range,
    start: StartModel | None,
    on_event: EventHandler,
) -> None:
    """Check one direction, whose training lines are `lines`."""
    several = bool(survey.directions)
    pairs = survey.training_pairs
    if several:
        pairs = next(part.pairs for part in survey.directions if part.first_line == lines.start)

    def bare(numbered: Iterable[NumberedPair]) -> Iterator[NumberedPair]:
        if not several:
            yield from numbered
            return
        for line, pair in numbered:
            if line in lines:
                source = without_tag(pair.source)
                yield NumberedPair(line - lines.start + 1, pair._replace(source=source))

    def read_lines(some: Collection[int]) -> Iterator[NumberedPair]:
        wanted = frozenset(line + lines.start - 1 for line in some)
        return bare(_cleaned(survey.recipe, CleaningCounts(), only=wanted.__contains__))

    inspection = inspect_corpus(
        recipe,
        lambda: bare(survey.training()),
        validation=held[0],
        test=held[1],
        pair_count=pairs,
        profile=None if several else survey.usual,
        read_lines=read_lines,
        progress=progress_reporter(on_event, "looked at"),
    )
    looked = len(inspection.fingerprints.line)
    if looked < pairs:
        blocks = f"looked closely at {looked:,} of {pairs:,} training pairs, in blocks"
        on_event(LogMessage(f"{blocks}, and at all of them for leaks"))
    if (few := inspection.report.size_warning) and start is None and not several:
        on_event(LogMessage(few))
    if unknown := inspection.report.language_warning:
        on_event(LogMessage(unknown))
    name = f"{recipe.languages.source}-{recipe.languages.target}"
    for finding in inspection.report.findings:
        if several and finding.kind == "language" and finding.advice.endswith(EXCHANGE):
            raise ValueError(f"data.directions: {name} has its languages swapped: {EXCHANGE}")
        on_event(LogMessage(f"{name}: {finding}" if several else str(finding)))


def _vocabulary_findings(survey: _Survey, tokenizer: Tokenizer) -> Iterator[str]:
    """How the vocabulary segments text that it was not trained on."""
    most = survey.recipe.data.max_pieces
    held: dict[DataSplit, Sequence[Pair]] = {"validation": survey.validation, "test": survey.test}
    probes = [probe_vocabulary(tokenizer, held[part], part=part, max_pieces=most) for part in held]
    yield from (str(finding) for probe in probes for finding in probe.findings)
    words, pieces = sum(probe.words for probe in probes), sum(probe.pieces for probe in probes)
    yield f"{pieces / max(1, words):.2f} pieces a word in validation and test text"


def _cleaned(
    recipe: Recipe,
    counts: CleaningCounts,
    *,
    only: Callable[[int], bool] | None = None,
    starts: list[int] | None = None,
) -> Iterator[NumberedPair]:
    """The cleaned pairs of the training files, or of some of their lines.

    Of several directions they have tags, and line numbers go on from one to the next; `starts`
    receives the line before each one's first.
    """
    data = recipe.data
    starts = list[int]() if starts is None else starts
    pairs = (
        _directions_pairs(recipe, starts)
        if data.directions
        else read_pairs(
            data.paths(data.train), not_utf8=data.not_utf8, languages=recipe.languages.codes
        )
    )
    if only is not None:
        pairs = (pair for pair in pairs if only(pair.line))
    cleaned = clean(pairs, max_ratio=data.max_ratio, counts=counts)
    tags = [target_tag(direction.target) for direction in data.trained]
    for line, pair in cleaned:
        if tags:
            tag = tags[bisect_left(starts, line) - 1]
            pair = pair._replace(source=f"{tag} {pair.source}")
        yield NumberedPair(line, pair)


def _directions_pairs(recipe: Recipe, starts: list[int]) -> Iterator[NumberedPair]:
    """The pairs of all directions, one after the other."""
    data, last = recipe.data, 0
    for part in data.trained:
        starts.append(last)
        pairs = read_pairs(data.paths(part.train), not_utf8=data.not_utf8, languages=part.pair)
        for line, pair in pairs:
            last = starts[-1] + line
            yield NumberedPair(last, pair)


def _read(
    recipe: Recipe, name: Literal["validation", "test"]
) -> tuple[list[int], tuple[Pair, ...]]:
    """Read the text of a set; of several directions with tags, and how many pairs each has."""
    data = recipe.data
    if not data.directions:
        files: tuple[str, ...] = getattr(data, name)
        codes = recipe.languages.codes
        texts = read_pairs(data.paths(files), languages=codes) if files else ()
        return [], tuple(pair for _, pair in texts)
    sizes, pairs = list[int](), list[Pair]()
    for part in data.trained if name == "validation" else data.directions:
        files, before = getattr(part, name), len(pairs)
        for _, pair in read_pairs(data.paths(files), languages=part.pair) if files else ():
            pairs.append(pair._replace(source=f"{target_tag(part.target)} {pair.source}"))
        sizes.append(len(pairs) - before)
    return sizes, tuple(pairs)


def corpus_sha256(recipe: Recipe) -> dict[str, str]:
    """Return the SHA-256 of every file of a recipe's corpus, by name."""
    data = recipe.data
    names = data.files
    return {_label(name): sha256(path) for name, path in zip(names, data.paths(names), strict=True)}


def _label(name: str) -> str:
    """A file's name for the record; of an absolute path the end, without any home folder."""
    return "/".join(Path(name).parts[-2:]) if Path(name).is_absolute() else name


def write_pairs(folder: Path, names: tuple[str, str], pairs: Iterable[Pair]) -> None:
    """Write pairs as two files of lines.

    Args:
        folder: of both files.
        names: of the source's file and of the target's.
        pairs: are read once.
    """
    with (folder / names[0]).open("wb") as source, (folder / names[1]).open("wb") as target:
        for pair in pairs:
            source.write(f"{pair.source}\n".encode())
            target.write(f"{pair.target}\n".encode())


def _read_text(folder: Path, name: str) -> tuple[Pair, ...]:
    sides = [
        (folder / f"{name}.{side}").read_bytes().decode().split("\n")[:-1] for side in Pair._fields
    ]
    return tuple(itertools.starmap(Pair, zip(*sides, strict=True)))


def _facts(
    survey: _Survey, *, tokenizer: Tokenizer, store: Store, start: StartModel | None
) -> PreparationRecord:
    recipe = survey.recipe
    directions = _counted(survey.directions, store)
    prepared = Prepared(
        tokenizer=tokenizer,
        store=store,
        validation=(),
        test=(),
        data_sha256={},
        directions=directions,
    )
    mixture = prepared.mixture(recipe.data.temperature)
    sampler = Sampler(store.lengths, config=recipe.batch, seed=recipe.train.seed, mixture=mixture)
    dropped = {**survey.cleaning.dropped, "over-long": store.dropped}
    return PreparationRecord(
        files=dict(survey.data_sha256),
        read=survey.cleaning.kept + sum(survey.cleaning.dropped.values()),
        dropped={reason: count for reason, count in dropped.items() if count},
        mended=dict(survey.cleaning.changed),
        training_pairs=len(store),
        validation_pairs=len(survey.validation),
        test_pairs=len(survey.test),
        target_tokens=target_tokens(store.lengths),
        vocab_size=tokenizer.vocab_size,
        updates_per_epoch=sampler.epoch_updates(0),
        padding_share=round(sampler.padding_share, 4),
        started_from={start.name: start.sha256} if start else {},
        directions=directions,
    )


def _counted(
    directions: Sequence[PreparedDirection], store: Store
) -> tuple[PreparedDirection, ...]:
    """The directions with the pairs that the store has, without over-long ones."""
    trained = [direction for direction in directions if direction.pairs]
    firsts = [direction.first_line for direction in trained]
    ends = np.searchsorted(store.lines, [*firsts[1:], sys.maxsize]).tolist() if firsts else []
    sizes = dict(zip(trained, map(int.__sub__, ends, [0, *ends[:-1]]), strict=True))
    for direction, pairs in sizes.items():
        if not pairs:
            raise ValueError(
                f"data.directions: every pair of {direction} has more than data.max_pieces pieces"
            )
    return tuple(replace(part, pairs=sizes.get(part, 0)) for part in directions)


def progress_reporter(on_event: EventHandler, done: str, *, of: int = 0) -> Callable[[int], None]:
    """Return a callback that reports how many pairs are done, every ten seconds.

    Args:
        on_event: called with each report.
        done: a participle, such as "read".
        of: pairs in total, if known.
    """
    last = time.monotonic()
    total = f" of {of:,}" if of else ""

    def count(pairs: int) -> None:
        nonlocal last
        if time.monotonic() - last > 10:
            on_event(LogMessage(f"{pairs:,}{total} pairs {done}"))
            last = time.monotonic()

    return count


def _summary(facts: PreparationRecord, recipe: Recipe) -> Iterator[str]:
    """What was prepared, for the person."""
    if over_long := facts.dropped.get("over-long"):
        pairs = f"{over_long:,} pair{'s' * (over_long != 1)}"
        yield f"dropped {pairs} above {recipe.data.max_pieces} pieces"
    wanted = recipe.tokenizer.vocab_size
    if facts.vocab_size != wanted and recipe.tokenizer.kind != "char":
        text = f"the corpus is enough for {facts.vocab_size:,} pieces"
        yield f"{text}, not for the {wanted:,} of tokenizer.vocab_size"
    pairs = f"{facts.training_pairs:,} pairs to train on, {facts.validation_pairs:,} to validate"
    yield f"{pairs}, {facts.test_pairs:,} to test; {facts.vocab_size:,} pieces"
    for part in facts.directions:
        text = f"{part.pairs:,} pairs" if part.pairs else "zero-shot, not trained on"
        yield f"{part}: {text}, {part.validation_pairs:,} to validate, {part.test_pairs:,} to test"
    trained = [LanguagePair(part.source, part.target) for part in facts.directions if part.pairs]
    if never := zero_shot_pairs(trained):
        yield f"zero-shot directions, which nothing trains: {', '.join(map(str, never))}"
    updates = f"{facts.updates_per_epoch:,} update{'s' * (facts.updates_per_epoch != 1)} an epoch"
    epoch = f"{facts.target_tokens:,} target tokens in {updates}"
    yield f"{epoch}; {facts.padding_share:.1%} of the batches is padding"
