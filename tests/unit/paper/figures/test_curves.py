"""Equation (3) as a curve."""

import pytest

from transduce.paper.figures.formulas import measure_curves


def test_base_and_big_peak_where_and_as_high_as_the_paper_has_it():
    base, big, *others = measure_curves(every=500).curves

    assert (base.peak_at, base.peak) == (4_000, pytest.approx(6.99e-4, abs=5e-7))
    assert (big.peak_at, big.peak) == (4_000, pytest.approx(4.94e-4, abs=5e-7))
    assert [curve.peak_at for curve in others] == [2_000, 16_000]
