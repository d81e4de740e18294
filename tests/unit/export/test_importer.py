"""A folder of Marian's becomes a bundle; what has no place here is refused in one line by name."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.exports import CONFIG, ODD, SENTENCES, bundle_of, one_vocabulary, seeded
from torch import Tensor

from transduce.bundle.bundle import Bundle
from transduce.data.corpus import tidy
from transduce.data.languages import LanguagePair
from transduce.data.pair_tokenizer import PairTokenizer
from transduce.export.importer import import_marian
from transduce.export.marian import write_huggingface
from transduce.inference.translator import Translator
from transduce.model.layers import sinusoids
from transduce.pipeline.finetune import tokenizer_settings

SOURCE, TARGET = torch.tensor([[5, 7, 11, 0]]), torch.tensor([[3, 2, 13]])
EMBEDDING = "model.shared.weight"


def edit_json(folder: Path, name: str, **changes: object) -> None:
    """Set what a JSON file says; None takes the key out."""
    path = folder / f"{name}.json"
    held = json.loads(path.read_text()) | changes
    kept = {key: value for key, value in held.items() if value is not None}
    path.write_text(json.dumps(kept))


def edit_weights(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(
        {name: item.contiguous() for name, item in weights.items()}, folder / "model.safetensors"
    )


def refusal(folder: Path) -> str:
    with pytest.raises(ValueError, match=str(folder)) as caught:
        import_marian(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def logits(bundle: Bundle) -> Tensor:
    with torch.no_grad():
        return bundle.model(SOURCE, None, TARGET)


def test_an_import_is_a_bundle_like_any_other(foreign: Bundle, folder: Path, tmp_path: Path):
    import_marian(folder).save(tmp_path / "bundle")

    back = Bundle.load(tmp_path / "bundle")

    torch.testing.assert_close(logits(back), logits(foreign), rtol=0, atol=0)
    assert isinstance(back.tokenizer, PairTokenizer)
    assert back.tokenizer.checksum == foreign.tokenizer.checksum


def test_the_card_says_where_it_comes_from(folder: Path, tmp_path: Path):
    import_marian(folder).save(tmp_path / "bundle")

    card = (tmp_path / "bundle" / "README.md").read_text()

    assert "imported by transduce" in card
    assert "the weights of `marian`" in card
    assert "cut by a model a side" in card


def test_an_imported_model_translates(folder: Path, tmp_path: Path):
    import_marian(folder).save(tmp_path / "bundle")

    (result,) = Translator.load(tmp_path / "bundle").translate(["the small garden"])

    assert result.text
    assert result.pieces


def test_the_pickle_is_read_where_there_is_no_safe_file(foreign: Bundle, folder: Path):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()

    torch.testing.assert_close(logits(import_marian(folder)), logits(foreign), rtol=0, atol=0)


def test_half_precision_is_read_as_single(foreign: Bundle, folder: Path):
    edit_weights(folder, lambda held: held.update({k: v.half() for k, v in held.items()}))

    torch.testing.assert_close(logits(import_marian(folder)), logits(foreign), rtol=0, atol=0.1)


def test_embeddings_that_are_not_scaled_give_the_same_logits(foreign: Bundle, folder: Path):
    """Unscaled, the same table must be √12 times as large, and the last norm as much smaller."""

    def unscale(held: dict[str, Tensor]) -> None:
        held[EMBEDDING] *= 12**0.5
        for part in ("weight", "bias"):
            held[f"model.decoder.layers.0.final_layer_norm.{part}"] /= 12**0.5

    edit_weights(folder, unscale)
    edit_json(folder, "config", scale_embedding=False)

    torch.testing.assert_close(logits(import_marian(folder)), logits(foreign))


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_a_pre_norm_model_comes_back(tmp_path: Path, biases: bool, scaled: bool):
    tokenizer = one_vocabulary()
    config = replace(CONFIG, norm="pre", attention_bias=biases, output_bias=biases)
    bundle = bundle_of(replace(config, vocab_size=tokenizer.vocab_size), tokenizer)
    folder = tmp_path / "pegasus"
    write_huggingface(bundle, folder)
    (folder / "manifest.json").unlink()

    def unscale(held: dict[str, Tensor]) -> None:
        held[EMBEDDING] *= 12**0.5
        for part in ("weight", "bias"):
            held[f"model.decoder.layer_norm.{part}"] /= 12**0.5

    if not scaled:
        edit_weights(folder, unscale)
        edit_json(folder, "config", scale_embedding=False)

    back = import_marian(folder)

    assert back.model.config.norm == "pre"
    assert back.model.config.attention_bias == biases
    torch.testing.assert_close(logits(back), logits(bundle))


def test_a_pegasus_model_with_post_norm_is_refused(foreign: Bundle, folder: Path):
    edit_json(folder, "config", model_type="pegasus")

    assert "normalize_before false" in refusal(folder)


def test_ids_are_put_into_our_order(foreign: Bundle, folder: Path):
    """As if EOS were 9, UNK 3 and PAD 5 over there."""
    size = foreign.tokenizer.vocab_size
    names = foreign.tokenizer.pieces(range(size))
    source_names = names[2:-1]
    for place, name in ((3, "<unk>"), (5, "<pad>"), (9, "</s>")):
        source_names.insert(place, name)
    rows = [names.index(name) for name in source_names]

    def reorder(held: dict[str, Tensor]) -> None:
        held[EMBEDDING] = held[EMBEDDING][rows]
        held["final_logits_bias"] = held["final_logits_bias"][:, rows]

    edit_weights(folder, reorder)
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(source_names)}))
    edit_json(folder, "config", eos_token_id=9, pad_token_id=5, decoder_start_token_id=5)

    back = import_marian(folder)

    assert back.tokenizer.pieces(range(size)) == names
    torch.testing.assert_close(logits(back), logits(foreign), rtol=0, atol=0)


def test_copies_of_the_one_matrix_and_stored_sinusoids_are_taken_for_granted(
    foreign: Bundle, folder: Path
):
    order = [*range(0, 12, 2), *range(1, 12, 2)]

    def more(held: dict[str, Tensor]) -> None:
        for side in ("encoder", "decoder"):
            held[f"model.{side}.embed_tokens.weight"] = held[EMBEDDING].clone()
            held[f"model.{side}.embed_positions.weight"] = sinusoids(23, 12)[:, order]
        held["lm_head.weight"] = held.pop(EMBEDDING)
        del held["final_logits_bias"]

    edit_weights(folder, more)

    back = import_marian(folder)

    assert not back.model.config.output_bias
    bias = foreign.model.output_bias
    torch.testing.assert_close(logits(back) + bias, logits(foreign))


def test_languages_can_be_said(folder: Path):
    result = import_marian(folder, target="nds").languages

    assert (result.source, result.target) == ("en", "nds")


@pytest.mark.parametrize(
    ("written", "codes"),
    [
        (("zho", "eng"), ("zh", "en")),
        (("eng", "mul"), ("en", "mul")),
        (("ROMANCE", "pt_BR"), ("ROMANCE", "pt-BR")),
    ],
)
def test_languages_have_the_codes_that_clients_use(
    folder: Path, written: tuple[str, str], codes: tuple[str, str]
):
    edit_json(folder, "tokenizer_config", source_lang=written[0], target_lang=written[1])

    assert import_marian(folder).languages.codes == codes


def test_the_source_is_no_target_of_a_model_with_tags(folder: Path):
    table = json.loads((folder / "vocab.json").read_text())
    for tag, piece in zip((">>eng<<", ">>deu<<"), list(table)[7:9], strict=True):
        table[tag] = table.pop(piece)
    (folder / "vocab.json").write_text(json.dumps(table))
    edit_json(folder, "tokenizer_config", source_lang="eng", target_lang=None)

    bundle = import_marian(folder)

    assert bundle.languages.codes == ("en", "mul")
    assert bundle.directions == (LanguagePair("en", "de"),)


def test_without_a_tokenizers_config_languages_have_their_usual_names(folder: Path):
    (folder / "tokenizer_config.json").unlink()

    assert import_marian(folder).languages.source == "source"


@pytest.mark.parametrize("penalty", [1.5, 0.0])
def test_the_settings_of_the_search_come_along(folder: Path, penalty: float):
    edit_json(folder, "generation_config", num_beams=6, length_penalty=penalty)

    search = import_marian(folder).search

    assert (search.beam, search.alpha) == (6, penalty)


def test_all_kinds_of_dropout_come_along(folder: Path):
    edit_json(folder, "config", dropout=0.1, attention_dropout=0.2, activation_dropout=0.3)

    config = import_marian(folder).model.config

    assert (config.dropout, config.attention_dropout, config.relu_dropout) == (0.1, 0.2, 0.3)


def test_an_import_costs_nobody_a_random_number(folder: Path):
    with seeded(1):
        expected = torch.rand(3)
    with seeded(1):
        import_marian(folder)

        assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_type": "llama"}, "model_type 'llama': only models of Marian's architecture"),
        ({"rope_theta": 1e4}, "rope_theta, rotary positions"),
        ({"is_encoder_decoder": False}, "a decoder without encoder"),
        ({"architectures": ["MarianForCausalLM"]}, "a decoder without encoder"),
        ({"normalize_before": True}, "normalize_before true"),
        ({"normalize_embedding": True}, "normalize_embedding true"),
        ({"add_final_layer_norm": True}, "add_final_layer_norm true"),
        ({"static_position_embeddings": False}, "static_position_embeddings false"),
        ({"share_encoder_decoder_embeddings": False}, "share_encoder_decoder_embeddings false"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings false"),
        ({"decoder_vocab_size": 7}, "decoder_vocab_size 7 but vocab_size"),
        ({"decoder_attention_heads": 6}, "encoder_attention_heads 3 but decoder_attention_heads 6"),
        ({"decoder_ffn_dim": 19}, "encoder_ffn_dim 17 but decoder_ffn_dim 19"),
        ({"decoder_start_token_id": 0}, "decoder_start_token_id 0 but pad_token_id"),
        ({"encoder_attention_heads": 5, "decoder_attention_heads": 5}, "not divisible by 5 heads"),
        ({"encoder_attention_heads": 0}, "encoder_attention_heads and num_beams must be above 0"),
        ({"activation_function": "tanh"}, "activation_function"),
        ({"d_model": "12"}, "d_model"),
        ({"d_model": None}, "d_model"),
        ({"encoder_layers": 3}, "has no tensor model.encoder.layers.2"),
        ({"encoder_layers": 1}, "has an unsupported tensor model.encoder.layers.1.fc1.bias"),
        (
            {"encoder_ffn_dim": 19, "decoder_ffn_dim": 19},
            "is [17, 12], not [19, 12] as config.json requires",
        ),
        ({"eos_token_id": 1}, "EOS 1, UNK 1 and PAD"),
        ({"eos_token_id": 997}, "EOS 997, UNK 1 and PAD"),
        (
            {"pad_token_id": 997, "decoder_start_token_id": 997},
            "PAD 997 must be three different ids",
        ),
        ({"pad_token_id": -1, "decoder_start_token_id": -1}, "PAD -1 must be three different ids"),
    ],
)
def test_a_block_without_a_place_is_refused_by_name(
    folder: Path, changes: dict[str, object], named: str
):
    edit_json(folder, "config", **changes)

    assert named in refusal(folder)


@pytest.mark.parametrize("limit", [-math.inf, -1, 0])
def test_a_length_limit_below_1_is_refused(folder: Path, limit: float):
    edit_json(folder, "tokenizer_config", model_max_length=limit)

    assert "tokenizer_config.json: model_max_length: " in refusal(folder)


@pytest.mark.parametrize("directions", ["en-de", [["en"]], [["en", "de"]]])
def test_directions_without_a_tag_are_refused(folder: Path, directions: object):
    edit_json(folder, "tokenizer_config", directions=directions)

    assert "tokenizer_config.json: " in refusal(folder)


def test_two_vocabularies_are_refused(folder: Path):
    edit_json(folder, "tokenizer_config", separate_vocabs=True)

    assert "two vocabularies" in refusal(folder)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda held: held.pop("model.decoder.layers.0.fc1.bias"), "has no tensor model.decoder"),
        (
            lambda held: held.update({"model.encoder.layernorm_embedding.weight": torch.ones(12)}),
            "has an unsupported tensor model.encoder.layernorm_embedding.weight",
        ),
        (
            lambda held: held.update({"model.decoder.embed_tokens.weight": held[EMBEDDING] + 1.0}),
            "model.decoder.embed_tokens.weight differs from model.shared.weight",
        ),
        (
            lambda held: held.update({"model.encoder.embed_positions.weight": torch.ones(5, 12)}),
            "model.encoder.embed_positions.weight is not the paper's sinusoids",
        ),
        (lambda held: held[EMBEDDING][-1].fill_(0.5), "PAD's embedding is not zero"),
        (lambda held: held[EMBEDDING][3].fill_(float("nan")), "NaN or infinite"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_by_name(
    folder: Path, change: Callable[[dict[str, Tensor]], object], named: str
):
    edit_weights(folder, change)

    assert named in refusal(folder)


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "source.spm", "target.spm"])
def test_a_missing_file_is_named(folder: Path, name: str):
    (folder / name).unlink()

    assert f"{name} is missing" in refusal(folder)


def test_a_folder_without_weights_is_refused(folder: Path):
    (folder / "model.safetensors").unlink()

    assert "neither model.safetensors nor pytorch_model.bin" in refusal(folder)


@pytest.mark.parametrize(
    "name",
    [
        *("config.json", "vocab.json", "tokenizer_config.json", "generation_config.json"),
        *("model.safetensors", "pytorch_model.bin", "source.spm", "target.spm"),
    ],
)
def test_a_file_cut_short_is_named(folder: Path, name: str):
    path = folder / name
    if name == "pytorch_model.bin":
        torch.save(load_file(folder / "model.safetensors"), path)
        (folder / "model.safetensors").unlink()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    assert name in refusal(folder)


def test_a_pickle_that_would_run_something_is_refused(folder: Path, tmp_path: Path):
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"model.shared.weight": Evil()}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()

    assert "holds more than tensors" in refusal(folder)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda table: table.pop("<unk>"), "no <unk>"),
        (lambda table: table.update({"▁a": 10**6}), "the id of '▁a' is 1000000"),
        (lambda table: table.update({"▁a": table["</s>"]}), "not unique"),
        (lambda table: table.pop("▁a"), "has no piece for id"),
        (lambda table: table.update({"▁a": "7"}), "the id of '▁a' is 7"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    folder: Path, change: Callable[[dict[str, object]], object], named: str
):
    table = json.loads((folder / "vocab.json").read_text())
    table["▁a"] = table.pop("▁a", None) or table.pop(next(iter(list(table)[5:])))
    change(table)
    (folder / "vocab.json").write_text(json.dumps(table))

    assert named in refusal(folder)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path):
    assert "does not exist" in refusal(tmp_path / "nowhere")


def test_a_vocabulary_of_characters_comes_back(tmp_path: Path):
    tokenizer = one_vocabulary(kind="char")
    bundle = bundle_of(replace(CONFIG, vocab_size=tokenizer.vocab_size), tokenizer)
    write_huggingface(bundle, tmp_path / "marian")

    back = import_marian(tmp_path / "marian")

    texts = list(map(tidy, (*ODD, *SENTENCES)))
    assert back.tokenizer.encode_all(texts) == tokenizer.encode_all(texts)
    assert tokenizer_settings(back.tokenizer).kind == "char"
    torch.testing.assert_close(logits(back), logits(bundle), rtol=0, atol=0)
