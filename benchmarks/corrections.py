"""A day in a company whose style is another: formal address, where the training data has none.

    OMP_NUM_THREADS=1 python benchmarks/corrections.py --corpus TATOEBA --work FOLDER --updates 1300

Trains on 25,000 pairs of Tatoeba whose German never has "Sie", the formal "you" (or takes the run
that WORK/run holds); --updates shortens the training. 2,000 pairs whose German has it are held
back, no two of them with the same source or target. A server translates 1,000 of them,
gets their references as corrections (POST /suggest), and translates them again; `transduce adapt`
fine-tunes while the server runs, and the server translates the other 1,000, before and after. Then
corrections with shuffled references, which must be refused. BLEU with paired bootstrap.

The test pairs of the run have no "you" in English: there the old references (du) and the
corrections (Sie) contradict each other. 500 such pairs are measured apart.

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
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from record import header, read_lines, write

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


def letters(text: str) -> str:
    """What two sentences are compared by: letters and digits, without case."""
    return "".join(filter(str.isalnum, text.casefold()))


def distinct(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs without those whose source or target occurred: a correction must not be a reference."""
    sources: set[str] = set()
    targets: set[str] = set()
    kept: list[tuple[str, str]] = []
    for source, target in pairs:
        if (key := letters(source)) in sources or (value := letters(target)) in targets:
            continue
        sources.add(key)
        targets.add(value)
        kept.append((source, target))
    return kept


def split(corpus: Path) -> dict[str, Pairs]:
    """Pairs without formal address to train, validate and test on; formal ones, in two halves."""
    pairs = list(
        zip(*(read_lines(corpus / f"train.{side}.gz") for side in ("en", "de")), strict=True)
    )
    formal = {
        source: target for source, target in pairs if YOU.search(source) and FORMAL.search(target)
    }
    held_back = distinct(formal.items())
    others = [pair for pair in pairs if pair[0] not in formal and not FORMAL.search(pair[1])]
    random.Random(1).shuffle(held_back)
    random.Random(1).shuffle(others)
    unseen = others[26_000:]
    return {
        "train": others[:25_000],
        "validation": others[25_000:26_000],
        "test": [pair for pair in unseen if not YOU.search(pair[0])][:2000],
        "informal": [pair for pair in unseen if YOU.search(pair[0])][:500],
        "first": held_back[:1000],
        "second": held_back[1000:2000],
    }


def train(parts: dict[str, Pairs], work: Path, *, updates: int | None) -> None:
    """Train by the default recipe, perhaps for fewer updates, unless that is done."""
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


@contextmanager
def server(run: Path, store: Path, log: Path) -> Generator[str]:
    """The address of a server that runs meanwhile."""
    command = [*COMMAND, "serve", str(run), "--memory", str(store), "--port", "0", "--quiet"]
    with log.open("w") as stream, subprocess.Popen(command, stderr=stream) as process:
        try:
            while not (ready := re.search(r"ready at (\S+):", log.read_text())):
                assert process.poll() is None, log.read_text()
                time.sleep(0.1)
            yield ready[1].rstrip("/")
        finally:
            process.terminate()


def post(address: str, path: str, **fields: object) -> dict[str, object]:
    """The response to a request."""
    body = json.dumps({**LANGUAGES, **fields}).encode()
    request = Request(f"{address}{path}", body, {"content-type": "application/json"})
    with urlopen(request, timeout=120) as response:
        return json.load(response)


def translate(address: str, pairs: Pairs) -> list[str]:
    """The server's translations of the sources."""
    lines: list[str] = []
    for start in range(0, len(pairs), 100):
        texts = [source for source, _ in pairs[start : start + 100]]
        response = post(address, "/translate", q=texts)
        translations = response["translatedText"]
        assert isinstance(translations, list)
        lines += translations
    return lines


def bleu(before: Sequence[str], after: Sequence[str], pairs: Pairs) -> dict[str, object]:
    """BLEU of both, and the p-value of the difference."""
    systems = [System("before", before), System("after", after)]
    references = [target for _, target in pairs]
    table = compare_systems(systems, references, metrics=("bleu",), language="de").metrics[0]
    old, new = table.systems
    return {"before": old.value, "after": new.value, "p": new.p, "signature": table.signature}


def adapt(run: Path, store: Path) -> tuple[int, str]:
    """The exit code and the last line of stderr of `transduce adapt`."""
    command = [*COMMAND, "adapt", str(run), "--corrections", str(store)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr[-500:], flush=True)
    return done.returncode, done.stderr.rstrip().rpartition("\n")[2]


def main() -> None:
    """Live through the day."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of Tatoeba en-de")
    parser.add_argument("--work", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--updates", type=int, help="of the training [default: by corpus size]")
    arguments = parser.parse_args()
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    parts = split(arguments.corpus)
    train(parts, work, updates=arguments.updates)
    company, garbage = work / "company", work / "garbage"
    for folder in (company, garbage):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(work / "run", folder)
    store = work / "company.db"
    for leftover in work.glob("*.db*"):
        leftover.unlink()
    log = work / "server.log"
    with server(company, store, log) as address:
        second_before = translate(address, parts["second"])
        first_before = translate(address, parts["first"])
        informal_before = translate(address, parts["informal"])
        started = time.perf_counter()
        for source, target in parts["first"]:
            assert post(address, "/suggest", q=source, s=target) == {"success": True}
        suggesting = time.perf_counter() - started
        repeated = translate(address, parts["first"])
        given_back = sum(
            line == target for line, (_, target) in zip(repeated, parts["first"], strict=True)
        )
        started = time.perf_counter()
        code, _ = adapt(company, store)
        adapting = time.perf_counter() - started
        assert code == 0, "the adaptation was refused"
        while "a new model was loaded" not in log.read_text():
            time.sleep(0.2)
        second_after = translate(address, parts["second"])
        informal_after = translate(address, parts["informal"])
    trained = json.loads((work / "run" / "results.json").read_text())
    targets = [target for _, target in parts["first"]]
    random.Random(2).shuffle(targets)
    with TranslationMemory(work / "garbage.db") as memory:
        memory.add(
            Entry(source=source, target=target, source_lang="en", target_lang="de")
            for (source, _), target in zip(parts["first"], targets, strict=True)
        )
    refusal = adapt(garbage, work / "garbage.db")
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
        "other_1000": bleu(second_before, second_after, parts["second"]),
        "informal_500": bleu(informal_before, informal_after, parts["informal"]),
        "first_1000_before": bleu(first_before, first_before, parts["first"])["before"],
        "corrections_given_back": given_back,
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
