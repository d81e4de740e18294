"""`transduce evaluate --report`: a page beside the scores, whole or not at all."""

import json
import os
from datetime import date
from pathlib import Path

import pytest
from tests.conftest import CommandResult, Run, Transduce, refuses

from transduce.inference.engines import forking

LINES = [f"line {number} of a small test set ." for number in range(29)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """References, their sources, two systems, and a training text."""
    for name, lines in {
        "ref.en": LINES,
        "src.xx": [line.replace("small", "<klein>") for line in LINES],
        "good.en": [line.replace("small ", "" if line[5] == "7" else "small ") for line in LINES],
        "poor.en": [line.replace("small ", "") for line in LINES],
        "train.en": ["a small test"] * 3,
    }.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


@pytest.mark.parametrize("inner", ["", "model"])
def test_a_model_is_reported_on_with_its_runs_words(
    run: Run, transduce: Transduce, tmp_path: Path, inner: str
):
    page = tmp_path / "report.html"
    files = ("--source", run.corpus / "test.src", "--target", run.corpus / "test.rev")
    plain = transduce("evaluate", run.folder / inner, *files)

    result = transduce("evaluate", run.folder / inner, *files, "--report", page)

    assert (result.code, result.out) == (0, plain.out)
    assert result.err == f"{plain.err}report: {page}\n"
    html = page.read_text()
    assert "perplexity" in html
    assert "the 481 training pairs of run" in html
    # The model was made without languages.
    name = (run.folder / inner).name
    assert f"<title>Evaluation of {name} on test.src, {date.today()}</title>" in html
    assert "beam " in html
    assert str(run.corpus / "test.src") in html
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("report", [(), ("--report", "report.html")], ids=["scores", "a report"])
def test_a_model_is_evaluated_by_copies_of_the_program(
    run: Run,
    transduce: Transduce,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    report: tuple[str, ...],
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(forking.threading, "active_count", lambda: 1)
    assert not forking.can_fork()

    transduce(
        *("evaluate", run.folder, "--source", run.corpus / "test.src"),
        *("--target", run.corpus / "test.rev", *report),
    )

    assert forking.can_fork()


def test_two_systems_stand_side_by_side(folder: Path, transduce: Transduce):
    page = folder / "report.html"

    actual = transduce(
        *("evaluate", "--hypotheses", folder / "good.en", "--against", folder / "poor.en"),
        *("--source", folder / "src.xx", "--target", folder / "ref.en", "--report", page),
        *("--train", folder / "train.en", "--metric", "bleu", "--json"),
    )

    result = json.loads(actual.out)
    assert [system["name"] for system in result["systems"]] == ["good.en", "poor.en"]
    assert [len(system["scores"]) for system in result["systems"]] == [1, 1]
    assert result["comparison"]["metrics"][0]["systems"][1]["verdict"] == "better"
    assert result["training"] == "train.en"
    rare = {frequency["times"]: frequency for frequency in result["breakdown"]["frequencies"]}
    assert rare["2–4"]["words"] == 3 * 29
    assert rare["2–4"]["recall"] == [(3 * 29 - 1) / (3 * 29), 2 / 3]
    assert len(result["breakdown"]["gains"]) == 10
    html = page.read_text()
    assert "Largest gains" in html
    assert f"<title>Evaluation of good.en on src.xx, xx → en, {date.today()}</title>" in html
    assert "&lt;klein&gt;" in html


def test_translations_alone_have_a_report(folder: Path, transduce: Transduce):
    page = folder / "report.html"
    page.write_text("an older one")

    result = transduce(
        *("evaluate", "--hypotheses", folder / "good.en", "--target", folder / "ref.en"),
        *("--report", page),
    )

    assert [line.split()[0] for line in result.out.splitlines()] == [
        *("BLEU", "chrF2", "TER", "exact")
    ]
    assert page.read_text().startswith("<!doctype html>")


def test_a_page_names_a_file_whose_name_is_not_utf8(folder: Path, transduce: Transduce):
    odd = (folder / "good.en").rename(folder / os.fsdecode(b"g\xfct.en"))
    page = folder / "report.html"

    result = transduce(
        *("evaluate", "--hypotheses", odd, "--target", folder / "ref.en"),
        *("--metric", "bleu", "--report", page),
    )

    assert result.code == 0, result.err
    assert r"g\udcfct.en" in page.read_text(encoding="utf-8")


def test_mistakes_are_one_line_and_write_nothing(folder: Path, transduce: Transduce):
    good, ref, page = folder / "good.en", folder / "ref.en", folder / "report.html"
    short, none, latin = folder / "short.en", folder / "none.en", folder / "latin.en"
    short.write_text("one line\n")
    none.write_text("")
    latin.write_bytes(b"caf\xe9\n" * 29)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def report(
        *words: object, hypotheses: Path = good, target: Path = ref, to: Path = page
    ) -> CommandResult:
        files = ("--hypotheses", hypotheses, "--target", target, "--report", to)
        return transduce("evaluate", *files, *words)

    refuses(report(hypotheses=short), "short.en has 1 lines", "29 references")
    refuses(report("--against", short), "short.en has 1 lines", "29 references")
    refuses(report("--source", short), "the source has 1 lines", "29 references")
    refuses(report(hypotheses=none, target=none), "the references have no lines")
    refuses(report(hypotheses=none), "none.en has 0 lines")
    refuses(report("--against", folder / "gone.en"), "gone.en")
    refuses(report("--against", latin), "latin.en, line 1: not UTF-8")
    refuses(report("--train", latin), "latin.en, line 1: not UTF-8")
    refuses(report("--metric", "rouge"), "'rouge'")
    refuses(report("--metric", "perplexity"), "perplexity needs a model")
    refuses(report("--tokenize", "spaces"), "'spaces'")
    refuses(report("--origins", short), "the file of origins has 1 lines")
    refuses(report(to=folder), f"{folder} is a folder")
    refuses(report(to=folder / "no" / "report.html"), str(folder / "no"))
    refuses(report(to=good), "good.en would replace one of its inputs")
    refuses(report(to=folder / "no" / ".." / "ref.en"), "ref.en would replace")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_what_belongs_to_a_report_needs_one(folder: Path, transduce: Transduce):
    files = ("--hypotheses", folder / "good.en", "--target", folder / "ref.en")

    for word in ("--against", "--train", "--origins"):
        result = transduce("evaluate", *files, word, folder / "poor.en")

        refuses(result, "--report FILE.html")


def test_copy_rates_of_given_translations(tmp_path: Path, transduce: Transduce):
    texts = {
        "source": "SHOW WARNINGS [limit row_count]\nuse 5 rows\n",
        "target": "SHOW WARNINGS [limit row_count]\nnutze 5 Zeilen\n",
        "hypotheses": "SHOW WALLS [limit limit_count]\nnutze 5 Zeilen\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    files = [part for name in texts for part in (f"--{name}", tmp_path / name)]

    result = transduce("evaluate", *files, "--metric", "copies")

    assert result.out.splitlines() == [
        "copied code 0.00  % of 1 in source and reference",
        "copied number 100.00  % of 1 in source and reference",
        "copied capitals 50.00  % of 2 in source and reference",
    ]
    refuses(transduce("evaluate", *files[2:], "--metric", "copies"), "--source FILE")


def test_unequal_lines_are_refused_before_a_model_translates(
    run: Run, transduce: Transduce, folder: Path
):
    files = ("--source", run.corpus / "test.src", "--target", run.corpus / "test.rev")
    against = ("--against", folder / "ref.en")

    result = transduce("evaluate", folder / "gone", *files, *against, "--report", folder / "r.html")

    refuses(result, "ref.en has 29 lines but there are 40 references")


@pytest.mark.parametrize(("name", "tokenizer"), [("ref.ko", "char"), ("ref.zh.txt", "zh")])
def test_the_language_is_that_of_the_file_or_the_script(
    folder: Path, transduce: Transduce, name: str, tokenizer: str
):
    (folder / name).write_text(
        "안녕하세요\n" if name.endswith("ko") else "一只狗在红色的门前吠叫\n"
    )
    files = ("--target", folder / name)

    scored = transduce("evaluate", "--hypotheses", folder / name, *files, "--metric", "bleu")
    compared = transduce("compare", *files, folder / name, folder / name, "--samples", 20)

    assert scored.out.startswith("BLEU 100.00 ± ")
    assert all(f"tok:{tokenizer}" in item.out for item in (scored, compared))
