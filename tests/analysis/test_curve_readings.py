"""Figures at a recall, read off the curves of a committed run from settings four times apart."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import pytest

from vectrial.analysis.growth_curves import _searches
from vectrial.analysis.run_data import load
from vectrial.stats.curves import read_at

BUNDLE = Path(__file__).parents[2] / "docs" / "results" / "growth" / "run.vectrial.tar.gz"


@pytest.mark.slow
def test_a_setting_that_is_left_out_is_read_off_its_neighbours_without_a_bias() -> None:
    """Linear in recall, they were 16 % too low."""
    errors = []
    for (_, _, clients), points in _searches(load(BUNDLE)).items():
        if clients > 1:
            continue
        curve = sorted(
            (int(p.params["ef_search"]), p.value("recall_mean") or 0.0, p.value("qps") or 0.0)
            for p in points
        )
        for low, left_out, high in zip(curve, curve[2:], curve[4:], strict=False):
            if low[1] < left_out[1] < high[1] and left_out[1] < 0.995:
                read = read_at([low[1:], high[1:]], left_out[1])
                if read is not None:
                    errors.append(math.log(read.value / left_out[2]))
    assert len(errors) > 100
    assert abs(statistics.fmean(errors)) < 0.03
    assert statistics.median(map(abs, errors)) < 0.06
