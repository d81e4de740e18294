"""Lines go in and out as they are, or not at all."""

from contextlib import suppress
from pathlib import Path

from transduce.io.streams import open_output, read_lines


def test_lines_end_at_line_feeds_alone(tmp_path: Path):
    (tmp_path / "text").write_bytes("a\u2028b\x85c\vd\n\ne".encode())

    assert read_lines(tmp_path / "text") == ["a\u2028b\x85c\vd", "", "e"]


def test_a_byte_order_mark_is_no_text(tmp_path: Path):
    (tmp_path / "text").write_text("a\nb\n", encoding="utf-8-sig")

    assert read_lines(tmp_path / "text") == ["a", "b"]


def test_an_output_that_fails_midway_leaves_what_was_there(tmp_path: Path):
    (tmp_path / "out").write_text("before")

    with suppress(RuntimeError), open_output(tmp_path / "out") as out:
        out.write(b"half")
        raise RuntimeError

    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_text() == "before"
