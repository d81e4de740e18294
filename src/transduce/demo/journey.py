"""The demo carried out: a corpus of our own making, and the same run as for anybody's two files."""

import shutil
from pathlib import Path

from transduce.bundle.bundle import Bundle
from transduce.config import load_recipe, to_toml
from transduce.demo.corpus import write_corpus
from transduce.demo.pronoun import read_cases, score_pronouns
from transduce.demo.report import DemoResult, ExampleTranslation, render_report
from transduce.io.lock import LOCK_FILE, exclusive_lock
from transduce.io.streams import open_output
from transduce.pipeline.run import run_recipe
from transduce.train.events import EventHandler, LogMessage

_SHOWN = 6
REPORT = "report.html"


def run_demo(out: Path, *, on_event: EventHandler) -> DemoResult:
    """Write the corpus, train on it, and look closely at the translations of its test set.

    Args:
        out: the run's folder; an earlier demo in it is replaced. `report.html` in it shows all.
        on_event: called with each event of the run.

    Raises:
        ValueError: if `out` holds anything but a demo.
    """
    with exclusive_lock(out):
        _clear(out)
        corpus = out / "corpus"
        recipe = load_recipe("demo", [f"data.folder={corpus}"])
        (out / "recipe.toml").write_text(
            to_toml(recipe), encoding="utf-8"
        )  # now it is known as ours
        on_event(LogMessage(text=f"writing English and German sentences to {corpus}"))
        written = write_corpus(corpus)
        run = run_recipe(recipe, out, on_event=on_event)
        files = (corpus / "test.en", out / "hypotheses.de", corpus / "test.de")
        sides = [file.read_text(encoding="utf-8").split("\n")[:-1] for file in files]
        examples = tuple(ExampleTranslation(*sentence) for sentence in zip(*sides, strict=True))
        cases = read_cases(corpus)
        found = DemoResult(
            run=run,
            written=written,
            examples=examples,
            shown=_few(examples, with_it=[case.line for case in cases]),
            pronouns=score_pronouns([example.translation for example in examples], cases),
        )
        text = render_report(found, bundle=Bundle.load(out), metrics=out / "metrics.jsonl")
        with open_output(out / REPORT) as page:
            page.write(text.encode())
    return found


def _few(
    examples: tuple[ExampleTranslation, ...], *, with_it: list[int]
) -> tuple[ExampleTranslation, ...]:
    """Of the first sentences of each sort the longest."""
    without = sorted(set(range(len(examples))).difference(with_it))
    sorts = [[examples[line] for line in lines] for lines in (with_it, without)]
    few = [sorted(sort[:20], key=lambda each: -len(each.source))[: _SHOWN // 2] for sort in sorts]
    return tuple(each for sort in few for each in sort)


def _clear(out: Path) -> None:
    """Delete an earlier demo, and nothing else."""
    held = [path for path in out.iterdir() if path.name != LOCK_FILE]
    if not held:
        return
    file = out / "recipe.toml"
    if not file.is_file() or load_recipe(file).name != "demo":
        raise ValueError(f"{out} holds something else than a demo: name another folder by --out")
    ours = {"corpus", "recipe.toml", "prepared", "checkpoints", "best", "model", REPORT}
    ours |= {"metrics.jsonl", "results.json"}
    for path in held:
        if path.name not in ours and not path.name.startswith(("hypotheses.", ".")):
            raise ValueError(f"{path} is not the demo's: move it away, or name another --out")
    for path in held:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
