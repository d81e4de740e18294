"""An average has the settings of its run, and nothing that was measured on other weights."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import write_corpus

from transduce.bundle.bundle import Bundle
from transduce.bundle.calibration import Calibration, Confidence
from transduce.config import load_recipe
from transduce.data.config import Languages
from transduce.model.transformer import Transformer
from transduce.pipeline.run_bundle import average_to_bundle, new_model, run_bundle
from transduce.pipeline.run_folder import prepare_run
from transduce.train.checkpoint import TrainState, save_state

SHAPE = ("encoder_layers=1", "decoder_layers=1", "d_model=16", "d_ff=24", "heads=2", "d_k=8")


@pytest.fixture
def finished(tmp_path: Path) -> tuple[Path, Bundle]:
    """The folder of a run with two checkpoints, and the bundle that it ended with."""
    write_corpus(tmp_path)
    settings = (f"data.folder={tmp_path}", 'data.train=["train.src", "train.rev"]')
    shape = (*(f"model.{setting}" for setting in SHAPE), "model.d_v=8", "tokenizer.vocab_size=15")
    recipe, out = load_recipe("tiny", [*settings, *shape, "data.held_out=19"]), tmp_path / "run"
    prepared = prepare_run(recipe, out, on_event=str)
    for update in (1, 2):
        state, model = TrainState(update=update), new_model(recipe, prepared)
        save_state(out / "checkpoints", state, model=model, optimizers=[])
    words = Calibration(log_probs=(-3.0,), worth=(0.5,), observations=211)
    bundle = run_bundle(recipe, model, prepared=prepared, scores={"BLEU": 1.0})
    return out, replace(bundle, confidence=Confidence(words=words))


def test_averaged_checkpoints_decode_as_the_finished_model(finished: tuple[Path, Bundle]):
    run, bundle = finished
    checkpoints, out = sorted((run / "checkpoints").iterdir()), run.parent / "averaged"
    average_to_bundle(checkpoints, out)
    assert Bundle.load(out).search == bundle.search  # of the recipe: no model is finished

    tuned = replace(bundle.search, alpha=1.375)
    named = Languages(source="en", target="de")  # by `transduce relabel`
    replace(bundle, search=tuned, languages=named).save(run / "model")
    average_to_bundle(checkpoints, out)

    averaged = Bundle.load(out)
    assert (averaged.search, averaged.languages) == (tuned, named)
    assert averaged.confidence is None


def test_bundles_of_another_architecture_are_refused(finished: tuple[Path, Bundle]):
    run, bundle = finished
    bundle.save(run / "model")
    config = bundle.weights.config
    for name, other in (
        ("dropped", replace(config, dropout=0.375)),
        ("split", replace(config, heads=4, d_k=4, d_v=4)),  # weights of equal shapes
    ):
        model = Transformer(other)
        model.load_state_dict(bundle.model.state_dict())
        replace(bundle, weights=model).save(run.parent / name)

    average_to_bundle([run / "model", run.parent / "dropped"], run.parent / "averaged")
    with pytest.raises(ValueError, match="different architectures: average bundles of one run"):
        average_to_bundle([run / "model", run.parent / "split"], run.parent / "other")


def test_averaged_bundles_have_no_calibration_and_no_scores(finished: tuple[Path, Bundle]):
    run, bundle = finished
    bundle.save(run / "model")

    average_to_bundle([run, run / "model"], run.parent / "averaged")

    averaged = Bundle.load(run.parent / "averaged")
    assert averaged.confidence is None
    assert averaged.provenance.scores == {}
    assert averaged.search == bundle.search
