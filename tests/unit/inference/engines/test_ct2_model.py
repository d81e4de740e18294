"""What CTranslate2 is given is our model, whole, and can be used alone."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import ctranslate2
import numpy as np
import pytest
import torch
from tests.unit.inference.engines.conftest import bundle_of, lively

from transduce.bundle.bundle import Bundle
from transduce.data.tokenizer import Tokenizer
from transduce.inference.engines.ct2_model import (
    ct2_variables,
    unsupported_feature,
    vocabulary,
    write_ctranslate2,
)
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.io.atomic_folder import check_folder
from transduce.model.config import ModelConfig
from transduce.model.layers import sinusoids
from transduce.model.transformer import Transformer
from transduce.search.config import Request, SearchConfig

SOURCE = (5, 7, 11, 13, 17)


def greedily(folder: Path, bundle: Bundle, source: tuple[int, ...]) -> list[int]:
    """By CTranslate2 alone, as anybody would who was handed the folder."""
    pieces = json.loads((folder / "shared_vocabulary.json").read_text())
    translator = ctranslate2.Translator(str(folder), inter_threads=1, intra_threads=1)
    (result,) = translator.translate_batch(
        [[pieces[item] for item in source]], beam_size=1, max_decoding_length=23
    )
    return [pieces.index(piece) for piece in result.hypotheses[0]]


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_folder_alone_translates_as_the_model_does(
    norm: str, shape: ModelConfig, tokenizer: Tokenizer, tmp_path: Path
):
    bundle = bundle_of(lively(replace(shape, norm=norm)), tokenizer)  # type: ignore[arg-type]
    write_ctranslate2(bundle, tmp_path / "out")

    result = greedily(tmp_path / "out", bundle, SOURCE)

    torch_engine = TorchEngine(bundle.model, pad=tokenizer.pad, eos=0, device="cpu")
    config = SearchConfig(beam=1, extra=23 - len(SOURCE))
    ((expected, *_),) = torch_engine.search([Request(SOURCE)], config)
    assert result == [item for item in expected.ids if item != tokenizer.EOS]


def test_the_folder_has_all_that_is_needed_to_use_it(bundle: Bundle, tmp_path: Path):
    write_ctranslate2(bundle, tmp_path / "out")

    check_folder(tmp_path / "out", expected="a CTranslate2 model")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("model.bin", "config.json", "shared_vocabulary.json", "tokenizer.model", "manifest.json")
    }
    assert (tmp_path / "out" / "tokenizer.model").read_bytes() == bundle.tokenizer.to_bytes()


def test_pad_is_not_generated_where_it_would_be_likeliest(bundle: Bundle, tmp_path: Path):
    with torch.no_grad():  # all logits are below zero, which is PAD's
        norm = bundle.model.decoder[-1].feed_forward_norm.norm
        norm.weight.zero_()
        norm.bias.fill_(-1.0)
        bundle.model.embedding.weight.abs_()
    write_ctranslate2(bundle, tmp_path / "out")

    result = greedily(tmp_path / "out", bundle, SOURCE)

    assert result
    assert bundle.tokenizer.pad not in result


def test_quantized_weights_take_less_room(bundle: Bundle, tmp_path: Path):
    write_ctranslate2(bundle, tmp_path / "whole")

    write_ctranslate2(bundle, tmp_path / "small", quantization="int8")

    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("small", "whole")]
    assert sizes[0] < sizes[1]
    assert ctranslate2.Translator(str(tmp_path / "small")).compute_type == "int8_float32"


def test_a_quantization_that_is_none_is_refused(bundle: Bundle, tmp_path: Path):
    with pytest.raises(
        ValueError, match=r"quantization 'int7' for CTranslate2: choose one of float32, float16"
    ):
        write_ctranslate2(bundle, tmp_path / "out", quantization="int7")

    assert not (tmp_path / "out").exists()


def test_heads_that_do_not_share_the_width_are_refused_by_name(
    shape: ModelConfig, tokenizer: Tokenizer, tmp_path: Path
):
    bundle = bundle_of(Transformer(replace(shape, d_v=7)), tokenizer)

    with pytest.raises(
        ValueError, match=r"does not support d_k 11 and d_v 7 .*use the torch engine"
    ):
        write_ctranslate2(bundle, tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_restricted_self_attention_is_refused_by_name(
    shape: ModelConfig, tokenizer: Tokenizer, tmp_path: Path
):
    bundle = bundle_of(Transformer(replace(shape, radius=3)), tokenizer)

    with pytest.raises(ValueError, match=r"does not support model\.radius 3 .*the torch engine$"):
        write_ctranslate2(bundle, tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_where_ctranslate2_is_missing_the_message_says_what_to_install(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)

    with pytest.raises(ValueError, match="pip install ctranslate2"):
        write_ctranslate2(bundle, tmp_path / "out")


def test_a_model_in_the_usual_shape_can_be_expressed(shape: ModelConfig):
    assert unsupported_feature(shape) == ""


def test_every_weight_of_ours_stands_there_once(bundle: Bundle):
    weights = bundle.model.to_numpy().weights

    written = ct2_variables(bundle.model.config, weights)

    shared = {"encoder/embeddings_0/weight", "decoder/embeddings/weight"}
    shared |= {name for name in written if "position" in name or name.endswith("projection/bias")}
    numbers = sum(tensor.size for name, tensor in written.items() if name not in shared)
    assert numbers == sum(tensor.size for tensor in weights.values())


def test_queries_keys_and_values_stand_below_each_other(bundle: Bundle):
    weights = bundle.model.to_numpy().weights

    written = ct2_variables(bundle.model.config, weights)

    single = written["encoder/layer_1/self_attention/linear_0/weight"]
    parts = [
        weights[f"encoder.1.self_attention.{part}.weight"] for part in ("query", "key", "value")
    ]
    assert np.array_equal(single, np.concatenate(parts))


def test_keys_and_values_of_the_memory_stand_below_each_other(bundle: Bundle):
    weights = bundle.model.to_numpy().weights

    written = ct2_variables(bundle.model.config, weights)

    single = written["decoder/layer_2/attention/linear_1/weight"]
    parts = [weights[f"decoder.2.cross_attention.{part}.weight"] for part in ("key", "value")]
    assert np.array_equal(single, np.concatenate(parts))


def test_sinusoids_are_written_as_the_paper_has_them(bundle: Bundle):
    written = ct2_variables(bundle.model.config, bundle.model.to_numpy().weights)

    table = written["decoder/position_encodings/encodings"]
    assert np.array_equal(table[:101], sinusoids(101, 22))


def test_learned_positions_are_written_as_they_were_learned(shape: ModelConfig):
    model = Transformer(replace(shape, positions="learned"))

    written = ct2_variables(model.config, model.to_numpy().weights)

    table = written["encoder/position_encodings/encodings"]
    assert np.array_equal(table[:-1], model.to_numpy().weights["positions.weight"])


def test_the_vocabulary_is_the_pieces_by_id_with_pad_last(tokenizer: Tokenizer):
    pieces = vocabulary(tokenizer)

    assert pieces == tokenizer.pieces(range(tokenizer.vocab_size))
    assert (pieces[0], pieces[1], pieces[-1]) == ("</s>", "<unk>", "<pad>")


def test_pad_gives_way_to_a_piece_that_looks_like_it(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tokenizer, "pieces", lambda ids: ["</s>", "<unk>", "<pad>", "a", "<pad>"])

    assert vocabulary(tokenizer) == ["</s>", "<unk>", "<pad>", "a", "<<pad>>"]
