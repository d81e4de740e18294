"""Separate vocabularies, and each tying of the embeddings: as good a model as the paper's."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from tests.exports import ENGLISH, GERMAN, SENTENCES
from tests.unit.inference.engines.conftest import PLAIN_SHAPE, bundle_of, lively

from transduce.bundle.bundle import Bundle
from transduce.config import load_recipe
from transduce.data.batch import Batch
from transduce.data.config import BatchConfig, TokenizerConfig
from transduce.data.corpus import NumberedPair, Pair
from transduce.data.loader import Loader
from transduce.data.pair_tokenizer import PairTokenizer, read_tokenizer
from transduce.data.sampler import Sampler, SamplerState
from transduce.data.store import Store
from transduce.data.tokenizer import Tokenizer
from transduce.export.argos import why_not as why_not_argos
from transduce.export.marian import why_not as why_not_huggingface
from transduce.export.proof import prove_ctranslate2
from transduce.inference.engines.ct2_model import FILES, write_ctranslate2
from transduce.inference.translator import Translator
from transduce.io.atomic_folder import check_replaceable
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.paper.architecture import take_apart
from transduce.train.config import TrainConfig
from transduce.train.events import Event, Progress
from transduce.train.loop import TrainResult, Validation, train
from transduce.web.tokenizer import tokenizer_data

TIES = ("all", "decoder", "input", "none")


@pytest.fixture(scope="module")
def separate() -> PairTokenizer:
    """Vocabularies of different sizes: the German one is the smaller."""
    return PairTokenizer.train_pair(
        [*ENGLISH, "quick brown foxes jump over lazy dogs"], GERMAN, TokenizerConfig(vocab_size=59)
    )


def bundle_with(tokenizer: Tokenizer, tie: str) -> Bundle:
    shape = replace(PLAIN_SHAPE, vocab_size=tokenizer.vocab_size, tie=tie)
    return bundle_of(lively(shape), tokenizer)


@pytest.mark.parametrize("tie", TIES)
def test_parameters_are_those_of_the_formula(tie: str):
    shape = replace(PLAIN_SHAPE, tie=tie)
    size = {"all": 1, "decoder": 2, "input": 2, "none": 3}[tie] * shape.vocab_size * shape.d_model
    rest = Transformer(replace(shape, vocab_size=4, tie="all")).size - 4 * shape.d_model

    model = Transformer(shape)

    assert model.size == rest + size
    assert take_apart(model).parameters == model.size
    vectors = sum(weight.numel() for weight in model.parameters() if weight.dim() == 1)
    assert shape.matrices == model.size - vectors


@pytest.mark.parametrize("tie", TIES)
def test_only_what_is_tied_is_moved_by_the_other_side(tie: str):
    model = lively(replace(PLAIN_SHAPE, tie=tie))
    source, target = torch.tensor([[5, 6, 0]]), torch.tensor([[96, 8]])

    model(source, None, target)[0, :, 40].sum().backward()

    grad = model.embedding.weight.grad
    assert grad is not None
    moved = {name: bool(grad[id].any()) for name, id in (("source", 5), ("in", 8), ("out", 40))}
    assert moved == {
        "source": tie in ("all", "input"),
        "in": True,
        "out": tie in ("all", "decoder"),
    }


@pytest.mark.parametrize("tie", TIES)
def test_both_engines_translate_alike_with_each_tying(
    tie: str, separate: PairTokenizer, tmp_path: Path
):
    tokenizer = (
        separate
        if tie in ("decoder", "none")
        else Tokenizer.train((*ENGLISH, *GERMAN), TokenizerConfig(vocab_size=79))
    )
    bundle = bundle_with(tokenizer, tie)
    bundle.save(tmp_path / "model")
    loaded = Bundle.load(tmp_path / "model")

    write_ctranslate2(loaded, tmp_path / "ct2")
    check_replaceable(tmp_path / "ct2", FILES)  # the export can be repeated
    proof = prove_ctranslate2(loaded, tmp_path / "ct2", SENTENCES)
    torch_translations, ct2_translations = (
        Translator.load(tmp_path / "model", engine=engine).translate(SENTENCES, num_beams=3)
        for engine in ("torch", "ctranslate2")
    )

    assert proof.holds
    assert proof.sentences == len(SENTENCES)
    assert [t.text for t in torch_translations] == [t.text for t in ct2_translations]
    assert [t.score for t in torch_translations] == pytest.approx(
        [t.score for t in ct2_translations], abs=1e-4
    )


def test_separate_vocabularies_come_back_and_decode_each_side(separate: PairTokenizer):
    read = read_tokenizer(separate.to_bytes())

    assert not read.shared
    assert read.vocab_size == read.target.vocab_size == 59
    assert read.checksum == separate.checksum
    for side, text in ((read, ENGLISH[0]), (read.target, GERMAN[0])):
        assert side.decode(side.encode(text)) == text
    assert read.pieces([40]) != read.target.pieces([40])
    assert read.target.UNK in read.target.encode("x")


def test_the_smaller_vocabulary_ends_in_unused_names(separate: PairTokenizer):
    small = PairTokenizer.train_pair(ENGLISH, ["b a"], TokenizerConfig(vocab_size=59, kind="char"))

    names = small.target.pieces(range(small.target.vocab_size))
    assert names[-1] == "<pad>"
    assert names[-2].startswith("<unused")
    assert len({*names}) == len(names) == small.vocab_size


class _Setting:
    """Some pairs in a store, and a run on them that may be interrupted."""

    def __init__(self, tokenizer: Tokenizer, folder: Path) -> None:
        pairs = [
            NumberedPair(line, Pair(*sides))
            for line, sides in enumerate(zip(ENGLISH * 4, GERMAN * 4, strict=True), 1)
        ]
        self.tokenizer = tokenizer
        self.store = Store.write(folder / "store", pairs, tokenizer=tokenizer, max_pieces=97)

    def loader(self) -> Loader:
        sampler = Sampler(self.store.lengths, config=BatchConfig(tokens=61), seed=1)
        return Loader(self.store, sampler=sampler, tokenizer=self.tokenizer, sampling=0.1)

    def batch(self) -> Batch:
        (update,) = islice(self.loader().updates(SamplerState()), 1)
        return update.batches[0]

    def train(self, config: ModelConfig, folder: Path, *, stop_at: int = 0) -> TrainResult:
        def on_event(event: Event) -> None:
            if isinstance(event, Progress) and event.update == stop_at:
                raise KeyboardInterrupt

        folder.mkdir(exist_ok=True)
        torch.manual_seed(3)
        return train(
            Transformer(config),
            loader=self.loader(),
            config=TrainConfig(warmup=2, updates=6, validate_every=2, log_every=1),
            validate=lambda model: Validation(loss=1.0, bleu=0.0, signature=""),
            folder=folder,
            on_best=lambda model, scored: None,
            on_event=on_event,
        )


@pytest.mark.parametrize("tie", ["decoder", "none"])
def test_a_run_with_separate_vocabularies_resumes_bit_for_bit(
    tie: str, separate: PairTokenizer, tmp_path: Path
):
    setting = _Setting(separate, tmp_path)
    config = replace(PLAIN_SHAPE, vocab_size=separate.vocab_size, tie=tie, dropout=0.3)

    with torch.random.fork_rng(devices=[]):
        straight = setting.train(config, tmp_path / "straight")
        with pytest.raises(KeyboardInterrupt):
            setting.train(config, tmp_path / "resumed", stop_at=3)
        resumed = setting.train(config, tmp_path / "resumed")

    resumed_state, straight_state = resumed.model.state_dict(), straight.model.state_dict()
    assert all(torch.equal(resumed_state[name], straight_state[name]) for name in straight_state)
    pad = separate.pad
    for name in ("embedding.weight", "source_embedding.weight"):
        assert (resumed_state[name][pad] == 0).all()


def test_a_batch_has_the_ids_of_each_sides_vocabulary(separate: PairTokenizer, tmp_path: Path):
    batch = _Setting(separate, tmp_path).batch()

    sides = ((batch.source, separate, ENGLISH), (batch.target_out, separate.target, GERMAN))
    for ids, side, texts in sides:
        decoded = {side.decode(id for id in row if id != side.pad) for row in ids.tolist()}
        assert decoded <= {*texts}


def refusals(bundle: Bundle) -> Sequence[str]:
    try:
        tokenizer_data(bundle.tokenizer)
        web = ""
    except ValueError as error:
        web = str(error)
    return why_not_huggingface(bundle), why_not_argos(bundle), web


def test_formats_that_cannot_express_them_name_the_setting(separate: PairTokenizer):
    huggingface, argos, web = refusals(bundle_with(separate, "decoder"))

    assert 'model.tie "decoder"' in huggingface
    assert "tokenizer.shared = false" in argos
    assert "tokenizer.shared = false" in web


def test_one_embedding_of_two_vocabularies_is_refused():
    with pytest.raises(ValueError, match=r'set model\.tie to "decoder" or "none"'):
        load_recipe("tiny", ["tokenizer.shared=false"])

    recipe = load_recipe("tiny", ["tokenizer.shared=false", "model.tie=decoder"])
    assert recipe.model.embeddings == 2


WORDS = ("the old dog runs", "the dog sees the man", "der alte Hund rennt", "ÖL und Äpfel")


def test_words_are_pieces_and_others_are_unknown():
    tokenizer = Tokenizer.train(WORDS, TokenizerConfig(kind="word", vocab_size=50))

    assert tokenizer.pieces(tokenizer.encode("the dog")) == ["▁the", "▁dog"]
    assert tokenizer.encode("the cat")[1] == tokenizer.UNK
    assert tokenizer.decode(tokenizer.encode(WORDS[2])) == WORDS[2]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char"])
def test_lower_casing_is_a_rule_of_the_model_file(kind: str):
    config = TokenizerConfig(kind=kind, vocab_size=49, lower_case=True)

    tokenizers = [Tokenizer.train(WORDS, config) for _ in range(2)]

    assert tokenizers[0].to_bytes() == tokenizers[1].to_bytes()
    read = read_tokenizer(tokenizers[0].to_bytes())
    assert read.lower_case
    assert read.encode("ÖL UND äpfel") == read.encode("öl und äpfel")
    assert read.decode(read.encode("The DOG")) == "the dog" == read.surface("The DOG")
    assert read.UNK not in read.encode("ÖL UND ÄPFEL")
    assert not Tokenizer.train(WORDS, replace(config, lower_case=False)).lower_case
