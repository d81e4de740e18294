"""`transduce distill`: a student of a trained run, measured beside its teacher."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.conftest import SMALL, Run, Transduce, in_a_process, refuses

from transduce.bundle.bundle import Bundle
from transduce.data.config import Languages
from transduce.io.resumable import LineOutput

ONE_LAYER = ("--encoder-layers", "2", "--decoder-layers", "1")
SETTINGS = tuple(
    word
    for flag, setting in zip(SMALL[::2], SMALL[1::2], strict=True)
    if not setting.startswith(("tokenizer.", "model.encoder_layers", "model.decoder_layers"))
    for word in (flag, setting)
)


def words(run: Run, out: Path) -> tuple[object, ...]:
    test = f'data.test=["{run.corpus / "test.src"}", "{run.corpus / "test.rev"}"]'
    files = ("--source", run.corpus / "train.src", "--target", run.corpus / "train.rev")
    return ("distill", run.folder, *files, "--set", test, *SETTINGS, *ONE_LAYER, "--out", out)


@pytest.fixture(scope="module")
def student(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A student, trained by the real command. Tests must not write to it."""
    folder = tmp_path_factory.mktemp("student") / "student"
    said = in_a_process(*words(run, folder), cwd=run.corpus)
    assert said.returncode == 0, said.stderr.decode()
    return Run(folder=folder, corpus=run.corpus, said=said)


def test_both_stand_in_one_table(student: Run):
    said = student.said.stdout.decode()

    rows = [line.split("  ")[0] for line in said.splitlines()[1:5]]
    assert rows == ["teacher, beam 4", "teacher, greedy", "student, beam 4", "student, greedy"]
    assert said.endswith(f"model: {student.folder / 'model'}\n")


def test_the_table_is_kept(student: Run):
    kept = json.loads((student.folder / "distilled.json").read_text())

    assert (kept["part"], kept["sentences"]) == ("test", 40)
    assert [row["name"] for row in kept["rows"]][::2] == ["teacher, beam 4", "student, beam 4"]
    assert all(row["sentences_per_second"] > 0 for row in kept["rows"])
    assert all("engine: ctranslate2" in row["engine"] for row in kept["rows"])


def test_the_student_has_its_shape_and_its_teachers_vocabulary(run: Run, student: Run):
    teacher, pupil = Bundle.load(run.folder), Bundle.load(student.folder)

    layers = (pupil.model.config.encoder_layers, pupil.model.config.decoder_layers)
    assert layers == (2, 1)
    assert pupil.tokenizer.checksum == teacher.tokenizer.checksum


def test_it_learns_from_the_sources_and_what_the_teacher_says_of_them(
    run: Run, student: Run, transduce: Transduce
):
    files = [student.folder / "distilled" / f"train.{side}" for side in ("source", "target")]
    sources, targets = (file.read_text().splitlines() for file in files)

    again = transduce("translate", run.folder, "-i", files[0], "--beam", "4")

    assert set(sources) <= set((run.corpus / "train.src").read_text().splitlines())
    assert again.out.splitlines() == targets
    assert any(one != line[::-1] for line, one in zip(sources, targets, strict=True))


def test_what_is_validated_on_stays_as_people_wrote_it(student: Run):
    for part in ("validation", "test"):
        source, target = (
            (student.folder / "distilled" / f"{part}.{side}").read_text().splitlines()
            for side in ("source", "target")
        )
        assert [line[::-1] for line in source] == target


def test_the_same_command_goes_on_where_it_was_stopped(
    run: Run, student: Run, transduce: Transduce
):
    """Here just before the end: the student is finished, and nobody has measured it."""
    record, text = student.folder / "distilled.json", student.folder / "distilled" / "train.target"
    record.unlink()
    before = text.stat().st_mtime_ns

    said = transduce(*words(run, student.folder))

    assert said.code == 0, said.err
    assert "the corpus is translated already" in said.err
    assert record.is_file()
    assert text.stat().st_mtime_ns == before


def test_a_damaged_translation_is_made_again(run: Run, student: Run, transduce: Transduce):
    file = student.folder / "distilled" / "train.target"
    before = file.read_text()
    file.write_text(before.replace("1", "2"))

    said = transduce(*words(run, student.folder))

    assert said.code == 0, said.err
    assert f"{student.folder / 'distilled'} is damaged: translating it again" in said.err
    assert file.read_text() == before


def test_a_killed_translation_goes_on(
    run: Run, student: Run, transduce: Transduce, monkeypatch: pytest.MonkeyPatch
):
    text = student.folder / "distilled" / "train.target"
    undisturbed = text.read_bytes()
    shutil.rmtree(text.parent)
    monkeypatch.setattr("transduce.pipeline.synthetic_pairs.CHUNK", 50)
    commit = LineOutput.commit

    def killed(output: LineOutput, lines: Sequence[str]) -> None:
        commit(output, lines)
        if output.done == 100:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LineOutput, "commit", killed)
        assert transduce(*words(run, student.folder)).code == 130
    assert not text.exists()

    said = transduce(*words(run, student.folder))

    assert said.code == 0, said.err
    assert "continuing after 100 lines" in said.err
    assert text.read_bytes() == undisturbed
    assert not list(student.folder.glob("*distilled.txt*"))


def test_another_beam_needs_another_folder(run: Run, student: Run, transduce: Transduce):
    said = transduce(*words(run, student.folder), "--beam", "2")

    assert said.code == 2
    assert "was made by another teacher, with another beam" in said.err


def test_a_folder_of_something_else_is_left_alone(run: Run, tmp_path: Path, transduce: Transduce):
    (tmp_path / "thesis.tex").write_text("years of work")

    said = transduce(*words(run, tmp_path))

    refuses(said, "holds other files")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--beam", "0"), "beam must be 1 or more"),
        (("--set", "tokenizer.kind=unigram"), "leave out tokenizer.kind"),
        (("--set", "model.decoder_layers=3"), "--decoder-layers"),
        (("--set", "model.heads=0"), "model.heads"),
        (("--set", "train.device=tpu9"), "tpu9"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(
    run: Run, tmp_path: Path, transduce: Transduce, more: tuple[str, ...], message: str
):
    said = transduce(*words(run, tmp_path / "new"), *more)

    refuses(said, message)
    assert not (tmp_path / "new").exists()


def test_languages_must_agree(run: Run, tmp_path: Path, transduce: Transduce):
    bundle = Bundle.load(run.folder)
    bundle.languages = Languages(source="en", target="de")
    bundle.save(tmp_path / "teacher")
    others = ("--set", "languages.source=de", "--set", "languages.target=en")

    said = transduce("distill", tmp_path / "teacher", *words(run, tmp_path / "new")[2:], *others)

    refuses(said, "languages.source is 'de'", "'en' to 'de'")
