"""The choice of a decoding backend for a model."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache as call_once
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict, Unpack, get_args

from transduce.bundle.bundle import Bundle
from transduce.inference.engines.ct2_engine import Ct2Engine
from transduce.inference.engines.ct2_model import (
    Cache,
    load_ctranslate2,
    read_shortlist,
    unsupported_feature,
    vocabulary,
)
from transduce.inference.engines.ct2_runtime import Plan
from transduce.inference.engines.interface import Engine, ScoringEngine
from transduce.inference.engines.native_engine import NativeEngine, unavailable_reason
from transduce.inference.engines.native_library import load_search
from transduce.inference.engines.numpy_engine import NumpyEngine
from transduce.io.machine import has_torch, require_torch
from transduce.model.numpy_transformer import NumpyTransformer

if TYPE_CHECKING:
    from transduce.model.transformer import Transformer

EngineName = Literal["auto", "native", "ctranslate2", "torch", "numpy"]


class EngineOptions(TypedDict, total=False):
    """How a model is run: the options of `Translator.load`, `from_bundle` and `select_engines`."""

    engine: EngineName
    """"auto", the default, is the native engine where a compiler is installed, else CTranslate2 if
    it supports the model, with torch for requests that these do not support, or NumPy where torch
    is not installed; a name selects that engine only."""
    compute_type: str
    """Number format. Only float32, the default, gives the same translations as torch; "int8" or
    "auto" is faster. With engine "torch": float32 or bfloat16."""
    plan: Plan | None
    """Workers and threads of CTranslate2, which engine "auto" then uses; None, the default,
    measures them."""
    shortlist: Path | None
    """File with the target pieces that may be generated; requests that the engine does not support
    are decoded by torch without it. None, the default, is all."""


class EngineSelection(NamedTuple):
    """The engines for a model, and why."""

    engines: tuple[Engine, ...]
    """In order of preference: the first that supports a request decodes it."""
    description: str
    """For people: which engine runs, how it computes, or why it is not the fastest."""
    fallback: Callable[[], ScoringEngine] | None = None
    """Returns the engine for what the others do not support; the first call imports torch."""


def select_engines(
    bundle: Bundle,
    *,
    device: str = "cpu",
    cache: Cache | None = None,
    **options: Unpack[EngineOptions],
) -> EngineSelection:
    """Select the engines for a model.

    Args:
        bundle: the model, on `device`.
        device: where to compute; engine "auto" is torch elsewhere than on "cpu".
        cache: where the converted model is kept; None is the user's.
        options: see `EngineOptions`.

    Raises:
        ValueError: if the engine or compute type named is unknown or unavailable.
    """
    engine, compute_type = options.get("engine", "auto"), options.get("compute_type", "float32")
    plan, shortlist = options.get("plan"), options.get("shortlist")
    if engine not in get_args(EngineName):
        *names, last = get_args(EngineName)
        raise ValueError(f"there is no engine {engine!r}: choose {', '.join(names)} or {last}")
    if engine in ("torch", "numpy") and (plan is not None or shortlist is not None):
        raise ValueError(f"the {engine} engine has no plans or shortlists: choose ctranslate2")
    if engine == "native" and plan is not None:
        raise ValueError("the native engine has no plans: choose ctranslate2")
    if engine == "numpy":
        if compute_type != "float32" or device != "cpu":
            raise ValueError("the numpy engine computes in float32 on the CPU: choose torch")
        numpy_engine = NumpyEngine(bundle.weights.to_numpy(), eos=bundle.tokenizer.EOS)
        return EngineSelection((numpy_engine,), "engine: numpy")
    if engine == "torch":
        torch_engine = _torch_engine(bundle, device=device, compute_type=compute_type)
        suffix = "" if compute_type == "float32" else f", {compute_type}"
        return EngineSelection((torch_engine,), f"engine: torch{suffix}")
    if shortlist and not bundle.tokenizer.shared:
        raise ValueError("a shortlist needs a vocabulary of both sides: leave it out")
    in_float32 = compute_type in ("float32", "auto")
    may_fall_back = engine == "auto" and in_float32 and plan is None and shortlist is None
    remedy = "choose engine auto or torch"
    if engine == "auto":
        remedy = "leave out compute type, workers, threads and shortlist, or choose engine torch"
    fallback = call_once(partial(reference_engine, bundle, device=device))
    allowed = read_shortlist(shortlist, vocabulary(bundle.tokenizer.target)) if shortlist else None
    suffix = ", shortlist" if shortlist else ""
    without_native = ""
    if engine == "native" or (engine == "auto" and plan is None and device == "cpu"):
        why_unavailable = partial(unavailable_reason, bundle.weights.config, device=device)
        number_format = "int8" if compute_type == "auto" else compute_type
        reason = why_unavailable(compute_type=number_format)
        if (
            reason
            and compute_type == "auto"
            and (engine == "native" or _ct2_unavailable(bundle, device=device))
        ):
            number_format = "float32"
            reason = why_unavailable(compute_type=number_format)
        if not reason:
            native = NativeEngine(
                bundle.weights.to_numpy(), int8=number_format == "int8", shortlist=allowed
            )
            description = f"engine: native {number_format}{suffix}"
            return EngineSelection((native,), description, fallback if engine == "auto" else None)
        if engine == "native":
            raise ValueError(f"the native engine is not available: {reason}; {remedy}")
        if load_search().library is None:  # which an installation can change
            without_native = f" (not native: {reason})"
    fallback_name = "torch" if has_torch() or device != "cpu" else "numpy"
    reason = _ct2_unavailable(bundle, device=device if engine == "auto" else "cpu")
    if reason and not may_fall_back:
        raise ValueError(f"CTranslate2 is not available: {reason}; {remedy}")
    if reason:
        return EngineSelection((), f"engine: {fallback_name} ({reason})", fallback)
    try:
        ct2 = Ct2Engine(
            bundle,
            device=device,
            compute_type=compute_type,
            plan=plan,
            shortlist=allowed,
            cache=cache,
        )
    except (OSError, RuntimeError) as error:
        message = str(error).partition("\n")[0]
        if not may_fall_back:
            raise ValueError(f"CTranslate2 failed: {message}; {remedy}") from None
        description = f"engine: {fallback_name} (CTranslate2 failed: {message})"
        return EngineSelection((), description, fallback)
    plan_text = _format_plan(ct2.plans.throughput)
    description = f"engine: ctranslate2 {plan_text}{suffix}{without_native}"
    return EngineSelection((ct2,), description, fallback if engine == "auto" else None)


def make_native_engine(model: "Transformer") -> NativeEngine | None:
    """Return an engine with the weights that a model has now; None if it cannot run here."""
    device = str(model.embedding.weight.device)
    if unavailable_reason(model.config, device=device, compute_type="float32"):
        return None
    twin = model.to_numpy()  # which shares the weights
    weights = {name: weight.copy() for name, weight in twin.weights.items()}
    return NativeEngine(replace(twin, weights=weights))


def _torch_engine(bundle: Bundle, *, device: str, compute_type: str = "float32") -> ScoringEngine:
    require_torch("the torch engine")
    from transduce.inference.engines.torch_engine import TorchEngine
    from transduce.model.transformer import in_bfloat16

    if compute_type not in ("float32", "bfloat16"):
        raise ValueError(
            f"the torch engine computes in float32 or bfloat16, not {compute_type!r}: choose "
            f"ctranslate2 for that"
        )
    bfloat16 = compute_type == "bfloat16"
    model = in_bfloat16(bundle.model, embedding=True) if bfloat16 else bundle.model
    return TorchEngine(model, pad=bundle.tokenizer.pad, eos=bundle.tokenizer.EOS, device=device)


def reference_engine(bundle: Bundle, *, device: str = "") -> ScoringEngine:
    """Return the engine that supports most: torch, or NumPy where torch is not installed.

    Args:
        bundle: the model, on `device`.
        device: where to compute; any but "cpu" needs torch. Empty: where the model is.
    """
    if not device:
        numpy = isinstance(bundle.weights, NumpyTransformer)
        device = "cpu" if numpy else str(bundle.model.embedding.weight.device)
    if has_torch() or device != "cpu":
        return _torch_engine(bundle, device=device)
    return NumpyEngine(bundle.weights.to_numpy(), eos=bundle.tokenizer.EOS)


def _ct2_unavailable(bundle: Bundle, *, device: str) -> str:
    """Return why CTranslate2 cannot be used; empty if it can."""
    if device.partition(":")[0] != "cpu":
        return f"the device is {device}"
    if find_spec("ctranslate2") is None:
        return "CTranslate2 is not installed: pip install ctranslate2"
    if feature := unsupported_feature(bundle.weights.config):
        return f"CTranslate2 does not support {feature}"
    try:
        load_ctranslate2()
    except ValueError as error:
        return str(error)
    return ""


def _format_plan(plan: Plan) -> str:
    workers = "1 worker" if plan.workers == 1 else f"{plan.workers} workers"
    threads = "1 thread" if plan.threads == 1 else f"{plan.threads} threads"
    return f"{plan.compute_type}, {workers} x {threads}"
