"""The shape of a model: what is allowed, and what a person reads when it is not."""

import subprocess
import sys
from dataclasses import FrozenInstanceError, replace

import pytest

from transduce.model.config import PRESETS, ModelConfig


def test_the_last_id_is_pad():
    assert ModelConfig(vocab_size=101).pad == 100


def test_a_config_cannot_be_changed():
    config = ModelConfig()

    with pytest.raises(FrozenInstanceError):
        config.d_model = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    "field", ["encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "d_k", "d_v"]
)
def test_a_size_below_one_is_refused_by_name(field: str):
    with pytest.raises(ValueError, match=rf"^model\.{field} must be at least 1, not 0$"):
        replace(ModelConfig(), **{field: 0})


def test_a_vocabulary_without_room_for_a_piece_is_refused():
    with pytest.raises(ValueError, match=r"^model\.vocab_size must hold .*, not 3$"):
        ModelConfig(vocab_size=3)


def test_an_odd_width_is_refused():
    with pytest.raises(ValueError, match=r"^model\.d_model must be even for sinusoids, not 7$"):
        ModelConfig(d_model=7)


def test_an_odd_width_is_no_matter_where_positions_are_learned():
    assert ModelConfig(d_model=7, positions="learned").d_model == 7


def test_a_table_of_positions_without_room_for_a_piece_is_refused():
    with pytest.raises(ValueError, match=r"^model\.max_positions must be 2 or more, .*, not 1$"):
        ModelConfig(max_positions=1)


def test_learned_positions_end_and_sinusoids_do_not():
    assert ModelConfig(positions="learned", max_positions=11).longest == 11
    assert ModelConfig(max_positions=11).longest > 10**9


def test_a_negative_radius_is_refused():
    with pytest.raises(ValueError, match=r"^model\.radius must be 1 or more, or 0 .*, not -1$"):
        ModelConfig(radius=-1)


def test_self_attention_sees_all_positions_unless_it_is_restricted():
    assert ModelConfig().radius == 0


@pytest.mark.parametrize("dropout", [-0.1, 1.0, float("nan")])
def test_a_dropout_that_is_no_probability_is_refused(dropout: float):
    with pytest.raises(ValueError, match=r"^model\.dropout must be in \[0, 1\), not "):
        ModelConfig(dropout=dropout)


def test_presets_name_only_settings_that_exist():
    for preset in PRESETS.values():
        assert ModelConfig(**preset)


def test_the_tiny_preset_is_four_layers_of_width_128():
    tiny = ModelConfig(**PRESETS["tiny"])

    assert (tiny.encoder_layers, tiny.decoder_layers) == (4, 4)
    assert (tiny.d_model, tiny.d_ff, tiny.heads, tiny.d_k, tiny.d_v) == (128, 256, 4, 32, 32)


@pytest.mark.parametrize("module", ["transduce.model.config", "transduce.train.config"])
def test_settings_are_free_of_torch(module: str):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
