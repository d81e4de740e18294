"""Rows that differ, from measurements that are made up."""

import pytest

from transduce.paper.table3.significance import differing_rows, holm, student_p


def test_a_difference_has_to_outweigh_the_number_of_rows():
    """p is 0.03 for each: enough for one row, not for four (Holm)."""
    assert holm({"C1": 0.03}) == ["C1"]
    assert holm({"C1": 0.03, "C2": 0.03, "C3": 0.03, "C5": 0.03}) == []


@pytest.mark.parametrize(
    ("freedom", "t"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (6, 2.4469), (26, 2.0555)]
)
def test_students_t_has_its_printed_quantiles(freedom: int, t: float):
    assert student_p(t, freedom=freedom) == pytest.approx(0.05, abs=1e-5)
    assert student_p(-t, freedom=freedom) == student_p(t, freedom=freedom)


def test_with_one_other_row_it_is_the_paired_t_test():
    """Differences 1, 2 and 3: t is 3.46 with two degrees of freedom; 1.9, 2 and 2.1: t is 34.6."""
    assert differing_rows({"base": [5.0, 5.0, 5.0], "C1": [6.0, 7.0, 8.0]}, than="base") == {}
    assert differing_rows({"base": [5.0, 5.0, 5.0], "C1": [6.9, 7.0, 7.1]}, than="base") == {
        "C1": pytest.approx(2.0)
    }


def test_the_spread_is_that_of_all_rows():
    """C1 alone would not be told from the base row; among rows that hardly vary it is."""
    pair = {"base": [5.0, 5.0, 5.0], "C1": [6.0, 7.0, 8.0]}
    others = {f"A{n}": [5.0, 5.0 + 0.1 * n, 5.0 - 0.1 * n] for n in range(6)}

    assert differing_rows(pair, than="base") == {}
    assert differing_rows(pair | others, than="base") == {"C1": 2.0}


def test_what_all_rows_have_of_a_seed_is_no_spread():
    shift = {"base": [5.0, 9.0, 1.0], "A1": [5.0, 9.1, 1.0], "C1": [5.5, 9.5, 1.5]}

    assert differing_rows(shift, than="base") == {"C1": pytest.approx(0.5)}


def test_a_row_whose_seeds_disagree_differs_by_no_mean():
    others = {f"A{n}": [5.0, 5.0, 5.1] for n in range(20)}

    assert (
        differing_rows({"base": [5.0, 5.0, 5.0], "C1": [9.0, 9.0, 4.9]} | others, than="base") == {}
    )


def test_a_row_with_fewer_seeds_is_left_out():
    assert differing_rows({"base": [5.0, 5.0, 5.0], "C1": [7.0, 7.0]}, than="base") == {}
