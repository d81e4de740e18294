"""Adaptation by user corrections: formal address, which the training data does not have.

    OMP_NUM_THREADS=1 python benchmarks/corrections.py --corpus TATOEBA --work FOLDER --updates 1300

Trains on 25,000 pairs of Tatoeba whose German never has "Sie", the formal "you" (or uses the run in
WORK/run); --updates shortens the training. 2,000 pairs whose German has it are held out, no two of
them with the same source or target. A server translates 1,000 of them, receives their references as
corrections (POST /suggest), and translates them again; `transduce adapt` fine-tunes while the
server runs; the server translates the other 1,000 before and after. Finally, corrections with
shuffled references, which must be refused. BLEU with paired bootstrap.

The test pairs of the run have no "you" in English, where the old references (du) and the
corrections (Sie) contradict each other. 500 pairs that have it are measured separately.

Writes results/corrections/record.json.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.request import Request, urlopen

from record import header, read_lines, write
from server import run_server

from transduce.evaluation.significance import System, compare_systems
from transduce.memory.store import Entry, TranslationMemory

FORMAL = re.compile(
    r"(?<=[a-zäöüß,;:] )(Sie|Ihnen|Ihr|Ihre|Ihren|Ihrem|Ihres|Ihrer)\b|^[A-ZÄÖÜ]\w+ Sie\b"
)
YOU = re.compile(r"\b[Yy]ou(r|rs|rself)?\b")
PROGRAM = "python benchmarks/corrections.py --corpus TATOEBA --work FOLDER"
COMMAND = [sys.executable, "-m", "transduce"]
LANGUAGES = {"source": "en", "target": "de"}

Pairs = Sequence[tuple[str, str]]


def comparison_key(text: str) -> str:
    """Return the letters and digits of a text, case-folded."""
    return "".join(filter(str.isalnum, text.casefold()))


def drop_duplicates(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Drop pairs whose source or target occurred before: no correction may be a reference."""
    sources: set[str] = set()
    targets: set[str] = set()
    unique: list[tuple[str, str]] = []
    for source, target in pairs:
        if (key := comparison_key(source)) in sources or (
            value := comparison_key(target)
        ) in targets:
            continue
        sources.add(key)
        targets.add(value)
        unique.append((source, target))
    return unique


def split_corpus(corpus: Path) -> dict[str, Pairs]:
    """Split into informal pairs to train, validate and test on, and two halves of formal pairs."""
    pairs = list(
        zip(*(read_lines(corpus / f"train.{side}.gz") for side in ("en", "de")), strict=True)
    )
    formal = {
        source: target for source, target in pairs if YOU.search(source) and FORMAL.search(target)
    }
    formal_pairs = drop_duplicates(formal.items())
    others = [pair for pair in pairs if pair[0] not in formal and not FORMAL.search(pair[1])]
    random.Random(1).shuffle(formal_pairs)
    random.Random(1).shuffle(others)
    remaining = others[26_000:]
    return {
        "train": others[:25_000],
        "validation": others[25_000:26_000],
        "test": [pair for pair in remaining if not YOU.search(pair[0])][:2000],
        "informal": [pair for pair in remaining if YOU.search(pair[0])][:500],
        "first": formal_pairs[:1000],
        "second": formal_pairs[1000:2000],
    }


def train_model(parts: dict[str, Pairs], work: Path, *, updates: int | None) -> None:
    """Train with the default recipe, or with fewer updates, unless there is a trained model."""
    if (work / "run" / "model").is_dir():
        return
    files: list[str] = []
    for name, options in (
        ("train", ("--source", "--target")),
        ("validation", ("--validation", "")),
        ("test", ("--test", "")),
    ):
        for side, option in enumerate(options):
            file = work / f"{name}.{side}"
            file.write_text("".join(f"{pair[side]}\n" for pair in parts[name]))
            files += [option, str(file)] if option else [str(file)]
    languages = ["--source-lang", "en", "--target-lang", "de"]
    command = [*COMMAND, "train", *files, *languages, "--out", str(work / "run"), "--resume"]
    if updates is not None:
        command += ["--set", f"train.updates={updates}"]
    subprocess.run(command, check=True)


def post_json(address: str, path: str, **fields: object) -> dict[str, object]:
    """POST a JSON request; return the response."""
    body = json.dumps({**LANGUAGES, **fields}).encode()
    request = Request(f"{address}{path}", body, {"content-type": "application/json"})
    with urlopen(request, timeout=120) as response:
        return json.load(response)


def translate_sources(address: str, pairs: Pairs) -> list[str]:
    """Translate the sources with the server."""
    lines: list[str] = []
    for start in range(0, len(pairs), 100):
        texts = [source for source, _ in pairs[start : start + 100]]
        response = post_json(address, "/translate", q=texts)
        translations = response["translatedText"]
        assert isinstance(translations, list)
        lines += translations
    return lines


def compare_bleu(before: Sequence[str], after: Sequence[str], pairs: Pairs) -> dict[str, object]:
    """Compute BLEU before and after, and the p-value of the difference."""
    systems = [System("before", before), System("after", after)]
    references = [target for _, target in pairs]
    table = compare_systems(systems, references, metrics=("bleu",), language="de").metrics[0]
    first, second = table.systems
    return {
        "before": first.value,
        "after": second.value,
        "p": second.p,
        "signature": table.signature,
    }


def run_adapt(run: Path, store: Path) -> tuple[int, str]:
    """Run `transduce adapt`; return its exit code and the last line of stderr."""
    command = [*COMMAND, "adapt", str(run), "--corrections", str(store)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    print(result.stdout, result.stderr[-500:], flush=True)
    return result.returncode, result.stderr.rstrip().rpartition("\n")[2]


def main() -> None:
    """Train, correct, adapt, compare, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of Tatoeba en-de")
    parser.add_argument("--work", type=Path, required=True, help="folder for the runs")
    parser.add_argument(
        "--updates", type=int, help="updates of the training [default: by corpus size]"
    )
    arguments = parser.parse_args()
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    parts = split_corpus(arguments.corpus)
    train_model(parts, work, updates=arguments.updates)
    company, garbage = work / "company", work / "garbage"
    for folder in (company, garbage):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(work / "run", folder)
    store = work / "company.db"
    for leftover in work.glob("*.db*"):
        leftover.unlink()
    with run_server(str(company), "--memory", str(store), "--quiet") as server:
        address = server.url
        second_before = translate_sources(address, parts["second"])
        first_before = translate_sources(address, parts["first"])
        informal_before = translate_sources(address, parts["informal"])
        started = time.perf_counter()
        for source, target in parts["first"]:
            assert post_json(address, "/suggest", q=source, s=target) == {"success": True}
        suggesting = time.perf_counter() - started
        repeated = translate_sources(address, parts["first"])
        returned_corrections = sum(
            line == target for line, (_, target) in zip(repeated, parts["first"], strict=True)
        )
        started = time.perf_counter()
        code, _ = run_adapt(company, store)
        adapting = time.perf_counter() - started
        assert code == 0, "the adaptation was refused"
        while "a new model was loaded" not in server.log.read_text():
            time.sleep(0.2)
        second_after = translate_sources(address, parts["second"])
        informal_after = translate_sources(address, parts["informal"])
    trained = json.loads((work / "run" / "results.json").read_text())
    targets = [target for _, target in parts["first"]]
    random.Random(2).shuffle(targets)
    with TranslationMemory(work / "garbage.db") as memory:
        memory.add(
            Entry(source=source, target=target, source_lang="en", target_lang="de")
            for (source, _), target in zip(parts["first"], targets, strict=True)
        )
    refusal = run_adapt(garbage, work / "garbage.db")
    record = {
        **header(
            PROGRAM + f" --updates {arguments.updates}" * bool(arguments.updates), "sacrebleu"
        ),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
        "training": {
            "pairs": len(parts["train"]),
            **{name: trained[name] for name in ("updates", "seconds", "parameters")},
        },
        "style": "formal address (Sie); none in the training data",
        "formal_share": {
            name: sum(bool(FORMAL.search(line)) for line in lines) / len(lines)
            for name, lines in (("before", second_before), ("after", second_after))
        },
        "other_1000": compare_bleu(second_before, second_after, parts["second"]),
        "informal_500": compare_bleu(informal_before, informal_after, parts["informal"]),
        "first_1000_before": compare_bleu(first_before, first_before, parts["first"])["before"],
        "corrections_given_back": returned_corrections,
        "adaptation": json.loads((company / "adaptation" / "report.json").read_text()),
        "adaptation_s": adapting,
        "suggestions_per_s": len(parts["first"]) / suggesting,
        "garbage": {
            "exit_code": refusal[0],
            "message": refusal[1].replace(str(garbage), "RUN"),
            **json.loads((garbage / "adaptation" / "report.json").read_text()),
        },
    }
    print(write("corrections", record))


if __name__ == "__main__":
    main()
