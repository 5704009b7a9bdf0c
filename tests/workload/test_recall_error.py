"""How far the recall of a phase that the clock ended may be from that of whole passes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from vectrial._engine import Recorder
from vectrial.model.dataset import Truth
from vectrial.workload.python.closed_loop import closed_loop
from vectrial.workload.record import recall_error

QUERIES, K = 40, 4
RECALLS = np.random.default_rng(3).integers(0, K + 1, QUERIES) / K


def error_of(counts: NDArray[np.int64]) -> float | None:
    return recall_error(RECALLS * counts, counts)


@given(st.integers(1, 5))
def test_whole_passes_have_none(passes: int) -> None:
    assert error_of(np.full(QUERIES, passes)) == 0.0


def test_without_answers_nothing_is_known() -> None:
    assert error_of(np.zeros(QUERIES, np.int64)) is None
    assert error_of(np.eye(1, QUERIES, dtype=np.int64)[0]) is None
    assert recall_error(np.zeros(0), np.zeros(0, np.int64)) is None


def test_it_is_that_of_a_sample_without_replacement() -> None:
    counts = np.zeros(QUERIES, np.int64)
    counts[:10] = 1
    deviation = RECALLS[:10].std(ddof=1)
    assert error_of(counts) == pytest.approx(1.96 * deviation / 10**0.5 * (1 - 10 / QUERIES) ** 0.5)


@pytest.mark.parametrize("asked", [(20,), (70,), (13, 27, 61)])
def test_it_covers_the_recall_of_whole_passes(asked: tuple[int, ...]) -> None:
    """95 of 100 times, of so many requests by each client, each in an order of its own."""
    rng = np.random.default_rng(11)
    covered, rounds = 0, 2000
    for _ in range(rounds):
        counts = np.zeros(QUERIES, np.int64)
        for requests in asked:
            counts += requests // QUERIES
            counts[rng.permutation(QUERIES)[: requests % QUERIES]] += 1
        error = error_of(counts)
        assert error is not None
        mean = (RECALLS * counts).sum() / counts.sum()
        covered += abs(mean - RECALLS.mean()) <= error
    assert 0.92 < covered / rounds < 0.98


def searched(count: int) -> dict[str, float | None]:
    """Metrics of so many searches, each with the recall of its query."""
    ids = np.arange(QUERIES * K).reshape(QUERIES, K)
    full = np.full(QUERIES, K)
    offsets = np.arange(QUERIES + 1) * K
    truth = Truth(K, ids, np.zeros(ids.shape), full, offsets, ids.ravel())
    found = {q: ids[q][: round(RECALLS[q] * K)] for q in range(QUERIES)}

    def search(vector: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        right = found[int(vector[0])]
        answer = np.full(K, 10**6, np.int64)
        answer[: len(right)] = right
        answer[len(right) :] += np.arange(K - len(right))
        return answer, np.zeros(K, np.float32)

    queries = np.arange(QUERIES, dtype=np.float32)[:, None]
    phase = closed_loop(search, queries, truth, warmup_count=0, count=count)
    assert phase.valid, phase.reason
    return phase.metrics


def test_a_phase_has_it() -> None:
    whole, part = searched(2 * QUERIES), searched(QUERIES + 7)
    assert whole["recall_error"] == 0.0
    assert whole["recall_mean"] == pytest.approx(RECALLS.mean())
    error = part["recall_error"]
    assert error is not None
    assert 0 < error < 0.1


def test_a_phase_without_truth_has_none() -> None:
    recorder = Recorder()
    assert recall_error(*recorder.query_recall()) is None
    queries = np.arange(QUERIES, dtype=np.float32)[:, None]
    ids, scores = np.arange(K), np.zeros(K, np.float32)
    phase = closed_loop(lambda vector: (ids, scores), queries, None, warmup_count=0, count=3)
    assert "recall_error" not in phase.metrics
