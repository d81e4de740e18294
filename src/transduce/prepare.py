"""The first leg of a run: a corpus becomes a tokenizer, a store, and text to validate and test on.

Everything is read through once before anything is written, so that a corpus with a fault in its
last line leaves nothing behind. What comes out stands on its own: going on with a run never needs
the corpus again. Validation and test text stay as they were written; no line of them is dropped.
"""

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from transduce.config import Recipe
from transduce.data.sampler import Sampler
from transduce.data.store import Store
from transduce.folder import check_folder, sha256, whole_folder
from transduce.text.corpus import Cleaning, NumberedPair, Pair, clean, hold_out, read_pairs
from transduce.text.tokenizer import Tokenizer
from transduce.train.events import Note, Tell

FOLDER = "prepared"


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """What training and evaluating read."""

    tokenizer: Tokenizer
    store: Store
    """The encoded training pairs."""
    validation: tuple[Pair, ...]
    test: tuple[Pair, ...]
    """Empty when the recipe names no test files."""
    data_sha256: Mapping[str, str]
    """SHA-256 of every file of the corpus that was read, by the file's name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What prepared.json says."""

    files: Mapping[str, str]
    """SHA-256 of every file of the corpus, by name."""
    read: int
    """Training pairs in the files, before cleaning."""
    dropped: Mapping[str, int]
    """Training pairs lost, by reason."""
    mended: Mapping[str, int]
    """Training pairs whose text was changed, by what was changed."""
    training_pairs: int
    validation_pairs: int
    test_pairs: int
    target_tokens: int
    """Of the training pairs, EOS counted."""
    vocab_size: int
    """Pieces that the tokenizer has, PAD included."""
    updates_per_epoch: int
    padding_share: float


class Survey(NamedTuple):
    """What reading everything once has shown."""

    cleaning: Cleaning
    held_out: frozenset[int]
    """Lines of the training files that are kept apart for validation."""
    validation: tuple[Pair, ...]
    test: tuple[Pair, ...]
    data_sha256: Mapping[str, str]


def prepare(recipe: Recipe, out: Path, *, tell: Tell) -> Prepared:
    """Read, clean, hold out, train the tokenizer and encode; write it all to `out`/prepared.

    Raises:
        ValueError: if the corpus cannot be used; one line with file, line and what to change.
    """
    if not recipe.data.train:
        raise ValueError(
            "there is no corpus: name two files, --source FILE --target FILE, or data.train"
        )
    survey = _survey(recipe, now_and_then(tell, "read"))
    tell(Note(text=survey.cleaning.summary()))
    tell(Note(text=f"learning a vocabulary of {recipe.tokenizer.vocab_size:,} pieces, encoding"))
    with whole_folder(out / FOLDER) as folder:
        texts = (text for pair in _training(recipe, survey) for text in pair.pair)
        tokenizer = Tokenizer.train(texts, recipe.tokenizer)
        (folder / "tokenizer.model").write_bytes(tokenizer.to_bytes())
        store = Store.write(
            folder / "train",
            _training(recipe, survey),
            tokenizer=tokenizer,
            max_pieces=recipe.data.max_pieces,
            progress=now_and_then(tell, "encoded"),
        )
        for name, pairs in (("validation", survey.validation), ("test", survey.test)):
            _write_text(folder, name, pairs=pairs)
        facts = _facts(recipe, survey, tokenizer=tokenizer, store=store)
        (folder / "prepared.json").write_text(
            json.dumps(asdict(facts), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    _report(facts, recipe=recipe, tell=tell)
    return open_prepared(out)


def open_prepared(out: Path) -> Prepared:
    """Open what `prepare` wrote below `out`.

    Raises:
        ValueError: if it is not whole; one line that names the file.
    """
    folder = out / FOLDER
    check_folder(folder, what="a prepared corpus")
    tokenizer = Tokenizer.from_bytes((folder / "tokenizer.model").read_bytes())
    facts = Facts(**json.loads((folder / "prepared.json").read_text(encoding="utf-8")))
    return Prepared(
        tokenizer=tokenizer,
        store=Store.open(folder / "train", tokenizer_checksum=tokenizer.checksum, verify=False),
        validation=_read_text(folder, "validation"),
        test=_read_text(folder, "test"),
        data_sha256=facts.files,
    )


def fits(recipe: Recipe, out: Path) -> bool:
    """Whether the corpus files are still those that `out`/prepared was made of."""
    try:
        facts = json.loads((out / FOLDER / "prepared.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return facts["files"] == _checksums(recipe)


def _survey(recipe: Recipe, progress: Callable[[int], None]) -> Survey:
    """Read every file to its end."""
    data = recipe.data
    cleaning = Cleaning()
    pairs = _cleaned(recipe, cleaning)
    lines: list[int] = []
    for pair in pairs:
        lines.append(pair.line)
        progress(pair.line)
    held_out: frozenset[int] = frozenset()
    if data.validation:
        validation = _read(recipe, data.validation)
    else:
        held_out = hold_out(lines, count=data.held_out, seed=recipe.train.seed)
        cleaned = _cleaned(recipe, Cleaning())
        validation = tuple(pair for line, pair in cleaned if line in held_out)
    if not validation:
        raise ValueError(
            "there is nothing to validate on: name files in data.validation, or set data.held_out "
            "above 0"
        )
    test = _read(recipe, data.test) if data.test else ()
    return Survey(cleaning, held_out, validation, test, _checksums(recipe))


def _cleaned(recipe: Recipe, counts: Cleaning) -> Iterator[NumberedPair]:
    data = recipe.data
    pairs = read_pairs(data.paths(data.train), not_utf8=data.not_utf8)
    return clean(pairs, max_ratio=data.max_ratio, counts=counts)


def _training(recipe: Recipe, survey: Survey) -> Iterator[NumberedPair]:
    return (pair for pair in _cleaned(recipe, Cleaning()) if pair.line not in survey.held_out)


def _read(recipe: Recipe, names: Sequence[str]) -> tuple[Pair, ...]:
    return tuple(pair for _, pair in read_pairs(recipe.data.paths(names)))


def _checksums(recipe: Recipe) -> dict[str, str]:
    data = recipe.data
    names = [*data.train, *data.validation, *data.test]
    return {_label(name): sha256(path) for name, path in zip(names, data.paths(names), strict=True)}


def _label(name: str) -> str:
    """A file's name for the record: of an absolute one the end, which is nobody's home folder."""
    return "/".join(Path(name).parts[-2:]) if Path(name).is_absolute() else name


def _write_text(folder: Path, name: str, *, pairs: Sequence[Pair]) -> None:
    for side in Pair._fields:
        text = "".join(f"{getattr(pair, side)}\n" for pair in pairs)
        (folder / f"{name}.{side}").write_bytes(text.encode())


def _read_text(folder: Path, name: str) -> tuple[Pair, ...]:
    sides = [
        (folder / f"{name}.{side}").read_bytes().decode().split("\n")[:-1] for side in Pair._fields
    ]
    return tuple(itertools.starmap(Pair, zip(*sides, strict=True)))


def _facts(recipe: Recipe, survey: Survey, *, tokenizer: Tokenizer, store: Store) -> Facts:
    sampler = Sampler(store.lengths, config=recipe.batch, seed=recipe.train.seed)
    dropped = {**survey.cleaning.dropped, "over-long": store.dropped}
    return Facts(
        files=dict(survey.data_sha256),
        read=survey.cleaning.kept + sum(survey.cleaning.dropped.values()),
        dropped={reason: count for reason, count in dropped.items() if count},
        mended=dict(survey.cleaning.changed),
        training_pairs=len(store),
        validation_pairs=len(survey.validation),
        test_pairs=len(survey.test),
        target_tokens=int(store.lengths[:, 1].sum()) + len(store),
        vocab_size=tokenizer.vocab_size,
        updates_per_epoch=sampler.epoch_updates(0),
        padding_share=round(sampler.padding_share, 4),
    )


def now_and_then(tell: Tell, done: str) -> Callable[[int], None]:
    """Tell how many pairs are done, every ten seconds of a large corpus."""
    told = time.monotonic()

    def count(pairs: int) -> None:
        nonlocal told
        if time.monotonic() - told > 10:
            tell(Note(text=f"{pairs:,} pairs {done}"))
            told = time.monotonic()

    return count


def _report(facts: Facts, *, recipe: Recipe, tell: Tell) -> None:
    if over_long := facts.dropped.get("over-long"):
        tell(Note(text=f"dropped {over_long:,} pairs above {recipe.data.max_pieces} pieces"))
    wanted = recipe.tokenizer.vocab_size
    if facts.vocab_size != wanted:
        room = f"the corpus has room for {facts.vocab_size:,} pieces"
        tell(Note(text=f"{room}, not for the {wanted:,} of tokenizer.vocab_size"))
    pairs = f"{facts.training_pairs:,} pairs to train on, {facts.validation_pairs:,} to validate"
    tell(Note(text=f"{pairs}, {facts.test_pairs:,} to test; {facts.vocab_size:,} pieces"))
    epoch = f"{facts.target_tokens:,} target tokens in {facts.updates_per_epoch:,} updates an epoch"
    tell(Note(text=f"{epoch}; {facts.padding_share:.1%} of the batches is padding"))
