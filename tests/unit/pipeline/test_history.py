"""A run's training as a page shows it: from the initial weights through every checkpoint."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.conftest import Run, Transduce, refuses

from transduce.config import load_recipe
from transduce.model.transformer import Transformer, with_paper_scaling
from transduce.pipeline.history import training_history
from transduce.pipeline.prepared import open_prepared
from transduce.train.checkpoint import load_weights


def test_the_initial_weights_come_first_then_those_of_each_checkpoint(run: Run):
    before = torch.get_rng_state()
    history = training_history(run.folder)

    assert list(history.weights) == [0, 60, 90]
    for update in (60, 90):
        stored = load_weights(run.folder / "checkpoints" / f"update-{update:08d}")
        assert history.weights[update].keys() == stored.keys()
        assert all(
            torch.equal(torch.from_numpy(history.weights[update][n]), stored[n]) for n in stored
        )
    recipe = load_recipe(run.folder / "recipe.toml")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.train.seed)
        vocab_size = open_prepared(run.folder).tokenizer.vocab_size
        initial = Transformer(replace(recipe.model, vocab_size=vocab_size)).state_dict()
    assert all(torch.equal(torch.from_numpy(history.weights[0][n]), initial[n]) for n in initial)
    assert torch.equal(torch.get_rng_state(), before), "others' random numbers stay as they were"


def test_the_losses_are_those_of_the_log(run: Run):
    history = training_history(run.folder)
    log = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]

    losses = {line["update"]: line["loss"] for line in log if "loss" in line}
    assert dict(history.training) == losses
    assert [update for update, _, _ in history.validation] == [30, 60, 90]
    validated = {line["update"]: line for line in log if "validation_loss" in line}
    for update, loss, chrf in history.validation:
        line = validated[update]
        assert (loss, chrf) == (line["validation_loss"], line["chrf"])


def test_weights_have_the_scaling_of_the_page(run: Run, tmp_path: Path):
    copy = shutil.copytree(run.folder, tmp_path / "run")
    recipe = copy / "recipe.toml"
    text = recipe.read_text()
    assert 'scale = "embedding"' in text
    recipe.write_text(text.replace('scale = "embedding"', 'scale = "projection"'))

    history = training_history(copy)

    for update in (60, 90):
        stored = load_weights(run.folder / "checkpoints" / f"update-{update:08d}")
        expected = with_paper_scaling(stored, load_recipe(recipe).model)
        for name, weight in history.weights[update].items():
            assert torch.equal(torch.from_numpy(weight), expected[name]), name


def test_a_damaged_checkpoint_is_refused_by_name(run: Run, tmp_path: Path):
    copy = shutil.copytree(run.folder, tmp_path / "run")
    weights = copy / "checkpoints" / "update-00000060" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])

    with pytest.raises(ValueError, match="update-00000060"):
        training_history(copy)


def test_a_page_holds_the_training(run: Run, tmp_path: Path, transduce: Transduce):
    page = tmp_path / "page.html"
    done = transduce("export", run.folder, "--to", "web", "--history", "--out", page)
    assert done.code == 0, done.err

    data = re.search(r'id="description">(.*?)</script>', page.read_text(encoding="utf-8"))
    assert data is not None
    description = json.loads(data[1])
    assert description["history"]["updates"] == [0, 60, 90]
    sizes = description["history"]["sizes"]
    assert len(sizes) == 4
    assert sum(sizes) == description["weights"]["size"]


def test_what_cannot_show_a_training_says_so(run: Run, tmp_path: Path, transduce: Transduce):
    out = ("--out", tmp_path / "out")
    refuses(transduce("export", run.folder, "--to", "onnx", "--history", *out), "leave out")
    model = run.folder / "model"
    command = ("export", model, "--to", "web", "--history", "--out", tmp_path / "page.html")
    refuses(transduce(*command), str(model), "train.keep_checkpoints")
    assert not (tmp_path / "page.html").exists()
