"""Repair of fuzzy matches of a translation memory by a trained model.

    OMP_NUM_THREADS=1 python benchmarks/fuzzy_repair.py --corpus TATOEBA --work FOLDER

The memory has 60,000 training pairs of Tatoeba. Two models are trained with the same recipe and
number of updates: one on these pairs; the other also on augmented pairs, made from those of the
first 30,000 that have a similar entry (60 % or more, another source): the source, a separator and
the target of the match (Bulté and Tezcan 2019). Test sentences with a match are then translated by
the first model, the second, the second without the match, and by the match itself. BLEU with paired
bootstrap against the first model, by score of the match. Writes results/fuzzy-repair/record.json.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from record import header, read_lines, write

from transduce.evaluation.significance import System, compare_systems
from transduce.inference.translator import Translator
from transduce.memory.store import Entry, TranslationMemory

PAIRS, AUGMENTED, MINIMUM, SEPARATOR = 60_000, 30_000, 60, " ‖ "
BANDS = ((60, 70), (70, 80), (80, 100), (60, 100))  # of match scores, end exclusive
EN_DE = ("en", "de")


def read_pairs(corpus: Path, name: str) -> list[tuple[str, str]]:
    """Read the pairs of a part of the corpus."""
    sides = (read_lines(corpus / f"{name}.{language}.gz") for language in EN_DE)
    return list(zip(*sides, strict=True))


def best_match(memory: TranslationMemory, source: str) -> tuple[int, str] | None:
    """Return score and target of the most similar entry with another source."""
    for match in memory.lookup(source, languages=EN_DE, minimum=MINIMUM, limit=2):
        if match.score < 100:
            return match.score, match.entry.target
    return None


def write_corpora(
    work: Path, pairs: Sequence[tuple[str, str]], memory: TranslationMemory
) -> dict[str, Path]:
    """Write the training files of both models, unless they exist."""
    files = {name: work.resolve() / f"{name}.tsv" for name in ("plain", "repair")}
    if not files["repair"].exists():
        augmented = [
            (f"{source}{SEPARATOR}{match[1]}", target)
            for source, target in pairs[:AUGMENTED]
            if (match := best_match(memory, source))
        ]
        for file, rows in zip(files.values(), (pairs, [*pairs, *augmented]), strict=True):
            file.write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    return files


def train(work: Path, files: dict[str, Path], options: Sequence[str]) -> None:
    """Train both models in parallel, unless they exist."""
    processes: list[subprocess.Popen[bytes]] = []
    for name, file in files.items():
        if (work / name / "model").is_dir():
            continue
        command = [sys.executable, "-m", "transduce", "train", "tatoeba-en-de", "--resume"]
        settings = ["--set", f"data.train={file}", "--set", "data.test=[]", *options]
        processes.append(subprocess.Popen([*command, "--out", str(work / name), *settings]))
    assert not any([process.wait() for process in processes]), "a training failed"


def score_bands(
    test: Sequence[tuple[str, str]], matches: Sequence[tuple[int, str] | None], work: Path
) -> list[dict[str, object]]:
    """Compute the BLEU of each system by score of the match."""
    cases = [(*pair, *match) for pair, match in zip(test, matches, strict=True) if match]
    plain, repair = (Translator.load(work / name) for name in ("plain", "repair"))
    sources = [source for source, *_ in cases]
    augmented = [f"{source}{SEPARATOR}{match}" for source, _, _, match in cases]
    systems = {
        "plain": [result.text for result in plain.translate(sources)],
        "match": [match for *_, match in cases],
        "repair": [result.text for result in repair.translate(augmented)],
        "repair_without_match": [result.text for result in repair.translate(sources)],
    }
    rows: list[dict[str, object]] = []
    for lowest, end in BANDS:
        indices = [index for index, case in enumerate(cases) if lowest <= case[2] < end]
        table = compare_systems(
            [System(name, [lines[i] for i in indices]) for name, lines in systems.items()],
            [cases[i][1] for i in indices],
            metrics=("bleu",),
            language="de",
        ).metrics[0]
        bleu = {
            row.system: {"bleu": row.value, "margin": row.margin, "p": row.p}
            for row in table.systems
        }
        rows.append({"scores": [lowest, end - 1], "sentences": len(indices), **bleu})
    return rows


def main() -> None:
    """Look up matches, train both models, compare the systems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of Tatoeba en-de")
    parser.add_argument("--work", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--updates", type=int, default=1500, help="updates of each training")
    arguments = parser.parse_args()
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    pairs = read_pairs(arguments.corpus, "train")[:PAIRS]
    with TranslationMemory(":memory:") as memory:
        memory.add(
            Entry(source=source, target=target, source_lang="en", target_lang="de", origin="train")
            for source, target in pairs
        )
        files = write_corpora(work, pairs, memory)
        test = read_pairs(arguments.corpus, "test")
        matches = [best_match(memory, source) for source, _ in test]
    folder = Path(arguments.corpus).resolve()
    options = ["--set", f"data.folder={folder}", "--set", f"train.updates={arguments.updates}"]
    train(work, files, options)
    record = {
        **header(
            "python benchmarks/fuzzy_repair.py --corpus TATOEBA --work FOLDER "
            f"--updates {arguments.updates}",
            *("sacrebleu", "rapidfuzz"),
        ),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
        "pairs": len(pairs),
        "augmented_pairs": len(read_lines(files["repair"])) - len(pairs),
        "updates": arguments.updates,
        "test": {"sentences": len(test), "with_match": sum(map(bool, matches))},
        "by_score": score_bands(test, matches, work),
    }
    print(write("fuzzy-repair", record))


if __name__ == "__main__":
    main()
