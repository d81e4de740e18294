"""A page is one sound file: nothing from elsewhere, and no text that turns into markup.

Charts are sound SVG with round ticks, whose marks lie where their values are.
"""

import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from transduce.visualization.page import (
    BarSeries,
    Section,
    Series,
    bar_chart,
    line_chart,
    make_axis,
    page,
    table,
)

NASTY = "<b>&\" 'x'"
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Sound(HTMLParser):
    """Knows the elements that are open and fails where one is closed that is not the innermost."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(markup: str) -> Sound:
    sound = Sound()
    sound.feed(markup)
    sound.close()
    assert sound.open == []
    return sound


def example() -> str:
    sections = [Section(f"{NASTY} {number}", "<p>said</p>", NASTY) for number in range(5)]
    return page(NASTY, sections, lead=NASTY)


def test_every_element_of_a_page_is_closed():
    parsed(example())


def test_titles_and_leads_stay_text():
    assert parsed(example()).text.count(NASTY) == 2 + 1 + 5 * 3
    assert "<b>" not in example()


def test_a_page_names_no_other_host():
    assert re.findall(r"https?:|//\w|@import|url\(", example()) == []


def test_a_page_forbids_the_browser_to_fetch_anything():
    assert "default-src 'none'" in example()


def test_a_page_has_colours_for_a_dark_scheme():
    assert "color-scheme: light dark" in example()
    assert "light-dark(" in example()


def test_a_page_uses_no_colour_that_is_not_defined():
    shown = example()
    used = set(re.findall(r"var\((--[\w-]+)\)", shown))

    set_later = {"--w", "--columns"}  # by the element, or by the script
    assert used - set_later - set(re.findall(r"(--[\w-]+):", shown)) == set()


def test_a_long_page_begins_with_links_to_its_sections():
    assert re.findall(r'href="#([^"]+)"', example()) == re.findall(r'h2 id="([^"]+)"', example())


def test_a_short_page_has_no_links():
    assert "<nav" not in page("short", [Section("one", "<p>said</p>")])


def test_cells_and_headers_of_a_table_stay_text():
    result = table([NASTY, "b"], [[NASTY, "1"]])

    assert parsed(result).text.count(NASTY) == 2


def test_the_columns_of_numbers_are_marked():
    result = table(["name", "value"], [["a", "1.0"], ["b", "2.0"]], numbers=[1])

    assert re.findall(r'class="number">([^<]*)<', result) == ["value", "1.0", "2.0"]


def test_a_row_with_too_few_cells_is_a_bug():
    with pytest.raises(AssertionError, match="a cell for every header"):
        table(["a", "b"], [["1"]])


def test_pages_and_pictures_need_no_torch():
    code = (
        "import sys, transduce.visualization.page;"
        "import transduce.visualization.attention_view;"
        "sys.exit('torch' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


NASTY_LABEL = '<b>&"'
SVG = "{http://www.w3.org/2000/svg}"


def drawn(figure: str) -> ElementTree.Element:
    """The chart of a figure, which is well-formed as XML as a whole."""
    ElementTree.fromstring(figure)
    result = re.search(r"<svg xmlns.*?\n</svg>\n", figure, re.DOTALL)
    assert result
    return ElementTree.fromstring(result[0])


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
    result = make_axis([0.0, 4000.0, 4300.0], extend_to_ticks=False)

    assert (result.low, result.high) == (0.0, 4300.0)
    assert result.ticks == (0.0, 1000.0, 2000.0, 3000.0, 4000.0)


def test_an_axis_of_tiny_values_has_ticks_of_their_size():
    result = make_axis([1e-13, 4e-13], extend_to_ticks=False)

    assert result.ticks == (1e-13, 2e-13, 3e-13, 4e-13)
    assert result.labels[-1] == "0.0000000000004"


def test_an_axis_of_one_value_has_room_on_both_sides():
    result = make_axis([3.0], extend_to_ticks=True)

    assert result.low < 3.0 < result.high


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
    single = line_chart([line(1.0, name="alone")], x_label="x", y_label="y", title="t")
    two = line_chart([line(1.0), line(2.0, name="other")], x_label="x", y_label="y", title="t")

    assert "legend" not in single
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
    ("values", "expected"),
    [
        ([41.02, 37.1, 30.0], ["41.02", "37.10", "30.00"]),
        ([0.5, 0.987], ["0.500", "0.987"]),
        ([12_345.6, 7.0], ["12,346", "7"]),
        ([0.0, 3.0], ["0", "3"]),
        ([-0.00001, 3.0], ["−0.00001", "3.00000"]),
    ],
)
def test_values_stand_at_their_bars_with_as_many_decimals_as_any_of_them_needs(
    values: list[float], expected: list[str]
):
    labels = [f"label {number}" for number in range(len(values))]

    figure = bar_chart(labels, [BarSeries("g", values)], y_label="y", title="t")

    shown = texts(figure)
    assert [shown[shown.index(label) + 1] for label in labels] == expected


def test_a_bar_for_every_label_or_it_is_a_bug():
    with pytest.raises(AssertionError, match="a value for every label"):
        bar_chart(["a", "b"], [BarSeries("g", [1.0])], y_label="y", title="t")


def test_texts_of_a_chart_stay_text():
    many = [line(1.0, name=NASTY_LABEL), line(2.0, name=NASTY_LABEL)]
    lines = line_chart(many, x_label=NASTY_LABEL, y_label=NASTY_LABEL, title=NASTY_LABEL)
    bars = bar_chart(
        [NASTY_LABEL], [BarSeries(NASTY_LABEL, [1.0])], y_label=NASTY_LABEL, title=NASTY_LABEL
    )

    assert texts(lines).count(NASTY_LABEL) == 2
    assert texts(bars).count(NASTY_LABEL) == 2
    assert "<b>" not in lines + bars
