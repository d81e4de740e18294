"""The length penalty is chosen on validation, from one beam search, if it scores better."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import create_autospec

import pytest
import torch
from tests.conftest import made

from transduce.bundle.bundle import Bundle
from transduce.config import load_recipe
from transduce.data.config import TokenizerConfig
from transduce.data.corpus import Pair
from transduce.data.pair_tokenizer import PairTokenizer
from transduce.data.store import Store
from transduce.data.tokenizer import Tokenizer
from transduce.evaluation.metrics import chrf
from transduce.evaluation.scoring import RunResult, translate_pairs
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.pipeline import length_penalty
from transduce.pipeline.length_penalty import propose_alpha
from transduce.pipeline.prepared import Prepared
from transduce.pipeline.selection import RunEvaluator
from transduce.search.config import SearchConfig
from transduce.train.checkpoint import TrainState
from transduce.train.events import Event, LogMessage
from transduce.train.loop import TrainResult

LINES = (
    "a small house stands by the river",
    "the old man reads a book in the garden",
    "two children play with a red ball",
    "ein kleines Haus steht am Fluss",
    "der alte Mann liest ein Buch im Garten",
    "zwei Kinder spielen mit einem roten Ball",
    "sie kauft Brot und Milch auf dem Markt",
)
SEARCH = SearchConfig(beam=4, extra=7)
TUNED = "train.tune_length_penalty=true"


def made_undecided(tokenizer: Tokenizer) -> Transformer:
    """A model that ends at once or hardly: much depends on the length penalty."""
    shape = {"encoder_layers": 1, "decoder_layers": 1, "heads": 3, "d_model": 22, "d_ff": 31}
    model = made(
        ModelConfig(vocab_size=tokenizer.vocab_size, d_k=7, d_v=5, output_bias=True, **shape)
    )
    assert model.output_bias is not None
    with torch.no_grad():
        model.embedding.weight *= 3.0
        model.output_bias[tokenizer.EOS] = 5.0
    return model.eval()


@pytest.fixture
def undecided(tokenizer: Tokenizer) -> Transformer:
    return made_undecided(tokenizer)


def pairs_for(model: Transformer, tokenizer: Tokenizer, *, alpha: float) -> list[Pair]:
    """Pairs whose references are the model's own translations with that exponent."""
    sources = [Pair(f"{line} {end}", "") for line in LINES for end in ("", "again")]
    search = replace(SEARCH, alpha=alpha)
    result = translate_pairs(model, tokenizer, pairs=sources, search=search)
    return [Pair(item.source, item.text) for item in result]


def measure(texts: Sequence[str], pairs: Sequence[Pair]) -> tuple[float]:
    return (chrf(texts, [pair.target for pair in pairs]).value,)


@pytest.mark.parametrize("alpha", [0.6, 1.4])
def test_the_exponent_that_made_the_references_is_found(
    undecided: Transformer, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, alpha: float
):
    monkeypatch.setattr(length_penalty, "_FEWEST", 14)
    pairs = pairs_for(undecided, tokenizer, alpha=alpha)

    result = propose_alpha(undecided, tokenizer, pairs=pairs, search=SEARCH, measure=measure)

    assert result == alpha


def test_with_a_vocabulary_a_side_the_targets_is_decoded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(length_penalty, "_FEWEST", 14)
    sides = PairTokenizer.train_pair(LINES[:3], LINES[3:], TokenizerConfig(vocab_size=60))
    model, measured = made_undecided(sides), list[Sequence[str]]()
    pairs = [Pair(line, "") for line in LINES * 2]
    expected = translate_pairs(model, sides, pairs=pairs, search=SEARCH, retry_loops=False)

    def recorded(texts: Sequence[str], some: Sequence[Pair]) -> tuple[float]:
        measured.append([text.strip() for text in texts])
        return (0.0,)

    propose_alpha(model, sides, pairs=pairs, search=SEARCH, measure=recorded)

    assert [translation.text for translation in expected] in measured


def test_few_pairs_or_no_beam_leave_it(undecided: Transformer, tokenizer: Tokenizer):
    pairs = [Pair("a house", "")] * 99

    def never(texts: Sequence[str], some: Sequence[Pair]) -> tuple[float]:
        return pytest.fail("not measured")

    for some, beam in ((pairs, 4), (pairs * 2, 1)):
        search = replace(SEARCH, beam=beam, alpha=0.7)
        assert propose_alpha(undecided, tokenizer, pairs=some, search=search, measure=never) == 0.7


@dataclass(frozen=True, kw_only=True)
class End:
    """What the end of a run left."""

    messages: list[str]
    bundle: Bundle
    result: RunResult


@pytest.fixture
def end(
    undecided: Transformer, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., End]:
    """The end of a run whose validation pairs a length penalty of 1.4 translates perfectly."""
    monkeypatch.setattr(length_penalty, "_FEWEST", 14)
    pairs = tuple(pairs_for(undecided, tokenizer, alpha=1.4))
    store = create_autospec(Store, instance=True)
    prepared = Prepared(
        tokenizer=tokenizer, store=store, validation=pairs, test=pairs[:2], data_sha256={}
    )
    monkeypatch.setattr(
        RunEvaluator,
        "select_weights",
        lambda self, _: self.candidate(undecided, "weights", search=self.recipe.search),
    )
    trained = TrainResult(
        state=TrainState(update=1), checkpoints=(), model=undecided, ema_model=None
    )

    def finish(*settings: str) -> End:
        recipe = load_recipe("tiny", ["search.extra=7", "languages.target=de", *settings])
        actual: list[str] = []

        def on_event(event: Event) -> None:
            actual.extend([event.text] if isinstance(event, LogMessage) else [])

        RunEvaluator(recipe, tmp_path, prepared, on_event).finish(trained)
        result = RunResult.read(tmp_path / "results.json")
        return End(messages=actual, bundle=Bundle.load(tmp_path / "model"), result=result)

    return finish


def test_the_better_exponent_is_said_recorded_and_kept(end: Callable[..., End]):
    ended = end(TUNED)

    assert ended.bundle.search == replace(SEARCH, alpha=1.4)
    (line,) = [line for line in ended.messages if "search.alpha" in line]
    assert line.startswith("length penalty 1.4: 100.00 BLEU on validation, against ")
    assert line.endswith(" of length penalty 0.6 (search.alpha)")
    assert ended.result.test
    for scored in (ended.result.validation, ended.result.test):
        assert "length penalty 1.4," in scored.decoding
    assert ended.result.validation.scores[0].value == pytest.approx(100)


def test_a_recipe_that_does_not_ask_keeps_the_papers(end: Callable[..., End]):
    ended = end()

    assert ended.bundle.search == SEARCH
    assert not [line for line in ended.messages if "search.alpha" in line]
    assert "length penalty 0.6," in ended.result.validation.decoding


def test_what_only_the_sample_likes_is_not_taken(
    end: Callable[..., End], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("transduce.pipeline.selection.propose_alpha", lambda *_, **__: 0.0)

    ended = end(TUNED)

    assert ended.bundle.search == SEARCH
    assert "against 0.00 of length penalty 0" in next(x for x in ended.messages if "search.al" in x)
