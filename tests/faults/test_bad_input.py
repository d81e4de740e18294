"""A person's mistake gets one line that says what to change, exit code 2, and nothing is lost."""

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.conftest import SMALL, CommandResult, Run, Transduce, in_a_process, refuses, write_corpus

from transduce.evaluation.metrics import bleu_tokenizer
from transduce.memory.store import TranslationMemory

BROKEN = Path("/proc/self/mem")
"""Its first page cannot be read: EIO, as from a failing disk."""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    write_corpus(tmp_path)
    return tmp_path


@pytest.fixture
def bundle(run: Run, tmp_path: Path) -> Path:
    shutil.copytree(run.folder / "model", tmp_path / "bundle")
    return tmp_path / "bundle"


def train(transduce: Transduce, corpus: Path, *words: object, out: str = "run") -> CommandResult:
    files = ("--source", corpus / "train.src", "--target", corpus / "train.rev")
    return transduce("train", *files, *SMALL, "--out", corpus / out, *words)


def held(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_missing_file_is_named(transduce: Transduce, corpus: Path):
    (corpus / "train.rev").unlink()

    result = train(transduce, corpus)

    refuses(result, corpus / "train.rev", "does not exist")
    assert not (corpus / "run").exists()


def test_sides_of_unequal_length_are_counted_and_the_first_suspicious_line_named(
    transduce: Transduce, corpus: Path
):
    lines = (corpus / "train.rev").read_text().split("\n")
    del lines[300 - 1]
    (corpus / "train.rev").write_text("\n".join(lines))

    result = train(transduce, corpus)

    refuses(result, "500 lines", "499", "look first near line")
    near = int(result.err.rpartition("line ")[2])
    assert abs(near - 300) < 30
    assert not (corpus / "run").exists()


def test_a_line_that_is_not_utf8_is_named(transduce: Transduce, corpus: Path):
    lines = (corpus / "train.src").read_bytes().split(b"\n")
    lines[41 - 1] = "fünf".encode("latin-1")
    (corpus / "train.src").write_bytes(b"\n".join(lines))

    result = train(transduce, corpus)

    refuses(result, corpus / "train.src", "line 41", "UTF-8")
    assert not (corpus / "run").exists()


def test_a_line_that_is_not_utf8_is_dropped_and_counted_where_that_is_asked_for(
    transduce: Transduce, corpus: Path
):
    lines = (corpus / "train.rev").read_bytes().split(b"\n")
    lines[30] = b"1 \xff 2"
    (corpus / "train.rev").write_bytes(b"\n".join(lines))
    files = f'data.train=["{corpus / "train.src"}", "{corpus / "train.rev"}"]'

    result = transduce(
        *("prepare", "tiny", *SMALL, "--out", corpus / "run"),
        *("--set", files, "--set", "data.not_utf8=drop"),
    )

    assert result.code == 0, result.err
    assert "kept 499 pairs; dropped 1 (not UTF-8: 1, such as line 31)" in result.err


@pytest.mark.parametrize("command", ["check", "prepare", "train", "corpus"])
def test_a_name_that_is_not_utf8_is_refused_before_anything_is_read(
    transduce: Transduce, corpus: Path, command: str
):
    name = os.fsdecode(b"tr\xe4in.src")
    files = ("--source", corpus / name, "--target", corpus / "train.rev")
    words = (command, *files, "--out", corpus / "run")
    if command == "check":
        words = (command, *files)
    if command == "corpus":
        codes = ("--source-lang", "a", "--target-lang", "b")
        source = f"{corpus / name},{corpus / 'train.rev'}"
        words = ("corpus", "build", source, *codes, "--out", corpus / "run")

    result = transduce(*words)

    refuses(result, r"tr\udce4in.src", "the file's name is not UTF-8: rename it")
    assert not (corpus / "run").exists()


def test_an_empty_corpus_is_refused(transduce: Transduce, corpus: Path):
    for name in ("train.src", "train.rev"):
        (corpus / name).write_text("")

    result = train(transduce, corpus)

    refuses(result, "train.src", "no line")
    assert not (corpus / "run").exists()


def test_a_corpus_of_which_cleaning_leaves_nothing_is_refused(transduce: Transduce, corpus: Path):
    for name in ("train.src", "train.rev"):
        (corpus / name).write_text("\n \n\n")

    result = train(transduce, corpus)

    refuses(result, "empty", "cleaning left no pair")
    assert not (corpus / "run").exists()


def test_a_corpus_in_latin_1_is_refused_with_the_way_to_convert_it(
    transduce: Transduce, corpus: Path
):
    (corpus / "train.rev").write_bytes(b"sch\xf6n\n" * 500)
    files = ("--source", corpus / "train.src", "--target", corpus / "train.rev")

    result = transduce("check", *files)

    refuses(result, "not UTF-8: 500", "iconv -f LATIN1 -t UTF-8 FILE > NEW")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("train", "table3-z9"), "table3- with a row of the paper's Table 3 (base, a1, "),
        (("translate", "m", "--beam", "x"), "'--beam': not a whole number (try `transduce"),
        (("translate", "m", "--alpha", "x"), "'--alpha': not a number (try `transduce"),
        (("translate", "m", "--format", "doc"), "--format must be one of lines, text, html, "),
    ],
)
def test_a_wrong_value_is_refused_in_plain_words(
    transduce: Transduce, words: tuple[str, ...], reason: str
):
    refuses(transduce(*words), reason)


def test_text_longer_than_the_learned_positions_shows_before_training(
    transduce: Transduce, corpus: Path
):
    for name in ("long.src", "long.rev"):
        (corpus / name).write_text(" ".join("0123434012340" * 2) + "\n")
    pair = f'data.validation=["{corpus / "long.src"}", "{corpus / "long.rev"}"]'
    learned = ("model.positions=learned", "model.max_positions=17", "data.max_pieces=16", pair)

    result = train(transduce, corpus, *(word for key in learned for word in ("--set", key)))

    assert result.code == 2
    assert "pair 1 of the validation set has" in result.err.splitlines()[-1]
    assert not (corpus / "run" / "metrics.jsonl").exists()


def test_a_fault_in_the_test_files_shows_before_training(transduce: Transduce, corpus: Path):
    (corpus / "test.rev").write_text("one line too few\n")
    files = f'data.test=["{corpus}/test.src", "{corpus}/test.rev"]'

    result = train(transduce, corpus, "--set", files)

    refuses(result, "40 lines", "has 1")
    assert not (corpus / "run").exists()


@pytest.mark.parametrize(
    ("setting", "parts"),
    [
        ("train.update=5", ["train.update", "train.updates"]),
        ("trian.updates=5", ["trian", "train"]),
        ("train.dropout=0.1", ["train.dropout", "model.dropout"]),
        ("model.vocab_size=99", ["model.vocab_size", "tokenizer.vocab_size"]),
        ('train.updates="12"', ["train.updates", '"12"', "a whole number"]),
        ("train.updates=1.5", ["train.updates", "1.5", "a whole number"]),
        ("train.updates=0", ["train.updates", "at least 1", "0"]),
        ("model.norm=mid", ["model.norm", '"mid"', '"post"', '"pre"']),
        ("model.preset=huge", ["model.preset", '"huge"', '"tiny"']),
        ("model.dropout=nan", ["model.dropout", "finite"]),
        ("train.device=abacus", ["train.device", "abacus"]),
        ("updates", ["updates", "section.key=value"]),
    ],
)
def test_a_setting_that_cannot_be_is_explained(
    transduce: Transduce, corpus: Path, setting: str, parts: list[str]
):
    result = train(transduce, corpus, "--set", setting)

    refuses(result, *parts)


def test_a_recipe_that_is_not_shipped_gets_the_nearest_name(transduce: Transduce):
    refuses(transduce("train", "multi3k"), "multi3k", "did you mean multi30k")


def test_a_run_in_place_of_a_recipe_says_how_to_resume_it(transduce: Transduce, tmp_path: Path):
    (tmp_path / "recipe.toml").touch()

    refuses(transduce("train", "--resume", tmp_path), "--resume --out", str(tmp_path))


def test_a_recipe_file_with_a_fault_is_named_with_its_line(transduce: Transduce, tmp_path: Path):
    (tmp_path / "mine.toml").write_text("[train]\nupdates = \n")

    refuses(transduce("train", tmp_path / "mine.toml"), "mine.toml", "line 2")


def test_a_recipe_without_a_corpus_says_how_to_name_one(
    transduce: Transduce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)

    refuses(transduce("train", "tiny"), "--source")

    assert not any(tmp_path.iterdir())


def test_a_folder_that_holds_a_run_is_refused_and_left_alone(
    run: Run, transduce: Transduce, corpus: Path
):
    before = held(run.folder)

    result = train(transduce, corpus, "--out", run.folder)

    refuses(result, run.folder, "already holds a run", "--resume")
    assert held(run.folder) == before


def test_a_folder_that_holds_other_files_is_refused_and_left_alone(
    transduce: Transduce, corpus: Path
):
    (corpus / "run").mkdir()
    (corpus / "run" / "letter.txt").write_text("dear")

    result = train(transduce, corpus)

    refuses(result, "holds other files", "--out")
    assert held(corpus / "run") == {"letter.txt": b"dear"}


@pytest.mark.skipif(bleu_tokenizer("ja") != "char", reason="the dictionary is installed")
def test_a_tokeniser_of_bleu_that_is_not_installed_is_named_before_training(
    transduce: Transduce, corpus: Path
):
    result = train(transduce, corpus, "--set", "score.bleu_tokenize=ja-mecab")

    refuses(result, "tokeniser 'ja-mecab' is not available", "pip install")
    assert not (corpus / "run").exists()


def test_the_demo_does_not_replace_what_is_not_a_demo(run: Run, transduce: Transduce):
    before = held(run.folder)

    result = transduce("demo", "--out", run.folder)

    refuses(result, run.folder, "--out")
    assert held(run.folder) == before


def test_nothing_to_resume_and_no_corpus_is_said(transduce: Transduce, tmp_path: Path):
    result = transduce("train", "--resume", "--out", tmp_path / "mistyped")

    refuses(result, "mistyped holds no run to resume", "--out", "corpus")
    assert not any(tmp_path.iterdir())


def test_a_run_that_lost_its_recipe_says_so(run: Run, transduce: Transduce, corpus: Path):
    shutil.copytree(run.folder, corpus / "run")
    (corpus / "run" / "recipe.toml").unlink()

    refuses(train(transduce, corpus, "--resume"), corpus / "run/recipe.toml", "is missing")


@pytest.mark.parametrize("resume", [(), ("--resume",)])
def test_a_run_killed_before_its_recipe_was_renamed_is_begun_again(
    transduce: Transduce, corpus: Path, resume: tuple[str, ...]
):
    words = ("--set", "train.updates=8", "--set", "train.validate_every=8", *resume)
    files = ("--source", corpus / "train.src", "--target", corpus / "train.rev")
    transduce("prepare", *files, *SMALL, "--out", corpus / "run")
    (corpus / "run/recipe.toml").rename(corpus / "run/.recipe.toml.new-4194399")

    result = train(transduce, corpus, *words)

    assert result.code == 0, result.err
    assert ("holds no run yet: beginning one" in result.err) == bool(resume)
    assert not list((corpus / "run").glob(".*"))


def test_resuming_with_another_setting_names_it(run: Run, transduce: Transduce):
    result = transduce("train", "--resume", "--out", run.folder, "--set", "model.d_ff=64")

    refuses(result, "model.d_ff", "recipe.toml")


@pytest.mark.skipif(not BROKEN.exists(), reason="no file that cannot be read")
@pytest.mark.parametrize(
    "words",
    [
        ("translate", "BUNDLE", "-i", BROKEN),
        ("evaluate", "BUNDLE", "--source", BROKEN, "--target", BROKEN),
        ("train", BROKEN),
        ("check", "--source", BROKEN, "--target", BROKEN),
    ],
)
def test_a_file_whose_disk_fails_is_named(transduce: Transduce, bundle: Path, words: list[object]):
    result = transduce(*(bundle if word == "BUNDLE" else word for word in words))

    assert result.code in (1, 2)
    assert result.err.endswith("Input/output error\n")
    assert f"{BROKEN}" in result.err.splitlines()[-1]


@pytest.mark.skipif(not BROKEN.exists(), reason="no file that cannot be read")
def test_a_file_of_a_bundle_whose_disk_fails_is_named(transduce: Transduce, bundle: Path):
    (bundle / "manifest.json").unlink()
    (bundle / "manifest.json").symlink_to(BROKEN)

    result = transduce("translate", bundle, stdin=b"1\n")

    assert result.err == f"transduce: {bundle / 'manifest.json'}: Input/output error\n"


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.model"])
def test_a_missing_file_of_a_bundle_is_named(transduce: Transduce, bundle: Path, name: str):
    (bundle / name).unlink()

    refuses(transduce("translate", bundle, stdin=b"1\n"), name, "missing")


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "tokenizer.model", "manifest.json"]
)
def test_a_truncated_file_of_a_bundle_is_named(transduce: Transduce, bundle: Path, name: str):
    content = (bundle / name).read_bytes()
    (bundle / name).write_bytes(content[: len(content) // 2])

    refuses(transduce("translate", bundle, stdin=b"1\n"), name, "copy")


def test_a_flipped_bit_in_a_bundle_is_noticed(transduce: Transduce, bundle: Path):
    weights = bytearray((bundle / "model.safetensors").read_bytes())
    weights[len(weights) * 2 // 3] ^= 16
    (bundle / "model.safetensors").write_bytes(weights)

    refuses(transduce("translate", bundle, stdin=b"1\n"), "model.safetensors", "checksum")


def test_a_foreign_file_in_a_bundle_is_noticed(transduce: Transduce, bundle: Path):
    (bundle / "model.safetensors").write_bytes(b"PK\x03\x04 another program's archive")

    refuses(transduce("translate", bundle, stdin=b"1\n"), "model.safetensors")


def test_a_folder_that_is_no_bundle_is_said_to_be_none(transduce: Transduce, tmp_path: Path):
    refuses(transduce("translate", tmp_path, stdin=b"1\n"), tmp_path, "is not a model bundle")


def test_a_model_that_is_not_there_is_named(transduce: Transduce, tmp_path: Path):
    refuses(transduce("translate", tmp_path / "gone", stdin=b"1\n"), "gone", "does not exist")


def test_text_that_is_not_utf8_is_refused_before_anything_is_written(
    run: Run, transduce: Transduce, tmp_path: Path
):
    (tmp_path / "out").write_text("what was here before\n")

    result = transduce("translate", run.folder, "-o", tmp_path / "out", stdin=b"1 2\n\xff\n")

    refuses(result, "stdin, line 2", "UTF-8")
    assert held(tmp_path) == {"out": b"what was here before\n"}


def test_an_input_that_is_not_there_is_named(run: Run, transduce: Transduce):
    refuses(transduce("translate", run.folder, "-i", "gone.txt"), "gone.txt")


def test_an_output_that_cannot_be_written_is_named(run: Run, transduce: Transduce, tmp_path: Path):
    result = transduce("translate", run.folder, "-o", tmp_path / "no" / "out", stdin=b"1\n")

    refuses(result, tmp_path / "no")


@pytest.mark.parametrize("words", [("augment", "model", "-i"), ("memory", "export")])
def test_an_output_that_is_the_input_is_refused(
    transduce: Transduce, tmp_path: Path, words: tuple[str, ...]
):
    TranslationMemory(tmp_path / "input").close()
    (tmp_path / "link").symlink_to("input")
    before = held(tmp_path)

    result = transduce(*words, tmp_path / "input", "-o", tmp_path / "link")

    refuses(result, f"--output {tmp_path / 'link'} would replace one of its inputs: name another")
    assert held(tmp_path) == before
    assert (tmp_path / "link").is_symlink()


def test_a_beam_of_none_is_refused_even_without_input(run: Run, transduce: Transduce):
    result = transduce("translate", run.folder, "--beam", 0)

    refuses(result, "search.beam must be at least 1, not 0")


def test_a_beam_narrower_than_nbest_is_explained(run: Run, transduce: Transduce):
    result = transduce("translate", run.folder, "--beam", 2, "--nbest", 3, stdin=b"1\n")

    refuses(result, "nbest", "beam")


def test_source_and_target_of_a_test_must_match(run: Run, transduce: Transduce, corpus: Path):
    (corpus / "short").write_text("1 2\n")

    result = transduce(
        "evaluate", run.folder, "--source", corpus / "short", "--target", corpus / "test.rev"
    )

    refuses(result, "the source has 1 lines", "40 references")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["trian"], ["trian", "'train'", "transduce --help"]),
        (["train", "--sorce", "x"], ["--sorce", "--source", "transduce train --help"]),
        (["translate"], ["model", "transduce translate --help"]),
        (["translate", "m", "--beam", "wide"], ["--beam"]),
        (["train", "--source", "x"], ["--target"]),
        (["evaluate", "m", "--source", "x"], ["--target"]),
        (["evaluate", "--target", __file__], ["--hypotheses"]),
        (
            ["evaluate", "--hypotheses", __file__, "--target", __file__, "--metric", "rouge"],
            ["rouge", "bleu"],
        ),
    ],
)
def test_a_slip_of_the_pen_gets_one_line(transduce: Transduce, words: list[str], parts: list[str]):
    refuses(transduce(*words), *parts)


def test_a_real_process_answers_the_same(tmp_path: Path):
    result = in_a_process("train", "--source", "gone", "--target", "gone", cwd=tmp_path)

    assert result.returncode == 2
    assert result.stderr.count(b"\n") == 1
    assert not any(tmp_path.iterdir())


def test_a_run_that_diverges_fails_in_one_line_and_can_be_gone_on_with(
    transduce: Transduce, corpus: Path
):
    paper = ("--set", "train.schedule=paper", "--set", "train.log_every=1")

    result = train(transduce, corpus, *paper, "--set", "train.learning_rate=1e30")

    assert result.code == 1
    assert "11 updates in a row had no finite gradient" in result.err.splitlines()[-1]
    assert "of the checkpoints none was saved yet" in result.err.splitlines()[-1]
    assert not (corpus / "run" / "model").exists()


def test_results_that_are_damaged_do_not_break_a_finished_run(
    run: Run, transduce: Transduce, tmp_path: Path
):
    shutil.copytree(run.folder, tmp_path / "run")
    (tmp_path / "run" / "results.json").write_text(json.dumps({"recipe": 3}))

    result = transduce("train", "--resume", "--out", tmp_path / "run")

    refuses_after_talk = result.err.splitlines()[-1]
    assert result.code == 2
    assert "results.json" in refuses_after_talk
