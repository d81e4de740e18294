"""transduce doctor: check the installation and the machine.

Every line of the report comes from a check of its own, so that a failing check does not hide the
others. Nothing that may be missing, such as torch, is imported before the check that needs it.
"""

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
from typing import Literal

import typer

from transduce import __version__
from transduce.cli.app import JsonObject, app, print_stdout
from transduce.io.machine import (
    TORCH_HINT,
    cgroup_limit,
    commit,
    has_torch,
    processor_name,
    usable_cores,
)

_GIB = 2**30
_MIN_FREE = _GIB // 2  # bytes; a checkpoint of a base model with its optimizer takes more
_LINES = ("one two three", "three two one", "two one", "one three two")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of one check, and what to do about it.

    Only a "FAULT" keeps transduce from working.
    """

    text: str
    state: Literal["ok", "note", "FAULT"] = "ok"
    advice: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """A line of the report."""

    heading: str
    name: str
    finding: Diagnosis


@dataclass(frozen=True, kw_only=True, slots=True)
class DoctorReport:
    """All checks, in reading order."""

    checks: tuple[Check, ...]

    @property
    def faults(self) -> int:
        """Number of checks with a fault."""
        return sum(check.finding.state == "FAULT" for check in self.checks)

    def __str__(self) -> str:
        """Format as a table in ASCII, since the terminal's encoding may be the fault."""
        width = max((len(check.name) for check in self.checks), default=0)
        lines: list[str] = []
        heading = ""
        for check in self.checks:
            if check.heading != heading:
                heading = check.heading
                lines += ["", heading] if lines else [heading]
            finding = check.finding
            lines.append(f"  {finding.state:<5}  {check.name:<{width}}  {finding.text}")
            if finding.advice:
                lines.append(f"{'':{width + 11}}-> {finding.advice}")
        summary = f"{self.faults} fault{'s' * (self.faults > 1)} (see FAULT)"
        return "\n".join([*lines, "", summary if self.faults else "no faults"])


@app.command()
def doctor(as_json: JsonObject = False) -> None:
    """Check the installation and the machine, and suggest remedies.

    As a self-test, a tiny model is trained and translates. Exit code 1: something is broken.

    Example:

    \b
      transduce doctor
    """
    report = diagnose()
    fields = {"faults": report.faults, **asdict(report)}
    print_stdout(json.dumps(fields, ensure_ascii=False) if as_json else str(report))
    raise typer.Exit(1 if report.faults else 0)


def diagnose() -> DoctorReport:
    """Run all checks; takes a few seconds, mostly for importing torch.

    Where torch is not installed, its checks are left out, and the self-test does not train.
    """
    torch = has_torch()
    checks = (
        ("Versions", "transduce", _transduce),
        *(("Versions", *requirement) for requirement in _requirements()),
        *(() if torch else (("Versions", "torch", _no_torch),)),
        ("Machine", "processor", _processor),
        ("Machine", "cores", lambda: Diagnosis(f"{usable_cores():g} for this process")),
        *((("Machine", "threads", _threads),) if torch else ()),
        *((("Machine", "fused kernels", _kernels),) if torch else ()),
        ("Machine", "native engine", _native_engine),
        ("Machine", "memory", _memory),
        *((("Machine", "CUDA devices", _cuda),) if torch else ()),
        ("System", "disk", _disk),
        ("System", "text", _encoding),
        ("Self-test", "a tiny model", _self_test),
    )
    return DoctorReport(
        checks=tuple(Check(heading=h, name=n, finding=_run(check)) for h, n, check in checks)
    )


def _run(check: Callable[[], Diagnosis]) -> Diagnosis:
    """Run a check; its exceptions and its libraries' warnings are part of the result."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            diagnosis = check()
        except Exception as error:  # whatever is broken, the other checks must run
            return Diagnosis(f"check failed: {_summary(error)}", "note")
    messages = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    if messages and not diagnosis.advice and diagnosis.state == "ok":
        return Diagnosis(diagnosis.text, "note", f"warning: {_first_line(messages[0])}")
    return diagnosis


def _transduce() -> Diagnosis:
    revision = commit()
    return Diagnosis(f"{__version__}, commit {revision[:12]}" if revision else __version__)


def _requirements() -> Iterator[tuple[str, Callable[[], Diagnosis]]]:
    """A check for Python and for each required package, with the minimum from the metadata."""
    try:
        python = metadata.metadata("transduce")["Requires-Python"] or ""
        packages = metadata.requires("transduce") or []
    except Exception as error:  # not installed, or damaged metadata
        advice = "install transduce: python -m pip install . in its folder"
        missing = Diagnosis(f"unknown: {_summary(error)}", "FAULT", advice)
        yield "requirements", lambda: missing
        return
    yield "Python", partial(_python, _minimum(python))
    for line in packages:
        name = re.match(r"[\w.-]+", line)
        marker = line.partition(";")[2]
        is_extra = "extra ==" in marker
        if name and (not is_extra or (name[0] == "torch" and has_torch())):
            required = is_extra or not marker  # with another marker not every machine has it
            yield name[0], partial(_package, name[0], _minimum(line), required=required)


def _python(minimum: str) -> Diagnosis:
    version = platform.python_version()
    if _older(version, minimum):
        advice = f"create an environment with Python {minimum} or newer"
        return Diagnosis(f"{version} is too old", "FAULT", advice)
    return Diagnosis(f"{version} (at least {minimum or 'any'})")


def _package(name: str, minimum: str, *, required: bool) -> Diagnosis:
    requirement = f"{name}>={minimum}" if minimum else name
    advice = f'python -m pip install "{requirement}"'
    try:
        version: str | None = metadata.version(name)
    except metadata.PackageNotFoundError:
        version = None
    if not version:  # also None after an interrupted installation
        return Diagnosis("missing", "FAULT" if required else "note", advice)
    if _older(version, minimum):
        return Diagnosis(f"{version} is too old (at least {minimum})", "FAULT", advice)
    return Diagnosis(f"{version} (at least {minimum})" if minimum else version)


def _no_torch() -> Diagnosis:
    return Diagnosis("not installed", "note", f"only training needs it: {TORCH_HINT}")


def _processor() -> Diagnosis:
    return Diagnosis(f"{processor_name() or 'unknown'} ({platform.machine()}, {platform.system()})")


def _threads() -> Diagnosis:
    import torch

    threads, available = torch.get_num_threads(), usable_cores()
    if threads > available:
        threads_setting = f"train.intra_op_threads={max(1, int(available))}"
        advice = f"they compete for cores; train with --set {threads_setting}"
        return Diagnosis(f"{threads}, more than cores", "note", advice)
    return Diagnosis(f"{threads}, unless train.intra_op_threads is set")


def _kernels() -> Diagnosis:
    from transduce.model.cpp_library import load_kernels

    reason = load_kernels().reason
    if not reason:
        return Diagnosis("compiled for this processor")
    return Diagnosis(f"none: {reason}", "note", "training on this CPU takes longer without them")


def _native_engine() -> Diagnosis:
    from transduce.inference.engines.native_library import load_search

    library, reason = load_search()
    if library is None:
        return Diagnosis(f"none: {reason}", "note", "CTranslate2 translates, which takes longer")
    int8 = library.int8_instructions().decode()
    formats = f"float32 and int8 ({int8})" if int8 else "float32"
    return Diagnosis(f"compiled for this processor, {formats}")


def _memory() -> Diagnosis:
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cgroup = cgroup_limit("memory.max")[0]
    size = min(physical, int(cgroup)) if cgroup.isdigit() else physical
    return Diagnosis(f"{size / _GIB:.1f} GiB{' (a container limit)' if size < physical else ''}")


def _cuda() -> Diagnosis:
    import torch

    if torch.cuda.is_available():
        bf16 = "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "no bf16"
        devices = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
        names = "; ".join(f"{gpu.name}, {gpu.total_memory / _GIB:.0f} GiB" for gpu in devices)
        built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "ROCm"
        return Diagnosis(f"{names}; {bf16}; {built}")
    if Path("/proc/driver/nvidia/version").exists() and not torch.version.cuda:
        advice = "a driver is present: install torch's CUDA build (pytorch.org, get started)"
        return Diagnosis("none with this build of torch", "note", advice)
    return Diagnosis("none: everything runs on the CPU")


def _disk() -> Diagnosis:
    free = shutil.disk_usage(".").free
    text = f"{free / _GIB:.1f} GiB free in the working directory"
    if free < _MIN_FREE:
        return Diagnosis(text, "FAULT", "free disk space, or work in another directory")
    if not os.access(".", os.W_OK):
        advice = "runs are written to ./runs unless --out names another folder"
        return Diagnosis(f"{text}, which is not writable", "note", advice)
    return Diagnosis(text)


def _encoding() -> Diagnosis:
    preferred = locale.getpreferredencoding(False)
    stdout = getattr(sys.stdout, "encoding", None)
    text = f"locale {preferred}, stdout {stdout or 'unknown'}"
    names = {re.sub("[-_]", "", name.lower()) for name in (preferred, stdout or "utf8")}
    if names == {"utf8"}:
        return Diagnosis(text)
    advice = "output is UTF-8; to display it in this terminal: export LC_ALL=C.UTF-8"
    return Diagnosis(text, "note", advice)


def _self_test() -> Diagnosis:
    started = time.monotonic()
    try:
        outcome = _train_and_translate() if has_torch() else _convert_and_translate()
    except Exception as error:
        advice = "fix the faults above, or install transduce into a fresh environment"
        return Diagnosis(f"failed: {_summary(error)}", "FAULT", advice)
    seconds = time.monotonic() - started
    return Diagnosis(f"{outcome} in {seconds:.1f} s")


def _train_and_translate() -> str:
    """Train a tiny random model for one update and translate with it; return what was done."""
    import torch

    from transduce.data.batch import collate
    from transduce.data.config import TokenizerConfig
    from transduce.data.tokenizer import Tokenizer
    from transduce.evaluation.metrics import bleu
    from transduce.evaluation.perplexity import perplexity
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
        update = train_step(model, [batch], optimizers=optimizers, rates=[1e-3])
        losses = update.loss_sum.item(), perplexity(model, [batch]).loss_sum
        if not all(map(math.isfinite, (*losses, update.grad_norm.item()))):
            raise ArithmeticError("the loss or the gradient of an update is not finite")
    search = SearchConfig(beam=2, extra=3)
    (translation,) = Translator.from_parts(model, tokenizer, search=search).translate(_LINES[:1])
    bleu([translation.text], [_LINES[1]])
    return f"one update and one translation on {device.type}"


def _convert_and_translate() -> str:
    """Translate with a tiny random model in every engine but torch; return what was done."""
    import numpy as np

    from transduce.bundle.bundle import Bundle, Provenance
    from transduce.data.config import Languages, TokenizerConfig
    from transduce.data.tokenizer import Tokenizer
    from transduce.inference.translator import Translator
    from transduce.model.config import ModelConfig
    from transduce.model.numpy_transformer import NumpyTransformer, parameter_shapes
    from transduce.search.config import SearchConfig

    tokenizer = Tokenizer.train(_LINES, TokenizerConfig(vocab_size=20))
    shape = ModelConfig(
        vocab_size=tokenizer.vocab_size, encoder_layers=1, decoder_layers=1, d_model=512, d_ff=32
    )
    random = np.random.default_rng(1)
    weights = {
        name: random.normal(0.0, 0.1, size).astype(np.float32)
        for name, size in parameter_shapes(shape).items()
    }
    bundle = Bundle(
        model=NumpyTransformer(shape, weights),
        tokenizer=tokenizer,
        languages=Languages(),
        search=SearchConfig(beam=2, extra=3),
        provenance=Provenance(),
    )
    for engine in ("auto", "numpy"):
        Translator.from_bundle(bundle, engine=engine).translate(_LINES[:1])
    return "two translations on cpu"


def _minimum(requirement: str) -> str:
    """The minimum version in a requirement; empty if there is none.

    >>> _minimum("torch>=2.13,<3"), _minimum("rich")
    ('2.13', '')
    """
    minimum = re.search(r"(?:>=|==|~=)\s*([\d.]+)", requirement)
    return minimum[1].rstrip(".") if minimum else ""


def _older(version: str, minimum: str) -> bool:
    """Compare release numbers, ignoring suffixes.

    >>> _older("2.9.1+cpu", "2.13"), _older("2.13", "2.13.0"), _older("3.0rc1", "2.13")
    (True, False, False)
    """
    # Only the leading release numbers: "3.0rc1" compares as 3.0, "2.9.1+cpu" as 2.9.1.
    left, right = (
        [int(number) for number in re.split(r"[^\d.]", text, maxsplit=1)[0].split(".") if number]
        for text in (version, minimum)
    )
    size = max(len(left), len(right))
    return left + [0] * (size - len(left)) < right + [0] * (size - len(right))


def _summary(error: Exception) -> str:
    return _first_line(f"{type(error).__name__}: {error}")


def _first_line(text: str) -> str:
    """The first line of a library's message.

    >>> _first_line("no kernel image\\nSearch for ...")
    'no kernel image'
    """
    return text.strip().split("\n")[0].split(" (Triggered internally")[0][:200]
