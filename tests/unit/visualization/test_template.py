"""Templates escape what goes into HTML, leave Markdown alone, and miss no variable."""

from pathlib import Path

import pytest
from jinja2 import UndefinedError

from transduce.visualization.template import open_template


def test_values_are_escaped_in_html_and_not_in_markdown(tmp_path: Path):
    for name in ("page.html", "page.md"):
        (tmp_path / name).write_text("{{ text }}", encoding="utf-8")

    assert open_template(tmp_path / "page.html").render(text="<b>") == "&lt;b&gt;"
    assert open_template(tmp_path / "page.md").render(text="<b>") == "<b>"


def test_numbers_are_formatted_as_python_does(tmp_path: Path):
    (tmp_path / "page.md").write_text('{{ count | fmt(",") }}', encoding="utf-8")

    assert open_template(tmp_path / "page.md").render(count=29_000) == "29,000"


def test_a_missing_variable_is_an_error(tmp_path: Path):
    (tmp_path / "page.md").write_text("{{ count }}", encoding="utf-8")

    with pytest.raises(UndefinedError, match="'count' is undefined"):
        open_template(tmp_path / "page.md").render()
