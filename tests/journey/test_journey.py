"""From two files to a translator, through the command line, as a person would go."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import SMALL, Run, Transduce, in_a_process, write_corpus

from transduce import Bundle, Translator, load_recipe
from transduce.io.atomic_folder import sha256

SENTENCES = ("1 2 3", "4 0 1 2", "0 0", "3 1 4 1 2")


def test_a_run_leaves_what_its_folder_promises(run: Run):
    held = {path.name for path in run.folder.iterdir()}

    assert held == {
        "recipe.toml",
        "prepared",
        "checkpoints",
        "metrics.jsonl",
        "report.html",
        "best",
        "results.json",
        "hypotheses.target",
        "hypotheses.validation.target",
        "model",
    }


def test_a_run_tells_what_it_does_on_stderr_and_its_scores_on_stdout(run: Run):
    talk, data = run.process.stderr.decode(), run.process.stdout.decode()

    assert "kept 500 pairs" in talk
    assert "481 pairs to train on, 19 to validate, 40 to test" in talk
    assert "validation at update 60: loss" in talk
    assert "tok:13a" in data
    assert "chrF2" in data
    assert data.splitlines()[-1] == "model: run/model"


def test_a_log_is_no_screen(run: Run):
    assert b"\x1b" not in run.process.stderr
    assert b"\r" not in run.process.stderr


def test_metrics_hold_every_validation_with_its_signature(run: Run):
    text = (run.folder / "metrics.jsonl").read_text()
    lines = [json.loads(line) for line in text.split("\n")[:-1]]

    validations = [line for line in lines if "bleu" in line]

    assert [line["update"] for line in validations] == [30, 60, 90]
    assert all("version:" in line["signature"] for line in validations)


def test_results_hold_scores_of_both_sets(run: Run):
    results = json.loads((run.folder / "results.json").read_text())

    assert results["validation"]["pairs"] == 19
    assert results["test"]["pairs"] == 40
    assert [score["name"] for score in results["test"]["scores"]] == [
        *("BLEU", "chrF2", "TER", "exact match", "copied number")
    ]
    assert len((run.folder / "hypotheses.target").read_text().split("\n")) == 40 + 1


def test_the_model_knows_where_it_came_from(run: Run, tmp_path: Path):
    provenance = Bundle.load(run.folder).provenance

    (tmp_path / "recipe.toml").write_text(provenance.recipe)
    assert load_recipe(tmp_path / "recipe.toml") == load_recipe(run.folder / "recipe.toml")
    assert provenance.data_sha256["train.src"] == sha256(run.corpus / "train.src")
    assert any(name.startswith("test BLEU") for name in provenance.scores)


def test_the_command_and_the_library_say_the_same(run: Run, transduce: Transduce):
    text = "".join(f"{sentence}\n" for sentence in SENTENCES)

    result = transduce("translate", run.folder, stdin=text.encode())

    translations = Translator.load(run.folder).translate(SENTENCES)
    assert result.code == 0
    assert result.out.split("\n")[:-1] == [translation.text for translation in translations]


def test_a_pipe_and_files_say_the_same(run: Run, transduce: Transduce, tmp_path: Path):
    (tmp_path / "in").write_text("1 2 3\n4 0 1 2\n")

    piped = transduce("translate", run.folder, stdin=b"1 2 3\n4 0 1 2\n")
    filed = transduce("translate", run.folder, "-i", tmp_path / "in", "-o", tmp_path / "out")

    assert filed.out == ""
    assert (tmp_path / "out").read_text() == piped.out


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", 0),
        ("1 2", 1),
        ("1 2\n\n3 4\n", 3),
        ("\n\n\n", 3),
        ("1 2\u20283 4\n1\x852\n", 2),
        ("1 2\r\n\r\n", 2),
    ],
    ids=["nothing", "no line feed", "empty between", "all empty", "odd separators", "CRLF"],
)
def test_as_many_lines_come_out_as_go_in(run: Run, transduce: Transduce, text: str, lines: int):
    result = transduce("translate", run.folder, stdin=text.encode())

    assert result.code == 0
    assert result.out.count("\n") == lines


def test_an_empty_line_stays_empty(run: Run, transduce: Transduce):
    result = transduce("translate", run.folder, stdin=b"1 2\n \n\n3\n")

    assert [bool(line) for line in result.out.split("\n")] == [True, False, False, True, False]


def test_nbest_ranks_so_many_translations_a_line(run: Run, transduce: Transduce):
    result = transduce("translate", run.folder, "--nbest", 3, stdin=b"1 2 3\n4 0\n")

    rows = [line.split("\t") for line in result.out.split("\n")[:-1]]
    assert [row[:2] for row in rows] == [[n, r] for n in "12" for r in "123"]
    assert float(rows[0][2]) >= float(rows[1][2]) >= float(rows[2][2])


def test_json_holds_one_object_a_line(run: Run, transduce: Transduce):
    result = transduce("translate", run.folder, "--json", stdin=b"1 2 3\n\n")

    first, second = (json.loads(line) for line in result.out.split("\n")[:-1])
    assert (first["line"], first["source"]) == (1, "1 2 3")
    assert len(first["pieces"]) == len(first["log_probs"]) > 0
    assert (second["line"], second["text"], second["pieces"]) == (2, "", [])


def test_a_line_too_long_is_translated_in_parts_and_reported(
    run: Run, transduce: Transduce, tmp_path: Path
):
    bundle = Bundle.load(run.folder)
    short = type(bundle.search)(max_source=7)
    Bundle(
        model=bundle.model,
        tokenizer=bundle.tokenizer,
        languages=bundle.languages,
        search=short,
        provenance=bundle.provenance,
    ).save(tmp_path / "short")

    result = transduce("translate", tmp_path / "short", stdin=b"1 2\n" + b"1 2 3 " * 7 + b"\n")

    assert result.code == 0
    assert "\nline 2: too long, translated in" in result.err
    assert result.out.count("\n") == 2


def test_evaluating_the_model_gives_the_scores_of_its_run(run: Run, transduce: Transduce):
    test = ("--source", run.corpus / "test.src", "--target", run.corpus / "test.rev")

    result = transduce("evaluate", run.folder, *test, "--json")

    scores = {score["name"]: score["value"] for score in json.loads(result.out)}
    results = json.loads((run.folder / "results.json").read_text())["test"]
    assert scores["perplexity"] == pytest.approx(results["perplexity"])
    for score in results["scores"]:
        assert scores[score["name"]] == pytest.approx(score["value"])


def test_results_tell_how_the_text_was_decoded(run: Run):
    results = json.loads((run.folder / "results.json").read_text())

    assert "length penalty 0.6, repetitive lines retried (" in results["test"]["decoding"]
    assert results["test"]["decoding"] in run.process.stdout.decode()
    assert "greedy, repetition not retried" in run.process.stderr.decode()


def test_translations_made_elsewhere_are_scored_without_a_model(run: Run, transduce: Transduce):
    mine, target = run.folder / "hypotheses.target", run.corpus / "test.rev"

    result = transduce("evaluate", "--hypotheses", mine, "--target", target, "--metric", "bleu")

    scores = json.loads((run.folder / "results.json").read_text())["test"]["scores"]
    assert result.out.startswith(f"BLEU {scores[0]['value']:.2f} ± ")
    assert result.out.replace("bs:1000|seed:12345|", "").endswith(f"  {scores[0]['signature']}\n")


def test_averaged_checkpoints_are_a_model(run: Run, transduce: Transduce, tmp_path: Path):
    checkpoints = sorted((run.folder / "checkpoints").iterdir())

    result = transduce("average", *checkpoints, "--out", tmp_path / "averaged")

    assert result.code == 0
    assert len(Translator.load(tmp_path / "averaged").translate(SENTENCES)) == len(SENTENCES)


def test_a_finished_run_is_not_done_again(run: Run, transduce: Transduce):
    before = sha256(run.folder / "model" / "model.safetensors")

    result = transduce("train", "--resume", "--out", run.folder)

    assert result.code == 0
    assert "is finished" in result.err
    assert sha256(run.folder / "model" / "model.safetensors") == before


def test_a_run_that_was_stopped_ends_as_if_it_never_was(
    run: Run, transduce: Transduce, tmp_path: Path
):
    """As after a kill between the last checkpoint but one and the end: what came later is gone."""
    copy = tmp_path / "run"
    shutil.copytree(run.folder, copy)
    for name in ("model", "results.json", "checkpoints/update-00000090"):
        path = copy / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    result = transduce("train", "--resume", "--out", copy)

    assert result.code == 0, result.err
    assert "resuming after update 60" in result.err
    for name in ("model", "best"):
        weights = Path(name) / "model.safetensors"
        assert sha256(copy / weights) == sha256(run.folder / weights)
    assert (copy / "hypotheses.target").read_bytes() == (
        run.folder / "hypotheses.target"
    ).read_bytes()


def test_training_goes_on_from_what_prepare_wrote(transduce: Transduce, tmp_path: Path):
    write_corpus(tmp_path)
    files = ("--set", f'data.train=["{tmp_path}/train.src", "{tmp_path}/train.rev"]')
    out = ("--out", tmp_path / "run", "--set", "train.updates=20")

    prepared = transduce("prepare", "tiny", *files, *SMALL, *out)
    trained = transduce("train", "tiny", *files, *SMALL, *out)

    assert (prepared.code, trained.code) == (0, 0)
    assert prepared.out == ""
    chosen = json.loads((tmp_path / "run" / "results.json").read_text())["chosen"]
    assert chosen.startswith("the last checkpoint: ")
    assert "against" not in chosen  # itself, the best one
    assert "the corpus is prepared already" in trained.err


def test_a_reader_who_stops_reading_is_no_error(run: Run):
    command = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-m', 'transduce', "
    command += "'translate', sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, "
    command += "stderr=subprocess.PIPE); p.stdout.close(); print(p.communicate(b'1 2\\n' * 9)[1])"
    import subprocess
    import sys

    result = subprocess.run(
        [sys.executable, "-c", command, run.folder], capture_output=True, check=True
    )

    assert result.stdout.startswith(b"b'engine: "), result.stdout
    assert result.stdout.count(b"\\n") == 1


def test_the_module_is_the_command(tmp_path: Path):
    result = in_a_process("--version", cwd=tmp_path)

    assert result.stdout.startswith(b"transduce ")


def test_the_model_is_the_candidate_that_validates_best(run: Run):
    chosen = json.loads((run.folder / "results.json").read_text())["chosen"]

    won, *lost = (float(bleu) for bleu in re.findall(r"(\d+\.\d+)", chosen))

    assert lost
    assert all(won > other for other in lost), chosen


def test_a_terminal_has_a_prompt_per_line(run: Run, transduce: Transduce):
    import pty  # not on Windows

    main, terminal = pty.openpty()
    command = [sys.executable, "-m", "transduce", "translate", str(run.folder)]
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        screen = b""
        for typed in (b"1 2\n", b"\x04"):
            while not screen.endswith(b"> "):
                screen += os.read(main, 4096)
            os.write(main, typed)
            screen += typed
        assert process.wait(60) == 0
    os.close(main)

    lines = screen.decode().split("\r\n")
    assert "type a sentence and Enter; Ctrl-D ends" in lines
    assert [lines[-2]] == transduce("translate", run.folder, stdin=b"1 2\n").out.splitlines()
    assert lines[-1].startswith("> ")
