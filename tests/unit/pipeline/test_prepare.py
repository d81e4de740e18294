"""Signs of life, large corpora, text too long for the model; the journey tests the rest."""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import create_autospec

import pytest
from tests.conftest import made

from transduce.bundle.bundle import Bundle, Provenance
from transduce.config import Recipe, load_recipe
from transduce.corpus_check.fingerprint import fold
from transduce.data.config import AugmentConfig, CorpusConfig, Languages, TokenizerConfig
from transduce.data.corpus import Pair
from transduce.data.store import Store
from transduce.data.tokenizer import Tokenizer
from transduce.io.atomic_folder import sha256
from transduce.model.config import ModelConfig
from transduce.pipeline import prepare, run_folder, survey
from transduce.pipeline.finetune import StartModel
from transduce.pipeline.prepared import Prepared, check_positions
from transduce.pipeline.run_folder import check_output_folder, prepare_run, write_text
from transduce.train.events import Event, LogMessage

SETTINGS = (
    *("--set", 'data.train=["a.src", "a.tgt"]', "--set", "data.held_out=19"),
    *("--set", "tokenizer.vocab_size=40"),
)


def a_pair(line: int) -> Pair:
    """Another pair for each line."""
    return Pair(f"bread {line} is {line % 7} there", f"Brot {line} ist {line % 7} da")


def a_corpus(folder: Path, *, pairs: int) -> Recipe:
    """Write a corpus."""
    for side in range(2):
        text = "".join(f"{a_pair(line)[side]}\n" for line in range(pairs))
        (folder / ("a.src", "a.tgt")[side]).write_text(text)
    return load_recipe("tiny", [f"data.folder={folder}", *SETTINGS[1::2]])


def saying(notes: list[str]) -> Callable[[Event], None]:
    """Tell of which the text is kept."""
    return lambda event: notes.append(event.text) if isinstance(event, LogMessage) else None


def test_long_work_gives_a_sign_of_life_every_ten_seconds(monkeypatch: pytest.MonkeyPatch):
    events: list[Event] = []
    clock = itertools.count(100.0, 3.0)
    monkeypatch.setattr(prepare, "time", SimpleNamespace(monotonic=lambda: next(clock)))

    count = prepare.progress_reporter(events.append, "read")
    for pairs in range(1, 8):
        count(1000 * pairs)

    assert events == [LogMessage(text="4,000 pairs read")]


def test_a_sign_of_life_says_of_how_many(monkeypatch: pytest.MonkeyPatch):
    events: list[Event] = []
    clock = itertools.count(100.0, 11.0)
    monkeypatch.setattr(prepare, "time", SimpleNamespace(monotonic=lambda: next(clock)))

    prepare.progress_reporter(events.append, "encoded", of=70_000)(7000)

    assert events == [LogMessage(text="7,000 of 70,000 pairs encoded")]


def test_short_work_gives_none():
    events: list[Event] = []

    prepare.progress_reporter(events.append, "read")(5)

    assert events == []


def a_prepared(tokenizer: Tokenizer, *, validation: str, test: str) -> Prepared:
    """What `check_positions` reads of a prepared corpus: one pair to validate and one to test."""
    return Prepared(
        tokenizer=tokenizer,
        store=create_autospec(Store, instance=True),
        validation=(Pair("bread", validation),),
        test=(Pair(test, "Brot"),),
        data_sha256={},
    )


@pytest.mark.parametrize("name", ["validation", "test"])
def test_text_that_learned_positions_have_no_rows_for_is_refused_before_training(
    tokenizer: Tokenizer, name: str
):
    sides = {"validation": "Brot", "test": "bread"} | {name: "z" * 53}
    prepared = a_prepared(tokenizer, **sides)
    pieces = len(tokenizer.encode("z" * 53))
    enough, short = (
        load_recipe(
            "tiny",
            [
                "model.positions=learned",
                f"model.max_positions={rows}",
                f"data.max_pieces={rows - 1}",
            ],
        )
        for rows in (pieces + 1, pieces)
    )

    check_positions(enough, prepared)
    check_positions(load_recipe("tiny"), prepared)

    with pytest.raises(
        ValueError, match=rf"^pair 1 of the {name} set has {pieces} .* {pieces}: raise it to"
    ):
        check_positions(short, prepared)


def test_a_vocabulary_is_learned_from_a_fixed_choice_of_a_large_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    recipe = a_corpus(tmp_path, pairs=2003)
    monkeypatch.setattr(survey, "_SAMPLE_PAIRS", 400)
    learned: list[list[str]] = []
    real = Tokenizer.train

    def train(lines: Iterable[str], config: TokenizerConfig, **tags: object) -> Tokenizer:
        assert not any(tags.values())
        learned.append(list(lines))
        return real(learned[-1], config)

    monkeypatch.setattr(Tokenizer, "train", train)
    runs = [prepare.prepare(recipe, tmp_path / name, on_event=lambda _: None) for name in "ab"]

    held_out = {side for pair in runs[0].validation for side in pair}
    assert learned[0] == learned[1]
    assert 2 * 300 < len(learned[0]) < 2 * 500
    assert not held_out & set(learned[0])
    assert len(runs[0].store) == 2003 - 19


def test_a_large_corpus_says_that_a_sample_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("transduce.corpus_check.inspection._MAX_PAIRS", 1000)
    notes: list[str] = []

    prepare.prepare(a_corpus(tmp_path, pairs=2003), tmp_path / "run", on_event=saying(notes))

    result = (
        "looked closely at 1,000 of 1,984 training pairs, in blocks, and at all of them for leaks"
    )
    assert result in notes


def test_held_out_pairs_are_the_ones_that_are_not_trained_on(tmp_path: Path):
    result = prepare.prepare(
        a_corpus(tmp_path, pairs=211), tmp_path / "run", on_event=lambda _: None
    )

    trained = [result.store.pair(row) for row in range(len(result.store))]
    assert len(result.validation) == 10
    assert sorted([*trained, *result.validation]) == sorted(a_pair(line) for line in range(211))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "wait4"), reason="the system does not tell")
def test_memory_hardly_grows_with_the_corpus(tmp_path: Path):
    small, large = (peak_of_preparing(tmp_path, pairs=pairs) for pairs in (20_000, 200_000))

    # What grows is the vocabulary's text and the look, which both have an end; they are 300 of it.
    assert large - small < 500 * 180_000


def peak_of_preparing(folder: Path, *, pairs: int) -> int:
    """Bytes that the command had in memory at most."""
    recipe_of = folder / str(pairs)
    recipe_of.mkdir()
    a_corpus(recipe_of, pairs=pairs)
    words = ["prepare", "tiny", *SETTINGS, "--set", f"data.folder={recipe_of}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "transduce", *words, "--out", str(recipe_of / "run")],
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * 1024


def test_no_held_out_source_is_trained_on_in_other_case_or_punctuation(tmp_path: Path):
    recipe = a_corpus(tmp_path, pairs=200)
    sources = (tmp_path / "a.src").read_text().splitlines()[:100]
    twins = [*sources, *(f"{source.upper()} !" for source in sources)]
    (tmp_path / "a.src").write_text("".join(f"{source}\n" for source in twins))
    notes: list[str] = []

    prepared = prepare.prepare(recipe, tmp_path / "run", on_event=saying(notes))

    held = [fold(pair.source) for pair in prepared.validation]
    assert held
    assert {held.count(source) for source in held} == {2}
    assert not any("stand in training too" in note for note in notes)


def test_a_line_feed_within_validation_text_ends_no_line(tmp_path: Path):
    recipe = a_corpus(tmp_path, pairs=60)
    file = tmp_path / "dev.csv"
    file.write_text('"bread\nis there","Brot\nist\nda"\n,\nbread,Brot\n', encoding="utf-8")
    recipe = replace(recipe, data=replace(recipe.data, validation=(str(file),)))

    prepared = prepare.prepare(recipe, tmp_path / "run", on_event=lambda _: None)

    assert prepared.validation == (Pair("bread is there", "Brot ist da"), Pair("bread", "Brot"))


def test_a_lone_surrogate_within_validation_text_becomes_a_space(tmp_path: Path):
    recipe = a_corpus(tmp_path, pairs=60)
    file = tmp_path / "dev.jsonl"
    file.write_text('{"source": "bread\\ud800is", "target": "Brot\\udcff"}', encoding="utf-8")
    recipe = replace(recipe, data=replace(recipe.data, validation=(str(file),)))

    prepared = prepare.prepare(recipe, tmp_path / "run", on_event=lambda _: None)

    assert prepared.validation == (Pair("bread is", "Brot "),)


@pytest.mark.parametrize("name", ["validation", "test"])
def test_text_to_score_has_both_languages_of_the_run(tmp_path: Path, name: str):
    recipe = a_corpus(tmp_path, pairs=60)
    units = (("en", "bread", "de", "Brot"), ("en", "only", "fr", "seul"))
    tmx = "".join(
        f'<tu><tuv xml:lang="{a}"><seg>{x}</seg></tuv><tuv xml:lang="{b}"><seg>{y}</seg></tuv></tu>'
        for a, x, b, y in units
    )
    (tmp_path / "dev.tmx").write_text(f"<tmx><body>{tmx}</body></tmx>")
    recipe = replace(recipe, data=replace(recipe.data, **{name: ("dev.tmx",)}))

    german, spanish = (
        replace(recipe, languages=Languages(source="en", target=target)) for target in ("de", "es")
    )
    prepared = prepare.prepare(german, tmp_path / "run", on_event=lambda _: None)

    assert getattr(prepared, name) == (Pair("bread", "Brot"),)
    with pytest.raises(ValueError, match=rf"dev\.tmx: no pair in en-es for data\.{name}$"):
        prepare.prepare(spanish, tmp_path / "other", on_event=lambda _: None)


def test_files_of_one_label_have_a_checksum_each(tmp_path: Path):
    folders = [tmp_path / name / "text" for name in "ab"]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "a.tsv").write_text(f"{folder}\tb\n")
    first, second = (str(folder / "a.tsv") for folder in folders)
    data = CorpusConfig(train=(first,), validation=(second,), test=(first,))

    sums = survey.corpus_sha256(replace(load_recipe("tiny"), data=data))

    assert sums == {"text/a.tsv": sha256(Path(first)), "text/a.tsv (2)": sha256(Path(second))}


def test_a_kill_after_preparing_anew_leaves_no_settings_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    recipe, out, notes = a_corpus(tmp_path, pairs=60), tmp_path / "run", list[str]()
    other = replace(recipe, tokenizer=replace(recipe.tokenizer, vocab_size=35))
    wrong = replace(recipe, tokenizer=replace(recipe.tokenizer, vocab_size=5))
    pieces = prepare_run(recipe, out, on_event=saying(notes)).tokenizer.vocab_size
    (out / "micro_tokens.json").touch()

    with pytest.raises(ValueError, match="too small"):
        prepare_run(wrong, out, on_event=saying(notes))
    prepare_run(recipe, out, on_event=saying(notes))
    assert sum("prepared already" in note for note in notes) == 1
    assert not (out / "micro_tokens.json").exists()

    with monkeypatch.context() as killed:
        killed.setattr(run_folder, "write_text", create_autospec(write_text, side_effect=KeyError))
        with pytest.raises(KeyError):
            prepare_run(other, out, on_event=saying(notes))
    check_output_folder(recipe, out, resume=False)
    prepared = prepare_run(recipe, out, on_event=saying(notes))

    assert prepared.tokenizer.vocab_size == pieces != 35


def test_a_corpus_of_the_other_direction_is_prepared_anew(tmp_path: Path):
    file = tmp_path / "a.csv"
    rows = "".join(f"{pair.source},{pair.target}\n" for pair in map(a_pair, range(60)))
    file.write_text(f"en,de\n{rows}", encoding="utf-8")
    recipe, notes = a_corpus(tmp_path, pairs=60), list[str]()

    for source, target in (("en", "de"), ("de", "en"), ("de", "en")):
        turned = replace(
            recipe,
            languages=Languages(source=source, target=target),
            data=replace(recipe.data, train=(str(file),)),
        )
        prepared = prepare_run(turned, tmp_path / "run", on_event=saying(notes))
        assert ("bread" in prepared.store.pair(0).source) == (source == "en")

    assert sum("prepared already" in note for note in notes) == 1


def test_too_few_pairs_are_said_unless_training_starts_from_a_model(
    tmp_path: Path, tokenizer: Tokenizer, config: ModelConfig
):
    recipe, notes, more = a_corpus(tmp_path, pairs=97), list[str](), list[str]()
    bundle = Bundle(
        model=made(replace(config, vocab_size=tokenizer.vocab_size)),
        tokenizer=tokenizer,
        languages=recipe.languages,
        search=recipe.search,
        provenance=replace(Provenance.current(), recipe='name = "tiny"\n'),
    )
    start = StartModel(name="start", sha256="0" * 64, bundle=bundle)

    prepare.prepare(recipe, tmp_path / "run", on_event=saying(notes))
    prepare.prepare(recipe, tmp_path / "tuned", start=start, on_event=saying(more))

    assert len([note for note in notes if "training pairs are few for random weights" in note]) == 1
    assert not [note for note in more if "random weights" in note]


def test_a_model_whose_name_is_not_utf8_is_refused_before_the_corpus_is_read(tmp_path: Path):
    bundle = create_autospec(Bundle, instance=True)
    start = StartModel(name=os.fsdecode(b"m\xfcd"), sha256="0" * 64, bundle=bundle)
    notes: list[str] = []

    with pytest.raises(ValueError, match=r"^'m\\udcfcd': the file's name is not UTF-8: rename it$"):
        prepare.prepare(
            a_corpus(tmp_path, pairs=97), tmp_path / "run", start=start, on_event=saying(notes)
        )

    assert notes == []


def test_protected_text_is_placeholders_where_both_sides_have_it(tmp_path: Path):
    """One pair in eight stays as it is, so that the model translates plain text, too."""
    pairs = [Pair(f"open file_{n}.txt now", f"öffne jetzt file_{n}.txt") for n in range(80)]
    for side, name in enumerate(("a.src", "a.tgt")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    settings = [f"data.folder={tmp_path}", 'data.train=["a.src", "a.tgt"]']
    settings += ["tokenizer.vocab_size=120", 'tokenizer.protect=["code"]']

    prepared = prepare.prepare(
        load_recipe("tiny", settings), tmp_path / "run", on_event=lambda event: None
    )

    masked = [
        not prepared.tokenizer.placeholders.keys().isdisjoint(ids)
        for row in range(len(prepared.store))
        for ids in (prepared.store.source(row).tolist(), prepared.store.target(row).tolist())
    ]
    assert masked[::2] == masked[1::2], "both sides or none"
    assert 0.75 < sum(masked) / len(masked) < 1
    assert all("file_" in pair.source for pair in prepared.validation), "text as it is"


def test_runs_of_all_seeds_share_what_is_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Held-out pairs, the sample that the vocabulary is learned from, how its text is varied."""
    monkeypatch.setattr(survey, "_SAMPLE_PAIRS", 400)
    recipe = a_corpus(tmp_path, pairs=2003)
    recipe = replace(
        recipe,
        augment=AugmentConfig(stray_spaces=0.5),
        tokenizer=replace(recipe.tokenizer, vocab_size=300),
    )
    other, notes = replace(recipe, train=replace(recipe.train, seed=2)), list[str]()

    for seeded, name in ((recipe, "first"), (other, "second"), (other, "first")):
        prepare_run(seeded, tmp_path / name, on_event=saying(notes))

    first, second = (
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name / "prepared").rglob("*")
            if path.is_file()
        }
        for name in ("first", "second")
    )
    assert Path("prepared/validation.source") in first
    assert first == second
    assert sum("prepared already" in note for note in notes) == 1
