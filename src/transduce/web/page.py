"""Write a bundle as a page that translates in a browser, without a server.

A page is one HTML file: styles, program, and the weights in base64. A larger model is a folder,
which any web server can serve:

    index.html                 the page
    weights-HASH-1.bin, …      the weights in parts, named by their content
    manifest.json              size and SHA-256 of the files

The program is the engine's modules, one after the other, without imports and exports: browsers load
modules neither from disk nor into a worker that a page makes itself.
"""

import base64
import hashlib
import html
import json
import re
import subprocess
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from jaxtyping import Shaped
from safetensors.numpy import save

from transduce.bundle.bundle import Bundle
from transduce.bundle.tensors import MAX_WEIGHT
from transduce.inference.translator import fit_to_positions
from transduce.io.atomic_folder import MANIFEST, atomic_file, atomic_folder, check_replaceable
from transduce.io.machine import VERSION
from transduce.model.numpy_transformer import Weights
from transduce.web.tokenizer import tokenizer_data

Precision = Literal["float32", "float16", "int8"]

INDEX: Final = "index.html"
_LARGEST_PAGE = 40_000_000  # bytes of weights in one file; browsers parse it at each visit
_HEADER = 1 << 16  # bytes that safetensors need besides, at most
_PART = 16 << 20  # bytes of a part of the weights
_LARGEST_INT8 = 127
_MODULES = (
    "tensor",
    "kernels",
    "attention",
    "layers",
    "transformer",
    "incremental_decoder",
    "repetition",
    "search",
    "corpus",
    "sentencepiece",
    "tokenizer",
    "sha256",
    "model_file",
    "sentences",
    "translator",
    "trace",
    "exploration",
    "loading",
)
"""The engine's modules; each imports only earlier ones."""

_STYLES = (
    "visualization/colours.css",
    "visualization/translation.css",
    "web/page/page.css",
    "web/page/explorer.css",
    "web/page/training.css",
)
_SCRIPTS = (
    "visualization/theme.js",
    "web/page/steps.js",
    "web/page/panels.js",
    "web/page/explorer.js",
    "web/page/training.js",
    "web/page/page.js",
)
_IMPORT = re.compile(r'^import .*? from "\./(\w+)\.js";\n', re.MULTILINE | re.DOTALL)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const))", re.MULTILINE)
_GENERATOR = '<meta name="generator" content="transduce'


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """How a model learned."""

    weights: Mapping[int, Weights]
    """Weights by update, the first before any."""
    training: Sequence[tuple[int, float]]
    """Updates with the training loss, nats per target piece."""
    validation: Sequence[tuple[int, float, float | None]]
    """Updates with the validation loss and chrF2, if that was computed."""


def write_web(
    bundle: Bundle, out: Path, *, precision: Precision = "float32", history: History | None = None
) -> None:
    """Write a page, or a folder if `out` does not end in .html; an earlier export is replaced.

    Args:
        bundle: the model.
        out: an HTML file, or a folder.
        precision: type of the weights in the file; the browser computes in float32.
        history: the page can go back to each of its checkpoints.

    Raises:
        ValueError: if the page would be too large, the tokenizer has a feature that the engine
            lacks, a weight is too large for float16, or `out` holds something else.
        OSError: if it cannot be written.
    """
    if out.suffix.lower() in (".html", ".htm"):
        if out.is_dir():
            raise ValueError(f"{out} is a folder: name a file for the page")
        if out.is_file() and _GENERATOR not in out.read_text(encoding="utf-8", errors="replace"):
            raise ValueError(f"{out} is not a page that was exported here: name another file")
        page = single_page(bundle, precision=precision, history=history)
        out.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(out) as stream:
            stream.write(page.encode())
        return
    check_replaceable(out, _exported_files(out))
    weights, description = describe(bundle, precision=precision, history=history)
    digest = hashlib.sha256(weights).hexdigest()[:8]
    parts = {
        f"weights-{digest}-{number}.bin": weights[start : start + _PART]
        for number, start in enumerate(range(0, len(weights), _PART), 1)
    }
    with atomic_folder(out) as fresh:
        for name, part in parts.items():
            (fresh / name).write_bytes(part)
        description["weights"]["parts"] = list(parts)
        (fresh / INDEX).write_text(render(description), encoding="utf-8")


def _exported_files(folder: Path) -> Collection[str]:
    """Return the names of an earlier export's files, by its manifest; none of another site."""
    try:
        page = (folder / INDEX).read_text(encoding="utf-8", errors="replace")
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return ()
    return files if _GENERATOR in page and isinstance(files, dict) else ()


def single_page(
    bundle: Bundle, *, precision: Precision = "float32", history: History | None = None
) -> str:
    """Return a page that contains the weights. Args, and errors: those of `write_web`."""
    weights, description = describe(bundle, precision=precision, history=history)
    if len(weights) > _LARGEST_PAGE:
        raise ValueError(
            f"{len(weights) / 1e6:.0f} MB of weights are too many for one page: export a folder, "
            f"or quantize them with float16 or int8"
        )
    return render(description, weights)


def fits_one_page(bundle: Bundle) -> bool:
    """Return whether `single_page` can show a model in float32."""
    try:
        size = 4 * bundle.weights.size + _HEADER
        return size <= _LARGEST_PAGE and bool(tokenizer_data(bundle.tokenizer))
    except ValueError:
        return False


def run_in_node(node: str, page: Path, job: Mapping[str, object]) -> dict[str, Any]:
    """Translate with a page in Node.

    Args:
        node: the program.
        page: an exported page.
        job: what to translate; see node_runner.mjs.

    Raises:
        ValueError: if it fails; the message has its last line.
    """
    runner = resources.files("transduce").joinpath("web/node_runner.mjs")
    with resources.as_file(runner) as script:
        completed = subprocess.run(
            [node, str(script), str(page.resolve())],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            check=False,
        )
    if completed.returncode:
        lines = [line for line in completed.stderr.splitlines() if "Error" in line]
        raise ValueError(f"Node failed to translate with {page}: {(lines or ['no message'])[-1]}")
    return json.loads(completed.stdout)


def engine() -> str:
    """Return the engine as one script."""
    source = "\n".join(_text(f"web/engine/{name}.js") for name in _MODULES)
    return _EXPORT.sub("", _IMPORT.sub("", source))


def _stored(
    weights: Weights, precision: Precision
) -> Iterator[tuple[str, Shaped[np.ndarray, "..."]]]:
    """Matrices in the precision of the file; vectors, which are few, in float32."""
    for name, weight in weights.items():
        if weight.ndim < 2 or precision == "float32":
            yield name, np.ascontiguousarray(weight)
        elif precision == "float16":
            if np.abs(weight).max() > MAX_WEIGHT:
                raise ValueError(f"{name} has weights too large for float16: use int8")
            yield name, weight.astype(np.float16)
        else:  # one scale for each row; a row of zeros keeps any
            smallest = np.finfo(np.float32).tiny
            scale = np.maximum(np.abs(weight).max(1), smallest) / np.float32(_LARGEST_INT8)
            yield name, (weight / scale[:, None]).round().astype(np.int8)
            yield f"{name}.scale", scale


def describe(
    bundle: Bundle, *, precision: Precision, history: History | None = None
) -> tuple[bytes, dict[str, Any]]:
    """Return what `render` makes a page of: all weights, the history's last, and the rest as JSON.

    Args, and errors: those of `write_web`.
    """
    states = [bundle.weights.to_numpy().weights, *(history.weights.values() if history else ())]
    files = [save(dict(_stored(state, precision))) for state in states]
    weights = b"".join(files)
    size = bundle.weights.size
    count = f"{size / 1e6:.1f} million" if size >= 1e6 else f"{size:,}"
    description: dict[str, Any] = {
        "model": asdict(bundle.weights.config),
        "search": asdict(fit_to_positions(bundle.search, longest=bundle.weights.config.longest)),
        "languages": asdict(bundle.languages),
        "tokenizer": tokenizer_data(bundle.tokenizer),
        "segmentation": tomllib.loads(_text("data/segmentation.toml")),
        "weights": {"size": len(weights), "sha256": hashlib.sha256(weights).hexdigest()},
        "summary": f"{count} parameters in {precision}",
    }
    if history:
        description["history"] = {
            "updates": list(history.weights),
            "sizes": [len(file) for file in files],
            "training": history.training,
            "validation": history.validation,
        }
    return weights, description


def render(description: Mapping[str, Any], weights: bytes = b"") -> str:
    """Return the page of what `describe` returned, without weights if it names their files."""
    style = "".join(map(_text, _STYLES))
    script = "".join(map(_text, _SCRIPTS))
    worker = engine() + _text("web/page/worker.js")
    languages = description["languages"]
    sides = [languages[f"{side}_name"] or languages[side] for side in ("source", "target")]
    policy = [
        "default-src 'none'",
        f"script-src {_hash(script)} 'wasm-unsafe-eval'",
        "worker-src blob:",
        f"style-src {_hash(style)}",
        "img-src data:",
        f"connect-src {'none' if weights else 'self'!r}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    values = {
        "policy": "; ".join(policy),
        "version": VERSION,
        "title": html.escape(f"{sides[0]} → {sides[1]}"),
        "style": style,
        # In a script element only "</script" and "<!--" have a meaning.
        "description": json.dumps(description, ensure_ascii=False).replace("<", "\\u003c"),
        "weights": base64.b64encode(weights).decode(),
        "engine": worker,
        "script": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], _text("web/page/index.html"))


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _text(path: str) -> str:
    return resources.files("transduce").joinpath(path).read_text(encoding="utf-8")
