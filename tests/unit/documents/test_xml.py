"""Text is spliced into XML and into archives of it; everything else stays."""

# ruff: noqa: E501

import io
import random
import re
import time
import zipfile
from contextlib import suppress
from xml.etree import ElementTree

import pytest
from tests.archives import (
    CATALOGUES,
    MARKDOWN,
    STRING_CATALOG,
    archive,
    reversed_words,
    same,
    translated,
    unpacked,
    upper_words,
)

from transduce.documents import xml_formats
from transduce.documents.formats import read_document

WORD = '<?xml version="1.0"?>\n<w:document xmlns:w="w" xmlns:r="r"><w:body>{}</w:body></w:document>'
RED = "<w:rPr><w:b/></w:rPr>"


def word(body: str, **others: str) -> bytes:
    files = {"[Content_Types].xml": "<Types/>", "word/document.xml": WORD.format(body), **others}
    return archive(files)


def run(text: str, properties: str = "") -> str:
    return f'<w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


def translated_word(body: str, translate: object = reversed_words) -> str:
    document = read_document("a.docx", word(body))
    text = unpacked(translated(document, translate))["word/document.xml"].decode()
    head, tail = WORD.split("{}")
    assert text.startswith(head)
    assert text.endswith(tail)
    ElementTree.fromstring(text)
    return text[len(head) : -len(tail)]


def texts(name: str, content: str | bytes) -> list[str]:
    content = content if isinstance(content, bytes) else content.encode()
    return [segment.text for segment in read_document(name, content).segments]


def becomes(name: str, content: str) -> str:
    document = read_document(name, content.encode())
    return translated(document, reversed_words).decode()


# Word


def test_a_paragraph_keeps_its_properties() -> None:
    body = '<w:p w:rsidR="1"><w:pPr><w:jc/></w:pPr><w:r><w:t>One dog</w:t></w:r></w:p>'

    changed = body.replace("<w:t>One dog", '<w:t xml:space="preserve">DOG ONE')
    assert translated_word(body) == changed


def test_a_bold_word_is_moved_with_its_translation() -> None:
    body = f"<w:p>{run('A ')}{run('red', RED)}{run(' dog &amp; cat')}</w:p>"

    assert (
        translated_word(body) == f"<w:p>{run('CAT &amp; DOG ')}{run('RED', RED)}{run(' A')}</w:p>"
    )


def test_runs_that_look_alike_are_one_text() -> None:
    body = f"<w:p>{run('Wo', RED)}<w:proofErr/>{run('rd', RED)}{run('s here')}</w:p>"

    assert texts("a.docx", word(body)) == ["<g id=0>Word</g>s here"]
    assert texts("a.docx", word(f"<w:p>{run('a')}<w:proofErr/>{run('b')}</w:p>")) == ["ab"]


@pytest.mark.parametrize("empty", ["<w:t/>", "<w:t />", "<w:t></w:t>"])
def test_a_run_without_characters_goes(empty: str) -> None:
    body = f"<w:p>{run('Note: ', RED)}<w:r>{empty}</w:r>{run('a longer text')}</w:p>"

    changed = translated_word(body, upper_words)

    assert changed == f"<w:p>{run('NOTE:', RED)}{run(' A LONGER TEXT')}</w:p>"


def test_links_breaks_and_notes_are_kept() -> None:
    link = '<w:hyperlink r:id="x">{}</w:hyperlink>'
    note = '<w:r><w:footnoteReference w:id="1"/></w:r>'
    broken = '<w:r><w:t xml:space="preserve"> now</w:t><w:br/><w:t xml:space="preserve">or so</w:t></w:r>'

    text = translated_word(f"<w:p>{link.format(run('Click'))}{broken}{note}</w:p>")

    line_end = "<w:r><w:br/></w:r>"
    assert text == (
        f"<w:p>{run('NOW ')}{link.format(run('CLICK'))}{line_end}{run('SO OR')}{note}</w:p>"
    )


def test_words_outside_of_the_only_link_get_its_formatting() -> None:
    body = f"<w:p><w:hyperlink>{run('Click', RED)}</w:hyperlink></w:p>"
    document = read_document("a.docx", word(body))

    content = unpacked(document.rebuild(["<g id=0>Klick</g>!"]))["word/document.xml"].decode()

    link = f"<w:hyperlink>{run('Klick', RED)}</w:hyperlink>{run('!', RED)}"
    assert f"<w:p>{link}</w:p>" in content


def test_fields_text_boxes_and_formulas_end_a_text() -> None:
    field = "<w:r><w:fldChar/></w:r><w:r><w:instrText>PAGE x</w:instrText></w:r>"
    box = f"<w:r><w:drawing><w:p>{run('in it')}</w:p></w:drawing></w:r>"
    body = f"<w:p>{run('Page one')}{field}{run('after')}{box}<w:oMath><w:r><w:t>x</w:t></w:r></w:oMath></w:p>"

    changed = translated_word(body)

    assert texts("a.docx", word(body)) == ["Page one", "after", "in it"]
    expected = body.replace("Page one", "ONE PAGE").replace("after", "AFTER")
    assert changed == expected.replace("in it", "IT IN")


def test_bookmarks_stay_in_order() -> None:
    start, end = '<w:bookmarkStart w:id="1"/>', '<w:bookmarkEnd w:id="1"/>'
    body = f"<w:p>{run('One ')}{start}{run('red ')}{run('big ', RED)}{end}{run('dog')}</w:p>"

    text = translated_word(body)

    assert text.index(start) < text.index(end)


def test_parts_of_an_archive_without_text_stay() -> None:
    content = word(
        f"<w:p>{run('One dog')}</w:p>", **{"word/media/a.png": "\0x", "word/styles.xml": "<a/>"}
    )

    before, after = unpacked(content), unpacked(translated(read_document("a.docx", content)))

    assert list(before) == list(after)
    assert [name for name in before if before[name] != after[name]] == ["word/document.xml"]


# Slides, tables, OpenDocument, books


def test_slides() -> None:
    slide = '<p:sld xmlns:a="a" xmlns:p="p"><a:p><a:r><a:rPr b="1"/><a:t>{}</a:t></a:r><a:fld><a:t>3</a:t></a:fld></a:p></p:sld>'
    content = archive({"ppt/slides/slide1.xml": slide.format("A dog"), "ppt/x.xml": "<a/>"})

    after = unpacked(translated(read_document("a.pptx", content), reversed_words))

    assert after["ppt/slides/slide1.xml"].decode() == slide.format("DOG A")


def test_cells_but_not_the_columns_of_tables() -> None:
    strings = "<sst><si><t>{}</t></si><si><t>Name &amp; no</t></si><si><t>42</t></si></sst>"
    table = (
        '<table><tableColumns><tableColumn id="1" name="Name &amp;amp; no"/></tableColumns></table>'
    )
    table = table.replace("&amp;amp;", "&amp;")
    content = archive(
        {"xl/sharedStrings.xml": strings.format("A dog"), "xl/tables/table1.xml": table}
    )

    document = read_document("a.xlsx", content)

    assert [segment.text for segment in document.segments] == ["A dog"]
    changed = unpacked(translated(document))["xl/sharedStrings.xml"].decode()
    assert changed == strings.format("A DOG").replace("<t>A", '<t xml:space="preserve">A')


def test_escapes_of_cells() -> None:
    strings = "<sst><si><t>A_x000D_\ndog _x005F_x0041_</t></si><si><t>Column\none</t></si></sst>"
    table = '<table><tableColumn name="Column_x000a_one"/></table>'
    content = archive({"xl/sharedStrings.xml": strings, "xl/tables/table1.xml": table})
    document = read_document("a.xlsx", content)

    made = unpacked(document.rebuild(["a\r\n_x0041_x0042_\a"]))["xl/sharedStrings.xml"].decode()

    assert [segment.text for segment in document.segments] == ["A\r\ndog _x0041_"]
    assert ">a_x000D_\n_x005F_x0041_x005F_x0042__x0007_</t>" in made


def test_cells_of_worksheets_are_read_if_they_have_text() -> None:
    sheet = '<worksheet><c t="inlineStr"><is><t>A dog</t></is></c></worksheet>'
    files = {"xl/worksheets/sheet1.xml": sheet, "xl/worksheets/sheet2.xml": "<c><v>1</v>"}

    document = read_document("a.xlsx", archive(files))

    assert [segment.text for segment in document.segments] == ["A dog"]


def test_open_document() -> None:
    body = "<office:text><text:p>A <text:span>{}</text:span><text:s/> dog, page <text:page-number>one</text:page-number></text:p></office:text>"
    content = archive(
        {
            "mimetype": "x",
            "content.xml": body.format("red").replace(
                "<office:text", '<office:text xmlns:office="o" xmlns:text="t"'
            ),
        },
        stored=("mimetype",),
    )

    (segment,) = read_document("a.odt", content).segments
    after = unpacked(translated(read_document("a.odt", content)))["content.xml"].decode()

    assert segment.text == "A <g id=0>red</g><img id=1> dog, page <code id=2>one</code>"
    assert "<text:span>RED</text:span><text:s/> DOG" in after
    assert "<text:page-number>one</text:page-number>" in after


def test_a_book() -> None:
    page = '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "x">\n<html><head><title>A&nbsp;b</title><style>p {{}}</style></head><body><p>One<br/>\n <i>{}</i> <a id="1"/>dog</p><pre>no no</pre></body></html>'
    files = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": "<x/>",
        "a.xhtml": page.format("red"),
    }
    content = archive(files, stored=("mimetype",))
    document = read_document("a.epub", content)

    after = translated(document)

    result = [segment.text for segment in document.segments]
    assert result == ["A\xa0b".replace("\xa0", " "), "One", "<g id=0>red</g> <img id=1>dog"]
    assert "<i>RED</i>" in unpacked(after)["a.xhtml"].decode()
    with zipfile.ZipFile(io.BytesIO(after)) as archived:
        first = archived.infolist()[0]
    assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)


# Catalogues


def test_xliff_1_is_filled() -> None:
    unit = '<trans-unit id="1"{}>\n <source>A <g id="1">red</g> dog<x id="2"/></source>{}\n</trans-unit>'
    new = '\n <target state="needs-review-translation" state-qualifier="mt-suggestion">{}</target>'
    wrap = '<xliff version="1.2"><file>{}</file></xliff>'.format
    text = 'DOG <g id="1">RED</g> A<x id="2"/>'

    assert becomes("a.xlf", wrap(unit.format("", ""))) == wrap(unit.format("", new.format(text)))
    for kept in (
        unit.format(' translate="no"', ""),
        unit.format("", "<target>x</target>"),
        unit.format(' approved="yes"', "<target/>"),
    ):
        assert becomes("a.xlf", wrap(kept)) == wrap(kept)
    page = wrap(unit.format("", "{}"))
    for state in ("new", "needs-translation"):
        copied = f'<target state="{state}" xml:lang="de" state-qualifier="x">A dog</target>'
        filled = new.strip().replace("<target", '<target xml:lang="de"').format(text)
        assert becomes("a.xlf", page.format(copied)) == page.format(filled)
    page = page.format('<seg-source><mrk mid="1">A dog</mrk></seg-source><target>{}</target>')
    for empty in ('<mrk mid="1"/>', '\n<mrk mid="1"></mrk>\n'):
        filled = page.format('<mrk mid="1">DOG A</mrk>')
        assert becomes("a.xlf", page.format(empty)) == filled


def test_xliff_2_is_filled() -> None:
    page = '<xliff version="2.0"><file><unit id="1"><segment><source>A <pc id="1">red</pc> dog</source>{}</segment></unit></file></xliff>'

    full = page.format('<target>DOG <pc id="1">RED</pc> A</target>')
    assert becomes("a.xliff", page.format("")) == full
    assert becomes("a.xliff", page.format("<target/>")) == full
    assert becomes("a.xliff", full) == full


@pytest.mark.parametrize("named", ["", ' trgLang="fr"'])
def test_xliff_2_names_the_language_of_its_targets(named: str) -> None:
    page = '<!-- <xliff x> --><xliff version="2.0" srcLang="en"{}><unit><segment><source>A dog</source>{}</segment></unit></xliff>'
    source = page.format(named, "")
    full = page.format(named or ' trgLang="de"', "<target>A DOG</target>")

    document = read_document("a.xliff", source.encode(), target="de")

    assert translated(document).decode() == full
    filled = page.format("", "<target>A</target>").encode()
    assert same(read_document("a.xliff", filled, target="de")) == filled


def test_qt_is_filled() -> None:
    page = '<!DOCTYPE TS>\n<TS><context><name>x</name><message numerus="yes"><source>Open %n file(s)</source><translation type="unfinished">{}</translation></message></context></TS>'

    after = becomes("a.ts", page.format("<numerusform></numerusform><numerusform/>"))

    form = "<numerusform>OPEN %n FILE(S)</numerusform>"
    assert after == page.format(form * 2)


def test_android_keeps_references_and_escapes() -> None:
    page = "<resources><string name='a'>It\\'s <b>%1$s</b>\\nok</string><string name='b' translatable='false'>No</string><string name='c'>@string/a</string><plurals name='d'><item quantity='one'>a dog</item></plurals></resources>"

    after = becomes("strings.xml", page)

    assert after == page.replace("It\\'s", "IT\\'S").replace("ok", "OK").replace("a dog", "DOG A")


def test_items_of_styles_are_no_texts_of_android() -> None:
    page = "<resources><style name='a'><item name='x'>bold red</item>\n</style><string name='b'>a dog</string><string-array name='c'>\n<item>a cat</item><!-- no -->\n<item>an elk</item></string-array><item type='id' name='y'>no text</item></resources>"

    after = becomes("strings.xml", page)

    assert after == page.replace("a dog", "DOG A").replace("a cat", "CAT A").replace(
        "an elk", "ELK AN"
    )


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("A\n    dog", "A dog"),
        ("\n A  dog\\n b ", " A dog\n b "),
        ('A "dog\n  b"  c""d\\"  e', 'A dog\n  b cd" e'),
        ('A\u00a0 dog "b  ', "A\u00a0 dog b  "),
    ],
)
def test_white_space_of_android_counts_in_quotes(content: str, text: str) -> None:
    assert texts("a.xml", f"<resources><string>{content}</string></resources>") == [text]


@pytest.mark.parametrize(
    ("content", "translation", "written"),
    [
        ('" A  dog "', " EIN  HUND ", "\\u0020EIN \\u0020HUND\\u0020"),
        ("\\u0020A dog\\u0020", " HUND ", "\\u0020HUND\\u0020"),
        ("\n  A\n  dog\n", " HUND ", " HUND "),
        ("<![CDATA[\n  A dog\n]]>", " HUND ", " HUND "),
        ('A <b>red</b> dog" "', "A <g id=0>B</g> C ", "A <b>B</b> C\\u0020"),
    ],
)
def test_white_space_of_android_counts_in_a_translation(
    content: str, translation: str, written: str
) -> None:
    page = "<resources><string>{}</string></resources>"
    document = read_document("a.xml", page.format(content).encode())

    assert document.rebuild([translation]).decode() == page.format(written)


def test_android_joins_the_halves_of_a_character() -> None:
    page = "<resources><string name='a'>\\uD83D\\uDE00 a dog</string></resources>"

    assert texts("strings.xml", page) == ["😀 a dog"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "iso-8859-1"])
def test_an_encoding_is_kept(encoding: str) -> None:
    declared = "utf-8" if encoding == "utf-8-sig" else encoding
    page = (
        f"<?xml version='1.0' encoding='{declared}'?><resources><string>{{}}</string></resources>"
    )

    document = read_document("a.xml", page.format("é dog").encode(encoding))

    assert document.rebuild(["é Hund"]) == page.format("é Hund").encode(encoding)


# Untrusted files

BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa">]><resources><string>&a;</string></resources>'
OUTSIDE = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><resources><string>&a;</string></resources>'


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (BOMB, "declares entities is refused"),
        (OUTSIDE, "declares entities is refused"),
        ("<resources>\n<string></resources>", "line 2: not well-formed XML: mismatched tag"),
        ("<a>" * 1000 + "</a>" * 1000, "nested more than"),
        ("", "no element found"),
        ("<rss><item>A dog</item></rss>", "expected the root element resources, not rss"),
        ("<?xml version='1.0' encoding='punycode'?><a>b-</a>", "the encoding punycode is not"),
    ],
)
def test_hostile_xml_is_refused(content: str, reason: str) -> None:
    with pytest.raises(ValueError, match=rf"^a\.xml.*{reason}"):
        read_document("a.xml", content.encode())


def encrypted() -> bytes:
    content = bytearray(word(""))
    for match in re.finditer(rb"PK\x01\x02", bytes(content)):
        content[match.start() + 8] |= 1
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"x", "is no Word document"),
        (b"\xd0\xcf\x11\xe0x", "is encrypted or of Office before 2007: save it without"),
        (encrypted(), "is encrypted: save it without a password"),
        (archive({"xl/workbook.xml": "<a/>"}), "is no Word document: it has no word/"),
        (word("", **{"../x": ""}), r"a file outside of its folder, '\.\./x'"),
        (word("", **{"/x": ""}), "a file outside of its folder, '/x'"),
        (word("", **{"C:\\x": ""}), "a file outside of its folder"),
        (word("", **{"word/a": "0" * (20 << 20)}), "unpacks to 20,[0-9,]+ bytes, which is refused"),
        (word("")[:-30], "is no Word document: File is not a zip file"),
    ],
)
def test_a_hostile_archive_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=rf"^a\.docx.*{reason}"):
        read_document("a.docx", content)


def test_too_many_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml_formats, "MAX_ENTRIES", 1)

    with pytest.raises(ValueError, match="has more than 1 files"):
        read_document("a.docx", word(""))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.docx", word("<w:p/>", **{"word/header1.xml": "<a/>" * 2})),
        ("a.xml", b"<resources>" + b"<a/>" * 6 + b"</resources>"),
    ],
)
def test_too_many_tags_are_refused(
    name: str, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xml_formats, "MAX_TAGS", 7)

    with pytest.raises(ValueError, match=rf"^{name} has more than 7 XML tags: split it"):
        read_document(name, content)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.xlf", b"<xliff " * 20_000),
        ("a.xlsx", archive({"xl/tables/table1.xml": "<tableColumn " * 20_000})),
    ],
)
def test_tags_without_end_take_no_time(name: str, content: bytes) -> None:
    begun = time.process_time()

    with suppress(ValueError):
        read_document(name, content)

    assert time.process_time() - begun < 3


MUTATED: dict[str, dict[str, bytes]] = {
    "xml": {
        "a.docx": word(f"<w:p>{run('A ')}{run('red', RED)}{run(' dog')}</w:p>"),
        "a.xlf": b'<xliff version="1.2"><trans-unit><source>A <g id="1">d</g></source></trans-unit></xliff>',
        "a.ts": b"<TS><message><source>A</source><translation><numerusform/></translation></message></TS>",
        "a.xml": b"<resources><string>A <b>dog</b> \\u0041</string></resources>",
    },
    "catalogues": {
        "a.po": b'msgid "A \\"dog\\""\nmsgid_plural "dogs"\nmsgstr[0] ""\nmsgstr[1] ""\n',
        **{name: content.encode() for name, content in CATALOGUES.items()},
    },
    "markdown": {"a.md": MARKDOWN.encode()},
    "pages": {
        "a.srt": b"1\n00:00:01,000 --> 00:00:02,500\nA <i>dog</i>\nruns.\n\n",
        "a.vtt": b"WEBVTT\n\n00:01.000 --> 00:02.500 align:start\n- A dog.\n- A cat.\n",
        "a.html": b"<!doctype html><p title='x'>A <b>red</b> dog.<script>no</script><ul><li>B",
    },
    "archives": {
        "a.pptx": archive({"ppt/slides/slide1.xml": "<p><r><t>A dog</t></r></p>"}),
        "a.xlsx": archive({"xl/sharedStrings.xml": "<sst><si><t>A dog</t></si></sst>"}),
        "a.odt": archive({"content.xml": "<text><p>A <span>red</span> dog</p></text>"}),
        "a.epub": archive({"META-INF/container.xml": "<a/>", "b.xhtml": "<body><p>A</p></body>"}),
    },
    "string_catalog": {"a.xcstrings": STRING_CATALOG.encode()},
}


@pytest.mark.parametrize("family", MUTATED)
def test_mutated_files_never_crash(family: str) -> None:
    chance = random.Random(1)
    originals = MUTATED[family]
    began = time.perf_counter()
    reasons: list[str] = []
    for number in range(200):
        name = list(originals)[number % len(originals)]
        content = bytearray(originals[name])
        for _ in range(chance.randint(1, 8)):
            place = chance.randrange(len(content))
            content[place : place + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        try:
            document = read_document(name, bytes(content), target="de")
        except ValueError as error:
            reasons.append(str(error))
        else:
            translated(document)
            back = same(document)
            assert family != "markdown" or back == bytes(content)

    assert 0 < len(reasons) < 200
    assert not any("\n" in reason for reason in reasons)
    assert time.perf_counter() - began < 20
