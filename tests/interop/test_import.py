"""A model that transformers made at random becomes a bundle that says the same."""

import json
from pathlib import Path

import pytest
import torch
from tests.exports import ENGLISH, GERMAN, ODD, SENTENCES, seeded

from transduce.bundle.bundle import Bundle
from transduce.data.config import TokenizerConfig
from transduce.data.corpus import tidy
from transduce.data.tokenizer import Tokenizer
from transduce.export.importer import import_marian
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.search.config import Request, SearchConfig

transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed: pip install -e .[test-interop]"
)
pytest.importorskip(
    "sacremoses", reason="sacremoses is not installed: pip install -e .[test-interop]"
)


class Made:
    """A Hugging Face folder, its model and tokenizer, the bundle; and ids of our pieces there."""

    def __init__(self, folder: Path, *, scaled: bool) -> None:
        sides = [
            Tokenizer.train(text, TokenizerConfig(vocab_size=47)) for text in (ENGLISH, GERMAN)
        ]
        texts = {piece for side in sides for piece in side.pieces(range(2, side.pad))}
        names = sorted(texts)
        for place, name in ((3, "<unk>"), (5, "<pad>"), (11, "</s>")):
            names.insert(place, name)
        config = transformers.MarianConfig(
            vocab_size=len(names),
            d_model=12,
            encoder_layers=2,
            decoder_layers=1,
            encoder_attention_heads=3,
            decoder_attention_heads=3,
            encoder_ffn_dim=17,
            decoder_ffn_dim=17,
            activation_function="swish",
            scale_embedding=scaled,
            pad_token_id=5,
            decoder_start_token_id=5,
            eos_token_id=11,
            forced_eos_token_id=None,
            max_position_embeddings=101,
            init_std=0.5,
        )
        with seeded(3), torch.no_grad():
            self.model = transformers.MarianMTModel(config).eval()
            for parameter in self.model.parameters():
                if parameter.dim() == 1:
                    parameter.normal_()
            self.model.final_logits_bias.normal_()
        self.model.save_pretrained(folder)
        for name, side in zip(("source", "target"), sides, strict=True):
            (folder / f"{name}.spm").write_bytes(side.to_bytes())
        table = {name: number for number, name in enumerate(names)}
        (folder / "vocab.json").write_text(json.dumps(table))
        self.tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
        self.bundle = import_marian(folder)
        size = self.bundle.tokenizer.vocab_size
        self.reference_ids = [table[name] for name in self.bundle.tokenizer.pieces(range(size))]


@pytest.fixture(scope="module", params=[True, False], ids=["scaled", "not scaled"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("marian"), scaled=request.param)


def test_the_logits_are_equal(made: Made):
    source, target = (
        torch.tensor([[7, 13, 19, 23, 0]]),
        torch.tensor([[made.bundle.tokenizer.pad, 3, 17]]),
    )

    with torch.no_grad():
        logits = made.bundle.model(source, None, target)
        expected = made.model(
            torch.tensor(made.reference_ids)[source],
            decoder_input_ids=torch.tensor(made.reference_ids)[target],
        ).logits[..., made.reference_ids]

    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)
    assert logits.std() > 0.5


def test_text_is_cut_alike(made: Made):
    for text in map(tidy, SENTENCES[:3] + tuple(item for item in ODD if "<" not in item)):
        ids = [*made.bundle.tokenizer.encode(text), 0]

        assert [made.reference_ids[i] for i in ids] == made.tokenizer(text).input_ids, text


def test_greedy_search_says_the_same(made: Made):
    engine = TorchEngine(made.bundle.model, pad=made.bundle.tokenizer.pad, eos=0, device="cpu")
    for text in SENTENCES[:3]:
        ids = made.bundle.tokenizer.encode(text)
        config = SearchConfig(beam=1, extra=7)

        result = engine.search([Request(tuple(ids))], config)[0][0].ids
        expected = made.model.generate(
            torch.tensor([[*(made.reference_ids[i] for i in ids), 11]]),
            num_beams=1,
            do_sample=False,
            bad_words_ids=[[5]],
            max_length=config.limit(len(ids)) + 1,
        )

        assert [made.reference_ids[i] for i in result] == expected[0, 1:].tolist()


def test_the_bundle_holds_the_same_model(made: Made, tmp_path: Path):
    made.bundle.save(tmp_path / "bundle")

    back = Bundle.load(tmp_path / "bundle")

    assert back.model.config == made.bundle.model.config
    assert (back.model.config.attention_bias, back.model.config.output_bias) == (True, True)
    assert back.model.config.activation == "silu"
