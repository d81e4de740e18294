"""Whole texts, pages, subtitles and .po files through the command line of a trained model."""

from pathlib import Path

import pytest
from tests.conftest import CommandResult, Run, Transduce, refuses

SRT = (
    "1\r\n00:00:01,000 --> 00:00:02,000\r\n{0}\r\n\r\n2\r\n00:00:03,000 --> 00:00:04,000\r\n{1}\r\n"
)


@pytest.fixture
def translated(run: Run, transduce: Transduce) -> Transduce:
    def call(*words: object, stdin: str = "") -> CommandResult:
        return transduce("translate", run.folder, "--engine", "torch", *words, stdin=stdin.encode())

    return call


@pytest.fixture
def lines(translated: Transduce) -> list[str]:
    """What becomes of three lines."""
    return translated(stdin="1 2 3\n4 0\n2 1\n").out.splitlines()


def test_a_text_keeps_its_white_space_and_placeholders(translated: Transduce, lines: list[str]):
    result = translated("--format", "text", stdin="  1 2 3\r\n\n\t4 0 {name}  2 1\n\n")

    assert result.code == 0
    assert result.out == f"  {lines[0]}\r\n\n\t{lines[1]} {{name}}  {lines[2]}\n\n"
    assert result.err == "engine: torch\n"


def test_a_page_keeps_its_tags(translated: Transduce, lines: list[str]):
    page = (
        "<!doctype html>\n<p title='x'><b>{0}</b></p><script>1 2 3</script><ul><li>{1}<li>{2}</ul>"
    )

    result = translated("--format", "html", stdin=page.format("1 2\n 3", "4 0", "2 1"))

    assert result.out == page.format(*lines)


def test_a_dash_is_stdin_for_documents_too(translated: Transduce, lines: list[str], tmp_path: Path):
    page = tmp_path / "page.html"

    assert translated("-i", "-", "--format", "html", stdin="<p>1 2 3").out == f"<p>{lines[0]}"
    assert translated("-i", "-", "-o", page, stdin="<p>1 2 3").code == 0
    assert page.read_text() == f"<p>{lines[0]}"


def test_a_dash_is_stdout(
    translated: Transduce, lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)

    assert translated("-o", "-", stdin="1 2 3\n").out == f"{lines[0]}\n"
    assert translated("-o", "-", "--format", "html", stdin="<p>1 2 3").out == f"<p>{lines[0]}"
    assert list(tmp_path.iterdir()) == []


def test_subtitles_keep_their_times(translated: Transduce, lines: list[str]):
    result = translated("--format", "srt", stdin=SRT.format("1 2 3", "4 0"))

    assert result.out == SRT.format(*lines)


def test_po_is_filled(translated: Transduce, lines: list[str]):
    result = translated("--format", "po", stdin='#: a.c\nmsgid "1 2 3"\nmsgstr ""\n')

    assert result.out == f'#: a.c\nmsgid "1 2 3"\nmsgstr "{lines[0]}"\n'


def test_files_are_read_and_written_whole(translated: Transduce, lines: list[str], tmp_path: Path):
    (tmp_path / "in").write_bytes("\ufeff1 2 3\n4 0".encode())

    result = translated("--format", "text", "-i", tmp_path / "in", "-o", tmp_path / "out")

    assert result.out == ""
    assert (tmp_path / "out").read_bytes() == f"\ufeff{lines[0]}\n{lines[1]}".encode()


def test_settings_of_the_search_hold(translated: Transduce):
    options = ("--max-length", 1, "--beam", 1)

    result = translated("--format", "text", *options, stdin="1 2 3\n")

    assert result.out == translated(*options, stdin="1 2 3\n").out
    assert result.out != translated(stdin="1 2 3\n").out


def test_a_glossary_is_reported(translated: Transduce, tmp_path: Path):
    (tmp_path / "terms.tsv").write_text("3\t4\n")

    result = translated("--format", "text", "--glossary", tmp_path / "terms.tsv", stdin="1 2 3\n")

    assert result.err.endswith("glossary: 1 of 1 terms applied\n")


def test_a_sentence_too_long_is_reported(translated: Transduce):
    result = translated("--format", "text", "--beam", 1, stdin=f"{'1 2 3 4 ' * 400}\n")

    assert "too long, translated in " in result.err


@pytest.mark.parametrize(
    "option", [("--nbest", 2), ("--json",), ("--confidence",), ("--prefix", "1"), ("--align", "x")]
)
def test_what_is_for_lines_is_refused(
    translated: Transduce, option: tuple[object, ...], tmp_path: Path
):
    refuses(translated("--format", "html", *option), option[0], "--format html")


def test_a_broken_file_is_refused_before_the_model_is_loaded(transduce: Transduce):
    result = transduce("translate", "nowhere", "--format", "srt", stdin=b"hello\n")

    refuses(result, "stdin, line 1: expected a timing")


def test_a_code_of_three_letters_is_that_of_the_file(transduce: Transduce):
    options = ("--format", "xcstrings", "--to", "deu")

    result = transduce(
        "translate", "nowhere", *options, stdin=b'{"sourceLanguage":"de","strings":{}}'
    )

    refuses(result, "its source language is de, as the target language is")


def test_an_unknown_format_is_refused(translated: Transduce):
    refuses(translated("--format", "exe"), "--format must be one of lines, text, html, ", "'exe'")


def test_the_ending_of_a_file_is_its_format(
    translated: Transduce, lines: list[str], tmp_path: Path
):
    page = tmp_path / "a.htm"
    page.write_text("<p>1 2 3</p>")

    assert translated("-i", page).out == f"<p>{lines[0]}</p>"
    assert translated("-o", tmp_path / "b.html", stdin="<p>1 2 3</p>").code == 0
    assert (tmp_path / "b.html").read_text() == f"<p>{lines[0]}</p>"
    refuses(translated("-i", page, "--json"), "--json works on single lines, not with --format")
    assert translated("-i", page, "--format", "lines", "--json").out.startswith("{")


def test_a_string_catalog_needs_the_code_of_the_target_language(translated: Transduce):
    result = translated("--format", "xcstrings", stdin='{"sourceLanguage":"en","strings":{}}')

    refuses(result, "has no languages for --format xcstrings: run `transduce relabel` once")
