"""Files of keys and texts get other values, and otherwise stay byte for byte."""

import json
import time
import tracemalloc

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from tests.archives import CATALOGUES, same, translated

from transduce.documents.formats import read_document
from transduce.documents.markup import segment_text

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def texts(name: str, content: str | bytes) -> list[str]:
    content = content.encode() if isinstance(content, str) else content
    return [segment.text for segment in read_document(name, content).segments]


def rebuilt(name: str, content: str | bytes, *others: str) -> str:
    content = content.encode() if isinstance(content, str) else content
    return read_document(name, content).rebuild(others).decode()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", CATALOGUES)
def test_the_same_texts_give_the_same_bytes(name: str, end: str) -> None:
    content = CATALOGUES[name].replace("\n", end).encode()
    document = read_document(name, content)

    assert document.segments
    assert same(document) == content
    assert translated(document) != content


# ICU, placeholders


def test_the_words_of_icu_plurals_are_texts() -> None:
    plural = "{n, plural, =0 {no files} one {# file of {who}} other {# files}} left"
    document = read_document("a.json", json.dumps({"a": plural}).encode())

    assert json.loads(translated(document)) == {
        "a": "{n, plural, =0 {NO FILES} one {# FILE OF {who}} other {# FILES}} LEFT"
    }


def test_nested_icu_keeps_its_structure() -> None:
    nested = "{g, select, a {{n, plural, one {dog} other {dogs}}} other {{d, date, short} x y}}"
    document = read_document("a.json", json.dumps([nested]).encode())

    assert json.loads(translated(document)) == [
        "{g, select, a {{n, plural, one {DOG} other {DOGS}}} other {{d, date, short} X Y}}"
    ]


def test_formats_of_arguments_are_kept() -> None:
    value = "{count, number} dogs on {d, date, short}, %1$,d cats"
    document = read_document("a.json", json.dumps([value]).encode())

    units = segment_text(document.segments[0].text, "placeholders").units
    assert [unit.text for unit in units[1:]] == ["dogs on", "cats"]


def test_formats_of_times_are_no_texts() -> None:
    assert texts("a.yml", "a: '%d.%m.%Y'\nb: '%-d. %B'\nc: '%d dogs'") == ["%d dogs"]


# JSON


def test_values_of_json_but_not_its_keys_are_texts() -> None:
    content = '{"a": "A dog", "b": [1, "two cats", {"c": "\\u00e9t\\u00e9"}], "d": "-"}'

    assert texts("a.json", content) == ["A dog", "two cats", "été"]
    assert rebuilt("a.json", content, 'Ein "Hund"', "zwei", "é") == (
        '{"a": "Ein \\"Hund\\"", "b": [1, "zwei", {"c": "\\u00e9"}], "d": "-"}'
    )


def test_slashes_and_other_letters_are_escaped_as_elsewhere_in_json() -> None:
    assert rebuilt("a.json", '["a\\/b c"]', "d/é") == '["d\\/é"]'
    assert rebuilt("a.json", '["a/b é"]', "d/é") == '["d/é"]'


def test_metadata_and_descriptions_are_no_texts() -> None:
    assert texts("a.arb", CATALOGUES["a.arb"]) == ["Hello {name}!"]
    assert texts("a.json", CATALOGUES["messages.json"]) == ["A dog $1"]
    assert texts("a.json", '{"a": {"defaultMessage": "Hi you", "description": "no"}}') == ["Hi you"]
    assert texts("a.json", '"Hi you"') == ["Hi you"]


def test_a_key_named_message_hides_no_other_texts() -> None:
    inner = '{"message": "Go", "id": "a b"}, {"message": "Run", "text": "Now"}'
    content = f'{{"message": "Hi you", "title": "A dog", "list": [{inner}]}}'

    assert texts("a.json", content) == ["Hi you", "A dog", "Go", "Run", "Now"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": 1,\n}', r"^a\.json, line \d: not JSON"),
        ("[" * 100_000, r"^a\.json: nested too deeply|^a\.json, line 1: not JSON"),
        ("[" * 101 + "]" * 101, r"^a\.json: nested more than 100 deep$"),
    ],
)
def test_broken_json_is_refused(content: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_document("a.json", content.encode())


def test_strings_of_a_deep_list_take_little_memory() -> None:
    content = "[" * 100 + '"",' * 20_000 + '"a dog"' + "]" * 100
    tracemalloc.start()
    try:
        assert texts("a.json", content) == ["a dog"]
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


@given(ANY_TEXT)
def test_json_can_hold_any_text(text: str) -> None:
    assert json.loads(rebuilt("a.json", '["a dog"]', text)) == [text]


# YAML


def test_styles_of_yaml_stay() -> None:
    content = CATALOGUES["a.yml"]

    assert translated(read_document("a.yml", content.encode())).decode() == (
        content.replace("plain dog", "PLAIN DOG")
        .replace("it''s one", "IT''S ONE")
        .replace('"two \\u00e9"', '"TWO É"')
        .replace("First line.", "FIRST LINE.")
        .replace("Second line.", "SECOND LINE.")
        .replace("a folded\n    text", "A FOLDED TEXT")
        .replace("an anchor", "AN ANCHOR")
        .replace("in a list", "IN A LIST")
    )


def test_line_ends_of_blocks_stay() -> None:
    content = CATALOGUES["a.yml"].replace("\n", "\r\n").encode()
    written = translated(read_document("a.yml", content))
    block = rebuilt("a.yml", "k: |\r\n  a dog\r\n  a cat\r\nj: 1\r\n", "ein Hund\neine Katze")

    assert written.count(b"\n") == written.count(b"\r\n") > 10
    assert block == "k: |\r\n  ein Hund\r\n  eine Katze\r\nj: 1\r\n"


@pytest.mark.parametrize(
    "content",
    ["k: a dog\n", "k: 'a dog'\n", 'k: "a dog"\n', "k: |\n  a dog\n", "k: >-\n  a dog\nj: 1\n"],
)
@given(ANY_TEXT)
@example("\uffff")
@example("a\n  b")
@example("a\n\nb")
def test_yaml_can_hold_any_text(content: str, text: str) -> None:
    text = text.strip("\n") or "x"

    assert yaml.safe_load(rebuilt("a.yaml", content, text))["k"].rstrip("\n") == text


def test_what_is_no_string_in_yaml_is_no_text() -> None:
    assert (
        texts("a.yaml", "a: yes\nb: null\nc: 2020-02-20\nd: !x tagged text\n? key text\n: 1\n")
        == []
    )


def test_broken_yaml_is_refused_by_line() -> None:
    with pytest.raises(ValueError, match=r"^a\.yaml, line 3: not YAML: "):
        read_document("a.yaml", b"a: 1\nb: [\n")


@pytest.mark.parametrize("mark", ["[", "- "])
def test_yaml_of_open_brackets_is_refused_soon(mark: str) -> None:
    begun = time.process_time()

    with pytest.raises(ValueError, match=r"^a\.yaml: nested more than 100 deep$"):
        read_document("a.yaml", mark.encode() * 100_000)

    assert time.process_time() - begun < 3


def test_an_escape_beyond_unicode_is_refused_in_yaml() -> None:
    with pytest.raises(ValueError, match=r"^a\.yaml: not YAML: "):
        read_document("a.yaml", b'a: "\\UFFFFFFFF"\n')


# .properties, .strings


def test_values_of_properties() -> None:
    content = CATALOGUES["a.properties"]

    assert texts("a.properties", content) == ["one two", "It's {0} dog", "été a=b"]
    assert rebuilt("a.properties", content, "eins\nzwei", "l'{0}", "ñ: #") == (
        content.replace("one \\\n    two", "eins\\nzwei")
        .replace("It''s {0} dog", "l''{0}")
        .replace("\\u00e9t\\u00e9 a=b", "\\u00f1: #")
    )


def test_the_encoding_of_properties_stays() -> None:
    document = read_document("a.properties", "a=été là".encode("iso-8859-1"))

    assert document.rebuild(["für 犬"]) == b"a=f\\u00fcr \\u72ac"
    assert rebuilt("a.properties", "a=été là", "für 犬") == "a=für 犬"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_the_encoding_of_strings_stays(encoding: str) -> None:
    content = f"\ufeff{CATALOGUES['a.strings']}".encode(encoding)
    document = read_document("a.strings", content)

    assert [segment.text for segment in document.segments] == ['A "dog" %@', "value here"]
    assert document.rebuild(["a\nb\\", "é"]).decode(encoding) == (
        content.decode(encoding).replace('A \\"dog\\" %@', "a\\nb\\\\").replace("value here", "é")
    )


def test_strings_of_another_encoding_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^a\.strings: not encoded in utf-8"):
        read_document("a.strings", b'"a" = "\xe9t\xe9";')
