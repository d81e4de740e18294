"""Documents come back with other texts in them, and otherwise byte for byte."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.documents.formats import read_document, wrap_lines

FORMATS = (".txt", ".srt", ".vtt", ".po", ".html")

SRT = """1
00:00:01,000 --> 00:00:02,500
A dog runs
across the street.

2
00:00:03,000 --> 00:00:04,000 X1:1
<i>- Hi {name}.</i>

3
00:00:05,000 --> 00:00:06,000
- Who?
- Me.

4
00:00:07,000 --> 00:00:08,000

"""
VTT = """WEBVTT - x

NOTE a dog

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.500 align:start
<v Ann>A dog.
"""
PO = r"""# A translator.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"

#: a.c:3
#, c-format
msgctxt "menu"
msgid "A \"dog\"\n"
msgstr ""

#, fuzzy
msgid "old"
msgstr "alt"

msgid ""
"one "
"two"
msgstr ""
""

msgid "%d dog"
msgid_plural "%d dogs"
msgstr[0] ""
msgstr[1] ""

#~ msgid "gone"
#~ msgstr ""
"""


def texts(name: str, content: str) -> list[str]:
    return [segment.text for segment in read_document(name, content.encode()).segments]


def rebuilt(name: str, content: str, *others: str) -> str:
    return read_document(name, content.encode()).rebuild(others).decode()


@pytest.mark.parametrize("name", [f"a{ending}" for ending in (".txt", ".srt", ".vtt", ".html")])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("content", [SRT, VTT, SRT.replace("\n", "\r\n"), "", "\n\n"])
def test_the_same_texts_give_the_same_bytes(name: str, bom: str, content: str):
    document = read_document(name, f"{bom}{content}".encode())

    again = document.rebuild([segment.text for segment in document.segments])

    assert again == f"{bom}{content}".encode()


LINES = [
    "1",
    "00:00:01,000 --> 00:00:02,500",
    "",
    "a dog",
    "- a",
    " b ",
    "NOTE",
    "\t",
    "<i>x y</i>",
]


@given(st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(["\n", "\r\n", "\r"]))))
def test_any_subtitles_come_back(lines: list[tuple[str, str]]):
    content = "".join(f"{text}{end}" for text, end in lines).encode()
    try:
        document = read_document("a.srt", content)
    except ValueError:  # broken times
        return

    assert document.rebuild([segment.text for segment in document.segments]) == content


@given(st.text())
def test_any_text_comes_back(text: str):
    content = text.encode(errors="replace")

    for name in ("a.txt", "a.html"):
        document = read_document(name, content)
        assert document.rebuild([segment.text for segment in document.segments]) == content


def test_each_paragraph_of_a_text_is_a_segment():
    content = "A dog.\r\nA cat.\r\n \t\r\n\r\n  One.\n\nTwo.\n"

    assert texts("a.txt", content) == ["A dog.\r\nA cat.", "  One.", "Two.\n"]
    assert rebuilt("a.txt", content, "a", "b", "c") == "a\r\n \t\r\n\r\nb\n\nc"


def test_a_text_and_a_page_are_one_segment():
    (text,) = read_document("b/A.TXT", b"\xef\xbb\xbfA\n").segments
    (page,) = read_document("a.htm", b"<p>A").segments

    assert (text.text, text.markup) == ("A\n", "placeholders")
    assert (page.text, page.markup) == ("<p>A", "html")


# Subtitles


def test_the_texts_of_subtitles():
    assert texts("a.srt", SRT) == [
        "A dog runs across the street.",
        "<i>- Hi {name}.</i>",
        "- Who?\n- Me.",
    ]
    assert texts("a.vtt", VTT) == ["<v Ann>A dog."]


def test_lines_of_a_cue_are_wrapped_again():
    result = rebuilt("a.srt", SRT, "Ein Hund läuft über die Straße.", "x", "- Wer?\n- Ich.")

    expected = SRT.replace("A dog runs\nacross the street.", "Ein Hund läuft\nüber die Straße.")
    expected = expected.replace("<i>- Hi {name}.</i>", "x").replace(
        "- Who?\n- Me.", "- Wer?\n- Ich."
    )
    assert result == expected


def test_line_ends_of_a_cue_stay():
    content = SRT.replace("\n", "\r\n")

    result = rebuilt("a.srt", content, "Ein Hund läuft.", "x", "- Wer?\n- Ich.")

    assert result.count("\r\n") == result.count("\n") == content.count("\n")


def test_a_text_too_short_to_wrap_has_fewer_lines():
    assert rebuilt("a.srt", SRT, "Hund.", "x", "y").startswith(SRT[:32] + "Hund.\n\n2")


@pytest.mark.parametrize(
    ("text", "shares", "lines"),
    [
        ("one two", [1], ["one two"]),
        ("one two three", [1, 1], ["one two", "three"]),
        ("one two three", [1, 2], ["one", "two three"]),
        ("one two three", [1, 1, 1], ["one", "two", "three"]),
        ('<font color="a b">x y', [1, 1], ['<font color="a b">x', "y"]),
        ("犬が走る。", [1, 1], ["犬が", "走る。"]),
        ("one", [1, 1], ["one"]),
        ("aaaaaaaa b c", [1, 1, 8], ["aaaaaaaa", "b", "c"]),
    ],
)
def test_wrapping(text: str, shares: list[int], lines: list[str]):
    assert wrap_lines(text, shares) == lines


def test_a_cue_of_very_many_lines_takes_no_time():
    begun = time.process_time()

    assert len(wrap_lines("a " * 20_011, [1] * 20_011)) == 20_011

    assert time.process_time() - begun < 3


def test_a_blank_line_within_a_cue_is_no_end_of_its_text():
    content = "1\n00:00:01,000 --> 00:00:02,000\none\n\ntwo\n"

    assert texts("a.srt", content) == ["one", "two"]


TIMING = "00:00:01,000 --> 00:00:02,000"


@pytest.mark.parametrize(
    ("content", "cues"),
    [
        (f"1\n{TIMING}\na\nb\n2\n{TIMING}\nc\n", ["a b", "c"]),
        (f"{TIMING}\na\n{TIMING}\n2\n{TIMING}\nb\n", ["a", "b"]),
        (f"1\n{TIMING}\na\n\nb\n2\n{TIMING}\nc\n", ["a", "b", "c"]),
        (f"intro\n{TIMING}\na\n\ntitle\n{TIMING}\nb\n{TIMING}\nc\n", ["a", "b", "c"]),
        (f"WEBVTT\nKind: captions\n{TIMING}\na\n{TIMING}\nb\n", ["a", "b"]),
    ],
)
def test_cues_need_no_empty_line_between_them(content: str, cues: list[str]):
    assert texts("a.srt", content) == cues
    assert rebuilt("a.srt", content, *cues[:-1], "x") == f"{content[:-2]}x\n"


def test_a_line_of_dashes_takes_no_time():
    line = f"1:00{'-' * 200_000}"
    begun = time.process_time()

    assert texts("a.srt", f"{TIMING}\na\n\n{line}") == ["a", line]

    assert time.process_time() - begun < 3


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("a dog\n", 1),
        ("1\n00:00:01 -> 00:00:02\na dog\n", 2),
        ("1\n00:00:01,000 --> 00:00:02,000\na\n\n2\n00:00:05,000 -> 3\nb\n", 6),
        ("1\n00:00:01,000 --> 00:00:02,000\na\n\n2\nb\n", 6),
    ],
)
def test_broken_times_are_refused_by_line(content: str, line: int):
    with pytest.raises(ValueError, match=rf"^a\.srt, line {line}: expected a timing"):
        read_document("a.srt", content.encode())


# .po


def test_only_empty_strings_of_po_are_texts():
    assert texts("a.po", PO) == ['A "dog"\n', "one two", "%d dog", "%d dogs"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_all_else_of_po_stays(end: str):
    content = PO.replace("\n", end)

    result = rebuilt("a.po", content, 'Ein "Hund"\n', "a\nb", "%d Hund", "%d Hunde")

    expected = PO.replace('dog\\"\\n"\nmsgstr ""', 'dog\\"\\n"\nmsgstr "Ein \\"Hund\\"\\n"')
    expected = expected.replace('two"\nmsgstr ""\n""', 'two"\nmsgstr ""\n"a\\n"\n"b"')
    expected = expected.replace('msgstr[0] ""', 'msgstr[0] "%d Hund"')
    expected = expected.replace('msgstr[1] ""', 'msgstr[1] "%d Hunde"')
    assert result == expected.replace("\n", end)


def test_a_single_form_is_the_plurals():
    assert texts("a.po", 'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""') == ["b"]


def test_an_empty_string_of_nothing_stays_in_a_po():
    content = b'msgid ""\nmsgstr ""\n""\n'
    document = read_document("a.po", content)

    assert document.segments == ()
    assert document.rebuild([]) == content


def test_a_po_without_a_last_line_end():
    assert rebuilt("a.po", 'msgid "a"\nmsgstr ""', "b") == 'msgid "a"\nmsgstr "b"'


@given(st.text().filter(lambda text: text.strip() and not set(text) & set("\ud800")))
def test_po_can_hold_any_text(text: str):
    polib = pytest.importorskip("polib")
    clean = text.encode(errors="replace").decode()

    result = rebuilt("a.po", 'msgid "a"\nmsgstr ""\n', clean)

    assert read_document("a.po", result.encode()).segments == ()
    if not set(clean) & set("\r\a\b\f\v\x85\u2028\u2029\x1c\x1d\x1e\\"):
        assert polib.pofile(result)[0].msgstr == clean


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("hello\n", 1),
        ('"hello"\n', 1),
        ('msgid "a"\nmsgstr "b\n', 2),
        ('msgid "a"\nmsgid "b"\n', 2),
        ('msgid "a" b\n', 1),
        ("msgid\n", 1),
    ],
)
def test_a_broken_po_is_refused_by_line(content: str, line: int):
    with pytest.raises(ValueError, match=rf"^a\.po, line {line}: "):
        read_document("a.po", content.encode())


# What cannot be read


def test_an_unknown_ending_is_refused():
    with pytest.raises(ValueError, match=r"^a\.exe: unsupported format; supported are \.txt, "):
        read_document("a.exe", b"x")
    with pytest.raises(ValueError, match=r"^txt: unsupported format"):
        read_document("txt", b"x")


@pytest.mark.parametrize("ending", FORMATS)
def test_what_is_not_utf8_is_refused_by_line(ending: str):
    with pytest.raises(
        ValueError, match=rf"^a\{ending}, line 2: not UTF-8 \(byte 0xff at byte 1 of"
    ):
        read_document(f"a{ending}", b"ab\n\xff\n")


def test_a_wrong_number_of_texts_is_our_own_mistake():
    with pytest.raises(AssertionError, match="2 texts for 1 segments"):
        read_document("a.txt", b"x").rebuild(["a", "b"])
