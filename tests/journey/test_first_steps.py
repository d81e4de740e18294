"""What newcomers type first: a sentence as an argument, a pretrained model by its name."""

import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.conftest import Run, Transduce, refuses
from tests.exports import CONFIG, bundle_of, two_vocabularies

from transduce.bundle.bundle import Bundle
from transduce.export.importer import import_marian
from transduce.export.marian import write_huggingface

ID = "owner/opus-mt-en-de"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a model on a hub, served on this machine; the tests stand beside the hub."""
    files = tmp_path / "hub" / ID / "resolve" / "main"
    tokenizer = two_vocabularies()
    config = replace(CONFIG, vocab_size=tokenizer.vocab_size)
    files.parent.mkdir(parents=True)
    write_huggingface(bundle_of(config, tokenizer), files)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path / "hub")))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.chdir(tmp_path)
    yield files
    server.shutdown()
    server.server_close()


def test_a_sentence_as_an_argument(run: Run, transduce: Transduce, tmp_path: Path) -> None:
    piped = transduce("translate", run.folder, stdin=b"1 2 3\n")

    result = transduce("translate", run.folder, "1 2 3", stdin=b"4 4\n")

    assert (result.code, result.out) == (0, piped.out)
    assert transduce("translate", run.folder, "-", stdin=b"1 2 3\n").out == piped.out
    assert transduce("translate", run.folder, "1 2 3\n\n4").out.count("\n") == 3
    assert transduce("translate", run.folder, "1 2 " * 2000).code == 0  # no name of a file
    html = transduce("translate", run.folder, "<p>1 2 3</p>", "--format", "html")
    assert html.out == f"<p>{piped.out.strip()}</p>"
    out = tmp_path / "out.txt"
    assert transduce("translate", run.folder, "1 2 3", "-o", out).code == 0
    assert out.read_text() == piped.out


def test_a_file_is_not_translated_as_text(run: Run, transduce: Transduce) -> None:
    file = run.corpus / "train.src"

    refuses(transduce("translate", run.folder, file), f"translate it by -i {file}")
    refuses(transduce("translate", run.folder, "1 2", "-i", file), "leave one of them out")


def test_a_model_of_the_hub_is_imported_by_its_name(hub: Path, transduce: Transduce) -> None:
    result = transduce("import", ID)

    assert (result.code, result.out) == (0, "model: models/opus-mt-en-de\n"), result.err
    assert f"/{ID}/resolve/main/model.safetensors" in result.err
    assert "pytorch_model.bin" not in result.err
    imported, expected = Bundle.load("models/opus-mt-en-de"), import_marian(hub)
    assert imported.languages.source == "en"
    assert imported.provenance.started_from.keys() == {"opus-mt-en-de"}
    assert [*imported.provenance.started_from.values()] == [
        *expected.provenance.started_from.values()
    ]
    refuses(transduce("import", ID), "models/opus-mt-en-de already exists")


def test_a_folder_comes_before_the_hub(hub: Path, transduce: Transduce) -> None:
    shutil.copytree(hub, ID)

    result = transduce("import", ID, "-o", "mine", "--source-lang", "fr")

    assert (result.code, result.out, result.err) == (0, "model: mine\n", "")
    assert Bundle.load("mine").languages.source == "fr"


def test_without_a_model_or_a_network_one_line_says_what_to_do(
    hub: Path, transduce: Transduce, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = transduce("import", "owner/none").err.splitlines()[-1]
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    offline = transduce("import", ID)
    monkeypatch.setenv("HF_ENDPOINT", "hub.example")
    misspelt = transduce("import", ID)

    assert absent.startswith("transduce: owner/none is no folder, and http://127.0.0.1:")
    assert " has no public model of that name: " in absent
    assert offline.code == 2
    assert "Connection refused" in offline.err
    assert "hub.example cannot be read (unknown url type" in misspelt.err
    assert "`hf download owner/none --local-dir none`" in absent
    for refused in (offline, misspelt):
        assert f"`hf download {ID} --local-dir opus-mt-en-de`" in refused.err
    assert not Path("models").exists()


def test_a_download_that_breaks_off_is_no_model(
    hub: Path, transduce: Transduce, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Quiet, "copyfile", lambda self, file, out: out.write(file.read()[:-9]))

    result = transduce("import", ID)

    assert result.code == 2
    assert "broke off" in result.err
    assert not Path("models").exists()


def test_an_import_without_languages_is_said(hub: Path, transduce: Transduce) -> None:
    shutil.copytree(hub, "marian")
    (Path("marian") / "tokenizer_config.json").write_text("{}")
    (Path("marian") / "manifest.json").unlink()

    result = transduce("import", "marian", "-o", "mine")

    assert result.err == "WARNING: its languages are unknown: name them by `transduce relabel`\n"
