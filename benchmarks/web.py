"""An exported page in Node and in Chromium against torch: equal tokens, quality of int8, speed.

    .venv/bin/python benchmarks/web.py MODEL --source FILE --target FILE

Every system translates the same lines on one core, one after the other, greedily and with a beam
of 4 (length penalty 0.6): torch in float32, the page in Node, the page in headless Chromium
(CHROMIUM names the program, by default "chromium"). A line that differs is listed with both
scores. Then the pages with float16 and int8 weights translate in Node, and BLEU is compared by a
paired bootstrap. Writes results/web/record.json. Nothing else should run meanwhile.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import torch
from playwright.sync_api import sync_playwright
from record import header, read_lines, write

from transduce.bundle.bundle import Bundle
from transduce.data.corpus import tidy
from transduce.data.tokenizer import EOS
from transduce.evaluation.significance import System, compare_systems
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.search.config import Request
from transduce.web.page import Precision, run_in_node, write_web

BEAMS = (1, 4)
ALPHA = 0.6
LISTED = 10
# What a page's worker does, for many lines.
IN_BROWSER = """
async ([sentences, beam]) => {
  const script = document.getElementById("engine").textContent;
  const make = new Function("self", `${script}; return { decodeBase64, loadTranslator };`);
  const engine = make({ postMessage() {} });
  const description = JSON.parse(document.getElementById("description").textContent);
  const translator = await engine.loadTranslator(description, engine.decodeBase64(window.weights));
  const start = performance.now();
  const translations = sentences.map((sentence) => {
    const search = translator.translateLine(sentence, { beam });
    let step = search.next();
    while (!step.done) step = search.next();
    const { ids, text, score } = step.value;
    return { ids, text, score };
  });
  return { translations, seconds: (performance.now() - start) / 1000 };
}
"""
# The page itself removes its weights once the worker has them.
KEEP_WEIGHTS = """
new MutationObserver((_, observer) => {
  const weights = document.getElementById("weights");
  if (!weights?.nextElementSibling) return;
  window.weights = weights.textContent;
  observer.disconnect();
}).observe(document, { childList: true, subtree: true });
"""


class Line(NamedTuple):
    """The translation of a line."""

    ids: tuple[int, ...]
    text: str
    score: float


class Run(NamedTuple):
    """The translations of one system, and how long they took."""

    lines: list[Line]
    seconds: float


Translate = Callable[[Sequence[str], int], Run]


def with_torch(bundle: Bundle) -> Translate:
    """One line at a time, on one thread."""
    engine = TorchEngine(bundle.model, pad=bundle.tokenizer.pad, eos=EOS, device="cpu")

    def translate(sentences: Sequence[str], beam: int) -> Run:
        config = replace(bundle.search, beam=beam)
        started = time.perf_counter()
        lines: list[Line] = []
        for sentence in sentences:
            request = Request(tuple(bundle.tokenizer.encode(sentence)))
            ((best, *_),) = engine.search([request], config)
            lines.append(Line(best.ids, bundle.tokenizer.decode(best.ids), best.score))
        return Run(lines, time.perf_counter() - started)

    return translate


def with_node(page: Path) -> Translate:
    """The page's program in Node."""
    node = shutil.which("node")
    assert node, "Node.js is not installed"

    def translate(sentences: Sequence[str], beam: int) -> Run:
        answer = run_in_node(node, page, {"sentences": list(sentences), "beam": beam})
        return to_run(answer)

    return translate


@contextmanager
def with_chromium(page: Path) -> Iterator[Translate]:
    """The page's program in the page, in a browser."""
    program = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        # The page's policy forbids evaluated scripts.
        tab = browser.new_context(bypass_csp=True).new_page()
        tab.add_init_script(KEEP_WEIGHTS)
        tab.goto(page.resolve().as_uri())
        tab.get_by_role("heading", name="Inside the model").wait_for(state="attached")
        tab.set_default_timeout(0)
        yield lambda sentences, beam: to_run(tab.evaluate(IN_BROWSER, [list(sentences), beam]))
        browser.close()


def to_run(answer: dict[str, object]) -> Run:
    """Convert what JavaScript returns."""
    translations, seconds = answer["translations"], answer["seconds"]
    assert isinstance(translations, list)
    assert isinstance(seconds, float | int)
    lines = [Line(tuple(line["ids"]), line["text"], line["score"]) for line in translations]
    return Run(lines, seconds)


def first_translation(page: Path, sentence: str) -> float:
    """Seconds from opening the page to the first translation on it."""
    program = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page()
        started = time.perf_counter()
        tab.goto(page.resolve().as_uri())
        tab.fill("#q", sentence)
        tab.get_by_text("on this device", exact=False).first.wait_for()
        tab.locator("#copy:not([hidden])").wait_for()
        seconds = time.perf_counter() - started
        browser.close()
    return seconds


def agreement(expected: Run, run: Run) -> dict[str, object]:
    """How many lines are equal, and the others with both scores."""
    pairs = list(zip(expected.lines, run.lines, strict=True))
    differing = [
        {"line": number, "torch": ours.score, "page": theirs.score, "text": theirs.text}
        for number, (ours, theirs) in enumerate(pairs, 1)
        if ours.ids != theirs.ids
    ]
    return {
        "lines": len(pairs),
        "equal": len(pairs) - len(differing),
        "largest_score_difference": max(
            abs(ours.score - theirs.score) for ours, theirs in pairs if ours.ids == theirs.ids
        ),
        "differing": differing[:LISTED],
    }


def main() -> None:
    """Measure, print and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--tokenize", default="", help="sacreBLEU's tokeniser")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])  # inherited by all that is started
    bundle = Bundle.load(options.model)
    bundle = replace(bundle, search=replace(bundle.search, alpha=ALPHA, beam=BEAMS[-1]))
    sentences = [tidy(line) for line in read_lines(options.source)[: options.lines]]
    references = read_lines(options.target)[: len(sentences)]
    record: dict[str, object] = {
        **header("python benchmarks/web.py MODEL --source FILE --target FILE", "playwright"),
        "parameters": bundle.model.size,
        "lines": len(sentences),
    }
    with tempfile.TemporaryDirectory() as scratch:
        precisions: tuple[Precision, ...] = ("float32", "float16", "int8")
        pages = {name: Path(scratch) / f"{name}.html" for name in precisions}
        for precision, page in pages.items():
            write_web(bundle, page, precision=precision)
        record["page_bytes"] = {name: page.stat().st_size for name, page in pages.items()}
        record["first_translation_s"] = round(first_translation(pages["float32"], sentences[0]), 2)
        texts: dict[str, list[str]] = {}
        with with_chromium(pages["float32"]) as in_chromium:
            systems = {
                "torch": with_torch(bundle),
                "Node": with_node(pages["float32"]),
                "Chromium": in_chromium,
            }
            for beam in BEAMS:
                runs: dict[str, Run] = {}
                for name, translate in systems.items():
                    translate(sentences[:5], beam)
                    runs[name] = translate(sentences, beam)
                record[f"beam_{beam}"] = {
                    name: {
                        "sentences_per_s": round(len(sentences) / run.seconds, 1),
                        "ms_per_sentence": round(1000 * run.seconds / len(sentences), 1),
                        "relative_to_torch": round(runs["torch"].seconds / run.seconds, 2),
                        **({} if name == "torch" else agreement(runs["torch"], run)),
                    }
                    for name, run in runs.items()
                }
                texts["float32"] = [line.text for line in runs["Node"].lines]
        for precision in ("float16", "int8"):
            run = with_node(pages[precision])(sentences, BEAMS[-1])
            texts[precision] = [line.text for line in run.lines]
    compared = compare_systems(
        [System(name, lines) for name, lines in texts.items()],
        references,
        metrics=("bleu",),
        language=bundle.languages.target,
        tokenize=options.tokenize,
    )
    record["precisions"] = asdict(compared)
    print(write("web", record, hide={str(options.model): "MODEL"}))


if __name__ == "__main__":
    main()
