"""A bundle becomes a whole folder of Marian's, or none; and it is the same when it comes back."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.exports import CONFIG, ENGLISH, bundle_of, model_of

from transduce.bundle.bundle import Bundle
from transduce.data.config import TokenizerConfig
from transduce.data.languages import LanguagePair
from transduce.data.sentencepiece_model import VocabularyPiece, append_pieces
from transduce.data.tokenizer import Tokenizer
from transduce.export.importer import import_marian
from transduce.export.marian import FILES, why_not, write_huggingface
from transduce.model.config import ModelConfig

SOURCE, TARGET = torch.tensor([[5, 7, 11, 0]]), torch.tensor([[3, 2, 13]])


def held(folder: Path, name: str) -> dict[str, object]:
    return json.loads((folder / f"{name}.json").read_text())


@pytest.fixture(params=["plain", "foreign"])
def bundle(request: pytest.FixtureRequest) -> Bundle:
    return request.getfixturevalue(request.param)


def test_the_folder_holds_what_marian_loads(plain: Bundle, tmp_path: Path):
    write_huggingface(plain, tmp_path / "marian")

    result = {path.name for path in (tmp_path / "marian").iterdir()}
    assert result == {*FILES, "manifest.json"}


def test_the_logits_are_equal_when_it_comes_back(bundle: Bundle, tmp_path: Path):
    write_huggingface(bundle, tmp_path / "marian")

    back = import_marian(tmp_path / "marian")

    assert back.model.config == bundle.model.config
    torch.testing.assert_close(
        back.model(SOURCE, None, TARGET), bundle.model(SOURCE, None, TARGET), rtol=0, atol=0
    )


def test_the_tokenizer_is_the_same_when_it_comes_back(bundle: Bundle, tmp_path: Path):
    write_huggingface(bundle, tmp_path / "marian")

    back = import_marian(tmp_path / "marian")

    assert type(back.tokenizer) is type(bundle.tokenizer)
    assert back.tokenizer.checksum == bundle.tokenizer.checksum


def test_languages_and_search_come_back(plain: Bundle, tmp_path: Path):
    write_huggingface(plain, tmp_path / "marian")

    back = import_marian(tmp_path / "marian")

    assert (back.languages.source, back.languages.target) == ("en", "de")
    assert back.search == replace(plain.search, extra=50)  # of which Marian knows nothing


def test_several_directions_come_back(tmp_path: Path):
    tokenizer = Tokenizer.train(ENGLISH, TokenizerConfig(vocab_size=50), tags=["<2de>", "<2en>"])
    bundle = bundle_of(replace(CONFIG, vocab_size=tokenizer.vocab_size), tokenizer)
    bundle.directions = (LanguagePair("en", "de"), LanguagePair("de", "en"))

    write_huggingface(bundle, tmp_path / "marian")

    back, renamed = (import_marian(tmp_path / "marian", source=code) for code in (None, "nds"))
    assert back.directions == bundle.directions
    assert renamed.directions == (LanguagePair("nds", "de"), LanguagePair("de", "en"))


def test_biases_that_ours_lack_are_zero(plain: Bundle, tmp_path: Path):
    write_huggingface(plain, tmp_path / "marian")

    weights = load_file(tmp_path / "marian" / "model.safetensors")
    biases = [name for name in weights if "attn" in name and name.endswith("proj.bias")]
    assert len(biases) == 4 * (2 + 2)
    assert not any(weights[name].any() for name in (*biases, "final_logits_bias"))


def test_pad_starts_the_decoder_and_is_never_said(plain: Bundle, tmp_path: Path):
    write_huggingface(plain, tmp_path / "marian")

    config, generation = (
        held(tmp_path / "marian", name) for name in ("config", "generation_config")
    )
    assert config["pad_token_id"] == config["decoder_start_token_id"] == plain.tokenizer.pad
    assert generation["bad_words_ids"] == [[plain.tokenizer.pad]]


def test_there_are_positions_for_the_longest_translation(plain: Bundle, tmp_path: Path):
    write_huggingface(plain, tmp_path / "marian")

    assert held(tmp_path / "marian", "config")["max_position_embeddings"] == 101 + 7


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (replace(CONFIG, positions="learned"), r'model\.positions "learned"'),
        (replace(CONFIG, d_v=5), "d_k 4 and d_v 5"),
        (replace(CONFIG, d_k=5), "d_k 5 and d_v 4"),
        (replace(CONFIG, radius=3), r"model\.radius 3"),
    ],
)
def test_what_marian_cannot_express_is_refused_by_name(
    plain: Bundle, tmp_path: Path, config: ModelConfig, named: str
):
    bundle = replace(plain, model=model_of(config))

    with pytest.raises(ValueError, match=f"^Marian and Pegasus cannot express {named}"):
        write_huggingface(bundle, tmp_path / "marian")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "advised"), [({"positions": "learned"}, True), ({"radius": 3}, False)]
)
def test_another_program_is_named_only_where_it_can_express_the_model(
    plain: Bundle, tmp_path: Path, option: dict[str, str | int], advised: bool
):
    bundle = replace(plain, model=model_of(replace(CONFIG, **option)))

    with pytest.raises(ValueError, match=r"^Marian and Pegasus cannot") as refusal:
        write_huggingface(bundle, tmp_path / "marian")
    assert ("export to ctranslate2" in str(refusal.value)) == advised


def test_everything_else_can_be_expressed(bundle: Bundle):
    assert why_not(bundle) == ""


def test_a_piece_named_as_pad_keeps_its_name(tmp_path: Path):
    made = Tokenizer.train(["a b c"], TokenizerConfig(vocab_size=11))
    tokenizer = Tokenizer.from_bytes(
        append_pieces(made.to_bytes(), [VocabularyPiece("<pad>", -9.0)])
    )
    bundle = bundle_of(replace(CONFIG, vocab_size=tokenizer.vocab_size), tokenizer)

    write_huggingface(bundle, tmp_path / "marian")

    assert len(held(tmp_path / "marian", "vocab")) == tokenizer.vocab_size
    pad = held(tmp_path / "marian", "tokenizer_config")["pad_token"]
    assert held(tmp_path / "marian", "vocab")[str(pad)] == tokenizer.pad


def test_an_earlier_export_is_replaced(plain: Bundle, foreign: Bundle, tmp_path: Path):
    write_huggingface(foreign, tmp_path / "marian")

    write_huggingface(plain, tmp_path / "marian")

    assert import_marian(tmp_path / "marian").model.config == plain.model.config


def test_a_folder_with_something_else_is_left_alone(plain: Bundle, tmp_path: Path):
    (tmp_path / "marian").mkdir()
    (tmp_path / "marian" / "letters.txt").write_text("dear")

    with pytest.raises(ValueError, match=r"it holds letters\.txt: move it away, or name another"):
        write_huggingface(plain, tmp_path / "marian")
    assert (tmp_path / "marian" / "letters.txt").read_text() == "dear"


def test_another_programs_model_is_left_alone(plain: Bundle, tmp_path: Path):
    (tmp_path / "marian").mkdir()
    (tmp_path / "marian" / "config.json").write_text("{}")

    with pytest.raises(ValueError, match=r"it has no manifest\.json: move it away, or"):
        write_huggingface(plain, tmp_path / "marian")


def test_a_file_in_its_place_is_left_alone(plain: Bundle, tmp_path: Path):
    (tmp_path / "marian").write_text("mine")

    with pytest.raises(ValueError, match="is a file: name another folder"):
        write_huggingface(plain, tmp_path / "marian")


def test_a_write_that_fails_leaves_nothing(
    plain: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> bytes:
        raise OSError("no space left")

    monkeypatch.setattr("transduce.export.marian.tokenizer_config", fail)

    with pytest.raises(OSError, match="no space left"):
        write_huggingface(plain, tmp_path / "marian")
    assert list(tmp_path.iterdir()) == []
