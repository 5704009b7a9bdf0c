"""The published figures: all there, all readable, and fit to be compared with."""

from __future__ import annotations

from collections import Counter

import pytest

from vectrial.model.errors import UserError
from vectrial_reproduce.reports import REPRODUCTIONS
from vectrial_reproduce.reports.published import UNITS, PublishedFigure, figures

COUNTS = {
    "milvus-weaviate": 292,
    "docarray-1m": 84,
    "longbow": 29,
    "aistor-index": 4,
    "docarray-sift1m": 854,
}


def test_every_report_has_all_its_figures() -> None:
    assert {report: len(figures(report)) for report in REPRODUCTIONS} == COUNTS


@pytest.mark.parametrize("report", REPRODUCTIONS)
def test_every_figure_says_what_it_is_and_where_it_stands(report: str) -> None:
    for figure in figures(report):
        assert figure.unit in UNITS
        assert figure.value > 0
        assert figure.source
        assert figure.store
        assert "dataset" in figure.params


@pytest.mark.parametrize("report", REPRODUCTIONS)
def test_no_figure_stands_twice(report: str) -> None:
    def identity(figure: PublishedFigure) -> tuple[object, ...]:
        return (figure.experiment, figure.store, tuple(figure.params.items()), figure.metric)

    (_, most), *_ = Counter(map(identity, figures(report))).most_common(1)
    assert most == 1


def test_the_sift_grids_are_complete() -> None:
    grid = {(m, c, s) for m in (16, 32) for c in (64, 128, 256) for s in (32, 64, 128, 256)}
    for store in ("AnnLite", "Qdrant", "Weaviate", "ElasticSearch", "Redis"):
        rows = [f for f in figures("docarray-sift1m") if f.store == store and f.metric == "create"]
        held = {(f.params["m"], f.params["ef_construction"], f.params["ef_search"]) for f in rows}
        assert held == grid
        assert len(rows) == 24


def test_an_unknown_report_is_named() -> None:
    with pytest.raises(UserError, match="docarray-1"):
        figures("docarray-1b")
