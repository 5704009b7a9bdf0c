"""The recorder as Python sees it; the engine's own tests show that merging loses nothing."""

from __future__ import annotations

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial._engine import (
    Judge,
    Recorder,
    histogram_buckets,
    histogram_merge,
    histogram_quantiles,
)
from vectrial.model.results_schema import METRICS

S = 1_000_000_000


def ids(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@pytest.fixture
def judge() -> Judge:
    """k=3; query 0 has a tie at its third place, 1 has two matches, 2 has none."""
    return Judge(3, ids(0, 4, 6, 6), ids(1, 2, 3, 4, 7, 8), ids(3, 2, 0))


def started(judge: Judge | None = None, at: int = 0) -> Recorder:
    recorder = Recorder(judge)
    recorder.start(at)
    return recorder


@pytest.mark.parametrize(
    ("query", "answer", "recall"),
    [
        (0, (1, 2, 3), 1.0),
        (0, (4, 2, 1), 1.0),  # the tie counts
        (0, (1, 1, 2), 2 / 3),  # a duplicate counts once
        (0, (9, 9, 9, 1), 0.0),  # only the first k are looked at
        (1, (8, 7), 1.0),  # fewer than k exist
        (1, (8,), 0.5),
        (2, (), 1.0),
        (2, (1,), 0.0),
    ],
)
def test_recall_is_tie_aware(
    judge: Judge, query: int, answer: tuple[int, ...], recall: float
) -> None:
    assert judge.recall(query, ids(*answer)) == pytest.approx(recall, abs=0)


def test_strided_ids_are_read_as_they_are(judge: Judge) -> None:
    assert judge.recall(0, ids(1, 9, 2, 9, 3, 9)[::2]) == 1.0


def test_summary_has_every_figure_of_the_same_samples(judge: Judge) -> None:
    recorder = started(judge, at=5)
    recorder.answer(0, 5, 10, 1005, ids(1, 2, 3))
    recorder.answer(1, 5, 10, 3005, ids(7, 7))
    recorder.answer(1, 5, 10, 2005, ids(7))
    recorder.error(5, 6, 9005, "Timeout", "too slow")
    recorder.finish(2 * S + 5)
    seen = recorder.summary()
    assert recorder.samples() == 4
    assert seen.keys() <= METRICS.keys()
    assert (seen["count"], seen["errors"], seen["saturated"]) == (3, 1, 0)
    assert (seen["incomplete_results"], seen["duplicate_answers"]) == (1, 1)
    assert seen["qps"] == 1.5
    assert (seen["latency_min"], seen["latency_mean"], seen["latency_max"]) == (1.0, 2.0, 3.0)
    assert seen["latency_p50"] == pytest.approx(2.0, rel=1e-3)
    for name in ("latency_p90", "latency_p95", "latency_p99", "latency_p99_9"):
        assert seen[name] == pytest.approx(3.0, rel=1e-3)
    assert seen["recall_mean"] == pytest.approx(2 / 3)
    assert (seen["recall_p05"], seen["recall_min"]) == (0.5, 0.5)
    assert recorder.errors() == [("Timeout", 1, ["too slow"])]
    sums, answers = recorder.query_recall()
    assert sums.tolist() == [1.0, 1.0, 0.0]
    assert answers.tolist() == [1, 2, 0]


def test_nothing_recorded_has_no_figures() -> None:
    recorder = started()
    recorder.finish(S)
    seen = recorder.summary()
    assert (seen["count"], seen["errors"], seen["qps"]) == (0, 0, 0.0)
    assert {seen[name] for name in seen if name.startswith(("latency", "recall"))} == {None}
    assert recorder.windows()["count"] == [0]


def test_windows_cover_the_phase_with_their_own_figures(judge: Judge) -> None:
    recorder = started(judge)
    recorder.answer(0, 0, 0, 1000, ids(1, 2, 9))
    recorder.answer(0, S, 2 * S, 2 * S + 500, ids(1, 2, 3))
    recorder.error(S, 2 * S, 2 * S + 1, "E", "m")
    recorder.finish(4 * S)
    windows = recorder.windows()
    assert windows["second"] == [0, 1, 2, 3]
    assert windows["count"] == [1, 0, 1, 0]
    assert windows["errors"] == [0, 0, 1, 0]
    assert windows["max_us"] == [1.0, None, 1_000_000.5, None]
    assert windows["recall"] == [pytest.approx(2 / 3, abs=1e-9), None, 1.0, None]


def test_beyond_100_s_saturates_visibly() -> None:
    recorder = started()
    recorder.operation(0, 0, 250 * S)
    recorder.finish(250 * S)
    seen = recorder.summary()
    assert (seen["saturated"], seen["latency_max"], seen["latency_mean"]) == (1, 250e6, 250e6)
    assert histogram_quantiles(recorder.histogram("latency"), [1.0])[0] == pytest.approx(
        1e8, rel=1e-3
    )


def test_an_hour_of_windows_stays_small(judge: Judge) -> None:
    before = psutil.Process().memory_info().rss
    recorder = started(judge)
    rng = np.random.default_rng(1)
    latencies = rng.lognormal(np.log(60_000), 0.5, (3600, 30)).astype(int).tolist()
    for second, row in enumerate(latencies):
        for i, ns in enumerate(row):
            sent = second * S + i * 1_000_000
            recorder.answer(0, sent, sent, sent + ns, ids(1, 2, 3))
    recorder.finish(3600 * S)
    assert sum(recorder.windows()["count"]) == 3600 * 30
    assert psutil.Process().memory_info().rss - before < 30e6


def invalid_calls(judge: Judge) -> dict[str, object]:
    ready = started(judge, at=100)
    done = started(judge, at=100)
    done.finish(200)
    other = started(judge, at=101)
    return {
        "no such query": lambda: ready.answer(3, 100, 100, 200, ids(1)),
        "negative query": lambda: ready.answer(-1, 100, 100, 200, ids(1)),
        "time runs backwards": lambda: ready.answer(0, 100, 100, 99, ids(1)),
        "before the start": lambda: ready.operation(99, 100, 101),
        "ids are int32": lambda: ready.answer(0, 100, 100, 200, np.array([1], np.int32)),
        "ids are uint64": lambda: ready.answer(0, 100, 100, 200, np.array([1], np.uint64)),
        "ids are a list": lambda: ready.answer(0, 100, 100, 200, [1]),
        "ids are a matrix": lambda: ready.answer(0, 100, 100, 200, np.zeros((1, 2), np.int64)),
        "not started": lambda: Recorder().operation(1, 1, 1),
        "started twice": lambda: ready.start(100),
        "finished before": lambda: done.operation(100, 100, 150),
        "ends before it starts": lambda: ready.finish(99),
        "no such histogram": lambda: ready.histogram("latencies"),
        "merged into itself": lambda: ready.merge(ready),
        "other start": lambda: ready.merge(other),
        "other judge": lambda: ready.merge(started(None, at=100)),
        "no window": lambda: Recorder(window_ns=0),
        "negative window": lambda: Recorder(window_ns=-1),
        "too many windows": lambda: ready.operation(100, 100, 1 << 62),
        "k of 0": lambda: Judge(0, ids(0), ids(), ids()),
        "k below 0": lambda: Judge(-1, ids(0), ids(), ids()),
        "offsets too few": lambda: Judge(1, ids(0), ids(1), ids(1)),
        "offsets of int32": lambda: Judge(1, np.array([0, 1], np.int32), ids(1), ids(1)),
        "ids that descend": lambda: Judge(2, ids(0, 2), ids(2, 1), ids(2)),
        "more available than k": lambda: Judge(1, ids(0, 2), ids(1, 2), ids(2)),
        "no histogram": lambda: histogram_merge([b"none"]),
        "cut off": lambda: histogram_quantiles(ready.histogram("latency")[:-1], [0.5]),
        "empty": lambda: histogram_quantiles(ready.histogram("latency"), [0.5]),
        "no quantile": lambda: histogram_quantiles(_one(), [1.5]),
        "quantile is nan": lambda: histogram_quantiles(_one(), [float("nan")]),
        "no bytes": lambda: histogram_buckets(b""),
    }


def _one() -> bytes:
    recorder = started()
    recorder.operation(0, 0, 5)
    return recorder.histogram("latency")


@pytest.mark.parametrize("what", list(invalid_calls(Judge(3, ids(0, 3), ids(1, 2, 3), ids(3)))))
def test_an_invalid_argument_is_a_value_error_that_says_what(judge: Judge, what: str) -> None:
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        invalid_calls(judge)[what]()  # type: ignore[operator]


@given(st.binary(max_size=200))
def test_foreign_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not an HDR histogram"):
        histogram_merge([data])


@given(st.lists(st.lists(st.integers(1, 10**10), min_size=1, max_size=60), min_size=1, max_size=4))
def test_histograms_merge_and_answer_within_three_digits(parts: list[list[int]]) -> None:
    encoded = []
    for part in parts:
        recorder = started()
        for ns in part:
            recorder.operation(0, 0, ns)
        encoded.append(recorder.histogram("latency"))
    merged = histogram_merge(encoded)
    everything = np.sort(np.concatenate(parts)) / 1e3
    bounds, counts = histogram_buckets(merged)
    assert counts.sum() == len(everything)
    assert bounds[-1] == pytest.approx(everything[-1], rel=1e-3)
    quantiles = [0.1, 0.5, 0.9, 0.99, 1.0]
    exact = np.quantile(everything, quantiles, method="inverted_cdf")
    assert histogram_quantiles(merged, quantiles) == pytest.approx(exact, rel=1e-3)
