"""A report holds scores, a breakdown and a test; its page shows them and asks no other host."""

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import date
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.exports import CONFIG, bundle_of, one_vocabulary

from transduce.evaluation import report as report_module
from transduce.evaluation import scoring
from transduce.evaluation.breakdown import ScoredSentence
from transduce.evaluation.metrics import bleu, chrf
from transduce.evaluation.report import (
    Report,
    SystemOutput,
    SystemScores,
    TrainingText,
    build_report,
    to_html,
)
from transduce.evaluation.scoring import ScoringOptions
from transduce.evaluation.significance import System

REFERENCES = [f"the old man number {number} reads a red book at home ." for number in range(23)]
OURS = [line.replace("old ", "") if "3" in line else line for line in REFERENCES]
OTHER = [line.replace("a red", "the big") for line in REFERENCES]
SOURCES = [f"der alte Mann Nummer {number} liest <zu Hause> ." for number in range(23)]


def reported(
    hypotheses: Sequence[str] = OURS,
    other: Sequence[str] | None = None,
    *,
    references: Sequence[str] = REFERENCES,
    sources: Sequence[str] | None = SOURCES,
    training: TrainingText | None = None,
    scoring: ScoringOptions = ScoringOptions(metrics=("bleu",)),  # noqa: B008
) -> Report:
    return build_report(
        SystemOutput(System("mine", hypotheses), training=training),
        references,
        sources=sources,
        against=None if other is None else System("theirs", other),
        scoring=scoring,
    )


class Reader(HTMLParser):
    """Text and tags of a page, and whether each tag is closed where it must be."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br", "input"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] not in (["style"], ["script"]):
            self.text += data


def marked(scored: ScoredSentence) -> list[str]:
    """What the page marks in a sentence."""
    report = reported()
    names = ["mine", "theirs"][: len(scored.hypotheses)]
    systems = tuple(SystemScores(name=name, scores=()) for name in names)
    parts = replace(report.breakdown, worst=(scored,), median=(), random=())
    page = to_html(replace(report, systems=systems, breakdown=parts))
    return re.findall(r"<mark[^>]*>.*?</mark>", page)


def sentence(reference: str, *hypotheses: str) -> ScoredSentence:
    return ScoredSentence(
        line=3,
        source=None,
        reference=reference,
        hypotheses=hypotheses,
        chrf=(7.0,) * len(hypotheses),
    )


def test_scores_are_those_of_evaluate():
    result = reported(other=OTHER, scoring=ScoringOptions(metrics=("bleu", "chrf")))

    assert [system.name for system in result.systems] == ["mine", "theirs"]
    for system, lines in zip(result.systems, (OURS, OTHER), strict=True):
        interval = lines is OURS
        assert system.scores == (
            bleu(lines, REFERENCES, interval=interval),
            chrf(lines, REFERENCES, interval=interval),
        )


def test_case_does_not_count_for_a_model_that_lower_cases():
    def report(case: Callable[[str], str], words: dict[str, int], *, lower_case: bool) -> Report:
        return build_report(
            SystemOutput(
                System("mine", OURS),
                training=TrainingText("train.en", words),
                lower_case=lower_case,
            ),
            list(map(case, REFERENCES)),
            sources=list(map(case, SOURCES)),
            against=System("theirs", list(map(case, OURS))),
            scoring=ScoringOptions(metrics=("bleu", "chrf", "copies")),
        )

    result = report(str.title, {"Man": 3, "man": 2}, lower_case=True)
    expected = report(str.lower, {"man": 5}, lower_case=False)
    assert result.breakdown == expected.breakdown
    for system, lower_cased in zip(result.systems, expected.systems, strict=True):
        assert [s.value for s in system.scores] == [s.value for s in lower_cased.scores]
    assert "case:lc" in result.systems[0].scores[0].signature
    assert result.comparison is not None
    assert result.comparison.metrics[0].systems[1].p == 1.0
    assert report(str.title, {}, lower_case=False).breakdown != result.breakdown


def test_the_other_system_is_the_baseline_of_the_test():
    result = reported(other=OTHER).comparison

    assert result is not None
    assert [system.system for system in result.metrics[0].systems] == ["theirs", "mine"]
    assert result.metrics[0].systems[1].verdict == "better"


def test_one_system_has_no_test():
    assert reported().comparison is None


def test_a_large_test_set_has_no_test_and_the_page_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(report_module, "MAX_TESTED_LINES", 22)
    monkeypatch.setattr(scoring, "MAX_TESTED_LINES", 22)

    result = reported(other=OTHER)

    assert result.systems[0].scores[0].margin is None
    assert "confidence interval" not in to_html(result)

    assert result.comparison is None
    assert "No significance test" in to_html(result)
    assert "of at most 50,000 lines" in to_html(result)


@pytest.mark.parametrize(("tokenize", "name"), [("", "zh"), ("none", "none")])
def test_language_and_tokeniser_reach_scores_and_test(tokenize: str, name: str):
    result = reported(other=OTHER, scoring=ScoringOptions("zh", tokenize, ("bleu",)))

    assert result.comparison is not None
    for signature in (
        result.systems[0].scores[0].signature,
        result.comparison.metrics[0].signature,
    ):
        assert f"tok:{name}|" in signature


def test_the_breakdown_has_the_tokeniser_of_the_scores():
    references = ["x-y-z a-b-c u-v-w d-e-f"]

    result = reported(
        ["x-y-z a-b-c u-v-w d-e-g"],
        references=references,
        sources=None,
        scoring=ScoringOptions("zh", "char"),
    )

    assert result.breakdown.lengths[0].bleu == pytest.approx((result.systems[0].scores[0].value,))


def test_a_report_becomes_json():
    result = json.loads(json.dumps(asdict(reported(other=OTHER))))

    assert result["systems"][0]["scores"][0]["name"] == "BLEU"
    assert result["breakdown"]["worst"][0]["line"] == 4
    assert result["breakdown"]["lengths"][0]["lines"] == 23


def test_the_page_says_where_frequencies_are_from():
    known = to_html(reported(training=TrainingText("corpus.en", {"the": 9})))

    assert "frequency in corpus.en" in known
    assert "--train FILE" not in known
    assert "frequency in the references themselves" in to_html(reported())


@pytest.mark.parametrize("sources", [SOURCES, None])
@pytest.mark.parametrize("other", [OTHER, None])
def test_a_page_is_whole_and_asks_no_other_host(
    other: Sequence[str] | None, sources: Sequence[str] | None
):
    page = Reader(to_html(reported(other=other, sources=sources)))

    for tag, attributes in page.tags:
        assert tag not in ("script", "img", "iframe") or "src" not in attributes
        for name in ("href", "src"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))
    assert ("theirs" in page.text) == (other is not None)
    assert ("Lines copied" in page.text) == (sources is not None)


def test_text_cannot_become_markup():
    evil = "<script>alert(1)</script> & </mark>"
    hypotheses = [evil, *OURS[1:]]

    page = to_html(
        build_report(
            SystemOutput(System(evil, hypotheses)),
            [f"{evil} <b>", *REFERENCES[1:]],
            sources=[evil, *SOURCES[1:]],
            against=System("<i>", [*REFERENCES[:-1], evil]),
        )
    )

    assert evil in Reader(page).text
    assert {tag for tag, _ in Reader(page).tags} & {"script", "b", "i"} == set()


def test_words_that_the_reference_has_not_are_marked_together():
    assert marked(sentence("ein Hund läuft weg", "ein Hund, der rennt weg")) == [
        '<mark class="missing">läuft</mark>',
        "<mark>, der rennt</mark>",
    ]


def test_of_the_reference_only_what_no_system_has_is_marked():
    assert marked(sentence("a b c", "a b", "b c")) == []
    assert marked(sentence("a b c d", "a b", "b c")) == ['<mark class="missing">d</mark>']


def test_an_endless_line_is_cut_on_the_page():
    page = to_html(reported(["x" * 9_999, *OURS[1:]]))

    assert len(page) < 50_000
    assert "x…" in page


@pytest.mark.parametrize(
    ("hypotheses", "references"),
    [
        ([""], [""]),
        ([""], ["a"]),
        (["a"], [""]),
        (REFERENCES, REFERENCES),
        (["我喜歡貓"], ["我喜歡狗"]),
        (["\x00\x0b \u2028"], ["&"]),
    ],
)
def test_odd_text_has_a_page_too(hypotheses: Sequence[str], references: Sequence[str]):
    page = Reader(to_html(reported(hypotheses, hypotheses, references=references, sources=None)))

    assert "Scores" in page.text


def test_faults_are_told_with_their_lines():
    hypotheses = ["so so so so", "Mann", *OURS[2:]]

    page = Reader(to_html(reported(hypotheses))).text

    assert "Lines with repetitions1 (4.3%)" in page
    assert "Repetitions by mine" in page
    assert "Most copied by mine: Mann (1)." in page


def test_a_missing_model_is_said(tmp_path: Path):
    with pytest.raises(ValueError, match="is not a model bundle"):
        report_module.translate_test_set(tmp_path, "none", sources=["a"], references=["b"])


def test_a_pair_longer_than_the_positions_is_refused_before_the_translation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = replace(CONFIG, positions="learned", max_positions=20)
    bundle_of(config, one_vocabulary()).save(tmp_path / "model")
    monkeypatch.setattr(
        report_module, "translate_with", lambda *_, **__: pytest.fail("it was translated")
    )

    with pytest.raises(ValueError, match=r"^line 2 has a side of \d+ pieces .* 20 positions"):
        report_module.translate_test_set(
            tmp_path / "model", "mine", sources=["a", "a"], references=["a", "a man " * 20]
        )


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (ScoringOptions(tokenize="spaces"), "no tokeniser 'spaces'"),
        (ScoringOptions(comet_model=Path("model")), "pip install unbabel-comet"),
    ],
)
def test_a_metric_that_is_not_available_is_refused_before_the_translation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: ScoringOptions, named: str
):
    bundle_of(CONFIG, one_vocabulary()).save(tmp_path / "model")
    monkeypatch.setitem(sys.modules, "comet", None)
    monkeypatch.setattr(
        report_module, "translate_with", lambda *_, **__: pytest.fail("it was translated")
    )

    with pytest.raises(ValueError, match=named):
        report_module.translate_test_set(
            tmp_path / "model", "mine", sources=["a"], references=["a"], scoring=options
        )


def test_the_page_tells_what_was_evaluated_how_and_when():
    output = SystemOutput(
        System("model", OURS),
        direction="German → English",
        details=(("Model", "runs/mine/model"), ("Decoding", "beam 4, length penalty 0.6")),
    )

    result = build_report(
        output, REFERENCES, sources=SOURCES, files={"Source": Path("test.de"), "Origins": None}
    )
    page = Reader(to_html(result)).text

    title = f"Evaluation of model on test.de, German → English, {date.today()}"
    assert result.title == title
    assert f"<title>{title}</title>" in to_html(result)
    for text in (
        "runs/mine/model",
        "beam 4, length penalty 0.6",
        "Sourcetest.de",
        str(date.today()),
    ):
        assert text in page
    assert "Origins" not in page
    margins = {score.name: score.margin for score in result.systems[0].scores}
    assert [name for name, margin in margins.items() if margin is not None] == [
        *("BLEU", "chrF2", "TER")
    ]
    assert f"{result.systems[0].scores[0].value:.2f} ± {margins['BLEU']:.2f}" in page


def test_the_title_is_no_name_of_a_folder():
    assert reported(other=OTHER).title == f"Evaluation of mine, {date.today()}"
    assert "mine against theirs: 23 lines" in to_html(reported(other=OTHER))


def test_an_interval_is_that_of_the_paired_test():
    result = reported(other=OTHER)

    assert result.comparison is not None
    margin = result.comparison.metrics[0].systems[1].margin
    assert result.systems[0].scores[0].margin == pytest.approx(margin, abs=0.006)
    assert result.systems[1].scores[0].margin is None


def test_lost_text_is_listed_with_its_lines():
    sources = ["set max_rows to 30", "press {key} 30 times", "nothing"]
    references = ["setze max_rows auf 30", "drücke {key} 30 Mal", "nichts"]

    result = reported(
        ["setze max_zeilen auf 30", "drücke 3 Mal", "x"], references=references, sources=sources
    )

    assert [(item.kind, item.times, item.lost) for item in result.breakdown.copies] == [
        *(("code", 2, (2,)), ("number", 2, (1,)))
    ]
    assert [(item.line, item.text) for item in result.breakdown.faults[0].lost] == [
        *((1, "max_rows"), (2, "{key}"), (2, "30"))
    ]
    assert "Lost by mine" in to_html(result)
    assert "Copied text" not in to_html(reported(["a"], references=["a"], sources=["b"]))


def test_median_and_random_sentences_stand_beside_the_worst():
    parts, other = reported().breakdown, reported(OTHER).breakdown

    scores = sorted(item.chrf[0] for item in other.worst)  # 20 of 23
    median = [item.chrf[0] for item in other.median]
    assert median == sorted(median)
    assert median[0] >= scores[5]
    assert median[-1] <= scores[17]
    assert len(median) == len({item.line for item in parts.random}) == 10
    assert [item.line for item in parts.random] == [item.line for item in other.random]


def test_scores_by_origin():
    origins = ["news", *["manual"] * 22]
    result = build_report(SystemOutput(System("mine", OURS)), REFERENCES, origins=origins)

    assert [(origin.origin, origin.lines) for origin in result.breakdown.origins] == [
        *(("news", 1), ("manual", 22))
    ]
    assert result.breakdown.origins[0].bleu == pytest.approx(
        (bleu(OURS[:1], REFERENCES[:1]).value,)
    )
    assert "By origin" in to_html(result)
    assert "By origin" not in to_html(reported())
    with pytest.raises(ValueError, match="the file of origins has 2 lines"):
        build_report(SystemOutput(System("mine", OURS)), REFERENCES, origins=["a", "b"])


def test_text_has_the_direction_of_its_script():
    page = to_html(reported(["שלום עולם"], references=["שלום"], sources=["hello"]))

    assert '<dd dir="auto"><mark class="missing">' not in page
    assert page.count('<dd dir="auto">') == 3 * 3


def test_a_report_on_single_words_charts_chrf():
    page = to_html(
        reported(
            ["tomato"] * 12, references=["tomato"] * 12, sources=None, scoring=ScoringOptions()
        )
    )

    assert "chrF2 by words" in page
    assert "BLEU by words" not in page
    assert page.index("exact match") < page.index(">BLEU<")
