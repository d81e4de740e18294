"""Files that an earlier version wrote (commit fc6b078) keep working.

`old_version/` holds its bundle, a run that was killed behind its checkpoint, and in expected.json
what that version made of both: translations, and the SHA-256 of every tensor at the run's end.
"""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conftest import in_a_process

from transduce.bundle.averaging import average_weights
from transduce.bundle.bundle import Bundle
from transduce.bundle.tensors import read_weights
from transduce.bundle.torch_tensors import read_tensors
from transduce.config import load_recipe
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.search.config import Request, SearchConfig
from transduce.train.checkpoint import list_checkpoints, load_weights
from transduce.train.precision import bfloat16_units

OLD = Path(__file__).parent / "old_version"
EXPECTED: dict[str, Any] = json.loads((OLD / "expected.json").read_text(encoding="utf-8"))
LAST = "checkpoints/update-00000080"

SAME_MACHINE = (
    EXPECTED["torch"] == str(torch.__version__)
    and EXPECTED["cpu"] == torch.backends.cpu.get_cpu_capability()
    and EXPECTED["bfloat16_units"] == bfloat16_units(torch.device("cpu"))
)
"""Other kernels of torch, and other CPUs of the same kernels, round otherwise: then values are
close, not equal to the bit."""


def sha(tensor: torch.Tensor) -> str:
    return hashlib.sha256(tensor.contiguous().numpy().tobytes()).hexdigest()[:16]


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The old version's run, resumed from its checkpoint to its end."""
    folder = tmp_path_factory.mktemp("old") / "work"
    shutil.copytree(OLD, folder)
    done = in_a_process("train", "--resume", "--out", "run", cwd=folder)
    assert done.returncode == 0, done.stderr.decode()
    return folder / "run"


@pytest.mark.parametrize("beam", ["1", "4"])
def test_an_old_bundle_translates_as_it_did(beam: str):
    bundle = Bundle.load(OLD / "bundle")
    engine = TorchEngine(
        bundle.model, pad=bundle.model.config.pad, eos=bundle.tokenizer.EOS, device="cpu"
    )
    sources = (OLD / "test.en").read_text(encoding="utf-8").splitlines()
    requests = [Request(tuple(bundle.tokenizer.encode(source))) for source in sources]

    hypotheses = engine.search(requests, SearchConfig(beam=int(beam)))

    for (best, *_), expected in zip(hypotheses, EXPECTED["translations"][beam], strict=True):
        assert best.ids == tuple(expected["ids"])
        assert best.log_probs == pytest.approx(expected["log_probs"], rel=1e-5, abs=1e-6)


def test_an_old_bundle_has_the_weights_it_had():
    weights = Bundle.load(OLD / "bundle").model.state_dict()

    old = EXPECTED["tensors"]["model/model"].values()
    assert sorted(map(sha, weights.values())) == sorted(old)


def test_an_old_recipe_is_read():
    recipe = load_recipe(OLD / "run" / "recipe.toml")

    assert recipe.model.d_model == 16
    assert recipe.train.updates == 80


@pytest.mark.parametrize("file", [f"{LAST}/model", f"{LAST}/mean", f"{LAST}/optimizer"])
def test_an_old_checkpoint_resumes_to_the_same_weights(resumed: Path, file: str):
    tensors = read_tensors(resumed / f"{file}.safetensors")
    old = EXPECTED["tensors"][file]

    assert len(tensors) == len(old)
    if SAME_MACHINE:
        assert sorted(map(sha, tensors.values())) == sorted(old.values())


def test_the_resumed_run_s_average_is_the_old_versions_model(resumed: Path):
    """That version chose it because all BLEU were 0.00; now chrF2 decides such ties."""
    checkpoints = list_checkpoints(resumed / "checkpoints")
    actual = average_weights([load_weights(checkpoint) for checkpoint in checkpoints])
    old_weights = read_weights(OLD / "bundle" / "model.safetensors")

    assert actual.keys() == old_weights.keys()
    for name, weight in actual.items():
        old = torch.from_numpy(old_weights[name])
        torch.testing.assert_close(weight, old, rtol=0, atol=0 if SAME_MACHINE else 1e-3)


def test_new_files_have_the_new_names(resumed: Path):
    names = read_tensors(resumed / "model" / "model.safetensors").keys()

    assert "decoder.1.cross_attention.query.weight" in names
    assert not any(part in name for name in names for part in (".attend.", ".cross.", ".feed."))
    assert json.loads((resumed / "model" / "config.json").read_text())["version"] == 2
