"""Quantiles of the last values of a series, against numpy's of the same values."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.sliding_quantile import SlidingQuantile


@pytest.mark.parametrize("most", [1, 2, 24, 250])
def test_it_agrees_with_numpy_at_every_moment(most: int) -> None:
    values = np.round(np.random.default_rng(most).normal(0, 3, 600), 1).tolist()  # many are equal
    found = SlidingQuantile(most)
    for count, value in enumerate(values, 1):
        found.add(value)
        kept = values[max(count - most, 0) : count]
        assert len(found) == len(kept)
        for share in (0.0, 0.1, 0.5, 0.75, 0.95, 1.0):
            assert found.at(share) == pytest.approx(float(np.percentile(kept, 100 * share)), abs=1e-12)


def test_nothing_has_no_quantile() -> None:
    with pytest.raises(IndexError):
        SlidingQuantile(3).at(0.5)
