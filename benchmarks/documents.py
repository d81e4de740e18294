"""Round trips of real files, and of documents created by LibreOffice.

    python benchmarks/documents.py FOLDER --model MODEL
    python benchmarks/documents.py --model MODEL

FOLDER has files of other projects and `SOURCES.tsv`: per line, a file's path in the folder, a tab,
and its origin. Each file is rebuilt with its own texts and with a stub's: upper case, each sentence
in reverse word order. Counts the files that are byte-identical with their own texts (catalogs to be
filled in: identical but for what is added), and those that still open with the stub's: `json` and
PyYAML read the same keys; `msgfmt` compiles the catalog; ffmpeg reads the subtitles; XML, HTML and
Markdown rendered by markdown-it have the same tags (and added targets); openstep-plist and
javaproperties read the same keys of `.strings` and `.properties`, with a text wherever there was
one, and the same content outside the values; String Catalogs are the same JSON except for German.
The same for translations by a model, such as the demo's, with the texts in which it lost
placeholders. Of texts with inline tags, counts those whose tags are lost or badly nested, whose
pairs of tags lost their text, and whose tags are reordered (`inline_tags`). Also counts the files
that libraries write back unchanged. Needs gettext, ffmpeg and `pip install openstep-plist
javaproperties`; writes results/documents-real/record.json.

Without FOLDER it needs LibreOffice (`soffice`). Creates five documents of each format from pages
and tables with links, lists, formatting within sentences and special characters. Counts those that
are byte-identical with their own texts; that LibreOffice converts to PDF and to text when
translated by the stub, and whose words are then those of the original; and that it converts to PDF
when translated by the model; inline tags as above. Writes results/documents/record.json.
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
from transduce.inference.texts import translate_texts
from transduce.inference.translator import Translator

sys.path.insert(0, str(ROOT / "tests"))
from archives import reversed_words, same, translated_texts, unpacked

TARGET = "de"
CATALOGS = ("po", "xliff", "qt", "xcstrings")
"""Formats whose empty targets are filled in."""
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
    """Convert a file with LibreOffice; None if that fails."""
    out.mkdir(exist_ok=True)
    command = ["soffice", "--headless", "--convert-to", target, "--outdir", str(out), str(file)]
    if file.suffix == ".html":
        command.insert(2, "--infilter=HTML (StarWriter)")
    if file.suffix == ".csv":
        command.insert(2, "--infilter=CSV:44,34,76,1")
    subprocess.run(command, check=False, capture_output=True, timeout=120)
    converted = out / f"{file.stem}.{target.partition(':')[0]}"
    return converted if converted.is_file() and converted.stat().st_size else None


def word_counts(file: Path | None) -> Counter[str]:
    """Count the words of a converted file; of a PDF, check only its signature."""
    if file is None:
        return Counter()
    content = file.read_bytes()
    if file.suffix == ".pdf":
        return Counter([content[:4].decode()])
    return Counter(re.findall(r"\w+", content.decode("utf-8-sig").upper()))


def write_sources(name: str, folder: Path) -> list[Path]:
    """Write five files for LibreOffice to convert to documents."""
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
        source_file = convert(path, "odt", folder / "odt") if suffix == ".odt" else path
        assert source_file is not None, "LibreOffice wrote no file"
        paths.append(source_file)
    return paths


def without_strings(value: object) -> object:
    """Replace all strings of JSON or YAML with empty strings."""
    if isinstance(value, dict):
        return {key: without_strings(child) for key, child in value.items()}
    if isinstance(value, list):
        return [without_strings(child) for child in value]
    return "" if isinstance(value, str) else value


def tag_counter(format_name: str, content: bytes) -> Counter[str]:
    """Count the tags of a page, of XML, or of the XML in an archive."""
    counts = Counter[str]()
    if format_name == "markdown":
        page = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(content.decode())
        counts = tag_counter("html", page.encode())
    elif format_name == "html":
        parser = HTMLParser()
        parser.handle_starttag = lambda tag, attrs: counts.update([f"{tag} {attrs}"])
        parser.handle_endtag = lambda tag: counts.update([f"/{tag}"])
        parser.feed(content.decode())
    elif format_name == "epub":
        for name, data in unpacked(content).items():
            if name.endswith((".xhtml", ".ncx", ".opf")):
                counts += tag_counter("xml", data)
    else:
        counts.update(element.tag for element in ElementTree.fromstring(content).iter())
    return counts


def has_same_structure(format_name: str, before: bytes, after: Path) -> bool:
    """Whether a translated file is valid and has the structure of the original."""
    content = after.read_bytes()
    if format_name == "json":
        return without_strings(json.loads(before)) == without_strings(json.loads(content))
    if format_name == "yaml":
        old_content, new_content = (list(yaml.safe_load_all(file)) for file in (before, content))
        return without_strings(old_content) == without_strings(new_content)
    if format_name in ("po", "srt", "vtt"):
        command = (
            ["msgfmt", "-o", "/dev/null"]
            if format_name == "po"
            else ["ffmpeg", "-v", "error", "-i"]
        )
        output_options = [] if format_name == "po" else ["-y", "-f", "webvtt", "/dev/null"]
        result = subprocess.run(
            [*command, str(after), *output_options], check=False, capture_output=True
        )
        return result.returncode == 0
    if format_name == "xcstrings":
        return without_target(before) == without_target(content)
    if format_name in ("strings", "properties"):
        old_content, new_content = (catalog_values(format_name, file) for file in (before, content))
        texts = [
            [bool(text.strip()) for text in table.values()] for table in (old_content, new_content)
        ]
        skeletons = [without_texts(read_document(after.name, file)) for file in (before, content)]
        return (
            [*old_content] == [*new_content]
            and texts[0] == texts[1]
            and skeletons[0] == skeletons[1]
        )
    old_content, new_content = tag_counter(format_name, before), tag_counter(format_name, content)
    return not old_content - new_content and all(
        tag.endswith("target") for tag in new_content - old_content
    )


def catalog_values(format_name: str, content: bytes) -> dict[str, str]:
    """Read the values of a catalog with another library."""
    import javaproperties
    import openstep_plist

    if format_name == "properties":
        return javaproperties.loads(content.decode())
    utf16 = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    return openstep_plist.loads(content.decode("utf-16" if utf16 else "utf-8-sig"))


def without_target(content: bytes) -> object:
    """Remove the target language from a String Catalog."""
    catalog = json.loads(content)
    for entry in catalog["strings"].values():
        entry.setdefault("localizations", {}).pop(TARGET, None)
    return catalog


def without_texts(document: Document) -> bytes:
    """Rebuild a document with empty texts."""
    return document.rebuild(["" for _ in document.segments])


def with_tags(document: Document, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the texts of a document that have inline markup, and their translations."""
    for segment, text in zip(document.segments, texts, strict=True):
        if segment.markup == "html":
            yield segment.text, text


def translate_with_model(translator: Translator, document: Document) -> tuple[list[str], int]:
    """Translate a document's texts with a model; count those that lost tags or placeholders."""
    texts = translate_texts(
        translator,
        [segment.text for segment in document.segments],
        markup=[segment.markup for segment in document.segments],
    )
    return [text.text for text in texts], sum(bool(text.lost) for text in texts)


def rewrite_checks(format_name: str, text: str) -> dict[str, bool]:
    """Check for each library of a format whether it writes the file back unchanged."""
    if format_name == "json":
        indents = (
            json.dumps(json.loads(text), indent=indent, ensure_ascii=False) + end
            for indent in (2, 4, "\t")
            for end in ("", "\n")
        )
        return {"json": text in indents}
    if format_name != "yaml":
        return {}
    from ruamel.yaml import YAML

    stream = io.StringIO()
    round_trip = YAML()
    round_trip.preserve_quotes, round_trip.width = True, 1_000_000
    with contextlib.suppress(Exception):  # unreadable: not unchanged
        round_trip.dump_all(list(round_trip.load_all(text)), stream)
    dumped = yaml.safe_dump_all(yaml.safe_load_all(text), allow_unicode=True, sort_keys=False)
    return {"ruamel.yaml": stream.getvalue() == text, "PyYAML": dumped == text}


def measure_files(folder: Path, translator: Translator) -> dict[str, object]:
    """Measure round trips of the files in a folder."""
    rows: dict[str, Counter[str]] = {}
    libraries: dict[str, Counter[str]] = {}
    origins: list[str] = []
    tag_counts: dict[str, Counter[str]] = {"stub": Counter(), "model": Counter()}
    lines = (folder / "SOURCES.tsv").read_text().strip().split("\n")
    for path, origin in (line.split("\t") for line in lines):
        file_format = format_of_file(path)
        if file_format is None:
            continue
        content = (folder / path).read_bytes()
        document = read_document(path, content, target=TARGET)
        row = rows.setdefault(
            file_format.name,
            Counter(files=0, unchanged=0, opened=0, opened_of_model=0, texts=0, texts_that_lost=0),
        )
        row["files"] += 1
        row["texts"] += len(document.segments)
        is_catalog = file_format.name in CATALOGS
        rebuilt = (without_texts if is_catalog else same)(document)
        with tempfile.TemporaryDirectory() as temporary:
            changed = Path(temporary) / Path(path).name
            if is_catalog:
                row["unchanged"] += keeps_original(document, content)
            elif file_format.binary:
                row["unchanged"] += unpacked(rebuilt) == unpacked(content)
            else:
                row["unchanged"] += rebuilt == content
            texts = translated_texts(document, reversed_words)
            changed.write_bytes(document.rebuild(texts))
            row["opened"] += has_same_structure(file_format.name, content, changed)
            model_texts, lost = translate_with_model(translator, document)
            changed.write_bytes(document.rebuild(model_texts))
            row["opened_of_model"] += has_same_structure(file_format.name, content, changed)
            row["texts_that_lost"] += lost
            tag_counts["stub"].update(count_tags(with_tags(document, texts)))
            tag_counts["model"].update(count_tags(with_tags(document, model_texts)))
        if file_format.name in ("json", "yaml"):
            for name, unchanged in rewrite_checks(file_format.name, content.decode()).items():
                library = libraries.setdefault(name, Counter(files=0, unchanged=0))
                library["files"] += 1
                library["unchanged"] += unchanged
        origins.append(origin)
    for name, row in rows.items():
        print(name, dict(row), flush=True)
    print(tag_counts, flush=True)
    return {
        "real_files": rows,
        "inline_tags": tag_counts,
        "libraries": libraries,
        "sources": origins,
    }


def keeps_original(document: Document, content: bytes) -> bool:
    """Whether a filled-in catalog contains the original, apart from what was added."""
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
    arguments = parser.parse_args()
    translator = Translator.load(arguments.model)
    if arguments.folder:
        command = "python benchmarks/documents.py FOLDER --model MODEL"
        judges = ("markdown-it-py", "pyyaml", "ruamel.yaml", "openstep-plist", "javaproperties")
        record = header(command, *judges)
        write("documents-real", {**record, **measure_files(arguments.folder, translator)})
        return
    rows: dict[str, dict[str, int]] = {}
    tag_counts: dict[str, Counter[str]] = {"stub": Counter(), "model": Counter()}
    for name, (_, target, text) in FORMATS.items():
        row = rows[name] = Counter(
            files=0, unchanged=0, opened=0, same_words=0, opened_of_model=0, texts=0
        )
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            for source in write_sources(name, folder):
                original = convert(source, target, folder / "made")
                assert original is not None, f"LibreOffice wrote no {name}"
                content = original.read_bytes()
                document = read_document(original.name, content)
                changed = folder / f"{original.stem}.{name}"
                texts = translated_texts(document, reversed_words)
                changed.write_bytes(document.rebuild(texts))
                before = word_counts(convert(original, text, folder / "before"))
                after = word_counts(convert(changed, text, folder / "after"))
                row["files"] += 1
                row["texts"] += len(document.segments)
                row["unchanged"] += unpacked(same(document)) == unpacked(content)
                row["opened"] += convert(changed, "pdf", folder / "pdf") is not None
                row["same_words"] += bool(after) and after == before
                changed = folder / f"{original.stem}-model.{name}"
                model_texts = translate_with_model(translator, document)[0]
                changed.write_bytes(document.rebuild(model_texts))
                tag_counts["stub"].update(count_tags(with_tags(document, texts)))
                tag_counts["model"].update(count_tags(with_tags(document, model_texts)))
                row["opened_of_model"] += convert(changed, "pdf", folder / "pdf") is not None
        print(name, dict(row), flush=True)
    version = subprocess.run(["soffice", "--version"], capture_output=True, text=True, check=True)
    record = header("python benchmarks/documents.py --model MODEL")
    print(tag_counts, flush=True)
    fields = {"libreoffice": version.stdout.split()[1], "formats": rows, "inline_tags": tag_counts}
    write("documents", {**record, **fields})


if __name__ == "__main__":
    main()
