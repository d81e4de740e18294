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
