"""Anomalies: what is asked, what is left out, and that every figure is that of its definition."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from experiment_worlds import run as run_in_world
from experiment_worlds import target, without
from painted_pictures import ANOMALIES, CLASSES, NORMAL, pictures

from vectrial.datasets.truth import truth_of
from vectrial.model.capabilities import Index, NoParams
from vectrial.model.context import Data
from vectrial.model.dataset import Dataset
from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.filters import Eq
from vectrial.model.labels import ANOMALOUS, CLASS, DEFECT, GOOD, find_duplicates
from vectrial.model.metric import Metric
from vectrial.model.phase import Phase
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.stores.hnswlib import HnswlibStore
from vectrial.stores.memory import MemoryStore
from vectrial_reproduce.experiments.anomaly.experiment import Anomaly, _recalls, select_queries

FLAT = Index("flat", NoParams())
FAST = {"min_s": 0, "max_s": 600, "warmup_queries": 5}


def by_name(phases: list[Phase]) -> dict[str, Phase]:
    return {str(phase.params.get("of", phase.name)): phase for phase in phases}


def cosines(dataset: Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The nearest cosine of each query of a class within it, and which are anomalies."""
    known = dataset.query_metadata
    assert known is not None
    assert dataset.metadata is not None
    rows = np.array(dataset.metadata.column(CLASS).to_pylist()) == name
    asked = np.array(known.column(CLASS).to_pylist()) == name
    unit = [
        part / np.linalg.norm(part, axis=1, keepdims=True)
        for part in (
            dataset.queries[asked].astype(np.float64),
            dataset.vectors[rows].astype(np.float64),
        )
    ]
    return (unit[0] @ unit[1].T).max(axis=1), np.array(known.column(ANOMALOUS))[asked]


def test_exact_search_has_the_figures_of_the_definition(tmp_path: Path) -> None:
    dataset = pictures()
    phases = by_name(run_in_world(Anomaly(**FAST), MemoryStore, tmp_path, given=dataset))
    aurocs = []
    for name in CLASSES:
        nearest, anomalous = cosines(dataset, name)
        normal, odd = nearest[~anomalous], nearest[anomalous]
        wins = (odd[:, None] < normal[None]).mean() + 0.5 * (odd[:, None] == normal[None]).mean()
        found = phases[name].metrics
        assert found["auroc"] == pytest.approx(wins)
        assert found["auroc_exact"] == pytest.approx(wins)
        threshold = found["threshold"]
        assert threshold is not None
        # A threshold for a twentieth, of 25: the least of them.
        assert np.abs(normal - threshold).min() < 1e-6
        assert found["detection_rate"] == pytest.approx((odd < threshold - 1e-9).mean())
        assert found["fixed_detection_rate"] == pytest.approx((odd < 0.85).mean())
        assert found["held_out_queries"] == found["normal_queries"] == NORMAL / 2
        assert found["anomalous_queries"] == ANOMALIES
        assert found["recall_mean"] == 1.0
        aurocs.append(wins)
    assert phases["classes"].metrics["auroc"] == pytest.approx(np.mean(aurocs))
    assert phases["classes"].metrics["anomalous_queries"] == 3 * ANOMALIES
    assert phases["together"].metrics["held_out_queries"] == 3 * NORMAL / 2
    search = phases["search"]
    assert search.valid
    assert search.params["returns"] == "vectors"
    assert search.metrics["recall_mean"] == 1.0
    assert (search.metrics["count"] or 0) % len(dataset.queries) == 0


def test_a_careless_index_is_judged_beside_exact_search(tmp_path: Path) -> None:
    sloppy = Anomaly(search={"ef_search": 10}, score="mean", **FAST)
    phases = by_name(run_in_world(sloppy, HnswlibStore, tmp_path, index="hnsw", given=pictures()))
    exact = by_name(run_in_world(sloppy, MemoryStore, tmp_path / "exact", given=pictures()))
    for name in (*CLASSES, "classes", "together"):
        for metric in ("auroc", "threshold", "detection_rate", "false_alarm_rate"):
            theirs = phases[name].metrics[f"{metric}_exact"]
            assert theirs == pytest.approx(exact[name].metrics[metric], abs=1e-6), (name, metric)
    timed, untimed = phases["search"].metrics, phases["classes"].metrics
    assert untimed["recall_mean"] == pytest.approx(timed["recall_mean"])


def test_no_more_than_the_first_k_count() -> None:
    dataset = pictures()
    truth = truth_of(dataset, 10, None)
    every = np.sort(dataset.ids)
    for answer, wanted in (
        (truth.ids[0], 1.0),
        (np.append(every[~np.isin(every, truth.ids[0])], truth.ids[0]), 0.0),
    ):
        assert _recalls([answer], truth)[0] == wanted


def test_copies_are_left_out_and_counted(tmp_path: Path) -> None:
    dataset = pictures()
    known = dataset.query_metadata
    assert known is not None
    first = np.array(known.column(CLASS).to_pylist()) == CLASSES[0]
    twice, stored = np.flatnonzero(first)[:4], dataset.vectors[:3]
    labels = pa.table({CLASS: [CLASSES[0]] * 3, ANOMALOUS: [False] * 3, DEFECT: [GOOD] * 3})
    doubled = replace(
        dataset,
        queries=np.concatenate([dataset.queries, dataset.queries[twice], stored]),
        query_metadata=pa.concat_tables([known, known.take(twice), labels]),
        fingerprint="doubled",
    )
    alone = by_name(run_in_world(Anomaly(**FAST), MemoryStore, tmp_path / "alone", given=dataset))
    with_copies = by_name(run_in_world(Anomaly(**FAST), MemoryStore, tmp_path / "2", given=doubled))
    assert with_copies["search"].metrics["duplicate_queries"] == 4
    assert with_copies["search"].metrics["stored_queries"] == 3
    assert alone["search"].metrics["duplicate_queries"] == 0
    for name in (*CLASSES, "together"):
        assert with_copies[name].metrics == pytest.approx(alone[name].metrics), name


def test_anomalies_may_be_timed_alone_and_twice(tmp_path: Path) -> None:
    """As a published report asked them; what is judged stays the same."""
    dataset = pictures()
    plain = Anomaly(**FAST)
    doubled = Anomaly(timed="anomalies", copies=2, **FAST)
    alone = by_name(run_in_world(plain, MemoryStore, tmp_path / "alone", given=dataset))
    twice = by_name(run_in_world(doubled, MemoryStore, tmp_path / "twice", given=dataset))
    assert alone["search"].metrics["count"] == len(dataset.queries)
    assert twice["search"].metrics["count"] == 2 * 3 * ANOMALIES
    assert twice["search"].metrics["recall_mean"] == 1.0
    assert twice["search"].params["copies"] == 2
    assert "copies" not in alone["search"].params
    for name in (*CLASSES, "together"):
        assert twice[name].metrics == pytest.approx(alone[name].metrics), name
        assert twice[name].params == alone[name].params


def test_nothing_but_copies_is_refused(tmp_path: Path) -> None:
    dataset = pictures()
    labels = pa.table({CLASS: [CLASSES[0]], ANOMALOUS: [False], DEFECT: [GOOD]})
    copy = replace(
        dataset, queries=dataset.vectors[:1], query_metadata=labels, fingerprint="a copy"
    )
    with pytest.raises(StoreError, match="every query is a copy"):
        run_in_world(Anomaly(**FAST), MemoryStore, tmp_path, given=copy)


def test_the_same_picture_under_another_class_is_another_query() -> None:
    one = np.ones((1, 4), np.float32)
    zeros = np.array([[0.0, 1, 1, 1], [-0.0, 1, 1, 1]], np.float32)
    twice, stored = find_duplicates(np.repeat(one, 3, axis=0), ["a", "b", "a"], one, ["b"])
    assert twice.tolist() == [False, False, True]
    assert stored.tolist() == [False, True, False]
    assert find_duplicates(zeros, ["a", "a"], one, ["b"])[0].tolist() == [False, True]


def test_too_few_held_out_queries_give_no_threshold(tmp_path: Path) -> None:
    asked = Anomaly(false_alarms=0.01, **FAST)
    phases = by_name(run_in_world(asked, MemoryStore, tmp_path, given=pictures()))
    for name in (CLASSES[0], "classes"):
        found = phases[name]
        assert found.metrics["auroc"] is not None
        assert found.metrics["detection_rate"] is None
        assert "too few for a false-alarm rate of 0.01" in found.missing["detection_rate"]
        assert found.metrics["fixed_detection_rate"] is not None


def test_the_truth_of_some_queries(tmp_path: Path) -> None:
    dataset = pictures()
    keep = np.array([3, 150, 7])
    part = replace(dataset, queries=dataset.queries[keep], fingerprint="part")
    assert dataset.query_metadata is not None
    where = [Eq(CLASS, str(name)) for name in dataset.query_metadata.column(CLASS).to_pylist()]
    expected = truth_of(part, 10, [where[i] for i in keep])
    found = select_queries(truth_of(dataset, 10, where), keep)
    for name in ("ids", "distances", "available", "accept_offsets", "accept_ids"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def refusal(fields: tuple[Field, ...], known: frozenset[str]) -> str:
    experiment = Anomaly()
    (point,) = experiment.points(target(MemoryStore, FLAT, 100))
    data = Data(Schema(4, Metric.COSINE, fields), 100, None, known)
    try:
        experiment.check_point(target(MemoryStore, FLAT, data), point)
    except Unsupported as error:
        return str(error)
    return ""


def test_data_without_labels_and_stores_without_filters_are_refused() -> None:
    column, known = (Field(CLASS, FieldType.STRING),), frozenset({CLASS, ANOMALOUS})
    assert refusal(column, known) == ""
    assert "does not say" in refusal((), known)
    assert "does not say" in refusal(column, frozenset({CLASS}))
    for lacking in (frozenset[str](), frozenset({"range"})):
        kind = without(MemoryStore, filters=lacking)
        with pytest.raises(Unsupported, match=r"no search under a filter|cannot filter with"):
            Anomaly().points(target(kind, FLAT, 100))
