"""The weights and losses of a run at each checkpoint, for a page that shows the training."""

from copy import deepcopy
from pathlib import Path

import torch

from transduce.config import load_recipe
from transduce.io.atomic_folder import check_folder
from transduce.pipeline.prepared import open_prepared
from transduce.pipeline.run_bundle import initial_model
from transduce.pipeline.run_page import METRICS, read_metrics
from transduce.train.checkpoint import list_checkpoints, load_weights
from transduce.web.page import History


def training_history(run: Path) -> History:
    """Read how a run's model learned: from its initial weights through its checkpoints.

    Raises:
        ValueError: if the run's folder has no checkpoint, or a damaged one.
    """
    checkpoints = list_checkpoints(run / "checkpoints")
    if not checkpoints:
        raise ValueError(
            f"{run} has no checkpoints to show the training of: name a run's folder, trained with "
            f"--set train.keep_checkpoints=100"
        )
    with torch.random.fork_rng(devices=[]):
        model = initial_model(load_recipe(run / "recipe.toml"), open_prepared(run))
    weights = {0: deepcopy(model.to_numpy().weights)}  # the model is given others next
    for checkpoint in checkpoints:
        check_folder(checkpoint, expected="a training checkpoint")
        model.load_state_dict(load_weights(checkpoint))
        update = int(checkpoint.name.removeprefix("update-"))
        weights[update] = deepcopy(model.to_numpy().weights)
    log = read_metrics(run / METRICS)
    return History(
        weights=weights,
        training=[(line["update"], line["loss"]) for line in log if "loss" in line],
        validation=[
            (line["update"], loss, line.get("chrf"))
            for line in log
            if (loss := line.get("validation_loss"))
        ],
    )
