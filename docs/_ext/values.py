"""Measured numbers of the pages: each comes from a record in benchmarks/results.

    python docs/_ext/values.py            list numbers that their records do not hold
    python docs/_ext/values.py --write    write the records' values into the pages

A number in a sentence names its value in a comment, which no reader sees:

    The demo is right in 96.6<!--= demo.exact_match * 100--> % of its sentences.

The site and `--write` take it from the record, with as many decimals as are typed. Numbers of
tables stand below a comment of their own that names where they may come from, up to the next
heading or comment of this kind; each must be a value of it, as a percentage, in minutes or
millions if its unit says so:

    <!--from: sweep_multi30k.runs-->
    <!--typed: the paper's own numbers-->
    <!--page: as `typed`, for a page-->

An expression is Python on records (`multi30k-tok` is `multi30k_tok`), with `mean`, `ratios`,
`minutes`, `runs` and `row`.
"""

import itertools
import json
import re
import statistics
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from math import exp
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "benchmarks" / "results"
PAGES = (*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/paper").glob("*.md")))
TEXTS = (*PAGES, ROOT / "README.md")

_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_INLINE = re.compile(rf"(?P<number>{_NUMBER})(?P<after>\**)<!--= (?P<value>.+?)-->")
_SCOPE = re.compile(r"^<!--(?P<kind>from|typed|page): (?P<text>.+?)-->\n", re.M)
_FORGE = re.compile(r"^.*<!--forge-->\n+", re.M)
"""A link to the plain edition, for readers in the repository, where directives are bare."""
_UNIT = re.compile(
    r"\**\s?(?P<unit>%|ms\b|µs|seconds?\b|minutes?\b|hours?\b|BLEU|times\b|×|MiB|GiB|MB|GB|M\b"
    r"|million|GFLOP|MFLOP|chrF|per second|pairs a second|nats)"
)
_ANY = re.compile(rf"(?<![\w.^#/_{{`=§-])(?:{_NUMBER})(?![\w^{{`/]|\.\d|-\w)")
_PASSED_OVER = re.compile(
    r"`[^`]*`|\$[^$]*\$|\]\([^)]*\)|<!--.*?-->|\[[\d., ]+\]|\b\d+\.\d+\.\d+\b|\d{4}-\d\d-\d\d"
    r"|(?:Python|torch|CUDA|eole|OpenNMT-py) [\d.]+(?:(?:–| to )[\d.]+)?"
    r"|(?:[Ss]ections?|§) [\d.]+|^# [^\n]*|^\| \d\.\d[\d., ]* \|",
    re.S | re.M,
)
_SCALES = {"%": 100.0, "minutes": 1 / 60, "minute": 1 / 60, "M": 1e-6, "million": 1e-6}
_SCALES |= {"ms": 1000.0, "µs": 1e6}


class Stale(NamedTuple):
    """A number of a page that its record does not hold, or that names no record."""

    line: int
    number: str
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.number} {self.reason}"


class Part(Mapping[str, Any]):
    """A JSON object whose members are attributes too."""

    def __init__(self, members: dict[str, Any]) -> None:
        self._members = members

    def __getitem__(self, name: str) -> Any:
        return _part(self._members[name])

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


def _part(value: Any) -> Any:
    if isinstance(value, list):
        return [_part(item) for item in value]
    return Part(value) if isinstance(value, dict) else value


@cache
def read_record(name: str) -> Any:
    """Read a record by its folder's name."""
    return _part(json.loads((RECORDS / name / "record.json").read_text(encoding="utf-8")))


def ratios(*values: Any) -> list[float]:
    """Return the ratio of every two values."""
    return [a / b for a, b in itertools.permutations(leaves(values), 2) if b]


def minutes(*values: Any) -> list[float]:
    """Return seconds as minutes."""
    return [value / 60 for value in leaves(values)]


def runs(record: Any) -> list[float]:
    """Return the scores of a record's training runs, their minutes and million tokens."""
    values = leaves(record.get("test_bleu"))
    for run in record.runs:
        scores = [(run[name].loss, run[name].scores[0].value) for name in ("validation", "test")]
        seconds = (run.wall_seconds, run.seconds)
        values += [
            *leaves(scores),
            *minutes(seconds),
            run.target_tokens / 1e6,
            run.parameters / 1e6,
        ]
    return values


def row(rows: list[Any], **wanted: object) -> Any:
    """Return the one element whose members have these values."""
    (result,) = [part for part in rows if all(part.get(k) == v for k, v in wanted.items())]
    return result


def evaluate(expression: str) -> Any:
    """Return the value of an expression on records."""
    code = compile(expression, expression, "eval")
    names = {name: read_record(name.replace("_", "-")) for name in _names(code) - _FUNCTIONS.keys()}
    return eval(code, {"__builtins__": {}, **_FUNCTIONS, **names})


def _names(code: CodeType) -> set[str]:
    """Names of records in an expression; members of records are no names of folders."""
    nested = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    folders = {path.name.replace("-", "_") for path in RECORDS.iterdir()}
    return {n for n in code.co_names if n in folders}.union(*map(_names, nested))


_FUNCTIONS = {
    "mean": statistics.mean, "ratios": ratios, "minutes": minutes, "runs": runs, "row": row,
    "sum": sum, "max": max, "min": min, "len": len, "exp": exp,
}  # fmt: skip


def leaves(value: Any) -> list[float]:
    """Return all numbers in a value."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return []
    if isinstance(value, Mapping):
        return [leaf for member in value.values() for leaf in leaves(member)]
    if isinstance(value, list | tuple):
        return [leaf for member in value for leaf in leaves(member)]
    return [float(value)]


def formatted(value: float, like: str) -> str:
    """Format a value with the decimals and separators of a typed number."""
    decimals = len(like.partition(".")[2])
    separated = "," in like or (abs(value) >= 10_000 and not decimals)
    return f"{abs(value):{',' if separated else ''}.{decimals}f}"


def renewed(text: str) -> str:
    """Return a page with the records' values in its sentences."""

    def value(match: re.Match[str]) -> str:
        new = formatted(float(evaluate(match["value"])), match["number"])
        return new + match[0][len(match["number"]) :]

    return _INLINE.sub(value, text)


def records_of(text: str) -> set[str]:
    """Return the records that the numbers of a page come from."""
    expressions = [match["value"] for match in _INLINE.finditer(text)]
    expressions += [match["text"] for match in _SCOPE.finditer(text) if match["kind"] == "from"]
    names = [_names(compile(text, text, "eval")) for text in expressions]
    return {name.replace("_", "-") for name in set[str]().union(*names)}


def without_comments(text: str) -> str:
    """Return a page without these comments, as the site shows it."""
    return _SCOPE.sub("", re.sub(r"<!--= .+?-->", "", _FORGE.sub("", text)))


def stale(text: str) -> list[Stale]:
    """Return the measured numbers of a page that do not come from a record."""
    lines = _blanked_code(text).splitlines(keepends=True)
    problems: list[Stale] = []
    scope, values = "", list[float]()
    default = "typed" if "<!--page: " in text else ""
    for number, line in enumerate(lines, 1):
        if match := _SCOPE.match(line):
            scope = match["kind"].replace("page", "typed")
            values = leaves(evaluate(match["text"])) if scope == "from" else []
            continue
        if line.startswith("#"):
            scope = default
        for match in _INLINE.finditer(line):
            new = formatted(float(evaluate(match["value"])), match["number"])
            if new != match["number"]:
                problems.append(Stale(number, match["number"], f"is {new} by {match['value']}"))
        if scope == "typed" or line.startswith("#"):
            continue
        rest = _PASSED_OVER.sub(lambda m: " " * len(m[0]), _INLINE.sub(_blank, line))
        for match in _ANY.finditer(rest):
            unit = _UNIT.match(rest, match.end()) or _UNIT.match(rest.rstrip() + " ", match.end())
            end = lines[number].lstrip() if number < len(lines) and not unit else ""
            if not rest[match.end() :].strip():
                unit = unit or _UNIT.match(f" {end}")
            if not unit and "." not in match[0] and not (scope and _is_cell(rest, match)):
                continue
            problem = _problem(match[0], unit["unit"] if unit else "", scope, values)
            if problem:
                problems.append(Stale(number, match[0], problem))
    return problems


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _is_cell(line: str, match: re.Match[str]) -> bool:
    """Whether a number is all that a table's cell holds."""
    before, after = line[: match.start()].rstrip(" *"), line[match.end() :].lstrip(" *")
    return before.endswith("|") and after.startswith("|")


def _problem(number: str, unit: str, scope: str, values: list[float]) -> str:
    if not scope:
        return "names no record: add <!--= VALUE-->, or <!--from: … --> above"
    scales = {1.0, _SCALES.get(unit, 1.0)}
    typed, half = float(number.replace(",", "")), 0.5 * 10.0 ** -len(number.partition(".")[2])
    if any(abs(abs(v * s) - typed) <= half * (1 + 1e-9) for v in values for s in scales):
        return ""
    return "is no value of its record"


def _blanked_code(text: str) -> str:
    """Code blocks hold examples; their lines are left empty."""
    return re.sub(r"^(`{3,}|:::).*?^\1", lambda m: "\n" * m[0].count("\n"), text, flags=re.S | re.M)


def setup(app: Any) -> dict[str, bool]:
    """Put the records' values into the pages while Sphinx reads them."""
    from sphinx.util import logging

    log = logging.getLogger(__name__)

    def read(app: Any, name: str, source: list[str]) -> None:
        page = ROOT / "docs" / f"{name}.md"
        if page.is_file():
            for record in records_of(source[0]):
                app.env.note_dependency(str(RECORDS / record / "record.json"))
            for problem in stale(source[0]) if page in PAGES else ():
                log.warning("%s", problem, location=name)
            source[0] = without_comments(renewed(source[0]))

    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def main() -> None:
    """List stale numbers, or write the records' values into the pages."""
    code = 0
    for page in TEXTS:
        text = page.read_text(encoding="utf-8")
        if "--write" in sys.argv:
            page.write_text(text := renewed(text), encoding="utf-8")
        for problem in stale(text):
            code = 1
            print(f"{page.relative_to(ROOT)}, {problem}")
    raise SystemExit(code)


if __name__ == "__main__":
    main()
