"""Round trips of documents that LibreOffice makes, and opens again once they are translated.

    python benchmarks/documents.py

Needs LibreOffice (`soffice`). Makes five documents of each format from pages and tables with links,
lists, formatting within sentences and special characters; gives them their own texts, and the
words of a stub: upper case, each sentence in reverse order. Counts the documents whose files come
back byte for byte with their own texts, that LibreOffice converts to PDF and to text once they are
translated, and whose words are then those of the original. Writes results/documents/record.json.
"""

import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from record import ROOT, header, write

from transduce.documents.formats import read_document

sys.path.insert(0, str(ROOT / "tests"))
from archives import reversed_words, same, translated, unpacked

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


def main() -> None:
    """Measure every format."""
    rows: dict[str, dict[str, int]] = {}
    for name, (_, target, text) in FORMATS.items():
        row = rows[name] = Counter(files=0, unchanged=0, opened=0, same_words=0, texts=0)
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            for source in sources(name, folder):
                original = convert(source, target, folder / "made")
                assert original is not None, f"LibreOffice made no {name}"
                content = original.read_bytes()
                document = read_document(original.name, content)
                changed = folder / f"{original.stem}.{name}"
                changed.write_bytes(translated(document, reversed_words))
                before = words(convert(original, text, folder / "before"))
                after = words(convert(changed, text, folder / "after"))
                row["files"] += 1
                row["texts"] += len(document.segments)
                row["unchanged"] += unpacked(same(document)) == unpacked(content)
                row["opened"] += convert(changed, "pdf", folder / "pdf") is not None
                row["same_words"] += bool(after) and after == before
        print(name, dict(row), flush=True)
    version = subprocess.run(["soffice", "--version"], capture_output=True, text=True, check=True)
    record = header("python benchmarks/documents.py")
    write("documents", {**record, "libreoffice": version.stdout.split()[1], "formats": rows})


if __name__ == "__main__":
    main()
