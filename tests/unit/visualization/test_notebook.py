"""What a notebook shows of results: markup with all text escaped."""

from html import unescape

from transduce.evaluation.metrics import Score
from transduce.evaluation.report import DEFAULT_SCORING, SystemOutput, build_report, to_html
from transduce.evaluation.significance import System
from transduce.inference.translation import Translation
from transduce.visualization.attention_view import AttentionTrace, attention_svg


def test_a_score_and_its_signature():
    score = Score(name="BLEU", value=41.026, signature="tok:<13a>", note="few 4-grams")

    assert score._repr_html_() == ("<b>BLEU 41.03</b> <small>tok:&lt;13a&gt; few 4-grams</small>")


def test_a_translation_with_what_is_known_of_it():
    known = Translation(
        source="a <b>", text="ein <b>", score=-0.256, ids=(1,), pieces=("x",), log_probs=()
    )
    doubtful = Translation(
        source="a",
        text="b",
        score=-1.0,
        ids=(1,),
        pieces=("x",),
        log_probs=(),
        confidence=0.5,
        flag="repetition",
    )

    assert known._repr_html_() == (
        '<p dir="auto">ein &lt;b&gt;<br><small>a &lt;b&gt; · score -0.26</small></p>'
    )
    assert "a · score -1.00 · confidence 0.50 · repetition" in doubtful._repr_html_()


def test_a_report_is_its_page_in_a_frame():
    lines = ["ein kleines Haus steht am Fluss"] * 3
    report = build_report(SystemOutput(System("mine", lines)), lines, scoring=DEFAULT_SCORING)

    frame = report._repr_html_()

    assert frame.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert unescape(frame.partition('srcdoc="')[2].rpartition('" width=')[0]) == to_html(report)


def test_a_trace_is_its_heat_map():
    trace = AttentionTrace(("a",), ("b",), ("<start>",), [], [], [[[[1.0]]]], (-0.25,), "a", "b")

    assert trace._repr_html_() == attention_svg(trace)
    assert trace._repr_html_().startswith("<svg ")
