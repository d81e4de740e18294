"""The models and bundles of a run: initial weights, bundles with provenance, averages."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from transduce.bundle.averaging import average_weights
from transduce.bundle.bundle import Bundle, Provenance
from transduce.config import Recipe, load_recipe, to_toml
from transduce.io.atomic_folder import check_folder, recover_interrupted
from transduce.io.machine import commit
from transduce.model.transformer import Transformer
from transduce.pipeline.prepared import Prepared, open_prepared
from transduce.train.checkpoint import load_weights


def new_model(recipe: Recipe, prepared: Prepared) -> Transformer:
    """Return a model of the recipe's shape, and as many pieces as the corpus was enough for."""
    return Transformer(replace(recipe.model, vocab_size=prepared.tokenizer.vocab_size))


def initial_model(recipe: Recipe, prepared: Prepared) -> Transformer:
    """Return the model before the first update: random weights, or those that it starts from."""
    torch.manual_seed(recipe.train.seed)
    model = new_model(recipe, prepared)
    if prepared.start:
        model.load_state_dict(Bundle.load(prepared.start).model.state_dict())
    return model


def run_bundle(
    recipe: Recipe, model: Transformer, *, prepared: Prepared, scores: Mapping[str, float]
) -> Bundle:
    """Return a bundle of weights with the run's tokenizer, languages, provenance and scores."""
    return Bundle(
        model=model,
        tokenizer=prepared.tokenizer,
        languages=recipe.languages,
        search=recipe.search,
        directions=tuple(direction.pair for direction in recipe.data.trained),
        provenance=replace(
            Provenance.current(),
            commit=commit(),
            data_sha256=prepared.data_sha256,
            recipe=to_toml(recipe),
            scores=scores,
            started_from=prepared.started_from,
        ),
    )


def average_to_bundle(checkpoints: Sequence[Path], out: Path) -> None:
    """Average training checkpoints of one run, or bundles, into a bundle.

    It has the search settings and languages of the run's finished model, or of the first bundle.

    Raises:
        ValueError: if they are damaged or not of one model; one line that names the folder.
    """
    if not all((path / "state.json").is_file() for path in checkpoints):
        bundles = [Bundle.load(path) for path in checkpoints]
        first = bundles[0]
        if {bundle.tokenizer.checksum for bundle in bundles} != {first.tokenizer.checksum}:
            raise ValueError("the bundles have different tokenizers: average bundles of one run")
        shapes = {
            replace(bundle.weights.config, dropout=0.0, attention_dropout=0.0, relu_dropout=0.0)
            for bundle in bundles
        }
        if len(shapes) > 1:
            raise ValueError("the bundles have different architectures: average bundles of one run")
        first.model.load_state_dict(
            average_weights([bundle.model.state_dict() for bundle in bundles])
        )
        # Scores and calibration are of the first one's weights.
        provenance = replace(first.provenance, scores={})
        replace(first, provenance=provenance, confidence=None).save(out)
        return
    for path in checkpoints:
        check_folder(path, expected="a training checkpoint")
    runs = {path.resolve().parent.parent for path in checkpoints}
    if len(runs) > 1:
        raise ValueError("the checkpoints are of different runs: average those of one run")
    recipe, prepared = load_recipe((run := runs.pop()) / "recipe.toml"), open_prepared(run)
    model = new_model(recipe, prepared)
    model.load_state_dict(average_weights([load_weights(path) for path in checkpoints]))
    averaged = run_bundle(recipe, model, prepared=prepared, scores={})
    if recover_interrupted(run / "model"):  # has its length penalty, and what `relabel` changed
        finished = Bundle.load(run / "model")
        averaged.search, averaged.languages = finished.search, finished.languages
        averaged.directions = finished.directions
    averaged.save(out)
