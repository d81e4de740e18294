"""Reading never misaligns, cleaning never drops half a pair, and each complaint names its line."""

import bz2
import gzip
import json
import os
from array import array
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.data.corpus import (
    _FORBIDDEN,
    CleaningCounts,
    NumberedPair,
    Pair,
    clean,
    hold_out,
    read_pairs,
    split_pairs,
    tidy,
)


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def two(folder: Path, source: bytes, target: bytes) -> list[Path]:
    return [write(folder / "a.en", source), write(folder / "a.de", target)]


def numbered(*pairs: tuple[str, str]) -> list[NumberedPair]:
    return [NumberedPair(line, Pair(*pair)) for line, pair in enumerate(pairs, start=1)]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_two_files_are_read_line_by_line(tmp_path: Path, suffix: str):
    files = [
        write(tmp_path / f"a.en{suffix}", b"one\ntwo\n"),
        write(tmp_path / f"a.de{suffix}", "eins\nzwö\n".encode()),
    ]

    pairs = list(read_pairs(files))

    assert pairs == numbered(("one", "eins"), ("two", "zwö"))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_tsv_file_has_both_sides(tmp_path: Path, suffix: str):
    file = write(tmp_path / f"a.tsv{suffix}", b"one\teins\ntwo\tzwei")

    pairs = list(read_pairs([file]))

    assert pairs == numbered(("one", "eins"), ("two", "zwei"))


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, separator: str):
    files = two(tmp_path, f"o{separator}ne\ntwo\n".encode(), b"eins\nzwei\n")

    pairs = list(read_pairs(files))

    assert pairs == numbered((f"o{separator}ne", "eins"), ("two", "zwei"))


def test_carriage_return_before_the_line_feed_goes(tmp_path: Path):
    files = two(tmp_path, b"one\r\ntwo\r\n", b"eins\nzwei\r")

    pairs = list(read_pairs(files))

    assert pairs == numbered(("one", "eins"), ("two", "zwei"))


def test_byte_order_mark_goes_from_the_first_line_only(tmp_path: Path):
    files = two(tmp_path, b"\xef\xbb\xbfone\n\xef\xbb\xbftwo", b"eins\nzwei")

    pairs = list(read_pairs(files))

    assert pairs == numbered(("one", "eins"), ("\ufefftwo", "zwei"))


@pytest.mark.parametrize("count", [0, 3])
def test_a_corpus_is_one_or_two_files(count: int):
    with pytest.raises(ValueError, match=f"not {count} files"):
        read_pairs([Path("a")] * count)


def test_missing_file_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match=r"none\.en does not exist; check its name"):
        list(read_pairs([tmp_path / "none.en", write(tmp_path / "a.de", b"eins\n")]))


def test_folder_in_place_of_a_file_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match=r"cannot be read: Is a directory"):
        list(read_pairs([tmp_path]))


@pytest.mark.parametrize("names", [["a.tsv"], ["a.jsonl"], ["b.en", "a.de"]])
def test_a_compression_that_is_not_read_is_named(tmp_path: Path, names: list[str]):
    write(tmp_path / "b.en", b"one\n")
    files = [tmp_path / name for name in names]
    write(files[-1], bz2.compress(b"one\teins\n"))

    with pytest.raises(ValueError, match=r"/a\.\w+ is bzip2: unpack it, or compress it by gzip"):
        list(read_pairs(files, not_utf8="drop"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("names", [["pipe"], ["pipe.tmx"], ["a.en", "pipe"]])
def test_a_pipe_is_refused_since_a_corpus_is_read_several_times(tmp_path: Path, names: list[str]):
    files = [tmp_path / name for name in names]
    os.mkfifo(files[-1])

    with pytest.raises(
        ValueError, match=r"pipe\S* is a pipe, and .*: name a file \(it may be comp"
    ):
        read_pairs(files)
    with pytest.raises(ValueError, match="is a pipe"):
        split_pairs(files, size=5)


def test_unreadable_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")  # a test may run as root

    monkeypatch.setattr(Path, "open", refuse)

    with pytest.raises(ValueError, match=r"a\.tsv cannot be read: Permission denied"):
        list(read_pairs([tmp_path / "a.tsv"]))


def test_truncated_gzip_is_named(tmp_path: Path):
    file = tmp_path / "a.tsv.gz"
    file.write_bytes(gzip.compress(b"one\teins\n" * 997)[:-11])

    with pytest.raises(ValueError, match=r"a\.tsv\.gz is not a complete gzip file"):
        list(read_pairs([file]))


@pytest.mark.parametrize("place", [10, -5])
def test_damaged_gzip_is_named(tmp_path: Path, place: int):
    """The first byte says how the data is packed; the last eight are the checksum and the size."""
    content = bytearray(gzip.compress(b"one\teins\n"))
    content[place] ^= 0xFF
    file = tmp_path / "a.tsv.gz"
    file.write_bytes(content)

    with pytest.raises(ValueError, match=r"a\.tsv\.gz is not a complete gzip file"):
        list(read_pairs([file]))


def test_plain_text_named_gz_is_named(tmp_path: Path):
    file = tmp_path / "a.tsv.gz"
    file.write_bytes(b"one\teins\n")

    with pytest.raises(ValueError, match=r"drop \.gz from its name"):
        list(read_pairs([file]))


def test_gzip_without_gz_in_its_name_is_read(tmp_path: Path):
    file = tmp_path / "a.tsv"
    file.write_bytes(gzip.compress(b"one\teins\n"))

    assert list(read_pairs([file])) == [(1, ("one", "eins"))]


def test_line_that_is_not_utf8_is_named(tmp_path: Path):
    files = two(tmp_path, b"one\ntwo\nthree\n", b"eins\nzwei\ndr\xfci\n")

    with pytest.raises(ValueError, match=r"a\.de, line 3: not UTF-8 \(byte 0xfc at byte 3"):
        list(read_pairs(files))


@pytest.mark.parametrize(
    ("line", "columns", "remedy"),
    [("two", 1, "them$"), ("two\tzwei\tdeux", 3, "them; to keep two: cut -f 1,2 ")],
)
def test_tsv_line_without_two_columns_is_named(
    tmp_path: Path, line: str, columns: int, remedy: str
):
    file = write(tmp_path / "a.tsv", f"one\teins\n{line}\n".encode())

    with pytest.raises(ValueError, match=rf"a\.tsv, line 2: {columns} columns .*{remedy}"):
        list(read_pairs([file]))


@pytest.mark.parametrize(
    ("name", "line"), [("a.tsv", "a\tb"), ("a.jsonl", '{"source": "a", "target": "b"}')]
)
def test_a_blank_line_is_an_empty_pair(tmp_path: Path, name: str, line: str):
    file = write(tmp_path / name, f"{line}\n\n{line}\n\n".encode())
    counts = CleaningCounts()

    kept = [*clean(read_pairs([file]), max_ratio=4.0, counts=counts)]

    assert kept == [(1, ("a", "b")), (3, ("a", "b"))]
    assert counts.dropped == {"empty on both sides": 2}


def test_a_first_line_that_names_the_columns_is_no_pair(tmp_path: Path):
    first = write(tmp_path / "a.tsv", b"\xef\xbb\xbfSource\tTarget\r\none\teins\nsource\ttarget\n")
    more = write(tmp_path / "b.tsv", b"src\ttrg\none\teins\n")
    parts = split_pairs([first], size=2)
    counts = CleaningCounts()

    read = [pair for file in (first, more) for _, pair in read_pairs([file])]
    kept = clean(map(NumberedPair, range(1, 6), read), max_ratio=4.0, counts=counts)

    assert [(line, pair.source) for line, pair in kept] == [(2, "one"), (3, "source"), (5, "one")]
    assert counts.dropped == {"header": 2}
    assert read[0] == read[3] == Pair("", "")
    assert [pair for part in parts for _, pair in read_pairs([first], part=part)] == read[:3]


@pytest.mark.parametrize("not_utf8", ["refuse", "drop"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_refused_with_a_remedy(
    tmp_path: Path, encoding: str, not_utf8: Literal["refuse", "drop"]
):
    text = "\ufeffa dog\n\u4e0a\n"  # a byte of U+4E0A is that of a line feed
    files = two(tmp_path, text.encode(encoding), b"eins\nzwei\n")

    with pytest.raises(
        ValueError, match=r"a\.en is UTF-16, not UTF-8; convert it: iconv -f UTF-16"
    ):
        list(read_pairs(files, not_utf8=not_utf8))


@pytest.mark.parametrize("sides", [1, 2])
def test_corpus_without_a_line_is_refused(tmp_path: Path, sides: int):
    files = two(tmp_path, b"", b"")[:sides]

    with pytest.raises(ValueError, match="no line to read"):
        list(read_pairs(files))


def sentences(count: int) -> list[bytes]:
    return [b"word " * (3 + (7 * i * i) % 31) for i in range(count)]


def test_sides_of_unequal_length_are_counted(tmp_path: Path):
    lines = sentences(89)
    files = two(tmp_path, b"\n".join(lines), b"\n".join(lines[:83]))

    with pytest.raises(ValueError, match=r"a\.en has 89 lines but .*a\.de has 83"):
        list(read_pairs(files))


@pytest.mark.parametrize("missing", [[0], [40], [88], [12, 40, 71], list(range(30, 67))])
@pytest.mark.parametrize("shorter_first", [True, False])
def test_first_line_without_a_partner_is_found(
    tmp_path: Path, missing: list[int], shorter_first: bool
):
    lines = sentences(89)
    data = b"\n".join(lines)
    broken = b"\n".join(line for i, line in enumerate(lines) if i not in missing)
    files = two(tmp_path, *((broken, data) if shorter_first else (data, broken)))

    with pytest.raises(ValueError, match=f"look first near line {missing[0] + 1}$"):
        list(read_pairs(files))


def test_where_lengths_tell_nothing_the_first_missing_line_is_named(tmp_path: Path):
    files = two(tmp_path, b"same\n" * 13, b"same\n" * 11)

    with pytest.raises(ValueError, match=r"near line 12$"):
        list(read_pairs(files))


def test_empty_side_is_missing_from_line_1(tmp_path: Path):
    with pytest.raises(ValueError, match=r"has 0; .* near line 1$"):
        list(read_pairs(two(tmp_path, b"one\n" * 3, b"")))


def test_of_very_many_lines_no_place_is_estimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("transduce.data.corpus._MAX_LOCATED", 12)
    files = two(tmp_path, b"same\n" * 13, b"same\n" * 11)

    with pytest.raises(ValueError, match=r"a\.en has 13 .* has 11; line n must translate line n$"):
        list(read_pairs(files))


def test_pairs_are_dropped_whole_and_counted_with_an_example():
    pairs = numbered(
        ("one", "eins"), ("", "zwei"), ("three", " \t"), ("", ""), ("five", "f" * 90), ("", "sechs")
    )
    counts = CleaningCounts()

    kept = list(clean(pairs, max_ratio=4.0, counts=counts))

    assert kept == pairs[:1]
    assert counts == CleaningCounts(
        kept=1,
        dropped={"empty source": 2, "empty target": 1, "empty on both sides": 1, "length ratio": 1},
        examples={
            "empty source": 2,
            "empty target": 3,
            "empty on both sides": 4,
            "length ratio": 5,
        },
    )


def test_mended_pairs_are_kept_and_counted():
    pairs = numbered(("a\u2028b\x00c", "x\u2029y"), ("cafe\u0301", "Kaffee"), ("d\u2581e", " f "))
    counts = CleaningCounts()

    kept = [pair for _, pair in clean(pairs, max_ratio=4.0, counts=counts)]

    assert kept == [Pair("a b c", "x y"), Pair("café", "Kaffee"), Pair("d e", "f")]
    assert counts.changed == {
        "control or line-separator character": 1,
        "not in NFC": 1,
        "reserved character U+2581": 1,
    }
    assert counts.examples == dict(zip(counts.changed, (1, 2, 3), strict=True))


@pytest.mark.parametrize(("target", "kept"), [("x" * 70, 1), ("x" * 71, 0), ("x " * 70, 1)])
def test_ratio_counts_characters_that_are_not_blank(target: str, kept: int):
    pairs = [*numbered(("tenletters", target)), NumberedPair(2, Pair("two", "zwei"))]

    result = list(clean(pairs, max_ratio=4.0, counts=CleaningCounts()))

    assert len(result) == kept + 1


def test_nothing_left_is_refused_with_the_counts():
    with pytest.raises(ValueError, match=r"left no pair: .*empty source: 2, such as line 1"):
        list(clean(numbered(("", "eins"), ("", "zwei")), max_ratio=4.0, counts=CleaningCounts()))


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(), st.text())))
def test_cleaning_keeps_each_side_with_its_line(texts: list[tuple[str, str]]):
    pairs = [NumberedPair(0, Pair("a", "b")), *numbered(*texts)]
    counts = CleaningCounts()

    kept = list(clean(pairs, max_ratio=4.0, counts=counts))

    assert all(
        pair == Pair(tidy(pairs[line].pair.source), tidy(pairs[line].pair.target))
        for line, pair in kept
    )
    assert counts.kept + sum(counts.dropped.values()) == len(pairs)


@settings(deadline=None)
@given(st.text(alphabet=st.characters()))
def test_tidy_text_is_one_line_and_stays_as_it_is(text: str):
    mended = tidy(text)

    assert len(mended.splitlines()) <= 1
    assert tidy(mended) == mended


def test_held_out_lines_are_at_most_one_in_twenty():
    held = hold_out(range(1, 1000), sources=range(999), count=500, seed=3)

    assert len(held) == 49
    assert held <= set(range(1, 1000))


def test_held_out_lines_depend_on_the_seed_alone():
    first, again, other = (
        hold_out(range(1, 1000), sources=range(999), count=17, seed=seed) for seed in (3, 3, 5)
    )

    assert first == again
    assert first != other
    assert len(first) == 17


def test_too_small_a_corpus_to_hold_out_is_refused():
    with pytest.raises(ValueError, match=r"19 pairs is too small .* data\.validation"):
        hold_out(range(19), sources=range(19), count=7, seed=3)


def test_holding_out_nothing_is_allowed():
    assert hold_out(range(3), sources=range(3), count=0, seed=3) == frozenset()


def test_a_pair_that_is_not_utf8_can_be_dropped_whole_and_counted(tmp_path: Path):
    (tmp_path / "a.en").write_bytes(b"one\ntwo\nthree\n")
    (tmp_path / "a.de").write_bytes(b"eins\nzw\xfcei\ndrei\n")
    counts = CleaningCounts()

    read = read_pairs([tmp_path / "a.en", tmp_path / "a.de"], not_utf8="drop")
    kept = list(clean(read, max_ratio=4.0, counts=counts))

    assert kept == [NumberedPair(1, Pair("one", "eins")), NumberedPair(3, Pair("three", "drei"))]
    assert counts.summary() == "kept 2 pairs; dropped 1 (not UTF-8: 1, such as line 2)"


def test_text_with_every_valid_character_is_never_taken_for_undecoded(tmp_path: Path):
    text = "".join(chr(code) for code in range(0x20, 0x11_0000, 97) if not 0xD800 <= code < 0xE000)
    (tmp_path / "a.tsv").write_text(f"{text}\t{text}\n", encoding="utf-8")
    counts = CleaningCounts()

    list(clean(read_pairs([tmp_path / "a.tsv"], not_utf8="drop"), max_ratio=4.0, counts=counts))

    assert (counts.kept, counts.dropped) == (1, {})


@settings(deadline=None)
@given(
    st.lists(st.text(st.sampled_from("ab ä\r\u2028"), max_size=7), min_size=1, max_size=9),
    st.integers(1, 13),
    st.booleans(),
)
def test_lines_come_whole_however_a_file_is_cut_into_blocks(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], block: int, ended: bool
):
    folder = tmp_path_factory.mktemp("corpus")
    text = "\n".join(lines) + "\n" * (ended or not lines[-1])
    files = two(folder, text.encode(), text.encode())

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("transduce.data.corpus._BLOCK", block)
        pairs = [pair for _, pair in read_pairs(files)]

    assert pairs == [Pair(line.removesuffix("\r"), line.removesuffix("\r")) for line in lines]


@settings(max_examples=20, deadline=None)
@given(lines=st.integers(1, 40), size=st.integers(1, 12), block=st.integers(1, 30))
def test_ranges_give_the_pairs_of_the_corpus(
    tmp_path_factory: pytest.TempPathFactory, lines: int, size: int, block: int
):
    folder = tmp_path_factory.mktemp("corpus")
    rows = [(f"é{number}" * (number % 3), f"b{number}") for number in range(lines)]
    sides = ["\r\n".join([*side, ""]).encode() for side in zip(*rows, strict=True)]
    objects = (json.dumps({"source": row[0], "target": row[1]}) for row in rows)
    (folder / "a.jsonl").write_text("\n".join(objects))
    write(folder / "a.tsv.gz", "".join(f"{a}\t{b}\n" for a, b in rows).encode())

    for files in (two(folder, b"\xef\xbb\xbf" + sides[0], sides[1]), ["a.jsonl"], ["a.tsv.gz"]):
        files = [folder / file for file in files]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("transduce.data.corpus._BLOCK", block)
            parts = split_pairs(files, size=size)
            read = [list(read_pairs(files, part=part)) for part in parts]

        assert [pair for pairs in read for pair in pairs] == list(read_pairs(files))
        assert {len(pairs) for pairs in read[:-1]} <= {size}
        assert [part.pairs for part in parts] == [len(pairs) for pairs in read]


def test_sides_of_different_lengths_and_no_lines_cannot_be_split(tmp_path: Path):
    with pytest.raises(ValueError, match=r"has 2 lines but .* has 1"):
        split_pairs(two(tmp_path, b"a\nb\n", b"a\n"), size=5)
    with pytest.raises(ValueError, match="no line to read"):
        split_pairs(two(tmp_path, b"", b""), size=5)


@pytest.mark.parametrize("block", [1, 5, 1 << 18])
def test_a_line_that_is_not_utf8_is_named_in_whatever_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
):
    monkeypatch.setattr("transduce.data.corpus._BLOCK", block)
    files = two(tmp_path, b"a\nb\nc\xff\nd\n", b"a\nb\nc\nd\n")
    read: list[NumberedPair] = []

    with pytest.raises(ValueError, match=r"a\.en, line 3: not UTF-8 \(byte 0xff at byte 2 of"):
        read.extend(read_pairs(files))

    dropped = [pair.source for _, pair in read_pairs(files, not_utf8="drop")]
    assert dropped == ["a", "b", "c\udcff", "d"]


@pytest.mark.parametrize("block", [3, 1 << 18])
def test_a_line_that_has_no_end_is_refused_before_it_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
):
    monkeypatch.setattr("transduce.data.corpus._BLOCK", block)
    monkeypatch.setattr("transduce.data.corpus._LONGEST", 11)
    files = two(tmp_path, b"a\n" + b"b" * 12, b"a\nb\n")

    with pytest.raises(ValueError, match=r"a\.en, line 2: more than 11 bytes"):
        list(read_pairs(files))


def test_what_is_printable_a_line_can_hold_and_is_no_blank_but_the_space():
    # the quick ways of `one_line` and of the ratio rest on it, and Unicode grows
    printable = [item for item in map(chr, range(0x110000)) if item.isprintable()]

    assert [item for item in printable if _FORBIDDEN.match(item)] == ["\u2581"]
    assert [item for item in printable if item.isspace()] == [" "]


@pytest.mark.parametrize("text", ["a\tb", "a\x7fb", "a\u2581b", "ä\u2581b", "ä\x85b", "ä\udc80b"])
def test_what_a_line_cannot_hold_becomes_a_space(text: str):
    assert tidy(text) == f"{text[0]} b"


@pytest.mark.parametrize("blank", [" ", "\u3000", "\xa0", "\t", "\x1f"])
def test_no_blank_counts_for_the_ratio(blank: str):
    many = numbered(("a" * 10, f"ä{blank * 9}" * 10))

    assert list(clean(many, max_ratio=1.0, counts=CleaningCounts()))


@pytest.mark.parametrize("count", [7, 1000])
def test_held_out_lines_may_come_as_an_array(count: int):
    lines = list(range(5, 4000, 3))

    chosen = hold_out(array("I", lines), sources=lines, count=count, seed=3)

    assert chosen == hold_out(lines, sources=lines, count=count, seed=3)
    assert chosen <= set(lines)


def test_all_pairs_of_a_source_are_held_out_together():
    sources = [line // 3 for line in range(300)]

    held = hold_out(range(300), sources=sources, count=10, seed=3)

    assert len(held) == 9
    assert all({line - line % 3 + other for other in range(3)} <= held for line in held)


def test_sources_that_all_repeat_too_often_are_refused():
    with pytest.raises(ValueError, match=r"every source .* name files in data\.validation"):
        hold_out(range(40), sources=[1] * 20 + [2] * 20, count=7, seed=3)
