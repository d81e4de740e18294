"""Charts are sound SVG with round ticks, whose marks lie where their values are."""

import math
import re
from xml.etree import ElementTree

import pytest

from transduce.visualization.chart import BarSeries, Series, bar_chart, line_chart, make_axis

NASTY = '<b>&"'
SVG = "{http://www.w3.org/2000/svg}"


def drawn(figure: str) -> ElementTree.Element:
    """The chart of a figure, which is well-formed as XML as a whole."""
    ElementTree.fromstring(figure)
    found = re.search(r"<svg xmlns.*?\n</svg>\n", figure, re.DOTALL)
    assert found
    return ElementTree.fromstring(found[0])


def texts(figure: str) -> list[str]:
    return [text.text or "" for text in drawn(figure).iter(f"{SVG}text")]


def line(*y: float, name: str = "a") -> Series:
    return Series(name, [10.0 * number for number in range(len(y))], y)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0.0, 1.0], ("0.0", "0.2", "0.4", "0.6", "0.8", "1.0")),
        ([37.1, 41.02], ("37", "38", "39", "40", "41", "42")),
        ([0.0, 23_456.0], ("0", "5,000", "10,000", "15,000", "20,000", "25,000")),
        ([-3.0, 2.0], ("−3", "−2", "−1", "0", "1", "2")),
        ([0.011, 0.0134], ("0.0110", "0.0115", "0.0120", "0.0125", "0.0130", "0.0135")),
    ],
)
def test_the_ticks_of_an_axis_are_round(values: list[float], labels: tuple[str, ...]):
    assert make_axis(values, extend_to_ticks=True).labels == labels


def test_an_axis_that_is_not_whole_ends_with_its_values():
    found = make_axis([0.0, 4000.0, 4300.0], extend_to_ticks=False)

    assert (found.low, found.high) == (0.0, 4300.0)
    assert found.ticks == (0.0, 1000.0, 2000.0, 3000.0, 4000.0)


def test_an_axis_of_one_value_has_room_on_both_sides():
    found = make_axis([3.0], extend_to_ticks=True)

    assert found.low < 3.0 < found.high


def test_points_lie_where_their_values_are():
    figure = line_chart([line(0.0, 5.0, 2.5)], x_label="x", y_label="y", title="t")

    dots = [(dot.get("cx"), dot.get("cy")) for dot in drawn(figure).iter(f"{SVG}circle")]

    assert dots == [("0.00%", "260.0"), ("50.00%", "0.0"), ("100.00%", "130.0")]


def test_points_that_are_no_number_are_left_out():
    figure = line_chart([line(1.0, math.nan, math.inf, 2.0)], x_label="x", y_label="y", title="t")

    assert len(list(drawn(figure).iter(f"{SVG}circle"))) == 2


def test_a_chart_without_values_says_so():
    nothing = [line(math.nan)]

    assert "No values." in line_chart(nothing, x_label="x", y_label="y", title="t")
    assert "No values." in bar_chart(["a"], [BarSeries("g", [math.nan])], y_label="y", title="t")


def test_lines_are_named_where_there_are_several():
    one = line_chart([line(1.0, name="alone")], x_label="x", y_label="y", title="t")
    two = line_chart([line(1.0), line(2.0, name="other")], x_label="x", y_label="y", title="t")

    assert "legend" not in one
    assert "</svg>other</li>" in two


def test_axes_are_labelled():
    figure = line_chart([line(1.0, 2.0)], x_label="updates", y_label="nats", title="t")

    assert {"updates", "nats"} <= set(texts(figure))


def test_a_bar_is_as_long_as_its_value():
    figure = bar_chart(["a", "b"], [BarSeries("g", [10.0, 2.5])], y_label="BLEU", title="t")

    bars = [(bar.get("x"), bar.get("width")) for bar in drawn(figure).iter(f"{SVG}rect")]

    assert bars == [("0.00%", "100.00%"), ("0.00%", "25.00%")]


def test_a_bar_below_zero_ends_at_zero():
    figure = bar_chart(["a", "b"], [BarSeries("g", [10.0, -10.0])], y_label="BLEU", title="t")

    bars = [(bar.get("x"), bar.get("width")) for bar in drawn(figure).iter(f"{SVG}rect")]

    assert bars == [("50.00%", "50.00%"), ("0.00%", "50.00%")]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([41.02, 37.1, 30.0], ["41.02", "37.10", "30.00"]),
        ([0.5, 0.987], ["0.500", "0.987"]),
        ([12_345.6, 7.0], ["12,346", "7"]),
        ([0.0, 3.0], ["0", "3"]),
        ([-0.00001, 3.0], ["−0.00001", "3.00000"]),
    ],
)
def test_values_stand_at_their_bars_with_as_many_decimals_as_any_of_them_needs(
    values: list[float], said: list[str]
):
    labels = [f"label {number}" for number in range(len(values))]

    figure = bar_chart(labels, [BarSeries("g", values)], y_label="y", title="t")

    shown = texts(figure)
    assert [shown[shown.index(label) + 1] for label in labels] == said


def test_a_bar_for_every_label_or_it_is_a_bug():
    with pytest.raises(AssertionError, match="a value for every label"):
        bar_chart(["a", "b"], [BarSeries("g", [1.0])], y_label="y", title="t")


def test_texts_of_a_chart_stay_text():
    many = [line(1.0, name=NASTY), line(2.0, name=NASTY)]
    lines = line_chart(many, x_label=NASTY, y_label=NASTY, title=NASTY)
    bars = bar_chart([NASTY], [BarSeries(NASTY, [1.0])], y_label=NASTY, title=NASTY)

    assert texts(lines).count(NASTY) == 2
    assert texts(bars).count(NASTY) == 2
    assert "<b>" not in lines + bars
