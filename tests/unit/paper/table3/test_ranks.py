import pytest

from transduce.paper.table3.report import compare, ranks


def test_the_same_order_correlates_fully():
    result = compare([1.0, 2.0, 5.0], [3.0, 7.0, 8.0])

    assert (result.agree, result.disagree, result.tied) == (3, 0, 0)
    assert (result.spearman, result.kendall) == (1.0, 1.0)


def test_the_reverse_order_correlates_fully_the_other_way():
    result = compare([1.0, 2.0, 5.0], [8.0, 7.0, 3.0])

    assert (result.agree, result.disagree) == (0, 3)
    assert (result.spearman, result.kendall) == (-1.0, -1.0)


def test_ties_are_worked_out_by_hand():
    """Ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: ρ = 4.5 / √(4.5 · 5), τ-b = 5 / √(5 · 6)."""
    result = compare([1.0, 4.0, 4.0, 9.0], [2.0, 3.0, 5.0, 7.0])

    assert (result.agree, result.disagree, result.tied) == (5, 0, 1)
    assert result.spearman == pytest.approx(0.948683)
    assert result.kendall == pytest.approx(0.912871)


def test_a_row_of_equal_numbers_has_no_order():
    result = compare([2.0, 2.0, 2.0], [1.0, 2.0, 3.0])

    assert (result.spearman, result.kendall, result.tied) == (None, None, 3)


def test_equal_values_share_the_mean_of_their_ranks():
    assert ranks([3.0, 1.0, 3.0, 3.0]) == [3.0, 1.0, 3.0, 3.0]
