"""Synthetic pairs: tags, filters, resuming; the translator is a table."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Run, Transduce, refuses

from transduce.corpus_check.language import guess_language
from transduce.inference.translation import Translation
from transduce.inference.translator import Translator
from transduce.pipeline import synthetic_pairs
from transduce.pipeline.synthetic_pairs import SyntheticConfig, augment
from transduce.train.events import Event, LogMessage

GERMAN = "Der Hund ist in dem Garten und die Katze nicht."
CHINESE = "狗在花园里，猫不在房子里，但是我和你在一起，我们都很高兴。"
NORWEGIAN = "Hun ba meg om å ta vare på huset, og jeg er glad i å gå tur av og til."
ENGLISH = "The dog and the cat are not in the house, but I am here with you."


class Table(Translator):
    """Translates what it knows; a log-probability of -1 a piece, or another."""

    def __init__(self, table: Mapping[str, str], **fields: Any) -> None:
        self.engine_description = "engine: table"
        self.table, self.fields = table, fields
        self.calls: list[dict[str, Any]] = []

    def translate(self, chunk: list[str], **options: Any) -> list[Translation]:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.calls.append({"chunk": chunk, **options})
        fields = {"log_probs": (-1.0, -1.0), **self.fields}
        return [
            Translation(source=line, text=self.table[line], score=0.0, ids=(), pieces=(), **fields)
            for line in chunk
        ]


def made(
    table: Table,
    text: Path,
    out: Path,
    config: SyntheticConfig,
    *,
    model: str = "m",
    languages: tuple[str, str] = ("de", "en"),
) -> tuple[str, list[str]]:
    events: list[Event] = []
    result = augment(
        table, text, out, config=config, model=model, languages=languages, on_event=events.append
    )
    return result, [event.text for event in events if isinstance(event, LogMessage)]


def written(folder: Path, *lines: str) -> Path:
    file = folder / "mono.txt"
    file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return file


@pytest.mark.parametrize(
    ("forward", "row"),
    [(False, f"<bt> {ENGLISH}\t{GERMAN}\n"), (True, f"<ft> {GERMAN}\t{ENGLISH}\n")],
)
def test_the_source_begins_with_the_tag(tmp_path: Path, forward: bool, row: str):
    text = written(tmp_path, f" {GERMAN} ")

    result, _ = made(
        Table({GERMAN: ENGLISH}), text, tmp_path / "o.tsv", SyntheticConfig(forward=forward)
    )

    assert (tmp_path / "o.tsv").read_text("utf-8") == row
    assert result == "1 pairs of 1 lines"


FAULTY = {
    "empty": ({"": ""}, {}),
    "length ratio": ({GERMAN: "Yes" * 80}, {}),
    "copied": ({"Paris": "Paris"}, {}),
    "language de": ({"Ja, genau das wollte ich.": GERMAN}, {}),
    "language en": ({ENGLISH: "Mmm, mmm, mmm."}, {}),
    "score": ({GERMAN: ENGLISH}, {"log_probs": (-1.0, -2.1)}),
    "repetition": ({GERMAN: ENGLISH}, {"flag": 'repetition ("the dog" ×3)'}),
}


@pytest.mark.parametrize("reason", FAULTY)
def test_poor_pairs_are_left_out_with_their_reason(tmp_path: Path, reason: str):
    table, fields = FAULTY[reason]
    good = {"Guten Tag.": "Good day."}
    text = written(tmp_path, *table, *good)
    table = Table({**table, **good}, **fields)
    if fields:  # of all lines
        with pytest.raises(ValueError, match=f"no pair to keep of 2 lines; .*{reason}: 2"):
            made(table, text, tmp_path / "o.tsv", SyntheticConfig(min_score=-1.5))
        assert not (tmp_path / "o.tsv").exists()
        return

    result, _ = made(table, text, tmp_path / "o.tsv", SyntheticConfig(min_score=-1.5))

    assert result == f"1 pairs of 2 lines; left out now 1 ({reason}: 1)"
    assert (tmp_path / "o.tsv").read_text("utf-8") == "<bt> Good day.\tGuten Tag.\n"


@pytest.mark.parametrize(
    ("text", "languages"),
    [
        *((GERMAN, codes) for codes in (("de-AT", "en-GB"), ("deu_DE", "eng_US"))),
        *((CHINESE, (code, "en")) for code in ("zh-CN", "zh_Hant", "zho_Hans")),
        *((NORWEGIAN, (code, "en")) for code in ("no", "nb-NO", "nob", "nn", "nno")),
    ],
)
def test_a_language_is_recognised_whatever_its_region_and_script(
    tmp_path: Path, text: str, languages: tuple[str, str]
):
    assert guess_language([text])

    result, _ = made(
        Table({text: ENGLISH}),
        written(tmp_path, text),
        tmp_path / "o.tsv",
        SyntheticConfig(),
        languages=languages,
    )

    assert result == "1 pairs of 1 lines"


def test_a_milder_filter_follows_one_that_kept_nothing(tmp_path: Path):
    text, out, table = written(tmp_path, GERMAN), tmp_path / "o.tsv", Table({GERMAN: ENGLISH})
    with pytest.raises(ValueError, match="no pair to keep of 1 lines"):
        made(table, text, out, SyntheticConfig(min_score=-0.5))

    result, _ = made(table, text, out, SyntheticConfig(min_score=-1.5))

    assert result == "1 pairs of 1 lines"


def test_a_mended_translation_and_a_score_on_the_limit_pass(tmp_path: Path):
    table = Table({GERMAN: ENGLISH}, flag="repetition", mended=True)

    result, _ = made(
        table, written(tmp_path, GERMAN), tmp_path / "o.tsv", SyntheticConfig(min_score=-1.0)
    )

    assert result == "1 pairs of 1 lines"


def test_an_interrupted_run_is_resumed_with_the_same_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(synthetic_pairs, "CHUNK", 2)
    lines = {f"Zeile {i}": f"Line {i} is" for i in range(5)}
    text, out = written(tmp_path, *lines), tmp_path / "o.tsv"
    broken = {line: lines[line] for line in [*lines][:3]}
    with pytest.raises(KeyError):
        made(Table(broken), text, out, SyntheticConfig())
    with pytest.raises(ValueError, match="begun with another beam"):
        made(Table(lines), text, out, SyntheticConfig(beam=2))
    with pytest.raises(ValueError, match="begun with another model"):
        made(Table(lines), text, out, SyntheticConfig(), model="other")

    table = Table(lines)
    result, events = made(table, text, out, SyntheticConfig())

    assert [call["chunk"] for call in table.calls] == [["Zeile 2", "Zeile 3"], ["Zeile 4"]]
    assert "continuing after 2 lines" in events
    assert result == "5 pairs of 5 lines"
    assert out.read_text().count("\n") == 5


def test_sampling_draws_one_translation(tmp_path: Path):
    table = Table({GERMAN: ENGLISH})

    made(
        table, written(tmp_path, GERMAN), tmp_path / "o.tsv", SyntheticConfig(sample=True, top_k=10)
    )

    (call,) = table.calls
    assert call["num_beams"] is None
    assert [call[key] for key in ("do_sample", "top_k")] == [True, 10]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--beam", 0), "--beam must be 1 or more, not 0"),
        (("--min-score", 1), "--min-score is a log-probability"),
        (("--max-ratio", "nan"), "--max-ratio must be 1 or more"),
        (("--top-k", 5), "needs --sample"),
        (("--to", "fr"), "does not translate into 'fr'"),
    ],
)
def test_wrong_options_are_refused_by_name(
    run: Run, transduce: Transduce, tmp_path: Path, options: tuple[object, ...], named: str
):
    text = written(tmp_path, "ab")

    result = transduce("augment", run.folder, "-i", text, "-o", tmp_path / "o.tsv", *options)

    refuses(result, named)
    assert not (tmp_path / "o.tsv").exists()


def test_the_command_writes_what_translate_prints(run: Run, transduce: Transduce, tmp_path: Path):
    lines = (run.corpus / "test.src").read_text().splitlines()[:10]
    text = written(tmp_path, *lines)
    translated = transduce("translate", run.folder, "-i", text, "--beam", "2").out.splitlines()

    result = transduce(
        "augment", run.folder, "--input", text, "--output", tmp_path / "o.tsv", "--beam", 2
    )

    assert result.code == 0, result.err
    assert "pairs of 10 lines" in result.err
    rows = (tmp_path / "o.tsv").read_text().splitlines()
    assert rows
    assert set(rows) <= {f"<bt> {t}\t{line}" for t, line in zip(translated, lines, strict=True)}
