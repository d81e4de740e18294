"""A folder as the pages assume it: a corpus, some text, and models trained for a moment."""

import json
import shutil
from pathlib import Path

import pytest
from tests.archives import archive
from tests.conftest import in_a_process
from tests.docs.blocks import QUICK

from transduce.demo.corpus import write_corpus

PAGE = "<p>A <b>small</b> dog runs.</p>\n"
CUES = "1\n00:00:01,000 --> 00:00:02,000\nThe dog runs.\n"


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tests take a copy of it."""
    place = tmp_path_factory.mktemp("pages")
    write_corpus(place / "runs" / "demo" / "corpus", pairs=700, held_out=110, cases=10)
    _texts(place)
    run = place / "runs" / "mine"
    held_out = place / "runs" / "demo" / "corpus" / "validation"  # enough to learn confidence from
    files = (f"data.train={_files(place / 'corpus')}", f"data.validation={_files(held_out)}")
    settings = [*QUICK, "model.norm=post", *files]  # Marian knows no other norm
    words = [word for setting in settings for word in ("--set", setting)]
    # In processes of their own nothing checks every shape, which is most of the time.
    result = in_a_process("train", "tiny", *words, "--out", run, cwd=place)
    assert result.returncode == 0, result.stderr.decode()
    for name in ("a", "b"):
        shutil.copytree(run, place / "runs" / name)
    shutil.copytree(run / "model", place / "runs" / "demo" / "model")
    result = in_a_process("export", run, "--to", "ctranslate2", "--out", "mine.ct2", cwd=place)
    assert result.returncode == 0, result.stderr.decode()
    return place


@pytest.fixture
def place(furnished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the test is in: a copy of its own."""
    shutil.copytree(furnished, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


def _files(name: Path) -> str:
    return json.dumps([f"{name}.{side}" for side in ("en", "de")])


def _texts(place: Path) -> None:
    corpus = place / "runs" / "demo" / "corpus"
    for side in ("en", "de"):
        lines = (corpus / f"train.{side}").read_text().splitlines(keepends=True)
        (place / f"corpus.{side}").write_text("".join(lines[:500]))
        (place / f"more.{side}").write_text("".join(lines[500:]))
        shutil.copy(corpus / f"test.{side}", place / f"test.{side}")
    for name in ("a.txt", "b.txt"):
        shutil.copy(place / "test.de", place / name)
    (place / "in.txt").write_text("The dog runs.\nA small house stands there.\n")
    (place / "terms.tsv").write_text("house\tHaus\n")
    (place / "page.html").write_text(PAGE)
    (place / "letter.txt").write_text("The dog runs. A cat sleeps.\n\nIt rains.\n")
    (place / "film.en.srt").write_text(CUES)
    word = "<w:document xmlns:w='w'><w:p><w:r><w:t>A dog.</w:t></w:r></w:p></w:document>"
    (place / "letter.docx").write_bytes(archive({"word/document.xml": word}))
    (place / "strings.xml").write_text("<resources><string>A dog.</string></resources>")
    unit = "<trans-unit><source>A dog.</source></trans-unit>"
    (place / "app_en.xlf").write_text(f'<xliff version="1.2"><file>{unit}</file></xliff>')
