"""The report from outcomes that are made up, so that what should be said of them is known."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from transduce.paper.table3.report import Line, Table3Report, page, record_of, report
from transduce.paper.table3.run import Outcome, ScoredRow, Settings


def outcome(row: str, *, nats: float, right: int, seed: int = 1) -> Outcome:
    """A row with a BLEU of `right` and so many nats a piece."""
    scored = ScoredRow(bleu=float(right), signature="nrefs:1|tok:13a", perplexity=math.exp(nats))
    return Outcome(
        row=row,
        seed=seed,
        parameters=19,
        updates=7,
        best_update=5,
        tokens=700,
        seconds=60.0,
        processor="",
        commit="",
        validation=scored,
        test=None,
    )


def reported(outcomes: Sequence[Outcome]) -> Table3Report:
    return report(outcomes, settings=Settings())


def line(table3: Table3Report, row: str) -> Line:
    return next(item for item in table3.lines if item.row == row)


@pytest.fixture(scope="module")
def table3() -> Table3Report:
    """C5 better than the base row, C1 worse, A1 the same; D1 better, which the paper denies."""
    return reported(
        [
            outcome(row, nats=nats + 0.01 * seed, right=right + seed % 3, seed=seed)
            for row, nats, right in (
                ("base", 2.0, 18),
                ("A1", 2.0, 18),
                ("C1", 2.5, 2),
                ("C5", 1.5, 37),
                ("D1", 1.6, 36),
            )
            for seed in (1, 2, 3)
        ]
    )


@pytest.fixture(scope="module")
def one_seed() -> Table3Report:
    return reported([outcome("base", nats=2.0, right=20), outcome("D1", nats=1.6, right=38)])


def test_one_seed_claims_no_row_interval_or_rank(one_seed: Table3Report):
    validation = line(one_seed, "D1").validation

    assert (validation.perplexity_side, validation.bleu_side) == ("unclear", "unclear")
    assert (validation.perplexity.margin, validation.bleu.margin) == (None, None)
    assert one_seed.agreements == ()


def test_two_seeds_have_an_interval_and_no_rank():
    result = reported(
        [outcome(row, nats=2.0, right=9, seed=n) for row in ("base", "D1") for n in (1, 2)]
    )

    assert line(result, "D1").validation.bleu.margin == 0.0
    assert result.agreements == ()


def test_the_page_of_one_seed_claims_nothing_and_says_why(one_seed: Table3Report):
    text = page(record_of(one_seed))

    assert "\n\n| row | differs |" in text
    assert not {"▲", "▼", "±", "τ"} & {*text}
    assert "One seed: no interval." in text
    assert "that takes 3 seeds" in text
    assert "gainst the paper" not in text
    assert "Spearman" not in text


def test_the_page_says_when_training_ended_and_which_weights_are_scored(table3: Table3Report):
    text = page(record_of(table3))

    assert "the first 5,000 training pairs" in text
    assert "has not fallen 5 times in a row, or after 20,000 updates, which no row reached" in text
    assert "| 19 | 5 | 1.0 |" in text


def test_the_page_names_rows_that_the_limit_of_updates_ended():
    outcomes = [outcome(row, nats=2.0, right=9) for row in ("base", "D1")]
    outcomes[1] = replace(outcomes[1], updates=20_000)

    assert "or after 20,000 updates (D1), and" in page(record_of(reported(outcomes)))


def test_a_rank_correlation_has_its_interval_over_the_seeds(table3: Table3Report):
    """D1 is on the wrong side with every seed; C follows the paper with every seed."""
    taus = {group.group: group.bleu_kendall for group in table3.agreements}

    assert taus["D"] == (-1.0, 0.0, (-1.0, -1.0, -1.0))
    assert taus["C"] == (1.0, 0.0, (1.0, 1.0, 1.0))
    assert "| D | 2 | 0, 1, 0 | -1.00 | -1.00 | -1.00\u00a0to\u00a0-1.00 |" in page(
        record_of(table3)
    )


def test_a_rank_correlation_without_order_has_no_interval():
    rows = (("base", 2.0), ("A1", 2.0))
    result = reported(
        [outcome(row, nats=nats, right=9, seed=n) for row, nats in rows for n in (1, 2, 3)]
    )

    assert result.agreements[0].bleu_kendall is None
    assert "– | – | – |" in page(record_of(result))


def test_the_page_says_in_words_which_claims_hold(table3: Table3Report):
    """C1 is worse, C5 better as printed; D1 is better, which the paper denies; A1 is unclear."""
    claims = [row for row in page(record_of(table3)).splitlines() if row.startswith("| ")]
    rows = {row.split("|")[1].strip(): row.split("|")[2:5] for row in claims if row.count("|") == 6}

    assert [*map(str.strip, rows["C: bigger models are better"])] == [
        "C1 PPL worse; C1 BLEU worse; C5 PPL better; C5 BLEU better", "–", "–"
    ]  # fmt: skip
    assert [*map(str.strip, rows["D: dropout is very helpful in avoiding overfitting"])] == [
        "–", "D1 PPL worse; D1 BLEU worse", "–"
    ]  # fmt: skip
    assert rows["A: a single head is worse than the best setting, and so are too many"][2] == (
        " A1 PPL worse; A1 BLEU worse "
    )
    assert rows["B: smaller keys hurt the quality"] == [" – ", " – ", " no row trained "]
    counts = "Of 8 comparisons 4 agree with it, 2 contradict it, and 2 cannot be told"
    assert counts in page(record_of(table3))


def test_rows_that_the_paper_has_alike_are_not_counted():
    """E: published with base's perplexity and 0.1 BLEU below it; here its perplexity is worse."""
    rows = (("base", 2.0, 18), ("E", 2.5, 18))
    outcomes = [
        outcome(row, nats=nats + 0.01 * seed, right=right + seed % 2, seed=seed)
        for row, nats, right in rows
        for seed in (1, 2, 3)
    ]

    text = page(record_of(reported(outcomes)))
    assert "| – | – | – | E PPL alike; E BLEU alike |" in text
    assert "Of 0 comparisons 0 agree" in text
    assert "a row and base alike, nothing is counted" in text


def test_the_page_names_rows_hours_and_what_was_not_trained(table3: Table3Report):
    text = page(record_of(table3))

    assert "5 rows with 3 seeds each, 0.2 hours of training in all; not trained: A2, A3," in text


def test_label_smoothing_is_shown_with_the_papers_claim():
    rows = (("base", 2.0, 18), ("D3", 1.9, 12))
    report_of = reported(
        [
            outcome(row, nats=nats + 0.01 * seed, right=right + seed, seed=seed)
            for row, nats, right in rows
            for seed in (1, 2, 3)
        ]
    )

    text = page(record_of(report_of))

    assert "- Label smoothing, D3 (ε_ls 0). The paper: without label smoothing perplexity" in text


def test_a_perplexity_is_e_to_the_nats_a_piece(table3: Table3Report):
    assert line(table3, "base").validation.perplexity.value == pytest.approx(
        math.exp(2.0), rel=0.06
    )


@pytest.mark.parametrize(
    ("row", "side"),
    [("base", "base"), ("A1", "unclear"), ("C1", "worse"), ("C5", "better"), ("D1", "better")],
)
def test_a_row_is_on_a_side_of_the_base_row(table3: Table3Report, row: str, side: str):
    validation = line(table3, row).validation

    assert (validation.perplexity_side, validation.bleu_side) == (side, side)


def test_groups_are_taken_with_the_base_row(table3: Table3Report):
    groups = {agreement.group: agreement.rows for agreement in table3.agreements}

    assert groups == {
        "all": ("base", "A1", "C1", "C5", "D1"),
        "A": ("base", "A1"),
        "C": ("base", "C1", "C5"),
        "D": ("base", "D1"),
    }


def test_a_group_in_the_papers_order_correlates_fully(table3: Table3Report):
    c = next(agreement for agreement in table3.agreements if agreement.group == "C")

    assert (c.perplexity.spearman, c.bleu.kendall) == (1.0, 1.0)
    assert (c.perplexity_against, c.bleu_against) == ((), ())


def test_what_stands_against_the_paper_is_named(table3: Table3Report):
    d = next(agreement for agreement in table3.agreements if agreement.group == "D")

    assert d.perplexity.disagree == 1
    assert d.perplexity_against == ("base above D1",)
    assert d.bleu_against == ("D1 above base",)


def test_several_seeds_have_a_mean_and_students_margin():
    """BLEU 20 and 22, t 12.7062."""
    outcomes = [outcome("base", nats=2.0, right=right, seed=right) for right in (20, 22)]

    result = line(reported(outcomes), "base")

    assert result.seeds == 2
    assert result.validation.bleu.value == pytest.approx(21)
    assert result.validation.bleu.margin == pytest.approx(12.706205)


def test_the_margin_of_eleven_seeds_is_students_too():
    """BLEU 20 to 30: the standard deviation is √11, and t with 10 degrees of freedom 2.2281."""
    outcomes = [outcome("base", nats=2.0, right=right, seed=right) for right in range(20, 31)]

    result = line(reported(outcomes), "base")

    assert result.validation.bleu.margin == pytest.approx(2.228139)


def test_with_seeds_a_row_differs_if_it_does_so_seed_by_seed():
    outcomes = [
        *(outcome("base", nats=nats, right=20, seed=seed) for seed, nats in ((1, 2.0), (2, 2.5))),
        *(outcome("C5", nats=nats, right=20, seed=seed) for seed, nats in ((1, 1.5), (2, 2.0))),
        *(outcome("A1", nats=nats, right=20, seed=seed) for seed, nats in ((1, 2.4), (2, 2.1))),
    ]

    result = reported(outcomes)

    assert line(result, "A1").validation.perplexity_side == "unclear"
    assert (
        line(result, "C5").validation.perplexity.value
        < line(result, "base").validation.perplexity.value
    )


def test_perplexities_are_compared_as_losses():
    """Seeds that shift every loss alike shift perplexities by more, the larger they are."""
    result = reported(
        [
            outcome(row, nats=nats + 0.5 * seed, right=20, seed=seed)
            for row, nats in (("base", 2.0), ("C1", 2.3))
            for seed in (1, 2, 3)
        ]
    )

    assert line(result, "C1").validation.perplexity_side == "worse"


def test_a_row_alone_is_reported_without_a_side():
    result = reported([outcome("C5", nats=2.0, right=20)])

    assert line(result, "C5").validation.bleu_side == "unclear"
    assert result.agreements == ()


def test_the_page_shows_both_figures_and_marks_the_sides(table3: Table3Report):
    text = page(record_of(table3))

    (row,) = [text for text in text.splitlines() if text.startswith("| C1 |")]
    assert "| 6.11 |" in row
    assert "| 23.7 |" in row
    assert row.count("▼") == 2
    assert "BLEU of D1 above base" in text.split("Against the paper's order by more")[1]
