"""Round trips of real files, and of documents that LibreOffice makes.

    python benchmarks/documents.py FOLDER --model MODEL
    python benchmarks/documents.py --model MODEL

FOLDER has files of other projects and `SOURCES.tsv`: a file's path in the folder, a tab, and where
it is from. Each gets its own texts, and the words of a stub: upper case, each sentence in reverse
order. Counts the files that come back byte for byte with their own texts (of catalogues that are
filled: all that was there), and that still open with the stub's: `json` and PyYAML read the same
keys, `msgfmt` compiles the catalogue, ffmpeg reads the subtitles, XML and HTML have the same tags
(and targets that are added), pages that markdown-it makes of Markdown too, openstep-plist and
javaproperties read the same keys of `.strings` and `.properties`, with a text where there was one,
and these are the same outside of their values; String Catalogs are the same JSON but for German.
The same for the translation by a model, such as the demo's, with the texts in which it lost
placeholders. Of texts with inline tags, counts those whose tags are lost or badly nested, whose
pairs have no text inside any more, and whose tags have another order (`inline_tags`).
Also counts what libraries that write a whole file give back unchanged. Needs gettext, ffmpeg and
`pip install openstep-plist javaproperties`; writes results/documents-real/record.json.

Without FOLDER it needs LibreOffice (`soffice`). Makes five documents of each format from pages and
tables with links, lists, formatting within sentences and special characters. Counts those whose
files come back byte for byte, that LibreOffice converts to PDF and to text once they are
translated by the stub, and whose words are then those of the original; and those that it converts
to PDF once the model translated them; inline tags as above. Writes results/documents/record.json.
"""

import argparse
import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import yaml
from inline_tags import count_tags
from markdown_it import MarkdownIt
from record import ROOT, header, write

from transduce.documents.document import Document
from transduce.documents.formats import read_document
from transduce.documents.registry import format_of_file
from transduce.inference.translator import Translator, translate_texts

sys.path.insert(0, str(ROOT / "tests"))
from archives import reversed_words, same, translated_texts, unpacked

TARGET = "de"
PAGES = (
    "<h1>A letter</h1><p>Dear <b>Ann</b>, the <i>red</i> dog &amp; the cat run home.</p>",
    "<table><tr><td>One dog</td><td>two <b>cats</b></td></tr><tr><td>3</td></tr></table>",
    '<p>See <a href="https://example.org/">our pages</a> now.<br>Or later.</p><hr><p>End</p>',
    "<ul><li>First <u>thing</u></li><li>Second<ol><li>Inner thing</li></ol></li></ul>",
    "<p>A &lt;word&gt;, 5&nbsp;%, caf&eacute; “quoted” words.</p><pre>Code  line</pre>",
)
TABLES = (
    "Name,Size\nA red dog,4\nTwo cats,5\n",
    '"A, comma","a ""quote"""\n"Two dogs run",x y\n',
    "café au lait,a < b & c\n“quoted” words,5 %\n",
    "same words,same words\nother words,same words\n",
    "1,2.5,2020-02-20\nSum of it,3,4\n",
)
FORMATS = {
    "docx": (".odt", "docx:MS Word 2007 XML", "txt:Text (encoded):UTF8"),
    "odt": (".html", "odt", "txt:Text (encoded):UTF8"),
    "odp": (".fodp", "odp", "pdf"),
    "pptx": (".fodp", "pptx:Impress MS PowerPoint 2007 XML", "pdf"),
    "xlsx": (".csv", "xlsx", "csv:Text - txt - csv (StarCalc):44,34,76"),
    "ods": (".csv", "ods", "csv:Text - txt - csv (StarCalc):44,34,76"),
}
SLIDE = """<?xml version="1.0" encoding="UTF-8"?>
<office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"
 xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"
 xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0" office:version="1.2"
 office:mimetype="application/vnd.oasis.opendocument.presentation">
<office:body><office:presentation><draw:page draw:name="p1"><draw:frame svg:width="20cm"
 svg:height="5cm" svg:x="1cm" svg:y="1cm"><draw:text-box><text:p>{}</text:p></draw:text-box>
</draw:frame></draw:page></office:presentation></office:body></office:document>"""


def convert(file: Path, target: str, out: Path) -> Path | None:
    """The file that LibreOffice makes of another; None if it cannot."""
    out.mkdir(exist_ok=True)
    command = ["soffice", "--headless", "--convert-to", target, "--outdir", str(out), str(file)]
    if file.suffix == ".html":
        command.insert(2, "--infilter=HTML (StarWriter)")
    if file.suffix == ".csv":
        command.insert(2, "--infilter=CSV:44,34,76,1")
    subprocess.run(command, check=False, capture_output=True, timeout=120)
    made = out / f"{file.stem}.{target.partition(':')[0]}"
    return made if made.is_file() and made.stat().st_size else None


def words(file: Path | None) -> Counter[str]:
    """The words of a converted file; of PDF, whether it is one."""
    if file is None:
        return Counter()
    content = file.read_bytes()
    if file.suffix == ".pdf":
        return Counter([content[:4].decode()])
    return Counter(re.findall(r"\w+", content.decode("utf-8-sig").upper()))


def sources(name: str, folder: Path) -> list[Path]:
    """Five files for LibreOffice to make documents of."""
    suffix = FORMATS[name][0]
    paths: list[Path] = []
    for number, page in enumerate(TABLES if suffix == ".csv" else PAGES):
        if suffix == ".fodp":
            text = " ".join(re.sub(r"<[^>]+>|&\w+;", " ", page).split())
            content = SLIDE.format(text.replace("dog", "<text:span>dog</text:span>"))
        else:
            content = f"<meta charset=utf-8>{page}" if suffix != ".csv" else page
        path = folder / f"{number}{'.html' if suffix == '.odt' else suffix}"
        path.write_text(content)
        made = convert(path, "odt", folder / "odt") if suffix == ".odt" else path
        assert made is not None, "LibreOffice made no file"
        paths.append(made)
    return paths


def shape(value: object) -> object:
    """JSON or YAML without its strings."""
    if isinstance(value, dict):
        return {key: shape(child) for key, child in value.items()}
    if isinstance(value, list):
        return [shape(child) for child in value]
    return "" if isinstance(value, str) else value


def tags(form: str, content: bytes) -> Counter[str]:
    """The tags of a page, of XML, or of the XML in an archive."""
    counts = Counter[str]()
    if form == "markdown":
        page = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(content.decode())
        counts = tags("html", page.encode())
    elif form == "html":
        parser = HTMLParser()
        parser.handle_starttag = lambda tag, attrs: counts.update([f"{tag} {attrs}"])
        parser.handle_endtag = lambda tag: counts.update([f"/{tag}"])
        parser.feed(content.decode())
    elif form == "epub":
        for name, data in unpacked(content).items():
            if name.endswith((".xhtml", ".ncx", ".opf")):
                counts += tags("xml", data)
    else:
        counts.update(element.tag for element in ElementTree.fromstring(content).iter())
    return counts


def opens(form: str, before: bytes, after: Path) -> bool:
    """Whether a translated file is one of its format, with the structure of the original."""
    content = after.read_bytes()
    if form == "json":
        return shape(json.loads(before)) == shape(json.loads(content))
    if form == "yaml":
        old, new = (list(yaml.safe_load_all(file)) for file in (before, content))
        return shape(old) == shape(new)
    if form in ("po", "srt", "vtt"):
        reader = ["msgfmt", "-o", "/dev/null"] if form == "po" else ["ffmpeg", "-v", "error", "-i"]
        ends = [] if form == "po" else ["-y", "-f", "webvtt", "/dev/null"]
        run = subprocess.run([*reader, str(after), *ends], check=False, capture_output=True)
        return run.returncode == 0
    if form == "xcstrings":
        return without_target(before) == without_target(content)
    if form in ("strings", "properties"):
        old, new = (values(form, file) for file in (before, content))
        texts = [[bool(text.strip()) for text in table.values()] for table in (old, new)]
        around = [outside(read_document(after.name, file)) for file in (before, content)]
        return [*old] == [*new] and texts[0] == texts[1] and around[0] == around[1]
    old, new = tags(form, before), tags(form, content)
    return not old - new and all(tag.endswith("target") for tag in new - old)


def values(form: str, content: bytes) -> dict[str, str]:
    """The values of a catalogue, as another library reads them."""
    import javaproperties
    import openstep_plist

    if form == "properties":
        return javaproperties.loads(content.decode())
    utf16 = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    return openstep_plist.loads(content.decode("utf-16" if utf16 else "utf-8-sig"))


def without_target(content: bytes) -> object:
    """A String Catalog without the target language."""
    catalog = json.loads(content)
    for entry in catalog["strings"].values():
        entry.setdefault("localizations", {}).pop(TARGET, None)
    return catalog


def outside(document: Document) -> bytes:
    """A document without its texts."""
    return document.rebuild(["" for _ in document.segments])


def with_tags(document: Document, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The texts of a document whose markup is inside, and their translations."""
    for segment, text in zip(document.segments, texts, strict=True):
        if segment.markup == "html":
            yield segment.text, text


def by_model(translator: Translator, document: Document) -> tuple[list[str], int]:
    """The texts of a document translated by a model, and how many lost tags or placeholders."""
    texts = translate_texts(
        translator,
        [segment.text for segment in document.segments],
        markup=[segment.markup for segment in document.segments],
    )
    return [text.text for text in texts], sum(bool(text.lost) for text in texts)


def rewritten(form: str, text: str) -> dict[str, bool]:
    """Whether libraries that write a whole file give it back unchanged."""
    if form == "json":
        indents = (
            json.dumps(json.loads(text), indent=indent, ensure_ascii=False) + end
            for indent in (2, 4, "\t")
            for end in ("", "\n")
        )
        return {"json": text in indents}
    if form != "yaml":
        return {}
    from ruamel.yaml import YAML

    out = io.StringIO()
    round_trip = YAML()
    round_trip.preserve_quotes, round_trip.width = True, 1_000_000
    with contextlib.suppress(Exception):  # what it cannot read, it does not give back
        round_trip.dump_all(list(round_trip.load_all(text)), out)
    dumped = yaml.safe_dump_all(yaml.safe_load_all(text), allow_unicode=True, sort_keys=False)
    return {"ruamel.yaml": out.getvalue() == text, "PyYAML": dumped == text}


def measure_files(folder: Path, translator: Translator) -> dict[str, object]:
    """Round trips of the files of a folder."""
    rows: dict[str, Counter[str]] = {}
    libraries: dict[str, Counter[str]] = {}
    origins: list[str] = []
    tagged: dict[str, Counter[str]] = {"stub": Counter(), "model": Counter()}
    lines = (folder / "SOURCES.tsv").read_text().strip().split("\n")
    for path, origin in (line.split("\t") for line in lines):
        row_format = format_of_file(path)
        if row_format is None:
            continue
        content = (folder / path).read_bytes()
        document = read_document(path, content, target=TARGET)
        row = rows.setdefault(
            row_format.name,
            Counter(files=0, unchanged=0, opened=0, opened_of_model=0, texts=0, texts_that_lost=0),
        )
        row["files"] += 1
        row["texts"] += len(document.segments)
        filled = row_format.name in (
            "po",
            "xliff",
            "qt",
            "xcstrings",
        )  # its own texts fill what is empty
        back = (outside if filled else same)(document)
        with tempfile.TemporaryDirectory() as temporary:
            changed = Path(temporary) / Path(path).name
            if filled:
                row["unchanged"] += unfilled(document, content)
            elif row_format.binary:
                row["unchanged"] += unpacked(back) == unpacked(content)
            else:
                row["unchanged"] += back == content
            texts = translated_texts(document, reversed_words)
            changed.write_bytes(document.rebuild(texts))
            row["opened"] += opens(row_format.name, content, changed)
            of_model, lost = by_model(translator, document)
            changed.write_bytes(document.rebuild(of_model))
            row["opened_of_model"] += opens(row_format.name, content, changed)
            row["texts_that_lost"] += lost
            tagged["stub"].update(count_tags(with_tags(document, texts)))
            tagged["model"].update(count_tags(with_tags(document, of_model)))
        if row_format.name in ("json", "yaml"):
            for name, unchanged in rewritten(row_format.name, content.decode()).items():
                library = libraries.setdefault(name, Counter(files=0, unchanged=0))
                library["files"] += 1
                library["unchanged"] += unchanged
        origins.append(origin)
    for name, row in rows.items():
        print(name, dict(row), flush=True)
    print(tagged, flush=True)
    return {"real_files": rows, "inline_tags": tagged, "libraries": libraries, "sources": origins}


def unfilled(document: Document, content: bytes) -> bool:
    """Whether a catalogue that is filled is, but for what is added, the original."""
    position = 0
    for part in document.members[0]:
        if isinstance(part, str):
            position = content.find(part.encode(), position) + len(part.encode())
            if position < len(part.encode()):
                return False
    return True


def main() -> None:
    """Measure every format."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--model", type=Path, required=True)
    options = parser.parse_args()
    translator = Translator.load(options.model)
    if options.folder:
        command = "python benchmarks/documents.py FOLDER --model MODEL"
        judges = ("markdown-it-py", "pyyaml", "ruamel.yaml", "openstep-plist", "javaproperties")
        record = header(command, *judges)
        write("documents-real", {**record, **measure_files(options.folder, translator)})
        return
    rows: dict[str, dict[str, int]] = {}
    tagged: dict[str, Counter[str]] = {"stub": Counter(), "model": Counter()}
    for name, (_, target, text) in FORMATS.items():
        row = rows[name] = Counter(
            files=0, unchanged=0, opened=0, same_words=0, opened_of_model=0, texts=0
        )
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            for source in sources(name, folder):
                original = convert(source, target, folder / "made")
                assert original is not None, f"LibreOffice made no {name}"
                content = original.read_bytes()
                document = read_document(original.name, content)
                changed = folder / f"{original.stem}.{name}"
                texts = translated_texts(document, reversed_words)
                changed.write_bytes(document.rebuild(texts))
                before = words(convert(original, text, folder / "before"))
                after = words(convert(changed, text, folder / "after"))
                row["files"] += 1
                row["texts"] += len(document.segments)
                row["unchanged"] += unpacked(same(document)) == unpacked(content)
                row["opened"] += convert(changed, "pdf", folder / "pdf") is not None
                row["same_words"] += bool(after) and after == before
                changed = folder / f"{original.stem}-model.{name}"
                of_model = by_model(translator, document)[0]
                changed.write_bytes(document.rebuild(of_model))
                tagged["stub"].update(count_tags(with_tags(document, texts)))
                tagged["model"].update(count_tags(with_tags(document, of_model)))
                row["opened_of_model"] += convert(changed, "pdf", folder / "pdf") is not None
        print(name, dict(row), flush=True)
    version = subprocess.run(["soffice", "--version"], capture_output=True, text=True, check=True)
    record = header("python benchmarks/documents.py --model MODEL")
    print(tagged, flush=True)
    fields = {"libreoffice": version.stdout.split()[1], "formats": rows, "inline_tags": tagged}
    write("documents", {**record, **fields})


if __name__ == "__main__":
    main()
