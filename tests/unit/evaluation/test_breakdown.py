"""Translations taken apart: every number is one that can be counted by hand, or sacreBLEU's own."""

import subprocess
import sys
from collections.abc import Mapping, Sequence

import pytest
from sacrebleu.metrics.chrf import CHRF

from transduce.evaluation.breakdown import (
    CHANGED_SENTENCES,
    RATIO_LABELS,
    WORST_SENTENCES,
    Breakdown,
    CopiedWord,
    RepetitionExample,
    break_down,
)
from transduce.evaluation.metrics import bleu, bleu_metric


def taken_apart(
    *systems: Sequence[str],
    references: Sequence[str],
    sources: Sequence[str] | None = None,
    training: Mapping[str, int] | None = None,
) -> Breakdown:
    return break_down(
        [(f"system {number}", lines) for number, lines in enumerate(systems)],
        references,
        bleu=bleu_metric(),
        sources=sources,
        training=training,
    )


def numbered(words: int, *, first: int = 0) -> str:
    return " ".join(f"w{number}" for number in range(first, first + words))


def test_lines_are_put_together_by_the_length_of_the_source():
    lengths = (0, 1, 5, 6, 10, 11, 41, 60, 61, 200)
    references = ["the same words everywhere"] * len(lengths)

    result = taken_apart(references, references=references, sources=[*map(numbered, lengths)])

    assert result.measured == "source"
    assert [(length.words, length.lines) for length in result.lengths] == [
        *(("0–5", 3), ("6–10", 2), ("11–15", 1), ("41–60", 2), ("61+", 2))
    ]


def test_without_sources_the_reference_has_the_length():
    result = taken_apart(["a", "b"], references=[numbered(3), numbered(17)])

    assert result.measured == "reference"
    assert [length.words for length in result.lengths] == ["0–5", "16–20"]


def test_bleu_of_a_length_is_that_of_its_lines():
    short = ["the old man reads a", "a small red house stands"]
    long = ["two children play with a red ball in the garden", "she buys bread and milk at noon"]
    hypotheses = ["the old man reads", "a small house stands", "two play with a red ball", long[1]]
    other = ["the man", *short[1:], "two children play with a red ball", "she buys bread"]

    result = taken_apart(hypotheses, other, references=[*short, *long])

    assert [length.lines for length in result.lengths] == [2, 2]
    for number, lines in enumerate((hypotheses, other)):
        assert [length.bleu[number] for length in result.lengths] == pytest.approx(
            [bleu(lines[:2], short).value, bleu(lines[2:], long).value]
        )


def test_chrf_of_a_length_is_the_mean_of_its_sentences():
    references = ["the old man", "a red house"]
    hypotheses = ["the old men", "a red horse"]

    result = taken_apart(hypotheses, references=references)

    score = [
        CHRF().sentence_score(*item).score
        for item in zip(hypotheses, [[r] for r in references], strict=True)
    ]
    assert result.lengths[0].chrf == pytest.approx((sum(score) / 2,))


def test_words_are_classed_by_how_often_training_has_them():
    training = {"one": 1, "two": 2, "four": 4, "five": 5, "nine": 9, "ten": 10, "lots": 100}
    reference = "never one two four five nine ten lots lots"

    result = taken_apart(["x"], references=[reference], training=training)

    assert [(frequency.times, frequency.words) for frequency in result.frequencies] == [
        *(("0", 1), ("1", 1), ("2–4", 2), ("5–9", 2), ("10–99", 1), ("100+", 2))
    ]
    assert not result.own_frequencies


def test_recall_and_f1_of_rare_words_are_the_ones_done_by_hand():
    training = {"owl": 1, "elk": 1, "yak": 1, "the": 500}
    references = ["the owl owl", "the elk", "the yak"]
    hypotheses = ["the owl yak", "the elk elk elk", "the"]

    result = taken_apart(hypotheses, references=references, training=training)

    rare = result.frequencies[1]
    # Four in the references, five in the translations, two of them on the line where they belong.
    assert (rare.words, rare.recall, rare.f1) == (4, (2 / 4,), (2 * 2 / (4 + 5),))
    assert result.frequencies[-1].recall == (1.0,)


def test_a_class_without_words_has_no_recall():
    result = taken_apart(["new"], references=["old"], training={"old": 1})

    assert (result.frequencies[0].words, result.frequencies[0].recall) == (0, (None,))
    assert result.frequencies[0].f1 == (None,)


def test_without_a_training_text_the_references_stand_in():
    result = taken_apart(["a", "b", "a"], references=["a", "b", "a"])

    assert result.own_frequencies
    assert [frequency.words for frequency in result.frequencies] == [0, 1, 2, 0, 0, 0]


def test_a_copied_line_is_one_whose_reference_differs():
    sources = ["Anna Bell", "a dog", "", "two cats"]
    references = ["Anna Bell", "ein Hund", "", "zwei Katzen"]
    hypotheses = ["Anna Bell", "a dog", "", "zwei cats"]

    faults = taken_apart(hypotheses, references=references, sources=sources).faults[0]

    assert faults.copied_lines == 1


def test_copied_words_are_those_that_the_reference_does_not_have():
    sources = ["the ball , the ball in Bonn"]
    references = ["der Ball in Bonn"]
    hypotheses = ["the ball the the , in Bonn , Bonn"]

    faults = taken_apart(hypotheses, references=references, sources=sources).faults[0]

    # "the" as often as in the source, and "ball". Bonn is right, if too often; commas are marks.
    assert faults.copied_words == 3
    assert faults.most_copied[0] == CopiedWord(word="the", times=2)
    assert faults.words == 9


def test_without_sources_nothing_is_said_of_copies():
    faults = taken_apart(["a"], references=["b"]).faults[0]

    assert (faults.copied_lines, faults.copied_words, faults.most_copied) == (None, None, ())


def test_repetitions_name_their_line():
    hypotheses = ["fine", "ein roter roter roter roter Ball", "no no no no", numbered(21)]
    references = ["fine", "ein roter Ball", "no no no no", ""]

    faults = taken_apart(hypotheses, references=references).faults[0]

    assert faults.repeated == 1
    assert faults.repetitions == (
        RepetitionExample(line=2, piece='"roter" ×4', hypothesis=hypotheses[1]),
    )


def test_repetitions_are_all_counted_and_a_few_shown():
    hypotheses = [f"{number} x x x x" for number in range(7)]

    faults = taken_apart(hypotheses, references=["x"] * 7).faults[0]

    assert (faults.repeated, len(faults.repetitions)) == (7, 5)


def test_an_empty_line_is_one_where_the_reference_is_not():
    faults = taken_apart(["", "  ", "", "a"], references=["a", "b", "", "a"]).faults[0]

    assert faults.empty == 2


def test_lines_are_counted_by_their_ratio_of_words():
    references = [numbered(20)] * 9 + [""]
    hypotheses = [*map(numbered, (0, 9, 10, 15, 16, 25, 26, 40, 41)), "more"]

    faults = taken_apart(hypotheses, references=references).faults[0]

    assert RATIO_LABELS == ("under 0.5", "0.5 to 0.8", "0.8 to 1.25", "1.25 to 2", "over 2")
    assert faults.ratios == (2, 2, 2, 2, 1)
    assert faults.ratio == pytest.approx((0 + 9 + 10 + 15 + 16 + 25 + 26 + 40 + 41 + 1) / 180)


def test_the_brevity_penalty_is_that_of_the_whole():
    references = ["the old man reads a book", "a red house stands by the river"]
    hypotheses = ["the old man reads", "a red house by the river"]

    faults = taken_apart(hypotheses, references=references).faults[0]

    assert faults.brevity == pytest.approx(bleu_metric().corpus_score(hypotheses, [references]).bp)
    assert faults.brevity < 1


def test_the_worst_sentences_come_lowest_first_and_perfect_ones_not_at_all():
    references = ["a small house", "the old man", "two red balls", "", "bread and milk"]
    hypotheses = ["a small mouse", "xyz", "two red balls", "", ""]

    result = taken_apart(hypotheses, references=references, sources=[*"pqrst"])

    assert [item.line for item in result.worst] == [2, 5, 1]
    worst = result.worst[2]
    assert (worst.source, worst.reference, worst.hypotheses) == (
        "p",
        "a small house",
        (hypotheses[0],),
    )
    assert worst.chrf == (CHRF().sentence_score(hypotheses[0], [references[0]]).score,)


def test_an_empty_line_for_an_empty_reference_is_perfect():
    result = taken_apart([""], references=[""])

    assert result.worst == ()
    assert result.lengths[0].chrf == (100.0,)


def test_so_many_sentences_are_shown_and_no_more():
    lines = [f"line {number}" for number in range(WORST_SENTENCES + CHANGED_SENTENCES + 3)]

    result = taken_apart(["x"] * len(lines), lines, references=lines)

    assert (len(result.worst), len(result.gains), len(result.losses)) == (
        WORST_SENTENCES,
        0,
        CHANGED_SENTENCES,
    )


def test_gains_and_losses_are_the_first_systems_largest_first():
    references = ["a small house", "the old man", "two red balls", "bread and milk"]
    hypotheses = ["a small house", "the xxx", "two red bulls", "bread and milk"]
    other = ["a small mouse", "the old man", "two red balls", "xyz"]

    result = taken_apart(hypotheses, other, references=references)

    assert [gain.line for gain in result.gains] == [4, 1]
    assert [loss.line for loss in result.losses] == [2, 3]
    assert result.gains[0].hypotheses == ("bread and milk", "xyz")
    assert result.gains[0].chrf[0] == 100


def test_one_system_has_no_gains():
    result = taken_apart(["a"], references=["b"])

    assert (result.systems, result.gains, result.losses) == (("system 0",), (), ())


@pytest.mark.parametrize(
    ("sources", "message"),
    [(None, "^system 1 has 2 lines but there are 3 references"), (["a"], "^system 1 has 2 lines")],
)
def test_unequal_numbers_of_lines_name_who(sources: Sequence[str] | None, message: str):
    with pytest.raises(ValueError, match=message):
        taken_apart(["a"] * 3, ["a"] * 2, references=["a"] * 3, sources=sources)


def test_a_source_of_another_length_is_named():
    with pytest.raises(ValueError, match=r"^the source has 1 lines but there are 3 references"):
        taken_apart(["a"] * 3, references=["a"] * 3, sources=["a"])


def test_nothing_has_no_breakdown():
    with pytest.raises(ValueError, match="the references have no lines"):
        taken_apart([], references=[])


def test_it_needs_no_torch():
    code = "import transduce.evaluation.breakdown, sys; print('torch' in sys.modules)"

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert result.stdout == b"False\n"
