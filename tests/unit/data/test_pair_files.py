"""Pairs from TMX, XLIFF and JSON lines."""

import gzip
from pathlib import Path

import pytest

from transduce.data.corpus import read_pairs

TMX = """<?xml version="1.0"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="de-DE"><seg>Ein <bpt i="1">&lt;b&gt;</bpt>Hund<ept i="1">x</ept></seg></tuv>
<tuv xml:lang="en-GB"><seg>A <hi>dog</hi> &amp;</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>only</seg></tuv></tu>
</body></tmx>"""
XLIFF = """<xliff version="1.2"><file source-language="en" target-language="de">
<trans-unit><source>A <g id="1">dog</g></source><target>Ein Hund</target>
<alt-trans><source>no</source><target>nein</target></alt-trans></trans-unit>
<trans-unit><source>B</source><target state="new">B</target></trans-unit></file></xliff>"""
XLIFF_2 = """<xliff version="2.0" srcLang="en" trgLang="de"><file><unit><segment>
<source>A dog</source><target>Ein Hund</target></segment></unit></file></xliff>"""

TBX_2 = """<martif type="TBX"><text><body><termEntry id="1">
<langSet xml:lang="de"><tig><term>Hund</term></tig></langSet>
<langSet xml:lang="en-GB"><ntig><termGrp><term>dog</term></termGrp></ntig>
<tig><term>hound</term></tig></langSet></termEntry></body></text></martif>"""
TBX_3 = """<tbx xmlns="urn:iso:std:iso:30042:ed-2" xml:lang="en"><text><body><conceptEntry id="1">
<langSec xml:lang="en"><termSec><term>dog</term></termSec></langSec>
<langSec xml:lang="de"><termSec><term>Hund</term></termSec></langSec>
</conceptEntry></body></text></tbx>"""


def pairs(
    path: Path, content: str | bytes, languages: tuple[str, str] = ("", "")
) -> list[tuple[str, str]]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [tuple(pair) for _, pair in read_pairs([path], languages=languages)]


def test_a_translation_memory(tmp_path: Path) -> None:
    file = tmp_path / "a.tmx"

    assert pairs(file, TMX) == [("A dog &", "Ein Hund")]
    assert pairs(file, TMX, ("de", "en")) == [("Ein Hund", "A dog &")]
    assert pairs(file, TMX, ("fr", "en")) == [("", "A dog &")]
    assert pairs(file, TMX.encode("utf-16")) == [("A dog &", "Ein Hund")]
    assert pairs(tmp_path / "a.tmx.gz", gzip.compress(TMX.encode())) == [("A dog &", "Ein Hund")]


def test_xliff(tmp_path: Path) -> None:
    assert pairs(tmp_path / "a.xlf", XLIFF) == [("A dog", "Ein Hund")]
    assert pairs(tmp_path / "a.xlf", XLIFF, ("de", "en")) == [("Ein Hund", "A dog")]
    assert pairs(tmp_path / "a.xliff", XLIFF_2) == [("A dog", "Ein Hund")]


def test_a_side_of_xliff_without_a_language_is_the_other_one(tmp_path: Path) -> None:
    file = tmp_path / "a.xliff"
    for declared in ('srcLang="en"', 'trgLang="de"', ""):
        content = XLIFF_2.replace('srcLang="en" trgLang="de"', declared)

        assert pairs(file, content, ("en", "de")) == [("A dog", "Ein Hund")]
    content = XLIFF_2.replace(' trgLang="de"', "")
    assert pairs(file, content, ("de", "en")) == [("Ein Hund", "A dog")]
    assert pairs(file, content, ("fr", "de")) == [("", "Ein Hund")]


def test_codes_of_three_letters_name_the_same_languages(tmp_path: Path) -> None:
    content = TMX.replace('"de-DE"', '"deu"').replace('"en-GB"', '"eng"')

    assert pairs(tmp_path / "a.tmx", content, ("en", "de")) == [("A dog &", "Ein Hund")]
    assert pairs(tmp_path / "a.tmx", TMX, ("eng", "ger")) == [("A dog &", "Ein Hund")]


VARIANTS = """<tmx><body>
<tu><tuv xml:lang="en"><seg>bus</seg></tuv><tuv xml:lang="pt-PT"><seg>autocarro</seg></tuv>
<tuv xml:lang="pt-BR"><seg>ônibus</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>car</seg></tuv><tuv xml:lang="pt-PT"><seg>carro</seg></tuv></tu>
</body></tmx>"""


@pytest.mark.parametrize(
    ("languages", "expected"),
    [
        (("en", "pt-PT"), [("bus", "autocarro"), ("car", "carro")]),
        (("en", "pt_BR"), [("bus", "ônibus"), ("car", "carro")]),
        (("en", "por-BR"), [("bus", "ônibus"), ("car", "carro")]),
        (("en", "pt"), [("bus", "autocarro"), ("car", "carro")]),
        (("pt-PT", "pt-BR"), [("autocarro", "ônibus"), ("carro", "")]),
    ],
)
def test_a_variant_of_a_language_is_preferred_to_others(
    tmp_path: Path, languages: tuple[str, str], expected: list[tuple[str, str]]
) -> None:
    assert pairs(tmp_path / "a.tmx", VARIANTS, languages) == expected


@pytest.mark.parametrize("content", [TBX_2, TBX_3])
def test_the_first_terms_of_a_concept_in_tbx(tmp_path: Path, content: str) -> None:
    assert pairs(tmp_path / "a.tbx", content, ("en", "de")) == [("dog", "Hund")]
    assert pairs(tmp_path / "a.tbx", content, ("de", "en")) == [("Hund", "dog")]


PO = r"""# a comment
msgid ""
msgstr "Language: de_DE\n"

#, fuzzy
msgid "not sure"
msgstr "x"

#, fuzzy
#~ msgid "obsolete"
#~ msgstr "x"

#, c-format
msgid "A \"dog\""
msgstr ""
"Ein "
"\"Hund\""

msgid "untranslated"
msgstr ""

msgid "%d cat"
msgid_plural "%d cats"
msgstr[0] "%d Katze"
msgstr[1] "%d Katzen"
"""


def test_po(tmp_path: Path) -> None:
    file = tmp_path / "a.po"
    german = [('A "dog"', 'Ein "Hund"'), ("%d cat", "%d Katze"), ("%d cats", "%d Katzen")]

    assert pairs(file, PO) == german
    assert pairs(file, f"\ufeff{PO}", ("en", "de")) == german
    assert pairs(file, PO, ("de", "en")) == [pair[::-1] for pair in german]
    assert pairs(file, PO, ("en", "fr")) == [("", "")] * 3
    assert pairs(file, PO.replace("Language: ", "X: "), ("en", "fr")) == german
    assert pairs(tmp_path / "a.po.gz", gzip.compress(PO.encode())) == german


def test_csv(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"

    assert pairs(file, 'A,"B, ""c"""\r\n\r\n"D\nE",F') == [("A", 'B, "c"'), ("D\nE", "F")]
    assert pairs(file, "\ufeffA;B\n") == [("A", "B")]
    assert pairs(file, "\ufeff\r\n\nA;B\n") == [("A", "B")]
    assert pairs(file, "He came; she left.,Ja\nA,B\n") == [("He came; she left.", "Ja"), ("A", "B")]
    assert pairs(file, "A, b;B\nC;D, d\n") == [("A, b", "B"), ("C", "D, d")]
    assert pairs(file, "A;b;c,B\nC;d;e,D\n") == [("A;b;c", "B"), ("C;d;e", "D")]
    assert pairs(file, "Wait; stop,B\n") == [("Wait; stop", "B")]
    assert pairs(file, 'A,"B;\nb"\n') == [("A", "B;\nb")]
    assert pairs(file, "id;de;en\n1;Hund, der;dog\n", ("en", "de")) == [("dog", "Hund, der")]
    named = "id,de,en\n1,Hund,dog\n"
    assert pairs(file, named, ("en", "de")) == [("dog", "Hund")]
    assert pairs(file, "target,x,source\nHund,,dog\n") == [("dog", "Hund")]
    assert pairs(file, "Source,Target,Notes\ndog,Hund,x\n") == [("dog", "Hund")]
    assert pairs(file, "ID, EN, De\n1,dog,Hund\n", ("en", "de")) == [("dog", "Hund")]
    assert pairs(tmp_path / "a.csv.gz", gzip.compress(b"A,B")) == [("A", "B")]


def test_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"

    assert pairs(file, '{"source": "A", "target": "B"}\n{"src": "C", "tgt": "D"}') == [
        ("A", "B"),
        ("C", "D"),
    ]
    assert pairs(file, '\ufeff{"source": "A", "target": "B"}\n') == [("A", "B")]
    hugging_face = '{"translation": {"en": "A", "de": "B"}}\n'
    assert pairs(file, hugging_face, ("de", "en")) == [("B", "A")]
    nothing = '{"translation": "a text", "source": null, "target": "B"}'
    assert pairs(file, nothing) == [("", "B")]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.tmx", "<tmx>\n<tu></tmx>", "line 2: not well-formed XML: mismatched tag"),
        ("a.tmx", '<!DOCTYPE tmx [<!ENTITY a "b">]><tmx/>', "declares entities is refused"),
        ("a.tmx", '<?xml version="1.0" encoding="foo"?><tmx/>', "a.tmx: unknown encoding: foo;"),
        ("a.tmx", '<?xml version="1.0" encoding="shift_jis"?><tmx/>', "; convert it to UTF-8 and"),
        ("a.tmx", "<tmx/>", "no line to read"),
        ("a.po", 'msgid "a"\nmsgstr "b\n', "line 2: expected a comment, msgid, msgstr or"),
        ("a.po", b'msgid "\xff"\n', "line 1: not UTF-8"),
        ("a.csv", "a,b,c\n", "3 columns: name two of them source and target"),
        ("a.csv", "a,,b\n", "3 columns: name two of them source and target"),
        ("a.csv", "a,b\n\nc\n", "a.csv, line 3: 1 columns where there are 2: c"),
        ("a.csv", f"a,b\n{'c' * 500}\n", r"1 columns where there are 2: c{197}\.\.\.$"),
        ("a.csv", 'a,b\nc,"d\n\n', "a.csv, line 2: not CSV: unexpected end of data"),
        ("a.csv", 'a,"b\n', "a.csv, line 1: not CSV: unexpected end of data"),
        ("a.csv", "a,b\nc\rd,e\n", "a.csv, line 2: not CSV: new-line character seen in unquoted"),
        ("a.csv", b"a,b\na,\xff\n", "a.csv, line 2: not UTF-8 .byte 0xff at byte 3 of the line"),
        ("a.csv", "", "no line to read"),
        ("a.parquet", "PAR1", "a.parquet: .parquet is no format of pairs: convert it to TSV, .tmx"),
        ("a.jsonl", "[1]\n", 'line 1: expected an object with texts "source" and "target" or'),
        ("a.jsonl", '{"source": 1, "target": "B"}', "line 1: expected an object with texts"),
        ("a.jsonl", "{\n", "line 1: not a JSON object"),
        ("a.jsonl", b'{"source": "\xff"}\n', "line 1: not UTF-8"),
    ],
)
def test_a_broken_file_is_refused(
    tmp_path: Path, name: str, content: str | bytes, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        pairs(tmp_path / name, content)
