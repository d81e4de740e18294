"""An exported page in Node and Chromium compared with torch: tokens, int8 quality, speed.

    .venv/bin/python benchmarks/web.py MODEL --source FILE --target FILE

All systems translate the same lines on one core, in turn, greedily and with a beam of 4 (length
penalty 0.6): torch in float32, the page in Node, the page in headless Chromium (the environment
variable CHROMIUM is the program, by default "chromium"). Torch has translated five lines before;
the page's program starts anew for each beam, and its times include its compilation. Differing
lines are listed with both scores. Then the pages with float16 and int8 weights translate in Node;
BLEU is compared by paired bootstrap. Writes results/web/record.json. Run nothing else at the same
time.
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
MAX_LISTED = 10
# Translates many lines as the page's worker does.
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
# Keeps a copy of the weights, which the page removes once its worker has them.
KEEP_WEIGHTS = """
new MutationObserver((_, observer) => {
  const weights = document.getElementById("weights");
  if (!weights?.nextElementSibling) return;
  window.weights = weights.textContent;
  observer.disconnect();
}).observe(document, { childList: true, subtree: true });
"""


class Line(NamedTuple):
    """A translated line."""

    ids: tuple[int, ...]
    text: str
    score: float


class Run(NamedTuple):
    """Translations of a system, and their duration."""

    lines: list[Line]
    seconds: float


Translate = Callable[[Sequence[str], int], Run]


def torch_translator(bundle: Bundle) -> Translate:
    """Translate with torch, one line at a time."""
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


def node_translator(page: Path) -> Translate:
    """Translate with the page's program in Node."""
    node = shutil.which("node")
    assert node, "Node.js is not installed"

    def translate(sentences: Sequence[str], beam: int) -> Run:
        response = run_in_node(node, page, {"sentences": list(sentences), "beam": beam})
        return to_run(response)

    return translate


@contextmanager
def open_chromium(page: Path) -> Iterator[Translate]:
    """Translate with the page's program in a browser."""
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


def to_run(response: dict[str, object]) -> Run:
    """Convert the result of JavaScript."""
    translations, seconds = response["translations"], response["seconds"]
    assert isinstance(translations, list)
    assert isinstance(seconds, float | int)
    lines = [Line(tuple(line["ids"]), line["text"], line["score"]) for line in translations]
    return Run(lines, seconds)


def time_first_translation(page: Path, sentence: str) -> float:
    """Measure the seconds from opening the page to its first translation."""
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


def compare_runs(expected: Run, run: Run) -> dict[str, object]:
    """Count the equal lines; list the others with both scores."""
    pairs = list(zip(expected.lines, run.lines, strict=True))
    differing = [
        {"line": number, "torch": torch_line.score, "page": page_line.score, "text": page_line.text}
        for number, (torch_line, page_line) in enumerate(pairs, 1)
        if torch_line.ids != page_line.ids
    ]
    return {
        "lines": len(pairs),
        "equal": len(pairs) - len(differing),
        "largest_score_difference": max(
            abs(torch_line.score - page_line.score)
            for torch_line, page_line in pairs
            if torch_line.ids == page_line.ids
        ),
        "differing": differing[:MAX_LISTED],
    }


def main() -> None:
    """Measure, print and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--tokenize", default="", help="sacreBLEU's tokenizer")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])  # inherited by subprocesses
    bundle = Bundle.load(arguments.model)
    bundle = replace(bundle, search=replace(bundle.search, alpha=ALPHA, beam=BEAMS[-1]))
    sentences = [tidy(line) for line in read_lines(arguments.source)[: arguments.lines]]
    references = read_lines(arguments.target)[: len(sentences)]
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
        record["first_translation_s"] = round(
            time_first_translation(pages["float32"], sentences[0]), 2
        )
        texts: dict[str, list[str]] = {}
        with open_chromium(pages["float32"]) as chromium_translate:
            systems = {
                "torch": torch_translator(bundle),
                "Node": node_translator(pages["float32"]),
                "Chromium": chromium_translate,
            }
            for beam in BEAMS:
                runs: dict[str, Run] = {}
                for name, translate in systems.items():
                    if name == "torch":  # the page's program starts anew at each call
                        translate(sentences[:5], beam)
                    runs[name] = translate(sentences, beam)
                record[f"beam_{beam}"] = {
                    name: {
                        "sentences_per_s": round(len(sentences) / run.seconds, 1),
                        "ms_per_sentence": round(1000 * run.seconds / len(sentences), 1),
                        "relative_to_torch": round(runs["torch"].seconds / run.seconds, 2),
                        **({} if name == "torch" else compare_runs(runs["torch"], run)),
                    }
                    for name, run in runs.items()
                }
                texts["float32"] = [line.text for line in runs["Node"].lines]
        for precision in ("float16", "int8"):
            run = node_translator(pages[precision])(sentences, BEAMS[-1])
            texts[precision] = [line.text for line in run.lines]
    comparison = compare_systems(
        [System(name, lines) for name, lines in texts.items()],
        references,
        metrics=("bleu",),
        language=bundle.languages.target,
        tokenize=arguments.tokenize,
    )
    record["precisions"] = asdict(comparison)
    print(write("web", record, hide={str(arguments.model): "MODEL"}))


if __name__ == "__main__":
    main()
