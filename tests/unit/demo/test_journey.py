"""The demo's folder; the journey tests run it."""

from pathlib import Path

import pytest

from transduce.demo import journey


def test_a_demo_killed_before_its_recipe_was_renamed_is_begun_again(tmp_path: Path):
    (tmp_path / ".recipe.toml.new-4194399").touch()

    journey._clear(tmp_path)


def test_hidden_files_of_others_are_not_a_demo(tmp_path: Path):
    (tmp_path / ".profile").touch()

    with pytest.raises(ValueError, match="is not a demo's folder"):
        journey._clear(tmp_path)


def test_hidden_files_of_others_in_a_demos_folder_are_refused_and_stay(tmp_path: Path):
    (tmp_path / "recipe.toml").write_text('name = "demo"\n')
    (tmp_path / ".git").mkdir()

    with pytest.raises(ValueError, match=r"\.git is not the demo's"):
        journey._clear(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"recipe.toml", ".git"}


def test_what_killed_writers_left_is_cleared_with_the_demo(tmp_path: Path):
    (tmp_path / "recipe.toml").write_text('name = "demo"\n')
    for name in (".hypotheses.de.new-4194399", ".results.json.lock"):
        (tmp_path / name).touch()
    (tmp_path / ".model.old-4194399").mkdir()

    journey._clear(tmp_path)

    assert not any(tmp_path.iterdir())


def test_a_demo_killed_while_its_folder_is_cleared_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The recipe comes first here; without it the folder would be nobody's."""
    files = [tmp_path / "recipe.toml", tmp_path / "corpus"]
    files[0].write_text('name = "demo"\n')
    files[1].mkdir()

    def kill(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", lambda folder: iter(files))
        patch.setattr("shutil.rmtree", kill)
        with pytest.raises(KeyboardInterrupt):
            journey._clear(tmp_path)
    journey._clear(tmp_path)

    assert not any(tmp_path.iterdir())
