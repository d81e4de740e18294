"""Attention maps show the weights they are given, to eyes, to keyboards and without a script."""

import html
import json
import math
import random
import re
from xml.etree import ElementTree

import pytest
from tests.node import run_node
from tests.unit.visualization.test_page import parsed

from transduce.visualization.attention_view import (
    START,
    AttentionTrace,
    attention_figure,
    attention_json,
    attention_svg,
    group_words,
    heatmap_svg,
    word_attention_figure,
)

NASTY = '<b>&"'
SOURCE = ("▁it", "▁ti", NASTY, "</s>")
TARGET = ("▁er", "</script>", "</s>")
SVG = "{http://www.w3.org/2000/svg}"


def matrix(rows: int, columns: int, chance: random.Random) -> list[list[float]]:
    drawn = [[chance.random() for _ in range(columns)] for _ in range(rows)]
    return [[item / sum(row) for item in row] for row in drawn]


@pytest.fixture
def traced() -> AttentionTrace:
    """Two encoder layers, three of the decoder, two heads."""
    chance = random.Random(3)

    def heads(rows: int, columns: int) -> list[list[list[float]]]:
        return [matrix(rows, columns, chance) for _ in range(2)]

    return AttentionTrace(
        source_pieces=SOURCE,
        target_pieces=TARGET,
        target_read=(START, *TARGET[:-1]),
        encoder=[heads(4, 4) for _ in range(2)],
        decoder=[heads(3, 3) for _ in range(3)],
        cross=[heads(3, 4) for _ in range(3)],
        log_probs=(-0.125, -0.5, -1.0),
        source="it ti",
        text="er",
    )


def cells(markup: str) -> list[ElementTree.Element]:
    result = re.search(r"<svg xmlns.*?\n</svg>", markup, re.DOTALL)
    assert result
    group = ElementTree.fromstring(result[0]).find(f"{SVG}g")
    assert group is not None
    return list(group)


def inlined(figure: str) -> dict[str, object]:
    result = re.search(r'<script type="application/json">(.*?)</script>', figure, re.DOTALL)
    assert result
    return json.loads(result[1])


def test_a_map_says_each_weight_and_whose_it_is():
    result = cells(
        heatmap_svg(["a", "b"], ["c", "d"], [[0.25, 0.75], [1.0, 0.0]], title="t") + "\n"
    )

    assert [cell[0].text for cell in result] == [
        *("a → c  0.250", "a → d  0.750", "b → c  1.000", "b → d  0.000")
    ]


def test_the_shade_of_a_cell_is_the_root_of_its_weight():
    result = cells(heatmap_svg(["a"], ["b", "c", "d"], [[0.25, 1.0, 0.0]], title="t"))

    assert [cell.get("fill-opacity") for cell in result] == ["0.5", "1", "0"]


def test_a_figure_is_sound_whatever_the_pieces_are(traced: AttentionTrace):
    figure = attention_figure(traced, title=NASTY)

    parsed(figure)
    assert "<b>" not in figure
    assert figure.count("</script>") == 2


def test_a_figure_names_no_other_host(traced: AttentionTrace):
    figure = attention_figure(traced, title="t").replace("http://www.w3.org/2000/svg", "")

    assert re.findall(r"https?:|//\w|@import|url\(|fetch\(|XMLHttp", figure) == []


def test_a_figure_holds_what_the_server_answers(traced: AttentionTrace):
    held = inlined(attention_figure(traced, title="t"))

    assert held == json.loads(attention_json(traced))


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_every_weight_is_told_to_four_decimals(traced: AttentionTrace, kind: str):
    held = json.loads(attention_json(traced))

    assert held[kind] == [
        [[[round(item, 4) for item in row] for row in head] for head in layer]
        for layer in getattr(traced, kind)
    ]


def test_pieces_probabilities_and_both_texts_are_told(traced: AttentionTrace):
    held = json.loads(attention_json(traced))

    assert held["source_pieces"] == list(SOURCE)
    assert held["target_pieces"] == list(TARGET)
    assert held["target_read"] == [START, *TARGET[:-1]]
    assert held["log_probs"] == [-0.125, -0.5, -1.0]
    assert (held["source"], held["text"]) == ("it ti", "er")


def test_without_script_the_last_look_at_the_source_is_shown_as_the_mean_of_the_heads(
    traced: AttentionTrace,
):
    figure = attention_figure(traced, title="t")

    first, second = traced.cross[-1]
    shown = [float((cell[0].text or "").split()[-1]) for cell in cells(figure)]
    expected = [
        (a + b) / 2
        for item, other in zip(first, second, strict=True)
        for a, b in zip(item, other, strict=True)
    ]
    assert shown == pytest.approx(expected, abs=0.00051)
    assert "layer 3 of 3, mean of 2 heads" in figure


def test_a_picture_alone_is_the_same_map_with_its_own_colours(traced: AttentionTrace):
    picture = attention_svg(traced)

    drawn = ElementTree.fromstring(picture)
    group = drawn.find(f"{SVG}g")
    assert group is not None
    result = [cell[0].text for cell in group]
    assert result == [cell[0].text for cell in cells(attention_figure(traced, title="t"))]
    assert drawn.find(f"{SVG}style") is not None
    assert "var(" not in picture


def test_the_piece_looked_at_most_can_be_read_as_text():
    single = AttentionTrace(
        source_pieces=("▁a", "▁b"),
        target_pieces=("▁c",),
        target_read=(START,),
        encoder=[[[[1.0, 0.0], [0.0, 1.0]]]],
        decoder=[[[[1.0]]]],
        cross=[[[[0.125, 0.875]]]],
    )

    figure = attention_figure(single, title="t")

    assert '<td dir="auto">▁b</td><td class="number">0.875</td></tr>' in figure


def test_words_join_their_pieces_and_leave_the_end_alone():
    assert [word.text for word in group_words(SOURCE)] == ["it", f"ti{NASTY}", "</s>"]


def test_a_word_has_the_share_of_all_its_pieces(traced: AttentionTrace):
    figure = word_attention_figure(traced, position=0, side="source", title="t")

    shares = [float(item) for item in re.findall(r'title="([0-9.]+)"', figure)]
    last = traced.encoder[1][1][0]
    assert shares[-3:] == pytest.approx([last[0], last[1] + last[2], last[3]], abs=0.00051)
    assert len(shares) == 3 * (2 + 2 * 2)  # words x (layers + layers x heads)


def test_the_word_that_looks_is_marked(traced: AttentionTrace):
    figure = word_attention_figure(traced, position=2, side="source", title="t")

    marked = set(re.findall(r'class="word query"[^>]*>([^<]*)<', figure))
    assert {html.unescape(word) for word in marked} == {f"ti{NASTY}"}


def test_a_target_piece_looks_at_the_source(traced: AttentionTrace):
    figure = word_attention_figure(traced, position=1, side="target", title=NASTY)

    parsed(figure)
    shares = [float(item) for item in re.findall(r'title="([0-9.]+)"', figure)]
    assert shares[-1] == pytest.approx(traced.cross[2][1][1][3], abs=0.00051)
    assert "query" not in figure
    assert math.fsum(shares[:3]) == pytest.approx(1.0, abs=0.002)


def test_a_piece_that_nothing_shown_attends_to_has_no_answers():
    """An empty translation whose end is hidden has no queries."""
    script = """
        globalThis.window = globalThis;
        await import(`${engine}/../../visualization/attention_weights.js`);
        const view = { rows: [], columns: [{ text: "a", indices: [0], isEnd: false }] };
        const pinned = { side: "column", index: 0 };
        answer(window.AttentionWeights.headAnswers(payload, "cross", view, pinned));
    """

    assert run_node(script, {"cross": [[[[1.0]]]]}) == []


def test_a_label_is_cut_between_characters():
    script = """
        globalThis.window = globalThis;
        await import(`${engine}/../../visualization/drawing.js`);
        answer(window.Drawing.label(payload));
    """

    assert run_node(script, "😀" * 20) == ["😀" * 17 + "…"]
