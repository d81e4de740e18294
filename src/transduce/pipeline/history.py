"""The weights and losses of a run at each checkpoint, for a page that shows the training."""

import json
from pathlib import Path

import torch

from transduce.config import load_recipe
from transduce.pipeline.prepare import open_prepared
from transduce.pipeline.run import initial_model
from transduce.train.checkpoint import intact_checkpoints, list_checkpoints, load_weights
from transduce.train.events import EventHandler
from transduce.web.page import History


def training_history(run: Path, *, on_event: EventHandler) -> History:
    """Read how a run's model learned: from its initial weights through its checkpoints.

    Args:
        run: the run's folder.
        on_event: called with what is damaged and left out.

    Raises:
        ValueError: if it has no checkpoint.
    """
    checkpoints = list_checkpoints(run / "checkpoints")
    if not checkpoints:
        raise ValueError(
            f"{run} has no checkpoints to show the training of: name a run's folder, trained with "
            f"--set train.keep_checkpoints=100"
        )
    with torch.random.fork_rng(devices=[]):
        model = initial_model(load_recipe(run / "recipe.toml"), open_prepared(run))
    weights = {0: model.to_numpy().weights}
    for checkpoint in intact_checkpoints(checkpoints, on_event=on_event):
        tensors = load_weights(checkpoint)
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        weights[int(checkpoint.name.removeprefix("update-"))] = arrays
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    points = [json.loads(line) for line in lines]
    return History(
        weights=weights,
        training=[(point["update"], point["loss"]) for point in points if "loss" in point],
        validation=[
            (point["update"], point["validation_loss"], point.get("chrf"))
            for point in points
            if "validation_loss" in point
        ],
    )
