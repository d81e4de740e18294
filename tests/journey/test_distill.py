"""`transduce distill`: a student of a trained run, measured beside its teacher."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.conftest import SMALL, Run, Transduce, in_a_process, refuses

from transduce.bundle.bundle import Bundle
from transduce.config import load_recipe
from transduce.data.config import Languages, TokenizerConfig
from transduce.data.tokenizer import Tokenizer
from transduce.io.resumable import LineOutput
from transduce.model.transformer import Transformer
from transduce.pipeline.distill import _Distillation  # pyright: ignore[reportPrivateUsage]

ONE_LAYER = ("--encoder-layers", "2", "--decoder-layers", "1")
SETTINGS = tuple(
    word
    for flag, setting in zip(SMALL[::2], SMALL[1::2], strict=True)
    if not setting.startswith(("tokenizer.", "model.encoder_layers", "model.decoder_layers"))
    for word in (flag, setting)
)


def words(run: Run, out: Path, *, test: bool = True) -> tuple[object, ...]:
    files = ("--source", run.corpus / "train.src", "--target", run.corpus / "train.rev")
    if test:
        files += ("--test", run.corpus / "test.src", run.corpus / "test.rev")
    return ("distill", run.folder, *files, *SETTINGS, *ONE_LAYER, "--out", out)


@pytest.fixture(scope="module")
def student(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A student, trained by the real command. Tests must not write to it."""
    folder = tmp_path_factory.mktemp("student") / "student"
    result = in_a_process(*words(run, folder), cwd=run.corpus)
    assert result.returncode == 0, result.stderr.decode()
    return Run(folder=folder, corpus=run.corpus, process=result)


ROWS = [
    f"{model}, {search}"
    for model in ("teacher", "teacher, int8", "student", "student, int8")
    for search in ("beam 4", "greedy")
]


def test_one_table_compares_teacher_and_student(student: Run):
    output = student.process.stdout.decode()

    header, *rows = output.splitlines()[:9]
    names = header.split()
    assert names[:4] == ["test,", "40", "sentences", "BLEU"]
    assert names[4:] == ["difference", "p", "parameters", "sentences/s", "speed-up"]
    assert [row.split("  ")[0] for row in rows] == ROWS
    numbers = [len(row[30:].split()) for row in rows]
    assert numbers == [3, *[6] * 7]  # the first row is the baseline
    assert output.endswith(f"model: {student.folder / 'model'}\n")


def test_the_table_is_kept(student: Run):
    kept = json.loads((student.folder / "distilled.json").read_text())

    assert (kept["part"], kept["sentences"]) == ("test", 40)
    assert [row["name"] for row in kept["rows"]] == ROWS
    assert all(row["sentences_per_second"] > 0 for row in kept["rows"])
    assert {row["engine"].split()[1] for row in kept["rows"]} <= {"native", "ctranslate2"}
    first, *others = kept["rows"]
    assert (first["difference"], first["p"]) == (0.0, None)
    for row in others:
        assert row["difference"] == row["score"]["value"] - first["score"]["value"]
        assert 0 <= row["p"] <= 1


def test_the_page_has_a_point_for_each_row(student: Run):
    text = (student.folder / "distilled.html").read_text()

    assert text.count("<circle") == len(ROWS)
    assert all(f"<td>{name}</td>" in text or f">{name}<" in text for name in ROWS)


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
    assert any(target != line[::-1] for line, target in zip(sources, targets, strict=True))


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

    result = transduce(*words(run, student.folder))

    assert result.code == 0, result.err
    assert "the corpus is translated already" in result.err
    assert record.is_file()
    assert text.stat().st_mtime_ns == before


def test_a_damaged_translation_is_made_again(run: Run, student: Run, transduce: Transduce):
    file = student.folder / "distilled" / "train.target"
    before = file.read_text()
    file.write_text(before.replace("1", "2"))

    result = transduce(*words(run, student.folder))

    assert result.code == 0, result.err
    assert f"{student.folder / 'distilled'} is damaged: translating it again" in result.err
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

    result = transduce(*words(run, student.folder))

    assert result.code == 0, result.err
    assert "continuing after 100 lines" in result.err
    assert text.read_bytes() == undisturbed
    assert not list(student.folder.glob("*distilled.txt*"))


@pytest.mark.parametrize("more", [("--beam", "2"), ("--references",)])
def test_another_corpus_needs_another_folder(
    run: Run, student: Run, transduce: Transduce, more: tuple[str, ...]
):
    result = transduce(*words(run, student.folder), *more)

    assert result.code == 2
    assert "was made by another teacher, with another beam" in result.err


def test_teachers_translate_together_and_references_are_kept(
    run: Run, student: Run, tmp_path: Path, transduce: Transduce
):
    """The second teacher is the student of the first, whose vocabulary it shares."""
    out = tmp_path / "new"
    ensemble = ("--with", student.folder)

    distilled = transduce(*words(run, out), *ensemble, "--references")

    assert distilled.code == 0, distilled.err
    names = [line.split("  ")[0] for line in distilled.out.splitlines()[1:7]]
    assert names == ROWS[:2] + ROWS[4:]  # an ensemble is not run in int8
    rows = json.loads((out / "distilled.json").read_text())["rows"]
    sizes = [Bundle.load(folder).model.size for folder in (run.folder, student.folder, out)]
    assert [row["parameters"] for row in rows[::2]] == [sizes[0] + sizes[1], sizes[2], sizes[2]]
    files = [out / "distilled" / f"train.{side}" for side in ("source", "target")]
    sources, targets = (file.read_text().splitlines() for file in files)
    again = transduce("translate", run.folder, *ensemble, "--beam", "4", "-i", files[0])
    translated = zip(sources, again.out.splitlines(), strict=True)
    expected = {(line, line[::-1]) for line in sources} | set(translated)
    assert set(zip(sources, targets, strict=True)) == expected
    assert len(sources) == len(expected) < 2 * len(set(sources))


def test_teachers_of_another_vocabulary_are_refused(run: Run, tmp_path: Path, transduce: Transduce):
    other = Bundle.load(run.folder)
    other.tokenizer = Tokenizer.train(["a b c d e f g h"], TokenizerConfig(vocab_size=18))
    config = replace(other.model.config, vocab_size=other.tokenizer.vocab_size)
    other.model = Transformer(config)
    other.save(tmp_path / "other")

    result = transduce(*words(run, tmp_path / "new"), "--with", tmp_path / "other")

    refuses(result, "has another vocabulary than")
    assert not (tmp_path / "new" / "original").exists()


def test_a_folder_of_something_else_is_left_alone(run: Run, tmp_path: Path, transduce: Transduce):
    (tmp_path / "thesis.tex").write_text("years of work")

    result = transduce(*words(run, tmp_path))

    refuses(result, "holds other files")
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
    result = transduce(*words(run, tmp_path / "new"), *more)

    refuses(result, message)
    assert not (tmp_path / "new").exists()


def test_languages_must_agree(run: Run, tmp_path: Path, transduce: Transduce):
    bundle = Bundle.load(run.folder)
    bundle.languages = Languages(source="en", target="de")
    bundle.save(tmp_path / "teacher")
    others = ("--set", "languages.source=de", "--set", "languages.target=en")

    result = transduce("distill", tmp_path / "teacher", *words(run, tmp_path / "new")[2:], *others)

    refuses(result, "languages.source is 'de'", "'en' to 'de'")


@pytest.fixture
def only_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop before the translation."""
    translate = Mock(side_effect=ValueError("it would translate now"))
    monkeypatch.setattr(_Distillation, "_translate", translate)


@pytest.mark.usefixtures("only_prepared")
@pytest.mark.parametrize(
    ("more", "warned"),
    [
        ((), False),  # the pairs that the teacher held out, too
        (("--set", "data.held_out=15"), True),
        (("--target", "other.rev"), True),  # of the same sources
        (("--set", "data.held_out=15", "--test", "test.src", "test.rev"), False),
        (("--validation", "test.src", "test.rev"), False),
    ],
)
def test_pairs_that_the_teacher_was_trained_on_get_a_warning(
    run: Run,
    tmp_path: Path,
    transduce: Transduce,
    monkeypatch: pytest.MonkeyPatch,
    more: tuple[str, ...],
    warned: bool,
):
    for name in ("test.src", "test.rev"):
        shutil.copy(run.corpus / name, tmp_path)
    other = (run.corpus / "train.rev").read_text().splitlines()
    (tmp_path / "other.rev").write_text("".join(f"{line} \u2026\n" for line in other))
    monkeypatch.chdir(tmp_path)

    result = transduce(*words(run, tmp_path / "new", test=False), *more)

    assert "it would translate now" in result.err
    warning = "run was trained on most of the pairs held out here, and scores too high: name others"
    assert (warning in result.err) == warned
    validation = (tmp_path / "new" / "original" / "prepared" / "validation.source").read_text()
    given = validation == (run.corpus / "test.src").read_text()
    assert given == ("--validation" in more)


@pytest.mark.usefixtures("only_prepared")
@pytest.mark.parametrize(
    ("teacher", "more"),
    [
        (Languages(source="en", target="de", target_name="Deutsch"), ("--source-lang", "en")),
        (Languages(source="en", source_name="English"), ()),  # and the text tells the other one
    ],
)
def test_a_side_without_a_language_has_the_teachers(
    run: Run,
    tmp_path: Path,
    transduce: Transduce,
    monkeypatch: pytest.MonkeyPatch,
    teacher: Languages,
    more: tuple[str, ...],
):
    monkeypatch.setattr("transduce.corpus_check.language.guess_languages", lambda _: ("fr", "de"))
    bundle = Bundle.load(run.folder)
    bundle.languages = teacher
    bundle.save(tmp_path / "teacher")
    out = tmp_path / "new"

    result = transduce("distill", tmp_path / "teacher", *words(run, out)[2:], *more)

    assert "it would translate now" in result.err
    languages = load_recipe(out / "original" / "recipe.toml").languages
    assert (languages.source, languages.target) == ("en", "de")
    assert languages.target_name == teacher.target_name
