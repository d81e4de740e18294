"""COMET, a learned metric, by the package unbabel-comet where it is installed."""

import importlib.util
import pickle
from collections.abc import Sequence
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from transduce.evaluation.metrics import SAMPLES, Score
from transduce.io.machine import environment_variable, out_of_memory

_FORCE_WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
_DAMAGE = (pickle.UnpicklingError, RuntimeError, EOFError, BadZipFile, LookupError, TypeError)


def comet(
    sources: Sequence[str] | None,
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    model: Path | None,
    interval: bool = False,
) -> Score:
    """Score translations by a COMET model, on the CPU.

    Args: those of `bleu`, and the source lines; `model` is a folder with hparams.yaml and
    checkpoints/model.ckpt.

    Raises:
        ValueError: if the package, the model or the sources are missing, or the model is damaged or
            needs code to be run.
    """
    if sources is None or model is None:
        raise ValueError("COMET needs the source lines and the folder of a model")
    checkpoint = find_checkpoint(model)
    try:
        package = importlib.import_module("comet")
    except ImportError as error:
        raise ValueError(f"COMET does not load ({error}): pip install unbabel-comet") from None
    try:
        # COMET leaves it to torch whether pickled code runs.
        with environment_variable(_FORCE_WEIGHTS_ONLY, "1"):
            scorer = package.load_from_checkpoint(str(checkpoint))
    except _DAMAGE as error:
        if out_of_memory(error):
            raise
        reason = str(error).partition("\n")[0] or type(error).__name__
        if isinstance(error, pickle.UnpicklingError):
            raise ValueError(f"{checkpoint} holds more than weights: {reason}") from None
        raise ValueError(f"{model} is damaged ({reason}): download it again") from None
    rows = [
        {"src": source, "mt": hypothesis, "ref": reference}
        for source, hypothesis, reference in zip(sources, hypotheses, references, strict=True)
    ]
    result = scorer.predict(rows, batch_size=8, gpus=0, progress_bar=False)
    margin = None
    if interval:
        values = 100 * np.array(result.scores)
        means = np.random.default_rng(12345).choice(values, (SAMPLES, len(values))).mean(axis=1)
        low, high = np.percentile(means, [2.5, 97.5])
        margin = float(high - low) / 2
    return Score(
        name="COMET",
        value=100 * float(result.system_score),
        signature=f"model:{model.resolve().name}|x100|version:{package.__version__}",
        margin=margin,
    )


def find_checkpoint(model: Path) -> Path:
    """Return the checkpoint of a COMET model, of which nothing is loaded.

    Raises:
        ValueError: if the package is not installed, or the folder is no such model.
    """
    if importlib.util.find_spec("comet") is None:
        raise ValueError("COMET is not installed: pip install unbabel-comet")
    checkpoint = model / "checkpoints" / "model.ckpt"
    if not (checkpoint.is_file() and (model / "hparams.yaml").is_file()):
        raise ValueError(
            f"{model} is not a COMET model: it needs hparams.yaml and checkpoints/model.ckpt"
        )
    return checkpoint
