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
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from transduce.config import Recipe, warnings
from transduce.corpus_check.check import probe_vocabulary
from transduce.corpus_check.fingerprint import CorpusProfile, EvenSample, fold, profile_pairs
from transduce.corpus_check.inspection import DataSplit, inspect_corpus
from transduce.data.augmentation import vary
from transduce.data.corpus import (
    CleaningCounts,
    NumberedPair,
    Pair,
    clean,
    hold_out,
    read_pairs,
    tidy,
)
from transduce.data.pair_tokenizer import PairTokenizer, read_tokenizer
from transduce.data.protection import protection_of
from transduce.data.sampler import Sampler, target_tokens
from transduce.data.store import PREPARED_FOLDER, Count, Store
from transduce.data.tokenizer import Tokenizer
from transduce.data.tokenizer_extension import extend_tokenizer
from transduce.io.atomic_folder import atomic_folder, check_folder, sanitise, sha256
from transduce.pipeline.finetune import FOLDER as START
from transduce.pipeline.finetune import StartModel, extend_vocabulary
from transduce.train.events import EventHandler, LogMessage

_SAMPLE_PAIRS = 500_000  # that a vocabulary is trained on; more would hardly change it


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

    @property
    def training_pairs(self) -> int:
        """Training pairs, before those with too many pieces are dropped."""
        return self.cleaning.kept - len(self.held_out)

    def training(self) -> Iterator[NumberedPair]:
        """Read the training pairs again, cleaned."""
        return _cleaned(self.recipe, CleaningCounts(), only=lambda i: i not in self.excluded)

    def vocabulary_sample(self) -> Iterator[NumberedPair]:
        """The pairs that the vocabulary is trained on: all, or a fixed random sample of many."""
        share = _SAMPLE_PAIRS / max(1, self.training_pairs)
        if share >= 1.0:
            return self.training()
        # Excluded lines draw too: the sample depends on the seed and the lines alone.
        chance, excluded = Random(self.recipe.train.seed).random, self.excluded
        return _cleaned(
            self.recipe, CleaningCounts(), only=lambda i: chance() < share and i not in excluded
        )


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
    if not recipe.data.train:
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
        return Tokenizer.train(texts, recipe.tokenizer)
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
    for line, pair in spread.sample(_cleaned(recipe, cleaning)):
        lines.append(line)
        if not data.validation:
            sources.append(hash(fold(pair.source)))
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
    if data.validation:
        validation = _read(recipe, data.validation)
    else:
        held_out = hold_out(
            rows[kept].tolist(),
            sources=np.asarray(sources)[kept].tolist(),
            count=data.held_out,
            seed=recipe.train.seed,
        )
        cleaned = _cleaned(recipe, CleaningCounts(), only=held_out.__contains__)
        validation = tuple(pair for _, pair in cleaned)
    if not validation:
        raise ValueError(
            "there is nothing to validate on: name files in data.validation, or set data.held_out "
            "above 0"
        )
    test = _read(recipe, data.test) if data.test else ()
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
    )


def _check_corpus(survey: _Survey, *, start: StartModel | None, on_event: EventHandler) -> None:
    """Report odd settings and problems of the corpus before training on them."""
    recipe, pairs = survey.recipe, survey.training_pairs

    def read_lines(lines: Collection[int]) -> Iterator[NumberedPair]:
        return _cleaned(recipe, CleaningCounts(), only=frozenset(lines).__contains__)

    inspection = inspect_corpus(
        recipe,
        survey.training,
        validation=survey.validation,
        test=survey.test,
        pair_count=pairs,
        profile=survey.usual,
        read_lines=read_lines,
        progress=progress_reporter(on_event, "looked at"),
    )
    looked = len(inspection.fingerprints.line)
    if looked < pairs:
        blocks = f"looked closely at {looked:,} of {pairs:,} training pairs, in blocks"
        on_event(LogMessage(f"{blocks}, and at all of them for leaks"))
    if (few := inspection.report.size_warning) and start is None:
        on_event(LogMessage(few))
    if unknown := inspection.report.language_warning:
        on_event(LogMessage(unknown))
    for finding in (*warnings(recipe), *inspection.report.findings):
        on_event(LogMessage(str(finding)))


def _vocabulary_findings(survey: _Survey, tokenizer: Tokenizer) -> Iterator[str]:
    """How the vocabulary segments text that it was not trained on."""
    most = survey.recipe.data.max_pieces
    held: dict[DataSplit, Sequence[Pair]] = {"validation": survey.validation, "test": survey.test}
    probes = [probe_vocabulary(tokenizer, held[part], part=part, max_pieces=most) for part in held]
    yield from (str(finding) for probe in probes for finding in probe.findings)
    words, pieces = sum(probe.words for probe in probes), sum(probe.pieces for probe in probes)
    yield f"{pieces / max(1, words):.2f} pieces a word in validation and test text"


def _cleaned(
    recipe: Recipe, counts: CleaningCounts, *, only: Callable[[int], bool] | None = None
) -> Iterator[NumberedPair]:
    """The cleaned pairs of the training files, or of some of their lines."""
    data = recipe.data
    pairs = read_pairs(
        data.paths(data.train), not_utf8=data.not_utf8, languages=recipe.languages.codes
    )
    if only is not None:
        pairs = (pair for pair in pairs if only(pair.line))
    return clean(pairs, max_ratio=data.max_ratio, counts=counts)


def _read(recipe: Recipe, names: Sequence[str]) -> tuple[Pair, ...]:
    return tuple(
        pair for _, pair in read_pairs(recipe.data.paths(names), languages=recipe.languages.codes)
    )


def corpus_sha256(recipe: Recipe) -> dict[str, str]:
    """Return the SHA-256 of every file of a recipe's corpus, by name."""
    data = recipe.data
    names = [*data.train, *data.validation, *data.test]
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
    sampler = Sampler(store.lengths, config=recipe.batch, seed=recipe.train.seed)
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
    )


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
    updates = f"{facts.updates_per_epoch:,} update{'s' * (facts.updates_per_epoch != 1)} an epoch"
    epoch = f"{facts.target_tokens:,} target tokens in {updates}"
    yield f"{epoch}; {facts.padding_share:.1%} of the batches is padding"
