"""An exported page compared with transformers.js: the same weights in Chromium, greedy.

    mkdir peer && cd peer && npm install @huggingface/transformers
    pip install optimum-onnx onnxruntime 'transformers<4.58'     (in another environment)
    .venv/bin/python benchmarks/web_peer.py --source FILE --target FILE \\
        --node-modules peer/node_modules --optimum OTHER/bin/optimum-cli

A Marian model of random weights with separate vocabularies is imported and exported as a page, and
exported by Optimum to ONNX for transformers.js. Both translate the same tokenized lines on one
core, up to the same length; a size is one of SIZES. The record counts equal translations. Writes
results/web-peer/record.json. Run nothing else at the same time.
"""

import argparse
import functools
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from playwright.sync_api import Page, sync_playwright
from record import header, read_lines, write

from transduce.bundle.bundle import Bundle
from transduce.data.config import TokenizerConfig
from transduce.data.corpus import tidy
from transduce.data.tokenizer import Tokenizer
from transduce.export.importer import import_marian
from transduce.web.page import Precision, write_web

SIZES = {
    "T": {"d_model": 128, "layers": 4, "heads": 4, "ffn": 256},
    "base": {"d_model": 512, "layers": 6, "heads": 8, "ffn": 2048},
}
VOCABULARY = 3000  # per side
EXTRA = 4  # length limit above the source's: random weights never end a translation
LOAD_PAGE = """
async ([sources, extra]) => {
  const script = document.getElementById("engine").textContent;
  const make = new Function("self", `${script}; return { fetchWeights, loadTranslator };`);
  const engine = make({ postMessage() {} });
  const description = JSON.parse(document.getElementById("description").textContent);
  const bytes = await engine.fetchWeights(description.weights, location.href, () => {});
  const translator = await engine.loadTranslator(description, bytes);
  translator.search.extra = extra;
  window.translate = (ids) => {
    const search = translator.searchSource(ids, { beam: 1, alpha: 0 });
    let step = search.next();
    while (!step.done) step = search.next();
    return step.value[0].ids;
  };
  translate(sources[0]);
}
"""
LOAD_PEER = """
async ([sources, extra, dtype, maps]) => {
  const library = await import("/transformers/dist/transformers.min.js");
  const { AutoModelForSeq2SeqLM, Tensor, env } = library;
  env.allowRemoteModels = false;
  env.allowLocalModels = true;
  env.localModelPath = "/";
  env.backends.onnx.wasm.wasmPaths = "/onnxruntime/";
  env.backends.onnx.wasm.numThreads = 1;
  const settings = { dtype, device: "wasm" };
  const model = await AutoModelForSeq2SeqLM.from_pretrained("onnx-model", settings);
  const tensor = (ids) => new Tensor("int64", BigInt64Array.from(ids, BigInt), [1, ids.length]);
  window.translate = async (ids) => {
    const source = [...ids.map((id) => maps.to[id]), maps.eos];
    const output = await model.generate({
      inputs: tensor(source),
      attention_mask: tensor(source.map(() => 1)),
      max_new_tokens: ids.length + extra,
      num_beams: 1,
    });
    return Array.from(output.data, Number).slice(1).map((id) => maps.from[id]);
  };
  await translate(sources[0]);
}
"""
TRANSLATE_ALL = """
async (sources) => {
  const start = performance.now();
  const translations = [];
  for (const ids of sources) translations.push(await translate(ids));
  return { translations, seconds: (performance.now() - start) / 1000 };
}
"""


def make_model(folder: Path, size: str, corpus: tuple[list[str], list[str]]) -> Bundle:
    """Write a Marian model of random weights with two vocabularies and import it."""
    config = TokenizerConfig(vocab_size=VOCABULARY)
    sides = [Tokenizer.train(lines, config) for lines in corpus]
    pieces = {piece for side in sides for piece in side.pieces(range(2, side.pad))}
    names = ["</s>", "<unk>", *sorted(pieces), "<pad>"]
    shape = SIZES[size]
    marian = transformers.MarianConfig(
        vocab_size=len(names),
        d_model=shape["d_model"],
        encoder_layers=shape["layers"],
        decoder_layers=shape["layers"],
        encoder_attention_heads=shape["heads"],
        decoder_attention_heads=shape["heads"],
        encoder_ffn_dim=shape["ffn"],
        decoder_ffn_dim=shape["ffn"],
        activation_function="relu",
        scale_embedding=True,
        eos_token_id=0,
        pad_token_id=len(names) - 1,
        decoder_start_token_id=len(names) - 1,
        forced_eos_token_id=None,
        max_position_embeddings=256,
        init_std=0.08,
    )
    torch.manual_seed(1)
    model = transformers.MarianMTModel(marian).eval()
    model.generation_config.bad_words_ids = [[marian.pad_token_id]]
    model.save_pretrained(folder)
    for name, side in zip(("source", "target"), sides, strict=True):
        (folder / f"{name}.spm").write_bytes(side.to_bytes())
    vocabulary = {name: number for number, name in enumerate(names)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    return import_marian(folder)


def export_onnx(optimum: str, marian: Path, out: Path) -> None:
    """Export with Optimum for transformers.js, in float32 and int8."""
    command = [optimum, "export", "onnx", "--model", str(marian), "--task"]
    subprocess.run([*command, "text2text-generation-with-past", str(out / "onnx")], check=True)
    for file in (out / "onnx").glob("*.json"):
        shutil.move(file, out / file.name)
    quantize = (
        "import sys; from onnxruntime.quantization import quantize_dynamic, QuantType as Q\n"
        "for name in ('encoder_model', 'decoder_model_merged'):\n"
        "    base = f'{sys.argv[1]}/onnx/{name}'\n"
        "    quantize_dynamic(f'{base}.onnx', f'{base}_quantized.onnx', weight_type=Q.QInt8,\n"
        "                     extra_options={'EnableSubgraph': True})\n"
    )
    subprocess.run([str(Path(optimum).parent / "python"), "-c", quantize, str(out)], check=True)


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files and counts the bytes it sends."""

    sent = 0

    def copyfile(self, source: Any, outputfile: Any) -> None:
        data = source.read()
        type(self).sent += len(data)
        outputfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine."""
    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def measure(tab: Page, address: str, load_script: str, arguments: list[Any]) -> dict[str, Any]:
    """Open a page, translate the first line, then all lines."""
    Handler.sent = 0
    started = time.perf_counter()
    tab.goto(address)
    tab.evaluate(load_script, arguments)
    first = time.perf_counter() - started
    loaded = Handler.sent
    results = [tab.evaluate(TRANSLATE_ALL, arguments[0]) for _ in range(3)]
    seconds = sorted(result["seconds"] for result in results)
    return {
        "translations": results[0]["translations"],
        "first_translation_s": round(first, 2),
        "ms_per_sentence": round(1000 * seconds[1] / len(arguments[0]), 2),
        "megabytes": round(loaded / 1e6, 2),
    }


def compare(
    size: str, arguments: argparse.Namespace, corpus: tuple[list[str], list[str]]
) -> dict[str, Any]:
    """Measure both systems on a model."""
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        root = Path(scratch)
        bundle = make_model(root / "marian", size, corpus)
        bundle = replace(bundle, search=replace(bundle.search, beam=1))
        export_onnx(arguments.optimum, root / "marian", root / "onnx-model")
        precisions: tuple[Precision, ...] = ("float32", "int8")
        for precision in precisions:
            write_web(bundle, root / precision, precision=precision)
        (root / "empty.html").write_text("<!doctype html><title>transformers.js</title>")
        modules = arguments.node_modules.resolve()
        (root / "transformers").symlink_to(modules / "@huggingface" / "transformers")
        (root / "onnxruntime").symlink_to(modules / "onnxruntime-web" / "dist")
        vocabulary = json.loads((root / "marian" / "vocab.json").read_text())
        ids = range(bundle.tokenizer.vocab_size)
        marian_ids = [
            vocabulary.get(piece, vocabulary["<unk>"]) for piece in bundle.tokenizer.pieces(ids)
        ]
        maps = {
            "to": marian_ids,
            "from": {number: index for index, number in enumerate(marian_ids)},
            "eos": 0,
        }
        sources = [bundle.tokenizer.encode(line) for line in corpus[0][: arguments.lines]]
        browser = playwright.chromium.launch(
            executable_path=shutil.which(os.environ.get("CHROMIUM", "chromium")),
            args=["--no-sandbox"],
        )
        runs: dict[str, dict[str, Any]] = {}
        with serve_folder(root) as address:
            for precision, dtype in (("float32", "fp32"), ("int8", "q8")):
                for system, page, load_script, script_arguments in (
                    ("page", f"{precision}/index.html", LOAD_PAGE, [sources, EXTRA]),
                    ("transformers.js", "empty.html", LOAD_PEER, [sources, EXTRA, dtype, maps]),
                ):
                    tab = browser.new_context(bypass_csp=True).new_page()
                    tab.set_default_timeout(0)
                    run = measure(tab, address + page, load_script, script_arguments)
                    if system == "page":  # the page also loads the weights in its worker
                        sizes = [file.stat().st_size for file in (root / precision).iterdir()]
                        run["megabytes"] = round(sum(sizes) / 1e6, 2)
                    runs[f"{system} {precision}"] = run
                    tab.close()
        browser.close()
    expected = runs["page float32"].pop("translations")
    peer_translations = runs["transformers.js float32"].pop("translations")
    equal = sum(a == b for a, b in zip(expected, peer_translations, strict=True))
    for run in runs.values():
        run.pop("translations", None)
    ratios = {
        precision: round(
            runs[f"transformers.js {precision}"]["ms_per_sentence"]
            / runs[f"page {precision}"]["ms_per_sentence"],
            2,
        )
        for precision in precisions
    }
    return {
        "parameters": bundle.model.size,
        "lines": len(sources),
        "equal": equal,
        **runs,
        "times_quicker": ratios,
    }


def main() -> None:
    """Measure, print and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=100)
    parser.add_argument("--node-modules", type=Path, required=True)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--optimum", required=True, help="the program optimum-cli")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])  # inherited by subprocesses
    corpus = (
        [tidy(line) for line in read_lines(arguments.source)],
        [tidy(line) for line in read_lines(arguments.target)],
    )
    package = arguments.node_modules / "@huggingface" / "transformers" / "package.json"
    record = {
        **header(
            "python benchmarks/web_peer.py --source FILE --target FILE --node-modules FOLDER "
            "--optimum PROGRAM",
            "playwright",
            "transformers",
        ),
        "transformers.js": json.loads(package.read_text())["version"],
        **{size: compare(size, arguments, corpus) for size in arguments.sizes},
    }
    print(write("web-peer", record))


if __name__ == "__main__":
    main()
