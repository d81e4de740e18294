"""Which engine translates: the quickest that can express the model, unless one is asked for."""

from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

from transduce.bundle.bundle import Bundle
from transduce.inference.engines.autotune import Plan
from transduce.inference.engines.base import Engine
from transduce.inference.engines.cache import Cache
from transduce.inference.engines.ct2_engine import Ct2Engine
from transduce.inference.engines.ct2_model import vocabulary, why_not
from transduce.inference.engines.shortlist import read_shortlist
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.model.bfloat16 import in_bfloat16

EngineName = Literal["auto", "torch", "ctranslate2"]


class Choice(NamedTuple):
    """Engines, and why these."""

    engines: tuple[Engine, ...]
    """In the order in which they are to be asked whether they can do what is wanted."""

    line: str
    """For people: which engine was taken, how it computes, or why it is not the quick one."""


def choose(
    bundle: Bundle,
    *,
    engine: EngineName = "auto",
    device: str = "cpu",
    compute_type: str = "float32",
    plan: Plan | None = None,
    shortlist: Path | None = None,
    cache: Cache | None = None,
) -> Choice:
    """Choose the engines for a model.

    Args:
        bundle: the model, on `device`.
        engine: "auto" takes CTranslate2 where it can express the model, and torch for what it
            refuses; a name takes that engine alone.
        device: where to compute; other devices than "cpu" are torch's unless CTranslate2 is named.
        compute_type: the kind of CTranslate2's numbers. float32 is the default because only it
            gives the translations that torch gives; "int8" or "auto" is quicker. Where torch is
            asked for by name: its own, float32 or bfloat16.
        plan: how CTranslate2 computes, in place of what a measurement says.
        shortlist: a file with what CTranslate2 may say; what it refuses, torch says without it.
        cache: where the converted model is kept; None takes the user's.

    Raises:
        ValueError: if an engine is asked for by name, or a compute type, that cannot be had.
    """
    if engine not in ("auto", "torch", "ctranslate2"):
        raise ValueError(f"there is no engine {engine!r}: take auto, torch or ctranslate2")
    if engine == "torch":
        if compute_type not in ("float32", "bfloat16"):
            raise ValueError(
                f"the torch engine computes in float32 or bfloat16, not in {compute_type!r}: for "
                "that take ctranslate2"
            )
        if plan is not None or shortlist is not None:
            raise ValueError("the torch engine has no plans or shortlists: take ctranslate2")
        short = compute_type == "bfloat16"
        ours = _ours(bundle, device=device, short=short)
        return Choice((ours,), "engine: torch, bfloat16" if short else "engine: torch")
    plain = compute_type == "float32" and plan is None and shortlist is None
    ours = _ours(bundle, device=device)
    reason = _why_not_quick(bundle, device=device if engine == "auto" else "cpu")
    if reason and (engine != "auto" or not plain):
        raise ValueError(f"CTranslate2 cannot translate here: {reason}")
    if reason:
        return Choice((ours,), f"engine: torch, as {reason}")
    allowed = read_shortlist(shortlist, vocabulary(bundle.tokenizer)) if shortlist else None
    try:
        quick = Ct2Engine.of(
            bundle,
            device=device,
            compute_type=compute_type,
            plan=plan,
            shortlist=allowed,
            cache=cache,
        )
    except (OSError, RuntimeError) as error:
        said = str(error).partition("\n")[0]
        if engine != "auto" or not plain:
            raise ValueError(f"CTranslate2 cannot translate here: {said}") from None
        return Choice((ours,), f"engine: torch, as CTranslate2 failed: {said}")
    engines = (quick, ours) if engine == "auto" else (quick,)
    kept = ", shortlist" if shortlist else ""
    return Choice(engines, f"engine: ctranslate2 {_shown(quick.plans.throughput)}{kept}")


def _ours(bundle: Bundle, *, device: str, short: bool = False) -> TorchEngine:
    model = in_bfloat16(bundle.model, embedding=True) if short else bundle.model
    return TorchEngine(model, pad=bundle.tokenizer.pad, eos=bundle.tokenizer.EOS, device=device)


def _why_not_quick(bundle: Bundle, *, device: str) -> str:
    if device.partition(":")[0] != "cpu":
        return f"the device is {device}"
    if find_spec("ctranslate2") is None:
        return "CTranslate2 is not installed: pip install ctranslate2"
    reason = why_not(bundle.model.config)
    return reason and f"CTranslate2 cannot express {reason}"


def _shown(plan: Plan) -> str:
    workers = "1 worker" if plan.workers == 1 else f"{plan.workers} workers"
    threads = "1 thread" if plan.threads == 1 else f"{plan.threads} threads"
    return f"{plan.compute_type}, {workers} x {threads}"
