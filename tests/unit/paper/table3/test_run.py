"""Two rows of Table 3, as small as they can be, on a corpus of digits and their reverse."""

import gzip
import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.conftest import Transduce, refuses

from transduce.config import Recipe
from transduce.paper import plot
from transduce.paper.table3 import run as table3
from transduce.paper.table3.report import report, write
from transduce.paper.table3.run import (
    Outcome,
    Settings,
    StoredSettings,
    measure,
    quick_settings,
    recipe_of,
)
from transduce.recipes.table3 import Row, find
from transduce.train.events import Event, LogMessage, Progress

SETTINGS = Settings(
    vocab_size=19,
    tokens=101,
    updates=4,
    validate_every=2,
    warmup=3,
    width_divisor=16,
    depth_divisor=6,
)


@pytest.fixture(scope="module", autouse=True)
def _short_translations() -> Iterator[None]:
    """An untrained model goes on until its limit, so that is near here."""
    original = table3.recipe_of

    def short(row: Row, corpus: Path, *, seed: int, settings: Settings, threads: int = 0) -> Recipe:
        made = original(row, corpus, seed=seed, settings=settings, threads=threads)
        return replace(made, search=replace(made.search, extra=2))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table3, "recipe_of", short)
        yield


def write_corpus(folder: Path) -> None:
    """Files named as the recipe multi30k names them."""
    draw = random.Random(7)
    for name, count in (("train", 97), ("val", 7), ("test_2016_flickr", 5)):
        lines = [" ".join(draw.choices("01234", k=draw.randint(2, 5))) for _ in range(count)]
        for side, text in (("en", lines), ("de", [line[::-1] for line in lines])):
            with gzip.open(folder / f"{name}.{side}.gz", "wt") as stream:
                stream.write("".join(f"{line}\n" for line in text))


@dataclass
class Told:
    """A measured table, and what was told on the way."""

    corpus: Path
    out: Path
    outcomes: list[Outcome]
    events: list[Event]

    def again(self, *rows: str, settings: Settings = SETTINGS) -> list[str]:
        """Measure in the same folder, and return what was told of rows."""
        events: list[Event] = []
        self.outcomes = measure(
            self.corpus, self.out, rows=rows, seeds=[1], settings=settings, on_event=events.append
        )
        notes = [event.text for event in events if isinstance(event, LogMessage)]
        return [note for note in notes if note.startswith("row ") and "seed" in note]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Tests may add rows, but not change those that are there."""
    corpus, out = tmp_path_factory.mktemp("corpus"), tmp_path_factory.mktemp("table3")
    write_corpus(corpus)
    events: list[Event] = []
    outcomes = measure(
        corpus, out, rows=["base", "D1"], seeds=[1, 2], settings=SETTINGS, on_event=events.append
    )
    return Told(corpus, out, outcomes, events)


def test_every_row_is_trained_with_every_seed(measured: Told):
    result = [(outcome.row, outcome.seed, outcome.updates) for outcome in measured.outcomes]

    assert result == [("base", 1, 4), ("base", 2, 4), ("D1", 1, 4), ("D1", 2, 4)]


def test_rows_of_one_seed_learn_from_the_same_pieces(measured: Told):
    base, other, row, _ = measured.outcomes

    assert base.tokens == row.tokens
    assert base.validation.perplexity != other.validation.perplexity


def test_the_perplexity_of_the_lines_is_that_of_the_best_validation(measured: Told):
    metrics = (measured.out / "rows" / "D1-seed-2" / "metrics.jsonl").read_text().splitlines()
    validations = [line for line in map(json.loads, metrics) if "perplexity" in line]
    best = min(validations, key=lambda line: line["perplexity"])

    assert len(validations) == 2
    assert measured.outcomes[-1].best_update == best["update"]
    assert measured.outcomes[-1].validation.perplexity == pytest.approx(
        best["perplexity"], rel=1e-4
    )


def test_time_left_is_that_of_all_rows(measured: Told):
    left = [event.seconds_left for event in measured.events if isinstance(event, Progress)]

    assert left[0] > 0.0  # a row's own last update leaves nothing
    assert left[-1] == 0.0


def test_time_left_counts_on_rows_that_end_early(measured: Told, tmp_path: Path):
    jobs = [
        table3.Job(row, 1, recipe_of(row, measured.corpus, seed=1, settings=SETTINGS), tmp_path)
        for row in (find("base"), find("D1"))
    ]
    events: list[Event] = []
    clock = table3._Clock(jobs, events.append)  # pyright: ignore[reportPrivateUsage]
    clock.begin(jobs[0])
    clock.end(jobs[0], replace(measured.outcomes[0], updates=2))
    clock.begin(jobs[1])
    half, all_of_it = (
        replace(next(event for event in measured.events if isinstance(event, Progress)), update=n)
        for n in (1, 2)
    )
    clock(half)
    clock(all_of_it)

    left = [event.seconds_left for event in events if isinstance(event, Progress)]
    assert left[0] > 0.0
    assert left[1] == 0.0


def test_a_finished_row_is_not_trained_again(measured: Told):
    before = measured.outcomes[0]

    notes = measured.again("base", "B1")

    assert [note.partition(",")[0] for note in notes] == ["row B1"]
    assert measured.outcomes[0] == before


def test_another_machine_goes_on_with_a_copy_of_the_outcomes(measured: Told, tmp_path: Path):
    """Without rows and checkpoints; what is there is small and names its machine."""
    copied = shutil.copytree(measured.out / "outcomes", tmp_path / "outcomes")
    elsewhere = Told(measured.corpus, tmp_path, [], [])

    notes = elsewhere.again("base", "D1", "A2")

    assert [note.partition(",")[0] for note in notes] == ["row A2"]
    assert elsewhere.outcomes[0] == measured.outcomes[0]
    assert elsewhere.outcomes[0].processor
    assert max(file.stat().st_size for file in copied.iterdir()) < 1000
    with pytest.raises(ValueError, match="holds rows with --tokens 101, not 99"):
        elsewhere.again("base", settings=replace(SETTINGS, tokens=99))


def test_finished_rows_are_reported_without_training(measured: Told):
    def outcomes(*rows: str) -> list[Outcome]:
        return measure(
            measured.corpus,
            measured.out,
            rows=rows,
            seeds=[1, 2],
            settings=SETTINGS,
            train_rows=False,
            on_event=lambda event: pytest.fail(f"something was done: {event}"),
        )

    assert [(outcome.row, outcome.seed) for outcome in outcomes("base", "A2", "D1")] == [
        *(("base", 1), ("base", 2), ("D1", 1), ("D1", 2))
    ]
    with pytest.raises(ValueError, match="no row that is finished with every seed"):
        outcomes("A2")


def test_a_row_ends_when_its_loss_stops_falling_and_its_best_weights_are_scored(
    measured: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Also if the best weights are of a session that was interrupted since."""

    def train(out: str, settings: Settings, *losses: float) -> Outcome:
        validations = iter(losses)
        monkeypatch.setattr(
            table3,
            "evaluate_perplexity",
            lambda *arguments, **options: SimpleNamespace(per_token=next(validations)),
        )
        (outcome,) = measure(
            measured.corpus,
            tmp_path / out,
            rows=["base"],
            seeds=[1],
            settings=settings,
            on_event=lambda event: None,
        )
        return outcome

    long = replace(SETTINGS, updates=99, patience=2)
    with pytest.raises(StopIteration):
        train("long", long, 3.0, 2.0)
    early = train("long", long, 2.5, 2.2)
    short = train("short", SETTINGS, 3.0, 2.0)

    assert (early.updates, early.best_update, short.updates) == (8, 4, 4)
    assert early.validation == short.validation


def test_a_row_that_was_interrupted_goes_on_from_its_checkpoint(
    measured: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def stop(event: Event) -> None:
        if "validation at update 2" in str(event) or getattr(event, "update", 0) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(
            measured.corpus,
            tmp_path / "out",
            rows=["base"],
            seeds=[1],
            settings=SETTINGS,
            on_event=stop,
        )
    (again,) = measure(
        measured.corpus,
        tmp_path / "out",
        rows=["base"],
        seeds=[1],
        settings=SETTINGS,
        on_event=lambda event: None,
    )

    assert again.validation == measured.outcomes[0].validation


def test_the_first_pairs_of_the_corpus_are_trained_on(measured: Told, tmp_path: Path):
    measure(
        measured.corpus,
        tmp_path,
        rows=["base"],
        seeds=[1],
        settings=replace(SETTINGS, pairs=60),
        on_event=lambda event: None,
    )

    with gzip.open(measured.corpus / "train.de.gz", "rt") as stream:
        lines = stream.read().splitlines()
    assert (tmp_path / "corpus" / "train.de").read_text().splitlines() == lines[:60]
    prepared = json.loads((tmp_path / "corpus" / "prepared" / "prepared.json").read_text())
    assert prepared["training_pairs"] == 60


def test_other_settings_want_another_folder(measured: Told):
    with pytest.raises(ValueError, match=r"holds rows with --warmup 3, not 5"):
        measured.again("base", settings=replace(SETTINGS, warmup=5))
    with pytest.raises(ValueError, match=r"holds rows with --updates 4, not 6"):
        measured.again("base", settings=replace(SETTINGS, updates=6))
    with pytest.raises(ValueError, match=r"validate_every 2, not 3: give or leave out --quick"):
        measured.again("base", settings=replace(SETTINGS, validate_every=3))


def test_finished_rows_of_other_settings_are_not_reported(measured: Told):
    with pytest.raises(ValueError, match=r"holds rows with --pairs 5000, not 60"):
        measure(
            measured.corpus,
            measured.out,
            rows=["base"],
            seeds=[1, 2],
            settings=replace(SETTINGS, pairs=60),
            train_rows=False,
            on_event=lambda event: None,
        )


def test_damaged_settings_are_named(tmp_path: Path):
    file = tmp_path / "settings.json"
    file.write_text("{")

    with pytest.raises(ValueError, match=r"settings\.json is damaged \(.*\): restore it"):
        table3._check_settings(file, StoredSettings())


def test_settings_of_an_earlier_version_have_defaults_for_new_ones(tmp_path: Path):
    file = tmp_path / "settings.json"
    file.write_text('{"pairs": 60}')

    table3._check_settings(file, StoredSettings(pairs=60))
    with pytest.raises(ValueError, match=r"--tokens 512, not 101"):
        table3._check_settings(file, StoredSettings(pairs=60, tokens=101))


def test_a_quick_run_is_told_by_what_no_other_option_sets(tmp_path: Path):
    """It differs in options such as --vocab-size, too, with which alone it would not go on."""
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(asdict(quick_settings(Settings()))))

    with pytest.raises(ValueError, match="give or leave out --quick as before"):
        table3._check_settings(file, StoredSettings())


@pytest.fixture
def other_corpus(measured: Told, tmp_path: Path) -> Path:
    """The same training pairs, and another validation set."""
    folder = shutil.copytree(measured.corpus, tmp_path / "other")
    (folder / "val.en.gz").write_bytes(gzip.compress(b"1 2\n" * 7))
    return folder


def test_another_corpus_wants_another_folder(measured: Told, other_corpus: Path):
    with pytest.raises(ValueError, match="was made of another corpus"):
        Told(other_corpus, measured.out, [], []).again("base")


@pytest.mark.parametrize("train_rows", [True, False])
def test_a_copy_of_the_outcomes_is_not_taken_for_another_corpus(
    measured: Told, other_corpus: Path, tmp_path: Path, train_rows: bool
):
    out = tmp_path / "out"
    shutil.copytree(measured.out / "outcomes", out / "outcomes")

    with pytest.raises(ValueError, match="outcomes was made of another corpus: name that one by"):
        measure(
            other_corpus,
            out,
            rows=["base"],
            seeds=[1],
            settings=SETTINGS,
            train_rows=train_rows,
            on_event=lambda event: None,
        )
    assert not (out / "corpus").exists()


def test_outcomes_that_name_no_corpus_are_taken_with_a_line(
    measured: Told, other_corpus: Path, tmp_path: Path
):
    """The first corpus is theirs; a prepared one is checked by its files."""
    out, events = tmp_path / "out", list[Event]()
    shutil.copytree(measured.out / "outcomes", out / "outcomes")
    file = out / "outcomes" / "settings.json"

    def take(corpus: Path) -> None:
        file.write_text(json.dumps(asdict(SETTINGS)))
        measure(corpus, out, rows=["base"], seeds=[1], settings=SETTINGS, on_event=events.append)

    take(measured.corpus)
    assert "names no corpus: its rows are taken to be of" in str(events[0])
    assert json.loads(file.read_text())["corpus_sha256"]
    with pytest.raises(ValueError, match="prepared was made of another corpus than"):
        take(other_corpus)


def test_a_damaged_outcome_is_named(tmp_path: Path):
    recipe = recipe_of(find("D1"), tmp_path, seed=1, settings=SETTINGS)
    job = table3.Job(find("D1"), 1, recipe, tmp_path)
    job.result.parent.mkdir()
    job.result.write_text("{")

    with pytest.raises(ValueError, match=r"D1-seed-1\.json is damaged \(.*\): delete it"):
        job.outcome()


def test_the_regime_is_the_papers_but_for_its_size():
    recipe = recipe_of(find("D3"), Path("there"), seed=2, settings=SETTINGS)

    assert (recipe.model.norm, recipe.model.d_model, recipe.model.dropout) == ("post", 32, 0.1)
    assert (recipe.train.optimizer, recipe.train.schedule, recipe.train.learning_rate) == (
        "adam",
        "paper",
        1,
    )
    assert (recipe.train.label_smoothing, recipe.train.average_checkpoints, recipe.train.seed) == (
        0.0,
        1,
        2,
    )
    assert (recipe.train.updates, recipe.train.validate_every, recipe.train.patience) == (4, 2, 5)
    assert (recipe.search.beam, recipe.search.alpha) == (4, 0.6)
    assert (recipe.data.folder, recipe.data.validation[0]) == ("there", "val.en.gz")


def test_a_number_below_one_is_refused():
    with pytest.raises(ValueError, match="--vocab-size must be at least 1, not 0"):
        Settings(vocab_size=0)


@pytest.mark.parametrize("text", ["", "one", "1;2"])
def test_seeds_that_are_none_are_refused(text: str):
    with pytest.raises(ValueError, match="whole numbers"):
        table3.named_seeds(text)


def test_an_unknown_row_is_refused():
    with pytest.raises(ValueError, match="Table 3 has no row 'F1': there are base, A1"):
        table3.named_rows("base,F1")


def test_without_matplotlib_nothing_is_trained(
    measured: Told, transduce: Transduce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(plot, "find_spec", lambda name: None)

    result = transduce(
        "paper", "table3", "--quick", "--corpus", measured.corpus, "--out", tmp_path / "out"
    )

    refuses(result, "pip install 'transduce[plot]'")
    assert not (tmp_path / "out").exists()


def test_the_report_is_written_with_its_plot(measured: Told, tmp_path: Path):
    pytest.importorskip("matplotlib")
    again = Told(measured.corpus, measured.out, [], [])
    again.again("base", "D1")
    result = report(again.outcomes, settings=SETTINGS)

    text = write(result, tmp_path)

    facts = json.loads((tmp_path / "table3.json").read_text())
    assert [line["row"] for line in facts["lines"]] == ["base", "D1"]
    assert (tmp_path / "table3.md").read_text() == text
    assert {path.name for path in tmp_path.glob("table3*")} == {
        *("table3.json", "table3.md", "table3.svg", "table3.png"),
        *("table3-dark.svg", "table3-dark.png"),
    }
