"""What is wrong with the published figures is found in the figures, not known beforehand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vectrial.model.consistency import contradictions
from vectrial_reproduce.reports import REPRODUCTIONS
from vectrial_reproduce.reports.collect import cells
from vectrial_reproduce.reports.inconsistencies import inconsistencies
from vectrial_reproduce.reports.published import PublishedFigure, figures


def doubted(
    report: str, experiment: str = "", says: str = ""
) -> Iterator[tuple[PublishedFigure, str]]:
    """Figures that are doubted, and why."""
    for figure, why in zip(figures(report), inconsistencies(report), strict=True):
        for sentence in why:
            if experiment in ("", figure.experiment) and says in sentence:
                yield figure, sentence


def test_result_files_that_have_more_in_flight_than_clients_are_found() -> None:
    """Trap 000-1: by the figures that are kept of them 25 of 54 files break Little's law."""
    found = {f.source for f, _ in doubted("milvus-weaviate", "result_files", "more than can be")}
    assert len(found) == 25
    worst = [why for _, why in doubted("milvus-weaviate", "result_files", "is 7.29")]
    assert worst, "7.3 requests of one client in flight"


def test_figures_that_share_their_decimals_are_found() -> None:
    """Trap 000-1: 97.534, 103.534, 185.534 … of one store."""
    found = list(doubted("milvus-weaviate", "result_files", "end in ."))
    assert {why.rpartition(".")[2] for _, why in found} >= {"0316", "9496", "4902"}
    assert {f.params["dataset"] for f, _ in found} <= {"arxiv-titles-384", "h-and-m-2048"}


def test_a_series_that_stands_under_two_settings_is_found() -> None:
    """Trap 000-2: what two shards did is filed as what one did."""
    found = {
        (f.experiment, f.params["ef_search"], f.params.get("shards"))
        for f, _ in doubted("milvus-weaviate", says="the very values of")
    }
    assert found == {("result_files", 512, None), ("sharded_concurrency", 512, 2)}


def test_one_thing_with_two_values_is_found() -> None:
    """Trap 000-8: 414.0 in figure 14, 474.6 in the result file."""
    found = {f.value for f, _ in doubted("milvus-weaviate", "concurrency", "474.632 queries/s")}
    assert found == {414.0}


def test_a_number_without_a_unit_is_told_without_one() -> None:
    """Not '0.882 1 in figure 18'."""
    said = [why for f, why in doubted("milvus-weaviate", says=" in ") if f.metric == "recall"]
    assert said
    assert not any(" 1 in " in why for why in said)


def test_less_on_disk_than_the_raw_vectors_is_found() -> None:
    """Trap 000-7, and nothing else that was read off that plot."""
    found = [f for f, _ in doubted("milvus-weaviate", "storage")]
    assert [(f.store, f.value) for f in found] == [("Weaviate", 450.0)]


def test_a_table_of_rates_that_is_not_the_inverse_of_its_times_is_found() -> None:
    """Trap 001-4: 1,000,000 rows in 4,366.8 s are not 22 rows a second."""
    taken = {"count": 1e6, "duration_s": 4366.8}
    (said,) = contradictions({**taken, "qps": 22.0}, rounding=0.5 / 22)
    assert said == "1,000,000 in 4367 s are 229/s, not 22/s"
    assert not contradictions({**taken, "qps": 229.0}, rounding=0.5 / 229)


def test_builds_that_depend_on_later_searches_are_found() -> None:
    """Trap 004-2: Weaviate's 32/128 took 673 to 1,384 s."""
    found = {
        (f.store, f.params["m"], f.params["ef_construction"])
        for f, _ in doubted("docarray-sift1m", says="one and the same build")
    }
    assert ("Weaviate", 32, 128) in found
    assert all(store != "Redis" for store, _, _ in found)


def test_builds_that_depend_on_nothing_are_found() -> None:
    """Trap 004-3: Qdrant's index was not waited for; the others' builds are not blamed."""
    found = [f for f, _ in doubted("docarray-sift1m", says="was not waited for")]
    assert {f.store for f in found} == {"Qdrant"}
    assert len(found) == 24
    said = {why for _, why in doubted("docarray-sift1m", says="was not waited for")}
    (one,) = said
    values = [f.value for f in found]
    assert f"{min(values):g} to {max(values):g} s" in one, "what the table shows"


@pytest.mark.parametrize("report", ["docarray-1m", "longbow", "aistor-index"])
def test_figures_that_contradict_nothing_are_left_alone(report: str) -> None:
    assert not any(inconsistencies(report))


def test_a_doubt_stands_beside_the_figure() -> None:
    every = cells(REPRODUCTIONS["milvus-weaviate"], {}, known=())
    said = [cell.note for cell in every if "doubtful as published" in cell.note]
    assert len(said) == sum(map(bool, inconsistencies("milvus-weaviate")))
