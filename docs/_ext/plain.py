"""The pages as plain Markdown, for a forge and other readers that know no directives.

    python docs/_ext/plain.py FOLDER

Included code stands in code blocks, plots are pictures, records are tables; links lead to the pages
and sources beside them. `.github/workflows/docs.yml` publishes the folder as the branch `plain`.
"""

import ast
import re
import shutil
import sys
from pathlib import Path

import exercises
import measured
import values

ROOT = values.ROOT
DOCS = ROOT / "docs"
PLOTS = "plots"

_BLOCK = re.compile(
    r"^(?P<fence>`{3,}|:{3,})\{(?P<name>[\w-]+)\} ?(?P<argument>[^\n]*)\n(?P<body>.*?)^(?P=fence)$",
    re.S | re.M,
)
_OPTION = re.compile(r"^:([\w-]+):(.*)$", re.M)
_ROLE = re.compile(r"\{[\w:]+\}`(?:~?)([^`]+)`")
_LINK = re.compile(r"\]\((?P<target>[^)#:\s]+)(?P<rest>#[^)]*)?\)")
_REPOSITORY = "https://github.com/transduce-nmt/transduce"
_SITE = "https://transduce-nmt.github.io/transduce"


def plain(text: str, page: Path, out: Path) -> str:
    """Return a page without directives, roles and comments; its plots are copied.

    Args:
        text: the page as MyST.
        page: its file, in docs/.
        out: folder of the plain pages.
    """

    def block(match: re.Match[str]) -> str:
        options = dict(_OPTION.findall(match["body"]))
        content = _OPTION.sub("", match["body"]).strip()
        return _block(match["name"], match["argument"].strip(), options, content, page, out)

    text = values.without_comments(values.renewed(text))
    text = _ROLE.sub(r"`\1`", _BLOCK.sub(block, text))
    text = re.sub(r"^ *<!-- not run: .*? -->\n", "", text, flags=re.M | re.S)
    return _LINK.sub(lambda match: _link(match["target"], match["rest"] or "", page, out), text)


def _link(target: str, rest: str, page: Path, out: Path) -> str:
    """A link to a page or a picture stays within the edition, any other leads to the repository."""
    file = (page.parent / target).resolve()
    if file.suffix in (".md", ".ipynb") and file.is_relative_to(DOCS):
        return f"]({target.removesuffix('.ipynb').removesuffix('.md')}.md{rest})"
    if (out / page.relative_to(DOCS).parent / target).exists():
        return f"]({target})"
    return f"]({_REPOSITORY}/blob/main/{file.relative_to(ROOT)}{rest})"


def _block(
    name: str, argument: str, options: dict[str, str], content: str, page: Path, out: Path
) -> str:
    match name:
        case "literalinclude":
            return _code(page.parent / argument, options)
        case "drawn":
            return _drawn(argument, content, page, out)
        case "measured":
            return _measured(argument, page, out)
        case "exercises":
            return _exercises()
        case "toctree":
            entries = re.findall(r"^(?:.*<)?([\w/.-]+)>?$", content, re.M)
            return "\n".join(f"- [{entry}]({entry}.md)" for entry in entries)
        case "code-block":
            return f"```{argument}\n{content}\n```"
        case "commands" | "eval-rst" | "explorer" | "training":
            return f"This part is on the [site]({_SITE})."
        case _:
            return content


def _code(file: Path, options: dict[str, str]) -> str:
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    if "pyobject" in options:
        lines = _definition(text, options["pyobject"].strip())
    elif "lines" in options:
        first, _, last = options["lines"].strip().partition("-")
        lines = lines[int(first) - 1 : int(last or len(lines))]
    where = file.resolve().relative_to(ROOT)
    code = "\n".join(lines)
    link = f"[{where}]({_REPOSITORY}/blob/main/{where})"
    return f"{link}\n\n```{options.get('language', '').strip()}\n{code}\n```"


def _definition(text: str, name: str) -> list[str]:
    node: ast.AST = ast.parse(text)
    for part in name.split("."):
        node = next(n for n in ast.iter_child_nodes(node) if getattr(n, "name", "") == part)
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    begin = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return text.splitlines()[begin - 1 : node.end_lineno]


def _drawn(name: str, content: str, page: Path, out: Path) -> str:
    plot = measured.plot_named(name)
    if plot is None:
        return f"(No record of this plot is kept: {content})"
    parts = [_picture(plot, page, out), content]
    if name != "model":
        finding = measured.finding_of(plot)
        parts += [finding.text, finding.source]
    return "\n\n".join(parts)


def _measured(name: str, page: Path, out: Path) -> str:
    folder = ROOT / "benchmarks" / "results" / name
    tables = [measured.table_of(t.read_text(encoding="utf-8")) for t in sorted(folder.glob("*.md"))]
    pictures = [_picture(plot, page, out) for plot in measured.plots_of(folder)]
    return "\n\n".join([*tables, *pictures]) or "(No record of this is kept.)"


def _picture(plot: Path, page: Path, out: Path) -> str:
    (out / PLOTS).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(plot, out / PLOTS / plot.name)
    up = "../" * (len(page.relative_to(DOCS).parts) - 1)
    return f"![{plot.stem}]({up}{PLOTS}/{plot.name})"


def _exercises() -> str:
    return "\n\n".join(
        f"{number}. Claim {m.claim}. In `src/transduce/{m.file}` replace\n\n"
        f"```python\n{m.old}\n```\n\nby\n\n```python\n{m.new}\n```\n\n"
        f"<details><summary>Solution</summary>This test fails: <code>{m.test}</code></details>"
        for number, m in enumerate(exercises.mutations().MUTATIONS, start=1)
    )


def write(out: Path) -> None:
    """Write all pages, and notebooks as pages, into a folder; index.md is README.md too."""
    for page in (*DOCS.glob("*.md"), *DOCS.glob("paper/*.md"), *DOCS.glob("reference/*.md")):
        file = out / page.relative_to(DOCS)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(plain(page.read_text(encoding="utf-8"), page, out), encoding="utf-8")
    for notebook in DOCS.glob("*.ipynb"):
        file = out / f"{notebook.stem}.md"
        file.write_text(
            f"# {notebook.stem}\n\nThe notebook: [{notebook.name}]"
            f"({_REPOSITORY}/blob/main/docs/{notebook.name})\n",
            encoding="utf-8",
        )
    shutil.copyfile(out / "index.md", out / "README.md")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
