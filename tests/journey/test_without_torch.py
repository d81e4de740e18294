"""Whoever only translates needs no torch: it is made unavailable, and the commands are called."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import Run, Transduce

PRELUDE = """
import contextlib, io, json, sys
sys.modules["torch"] = None
from transduce.cli import main
"""
CALLS = """
for argv in json.loads(sys.argv[1]):
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(argv)
    out.flush()
    print(json.dumps([argv[0], code, out.buffer.getvalue().decode(), err.getvalue()]))
assert sys.modules["torch"] is None
"""
SENTENCES = ("1 2 3", "4 0 1 2", "3 3 1")


def command_lines(run: Run, folder: Path) -> list[list[str]]:
    """Every command that needs no torch, and some that do."""
    model = str(run.folder)
    source, target = folder / "in.txt", folder / "ref.txt"
    source.write_text("".join(f"{line}\n" for line in SENTENCES))
    target.write_text("".join(f"{line[::-1]}\n" for line in SENTENCES))
    pair = ["--source", str(source), "--target", str(target)]
    (folder / "terms.tsv").write_text("1\t4\n")
    terms = ["--glossary", str(folder / "terms.tsv")]
    export = ["export", model, "--sample", str(source), "--to"]
    return [
        ["translate", model, "-i", str(source)],
        ["translate", model, "-i", str(source), "--json", *terms],
        ["translate", model, "-i", str(source), "--beam", "3", "--no-repeat", "2", "--as-is"],
        ["score", model, *pair],
        ["alternatives", model, "1 2 3", "--after", "3"],
        ["evaluate", model, *pair, "--json"],
        ["view", model, "1 2 3", "--out", str(folder / "map.json")],
        ["export", model, "--to", "ctranslate2", "--out", str(folder / "ct2")],
        [*export, "web", "--out", str(folder / "page.html")],
        ["doctor"],
    ]


def without_torch(lines: list[list[str]], cwd: Path) -> list[tuple[str, int, str, str]]:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + CALLS, json.dumps(lines)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def test_every_command_of_a_runtime_prints_what_it_does_with_torch(
    run: Run, transduce: Transduce, tmp_path: Path
):
    (numpy_folder := tmp_path / "ours").mkdir()
    (torch_folder := tmp_path / "theirs").mkdir()

    result = without_torch(command_lines(run, numpy_folder), tmp_path)

    assert [(name, code) for name, code, _, _ in result if code] == [], result
    for argv, (_, _, out, err) in zip(command_lines(run, torch_folder), result, strict=True):
        actual = transduce(*argv)
        if argv[0] in ("score", "alternatives", "evaluate"):
            numbers = [
                text.replace(",", " ").replace(":", " ").split() for text in (out, actual.out)
            ]
            for number, other in zip(*numbers, strict=True):
                with contextlib.suppress(ValueError):
                    assert float(number) == pytest.approx(float(other), abs=2e-3)
                    continue
                assert number == other
        elif argv[0] == "translate" and "--json" not in argv:
            assert out == actual.out
        elif argv[0] == "export":
            assert "identical" in err
        elif argv[0] == "doctor":
            assert "only training needs it: pip install 'transduce[train]'" in out
            assert "two translations on cpu" in out
    ours_map, theirs_map = (
        json.loads((folder / "map.json").read_text()) for folder in (numpy_folder, torch_folder)
    )
    np.testing.assert_allclose(ours_map["cross"], theirs_map["cross"], atol=2e-4)
    assert ours_map["text"] == theirs_map["text"]


def test_what_needs_torch_says_so_in_one_line(run: Run, tmp_path: Path):
    command_lines(run, tmp_path)  # writes the files
    model = str(run.folder)
    ct2 = ["export", model, "--to", "ctranslate2", "--out", "ct2"]
    lines = {
        "transduce train": ["train", "--source", "in.txt", "--target", "ref.txt", "--out", "run"],
        "transduce average": ["average", model, "--out", "mean"],
        "the torch engine": ["translate", model, "-i", "in.txt", "--engine", "torch"],
        "an ensemble": ["translate", model, "-i", "in.txt", "--with", model],
        "the device 'cuda'": ["translate", model, "-i", "in.txt", "--device", "cuda"],
        "the quantization bfloat16": [*ct2, "--quantize", "bfloat16"],
        "transduce export": ["export", model, "--to", "huggingface", "--out", "hf"],
    }
    sampled = ["translate", model, "-i", "in.txt", "--sample"]

    *result, (_, code, _, err) = without_torch([*lines.values(), sampled], tmp_path)

    hint = "pip install 'transduce[train]'"
    for feature, (_, code_, out, err_) in zip(lines, result, strict=True):
        assert (code_, out, err_) == (2, "", f"transduce: {feature} needs PyTorch: {hint}\n")
    assert (code, err.count("\n")) == (2, 1)
    assert "numpy does not support sampling; install PyTorch" in err


def test_names_that_need_torch_say_what_to_install():
    script = (
        "import sys; sys.modules['torch'] = None; from transduce import Translator, Transformer"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    hint = "ImportError: transduce.Transformer needs PyTorch: pip install 'transduce[train]'"
    assert hint in done.stderr


def test_a_server_answers_without_torch(run: Run, tmp_path: Path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = ["serve", str(run.folder), "--port", str(port)]
    script = PRELUDE + "sys.exit(main(json.loads(sys.argv[1])))"
    server = subprocess.Popen(
        [sys.executable, "-c", script, json.dumps(argv)], cwd=tmp_path, stderr=subprocess.PIPE
    )
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(300):
            try:
                fields = {"q": "1 2 3", "source": "source", "target": "target"}
                body = urllib.parse.urlencode(fields).encode()
                answer = json.load(urllib.request.urlopen(f"{address}/translate", body, timeout=30))
                break
            except urllib.error.HTTPError as error:
                pytest.fail(error.read().decode())
            except urllib.error.URLError:  # it is still starting
                assert server.poll() is None, server.communicate()
            time.sleep(0.1)
        assert answer["translatedText"]
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate()
    assert server.returncode in (0, 128 + signal.SIGTERM, -signal.SIGTERM)
