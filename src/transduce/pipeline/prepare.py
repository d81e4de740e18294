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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from random import Random

import numpy as np

from transduce.cluster.engines import ClusterConfig
from transduce.config import Recipe
from transduce.data.augmentation import vary
from transduce.data.config import check_file_names
from transduce.data.corpus import Pair
from transduce.data.languages import LanguagePair, zero_shot_pairs
from transduce.data.pair_tokenizer import PairTokenizer
from transduce.data.protection import protection_of
from transduce.data.sampler import Sampler, target_tokens
from transduce.data.store import PREPARED_FOLDER, Store
from transduce.data.tokenizer import Tokenizer
from transduce.data.tokenizer_extension import extend_tokenizer
from transduce.io.atomic_folder import atomic_folder
from transduce.pipeline.finetune import FOLDER as START
from transduce.pipeline.finetune import StartModel, extend_vocabulary
from transduce.pipeline.prepare_cluster import ShardedCorpus
from transduce.pipeline.prepared import (
    PreparationRecord,
    Prepared,
    PreparedDirection,
    corpus_mixture,
    open_prepared,
    read_facts,
)
from transduce.pipeline.survey import CORPUS_SEED, Survey, corpus_sha256, survey_corpus
from transduce.pipeline.training_pairs import TrainingPairs, vocabulary_tags
from transduce.train.events import EventHandler, LogMessage


def prepare(
    recipe: Recipe,
    out: Path,
    *,
    start: StartModel | None = None,
    vocabulary: Tokenizer | None = None,
    stale: Path | None = None,
    cluster: ClusterConfig | None = None,
    on_event: EventHandler,
) -> Prepared:
    """Read, clean, hold out, train the tokenizer and encode; write the result to `out`/prepared.

    Args:
        recipe: names the corpus.
        start: a model to start from; its tokenizer is used, and it is stored with the corpus.
        vocabulary: a tokenizer to use as it is.
        stale: a file of the earlier result, deleted just before this one takes its place.
        cluster: where workers clean and encode; None: in this process.

    Raises:
        ValueError: if the corpus cannot be used; one line with file, line and what to change.
    """
    if not recipe.data.files:
        raise ValueError(
            "there is no corpus: name two files, --source FILE --target FILE, or data.train"
        )
    if recipe.tokenizer.extend and start is None:
        raise ValueError("tokenizer.extend adds to a model's vocabulary: name one, --from MODEL")
    if start:
        check_file_names(start.name)
    corpus = TrainingPairs(recipe)
    if cluster:
        corpus = ShardedCorpus(recipe, out, config=cluster, on_event=on_event)
    survey = survey_corpus(recipe, corpus, progress_reporter(on_event, "read"))
    on_event(LogMessage(survey.cleaning.summary()))
    looked = progress_reporter(on_event, "looked at")
    survey.check(fine_tuned=start is not None, progress=looked, on_event=on_event)
    on_event(LogMessage(_vocabulary_message(recipe, start, given=vocabulary is not None)))
    with atomic_folder(out / PREPARED_FOLDER) as folder:
        characters = (set[str](), set[str]())
        sample = partial(_vocabulary_text, survey, characters)
        train = partial(_tokenizer, recipe, sample, start=start, given=vocabulary)
        tokenizer = corpus.keep_tokenizer(train, characters)
        (folder / "tokenizer.model").write_bytes(tokenizer.to_bytes())
        progress = progress_reporter(on_event, "encoded", of=survey.training_pairs)
        store = corpus.write_store(folder / "train", tokenizer, survey.excluded, progress)
        for name, pairs in (("validation", survey.validation), ("test", survey.test)):
            write_pairs(folder, (f"{name}.source", f"{name}.target"), pairs)
        if start:
            extend_vocabulary(start.bundle, tokenizer).save(folder / START)
        facts = _facts(survey, tokenizer=tokenizer, store=store, start=start)
        (folder / "prepared.json").write_text(
            json.dumps(asdict(facts), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        if stale:
            stale.unlink()
    lost = () if recipe.tokenizer.kind == "word" else _lost_characters(tokenizer, characters)
    counts = np.diff(np.searchsorted(store.lines, [*facts.also_lines, sys.maxsize])).tolist()
    also = [
        f"{part.train[0]}: {pairs:,} of the pairs, weight {part.weight:g}"
        for part, pairs in zip(recipe.data.also, counts, strict=True)
    ]
    for text in (*lost, *also, *_summary(facts, recipe), *survey.vocabulary_findings(tokenizer)):
        on_event(LogMessage(text))
    return open_prepared(out)


def _vocabulary_text(survey: Survey, characters: tuple[set[str], set[str]]) -> Iterator[Pair]:
    """Read the text that a vocabulary is trained on, and collect the characters of each side."""
    recipe, protection = survey.recipe, protection_of(survey.recipe.tokenizer.protect)
    for line, pair in survey.vocabulary_sample():
        text = protection.mask_pair(pair)
        if recipe.augment.active:
            text = vary(text, recipe.augment, Random(f"{CORPUS_SEED}/{line}"))
        for side, letters in zip(text, characters, strict=True):
            letters.update(side)
        yield text


def _lost_characters(tokenizer: Tokenizer, characters: Sequence[set[str]]) -> Iterator[str]:
    """Say how many characters of the two sides have no piece."""
    if tokenizer.shared:
        characters = [set[str]().union(*characters)]
    lost = 0
    for side, letters in zip((tokenizer, tokenizer.target), characters, strict=False):
        lost += sum(side.UNK in ids for ids in side.encode_all(sorted(letters)))
    if lost:
        count = sum(map(len, characters))
        yield (
            f"{lost:,} of the {count:,} characters are rare and have no piece: raise "
            f"tokenizer.vocab_size or tokenizer.character_coverage"
        )


def is_up_to_date(recipe: Recipe, out: Path, *, start: StartModel | None = None) -> bool:
    """Whether `out`/prepared was made from these corpus files, and of this model to start from."""
    try:
        facts = read_facts(out)
    except (OSError, ValueError):
        return False
    same_start = [*facts.started_from.values()] == ([start.sha256] if start else [])
    return same_start and facts.files == corpus_sha256(recipe)


def _tokenizer(
    recipe: Recipe,
    pairs: Callable[[], Iterator[Pair]],
    *,
    start: StartModel | None,
    given: Tokenizer | None,
) -> Tokenizer:
    """The run's tokenizer; `pairs` reads what it is trained on, once for each vocabulary."""
    if given:
        return given
    if start and not recipe.tokenizer.extend:
        return start.bundle.tokenizer
    tags = vocabulary_tags(recipe)
    if not recipe.tokenizer.shared:
        sources, targets = (pair.source for pair in pairs()), (pair.target for pair in pairs())
        return PairTokenizer.train_pair(sources, targets, recipe.tokenizer, tags=tags)
    texts = itertools.chain.from_iterable(pairs())
    if start is None:
        return Tokenizer.train(texts, recipe.tokenizer, tags=tags)
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


def write_pairs(folder: Path, names: tuple[str, str], pairs: Iterable[Pair]) -> None:
    """Write pairs as two files of lines, the source's and the target's."""
    with (folder / names[0]).open("wb") as source, (folder / names[1]).open("wb") as target:
        for pair in pairs:
            source.write(f"{pair.source}\n".encode())
            target.write(f"{pair.target}\n".encode())


def _facts(
    survey: Survey, *, tokenizer: Tokenizer, store: Store, start: StartModel | None
) -> PreparationRecord:
    recipe = survey.recipe
    directions = _counted(survey.directions, store, (*survey.also_lines, sys.maxsize)[0])
    mixture = corpus_mixture(
        recipe.data, store, directions=directions, also_lines=survey.also_lines
    )
    sampler = Sampler(store.lengths, config=recipe.batch, seed=CORPUS_SEED, mixture=mixture)
    dropped = {**survey.cleaning.dropped, "over-long": store.metadata.over_long}
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
        also_lines=survey.also_lines,
    )


def _counted(
    directions: Sequence[PreparedDirection], store: Store, end: int
) -> tuple[PreparedDirection, ...]:
    """The directions with the pairs that the store has before a line, without over-long ones."""
    trained = [direction for direction in directions if direction.pairs]
    bounds = [*(direction.first_line for direction in trained), end]
    counts = np.diff(np.searchsorted(store.lines, bounds)).tolist()
    sizes = dict(zip(trained, counts, strict=True))
    for direction, pairs in sizes.items():
        if not pairs:
            raise ValueError(
                f"data.directions: every pair of {direction} has more than data.max_pieces pieces"
            )
    return tuple(replace(part, pairs=sizes.get(part, 0)) for part in directions)


def progress_reporter(on_event: EventHandler, done: str, *, of: int = 0) -> Callable[[int], None]:
    """Return a callback that reports how many pairs are done, every ten seconds.

    Args:
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
