"""The paper's Figures 3 to 5: words of pieces, and heads chosen by a rule."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from tests.conftest import made
from tests.unit.paper.figures.test_resolve import bundled

from transduce.bundle.bundle import Bundle
from transduce.data.config import TokenizerConfig
from transduce.data.tokenizer import Tokenizer
from transduce.model.config import ModelConfig
from transduce.model.trace import Trace
from transduce.model.transformer import Transformer
from transduce.paper.figures import sentences
from transduce.paper.figures.run import finding
from transduce.paper.figures.sentences import (
    SentenceHeads,
    draw_making,
    measure_its,
    measure_making,
    measure_tasks,
)
from transduce.paper.plot import Ink, save_plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAKING = (
    "It is in this spirit that a majority of American governments have passed new laws since 2009 "
    "making the registration or voting process more difficult."
)
LAW = (
    "The Law will never be perfect, but its application should be just - this is what we are "
    "missing, in my opinion."
)


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """An untrained model with two layers of three heads and pieces shorter than words."""
    tokenizer = Tokenizer.train([MAKING, LAW] * 20, TokenizerConfig(vocab_size=90))
    shape = ModelConfig(
        vocab_size=tokenizer.vocab_size, encoder_layers=2, decoder_layers=1, d_model=8, d_ff=8,
        heads=3, d_k=2, d_v=2,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return bundled(Transformer(shape).eval(), tokenizer)


def attend(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch, *, layer: int, head: int, text: str, to: str
) -> None:
    """Let one head give half of every position's weight to a word's last piece."""
    before = bundle.tokenizer.encode(text[: text.index(to) + len(to)])
    place = len(before) - 1

    def look(model: object, source: Sequence[int], target: Sequence[int]) -> Trace:
        length = len(source)
        encoder = np.full((2, 3, length, length), 1 / length, np.float32)
        encoder[layer, head] = 0.5 / (length - 1)
        encoder[layer, head, :, place] = 0.5
        return Trace(
            encoder=encoder,
            decoder=np.ones((1, 3, 1, 1)),
            cross=np.ones((1, 3, 1, length)),
            log_probs=np.zeros(1),
        )

    monkeypatch.setattr(sentences, "trace", look)


def test_words_are_the_papers_and_weights_sum_to_one(bundle: Bundle):
    result = measure_tasks(bundle)

    assert " ".join(result.words[:-1]) == LAW.replace(",", " ,").replace("opinion.", "opinion .")
    assert result.words[-1] == "EOS"
    for head in result.heads:
        assert np.allclose(np.sum(head.weights, axis=1), 1, atol=2e-3)


def test_the_head_that_completes_making_is_chosen(bundle: Bundle, monkeypatch: pytest.MonkeyPatch):
    attend(bundle, monkeypatch, layer=1, head=2, text=MAKING, to="difficult")

    result = measure_making(bundle)

    assert [str(head.head) for head in result.heads] == [
        "encoder 2.3",
        "encoder 2.1",
        "encoder 2.2",
    ]
    assert (result.compared, result.above) == (6, 1)
    assert result.heads[0].score > 0.5 > result.heads[1].score == pytest.approx(result.equal)
    assert [len(head.weights) for head in result.heads] == [1, 1, 1]
    text = finding("making", result)
    assert "The word it attends to most is “difficult”" in text
    assert "trained on other text and is not the paper's" in text


def test_the_heads_that_resolve_its_keep_all_their_weights(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
):
    attend(bundle, monkeypatch, layer=0, head=1, text=LAW, to="Law")

    result = measure_its(bundle)

    assert [str(head.head) for head in result.heads] == ["encoder 1.2", "encoder 1.1"]
    assert len(result.heads[1].weights) == len(result.words)
    assert "most from there is “Law”" in finding("its", result)


def test_the_heads_with_two_tasks_are_those_that_differ_most(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
):
    attend(bundle, monkeypatch, layer=1, head=1, text=LAW, to="Law")

    result = measure_tasks(bundle)

    assert [str(head.head) for head in result.heads] == ["encoder 2.1", "encoder 2.2"]
    assert (result.compared, result.above) == (6, 2)
    assert 0.4 < result.heads[0].score < 0.5
    assert result.most_attended(1) == ("Law", pytest.approx(0.5, abs=0.03))
    assert "Head encoder 2.2 gives most to “Law”, 5" in finding("tasks", result)


def test_the_weight_at_an_offset_is_a_mean_over_the_words_that_have_it(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
):
    attend(bundle, monkeypatch, layer=1, head=1, text=LAW, to="Law")

    head = measure_tasks(bundle).heads[1]

    rows = head.weights
    assert head.mean_at(0) == pytest.approx(np.mean(np.diag(rows)))
    assert head.mean_at(-1) == pytest.approx(np.mean(np.diag(rows, -1)))
    assert head.mean_at(1) == pytest.approx(np.mean(np.diag(rows, 1)))


@pytest.mark.parametrize(("name", "measure"), [("its", measure_its), ("tasks", measure_tasks)])
def test_a_model_with_one_head_has_none_to_compare(
    bundle: Bundle, name: str, measure: Callable[[Bundle], SentenceHeads]
):
    one_head = made(replace(bundle.model.config, heads=1))

    with pytest.raises(ValueError, match=f"the figure {name} compares heads: give --model"):
        measure(bundled(one_head, bundle.tokenizer))


def test_eight_heads_are_drawn_in_eight_styles(bundle: Bundle, tmp_path: Path):
    pytest.importorskip("matplotlib")
    model = made(replace(bundle.model.config, heads=8))
    result = measure_making(bundled(model, bundle.tokenizer))
    styles: list[set[str]] = []

    def draw(figure: "Figure", ink: Ink) -> None:
        draw_making(result, figure, ink)
        labelled = figure.axes[0].lines[-8:]
        styles.append({f"{line.get_color()} {line.get_marker()}" for line in labelled})

    save_plot(tmp_path, "making", draw)

    assert [len(drawn) for drawn in styles] == [8, 8]


def test_a_model_whose_vocabulary_lacks_a_letter_is_refused(
    untrained: Transformer, tokenizer: Tokenizer
):
    with pytest.raises(ValueError, match="vocabulary lacks a part of the paper's sentence"):
        measure_making(bundled(untrained, tokenizer))
