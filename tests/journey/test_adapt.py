"""A model learns from corrections, and is replaced only if it is better."""

import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import SHAPE, Corpus, Run, Transduce, made

from transduce.bundle.bundle import Bundle, Provenance
from transduce.data.config import Languages
from transduce.data.corpus import NumberedPair, Pair
from transduce.data.store import Store
from transduce.io.atomic_folder import sha256
from transduce.memory.store import Entry, TranslationMemory
from transduce.pipeline.adapt import (
    FEWEST,
    BleuChange,
    _earlier_pairs,
    _original,
    _refusal,
    split_corrections,
)
from transduce.search.config import SearchConfig

LANGUAGES = ("source", "target")
QUICK = (
    *("--set", "train.updates=150", "--set", "train.learning_rate=0.003"),
    *("--set", "train.validate_every=50", "--set", "batch.tokens=300"),
    *("--set", "train.intra_op_threads=1"),
    # In bfloat16, which "auto" takes where the CPU has it, so few updates teach too little.
    *("--set", "train.precision=float32"),
)


def corrections(count: int, *, shuffled: bool = False) -> list[Entry]:
    """Digits that are to be repeated as they are, not reversed; or any others."""
    chance = random.Random(7)
    texts = {" ".join(chance.choices("01234", k=chance.randint(4, 6))): None for _ in range(count)}
    targets = chance.sample(list(texts), len(texts)) if shuffled else list(texts)
    return [
        Entry(source=source, target=target, source_lang="source", target_lang="target")
        for source, target in zip(texts, targets, strict=True)
    ]


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    shutil.copytree(run.folder, tmp_path / "run")
    return tmp_path / "run"


def store_of(path: Path, entries: Sequence[Entry]) -> Path:
    with TranslationMemory(path) as memory:
        memory.add(entries)
    return path


def weights(folder: Path) -> str:
    return sha256(folder / "model.safetensors")


def test_a_better_model_replaces_the_old_one_and_can_be_taken_back(
    folder: Path, tmp_path: Path, transduce: Transduce
) -> None:
    store = store_of(tmp_path / "memory.db", corrections(800))
    before = weights(folder / "model")
    # A roll-back that was killed has left it, and is not finished after an adaptation.
    shutil.copytree(folder / "model", folder / "adaptation" / "replaced")

    longer = ("--set", "train.updates=400")  # enough, and enough pairs, to tell in any case
    result = transduce("adapt", folder, "--corrections", store, "--max-loss", 100, *QUICK, *longer)

    assert result.code == 0, result.err
    assert result.out.endswith("the model was replaced\n")
    report = json.loads((folder / "adaptation" / "report.json").read_text())
    assert report["held_out"]["after"] > report["held_out"]["before"] + 5
    after = weights(folder / "model")
    assert after == report["sha256"] != before
    assert weights(folder / "adaptation" / "original") == before

    # The next one starts from the original, too; then each roll-back exchanges the two.
    result = transduce("adapt", folder, "--corrections", store, "--max-loss", 0, *QUICK)
    assert result.code == 1
    recipe = json.loads((folder / "adaptation" / "run" / "model" / "config.json").read_text())
    assert [*recipe["provenance"]["started_from"].values()] == [before]
    for expected in (before, after):
        assert transduce("adapt", folder, "--rollback").code == 0
        assert weights(folder / "model") == expected


def test_shuffled_corrections_are_refused_and_the_model_stays(
    folder: Path, tmp_path: Path, transduce: Transduce
) -> None:
    store = store_of(tmp_path / "memory.db", corrections(800, shuffled=True))
    before = weights(folder / "model")

    result = transduce("adapt", folder, "--corrections", store, *QUICK)

    assert result.code == 1
    assert "is unchanged: held-out corrections are not translated better" in result.err
    assert weights(folder / "model") == before
    assert not (folder / "adaptation" / "previous").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "name either --corrections STORE or --rollback"),
        (("--rollback",), "no adaptation has replaced it"),
        (("--corrections", "few.db"), f"needs {FEWEST}"),
        (("--corrections", "none.db"), "no such translation memory"),
        (("--corrections", "few.db", "--rehearsal", "inf"), "--rehearsal must be finite"),
        (("--corrections", "few.db", "--rehearsal", "-1"), "--rehearsal must be finite"),
        (("--corrections", "few.db", "--max-loss", "nan"), "--max-loss must be a number"),
    ],
)
def test_a_wrong_call_changes_nothing(
    folder: Path,
    tmp_path: Path,
    transduce: Transduce,
    monkeypatch: pytest.MonkeyPatch,
    words: Sequence[str],
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    store_of(tmp_path / "few.db", corrections(20))

    result = transduce("adapt", folder, *words)

    assert result.code == 2
    assert reason in result.err
    assert result.err.count("\n") == 1
    assert not (folder / "adaptation").exists()


def test_a_bundle_without_its_run_is_refused(
    folder: Path, tmp_path: Path, transduce: Transduce
) -> None:
    store = store_of(tmp_path / "memory.db", [])

    result = transduce("adapt", folder / "model", "--corrections", store)

    assert result.code == 2
    assert "is not the folder of a finished run" in result.err


def test_a_source_stays_in_its_part_and_the_newest_correction_counts() -> None:
    entries = corrections(200)
    later = replace(entries[0], target="new", created="2027-01-01")
    imported = replace(entries[1], source="9 9", origin="old.tmx")
    french = replace(entries[1], source="8 8", target_lang="fr")

    split = split_corrections(entries, languages=LANGUAGES)
    more = split_corrections([later, *entries, imported, french], languages=LANGUAGES)

    assert [len(part) for part in more] == [len(part) for part in split]
    assert [[pair.source for pair in part] for part in more] == [
        [pair.source for pair in part] for part in split
    ]
    assert Pair(later.source, "new") in (*more.train, *more.validation, *more.held_out)
    assert 0.1 < len(split.held_out) / 200 < 0.3


def test_earlier_pairs_are_text_as_it_was_trained_on(corpus: Corpus, tmp_path: Path) -> None:
    pair = Pair("<bt> one ≈ zwölf", "DREI")  # characters without a piece
    store = Store.write(
        tmp_path / "store", [NumberedPair(1, pair)], tokenizer=corpus.tokenizer, max_pieces=50
    )

    assert _earlier_pairs(store, 9) == [pair]


def test_an_adaptation_after_a_relabel_starts_with_the_new_languages(
    corpus: Corpus, tmp_path: Path
) -> None:
    bundle = Bundle(
        model=made(replace(SHAPE, vocab_size=corpus.tokenizer.vocab_size)),
        tokenizer=corpus.tokenizer,
        languages=Languages(),
        search=SearchConfig(),
        provenance=Provenance(),
    )
    bundle.save(tmp_path / "model")
    first = _original(tmp_path, bundle)
    provenance = Provenance(started_from={first.name: first.sha256})
    adapted = replace(bundle, provenance=provenance)
    adapted.relabel(Languages(source="en", target="de"))

    second = _original(tmp_path, adapted)

    assert second.sha256 == first.sha256
    assert second.bundle.languages == adapted.languages


@pytest.mark.parametrize(
    ("held_out", "earlier", "reason"),
    [
        ((20.0, 25.0, 0.01), (30.0, 29.6, 0.2), ""),
        ((20.0, 25.0, 0.20), (30.0, 30.0, 1.0), "not translated better"),
        ((25.0, 20.0, 0.01), (30.0, 30.0, 1.0), "not translated better"),
        ((20.0, 25.0, 0.01), (30.0, 29.4, 0.9), "lose 0.60 BLEU, and 0.5 is allowed"),
    ],
)
def test_the_gate(held_out: tuple[float, ...], earlier: tuple[float, ...], reason: str) -> None:
    first, second = (
        BleuChange(pairs=9, before=before, after=after, p=p)
        for before, after, p in (held_out, earlier)
    )

    refusal = _refusal(first, second, max_loss=0.5)

    assert reason in refusal
    assert bool(reason) == bool(refusal)
