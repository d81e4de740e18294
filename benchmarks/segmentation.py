"""Sentence segmentation: the share of pySBD's Golden Rules that it satisfies.

    python benchmarks/segmentation.py --rules PYSBD/tests/lang

PYSBD is a copy of https://github.com/nipunsadvilkar/pySBD (MIT); its rules are parsed, not
executed. With `pip install sentencex` (MIT) that library is scored, too; it gets the language of
each rule, transduce does not. White space at the ends of sentences is ignored.

Writes results/segmentation/record.json.
"""

import argparse
import ast
import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from record import header, write

from transduce.data.segmentation import sentence_spans

RULES = re.compile("GOLDEN_(..)_RULES_TEST_CASES")


def read_rules(folder: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield language, text and sentences of each rule."""
    for file in sorted(folder.glob("test_*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.List)):
                continue
            if name := RULES.fullmatch(ast.unparse(node.targets[0])):
                for case in node.value.elts:  # a tuple, or a call of pytest.param
                    parts = case.args if isinstance(case, ast.Call) else case.elts
                    text, sentences = map(ast.literal_eval, parts[:2])
                    yield name[1].lower(), text, sentences


def count_matches(
    cases: Sequence[tuple[str, str, list[str]]], split: Callable[[str, str], list[str]]
) -> dict[str, object]:
    """Count the satisfied rules, in total and by language."""
    languages: dict[str, list[int]] = {}
    for language, text, sentences in cases:
        is_match = [*map(str.strip, split(language, text))] == [*map(str.strip, sentences)]
        languages.setdefault(language, []).append(is_match)
    by_language = {code: f"{sum(rows)} of {len(rows)}" for code, rows in languages.items()}
    return {"followed": sum(map(sum, languages.values())), "languages": by_language}


def main() -> None:
    """Count satisfied rules and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rules", type=Path, required=True, help="tests/lang of pySBD")
    cases = list(read_rules(parser.parse_args().rules))
    transduce_counts = count_matches(
        cases, lambda _, text: [text[start:end] for start, end in sentence_spans(text)]
    )
    record = {
        **header("python benchmarks/segmentation.py --rules PYSBD/tests/lang"),
        "rules": len(cases),
        "ours": transduce_counts,
    }
    if find_spec("sentencex"):
        library = importlib.import_module("sentencex")
        record["sentencex"] = {
            "version": version("sentencex"),
            **count_matches(cases, lambda code, text: [*library.segment(code, text)]),
        }
    print(write("segmentation", record))


if __name__ == "__main__":
    main()
