"""What recording costs: one judged answer (k = 10) handed to the recorder from Python.

Beside it the least that a harness could do, appending a tuple of the same values to a list, with
nothing judged and memory that grows. Nanoseconds of the thread's processor time per call, so that
other work on the machine hardly shows; the loop around the call is measured apart and taken off.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

import harness
from vectrial._engine import Judge, Recorder

K = 10
QUERIES = 1000
SAMPLES = 100_000
Sample = tuple[int, int, int, np.ndarray]


def truth(rng: np.random.Generator) -> tuple[Judge, list[np.ndarray]]:
    """A judge, and an answer to each query of which nine ids in ten are right."""
    exact = np.sort(np.argsort(rng.random((QUERIES, 5000)), axis=1)[:, :K])
    offsets = np.arange(0, QUERIES * K + 1, K)
    judge = Judge(K, offsets, exact.ravel(), np.full(QUERIES, K))
    answers = [rng.permutation(ids) for ids in exact]
    for ids in answers:
        ids[-1] = 6000
    return judge, answers


def samples(rng: np.random.Generator, answers: list[np.ndarray], start: int) -> list[Sample]:
    """(query, sent, done, ids), one every 100 us, with latencies around 60 us."""
    latency = rng.lognormal(np.log(60_000), 0.3, SAMPLES).astype(int).tolist()
    order = rng.integers(0, QUERIES, SAMPLES).tolist()
    sent = range(start, start + SAMPLES * 100_000, 100_000)
    return [
        (query, at, at + ns, answers[query])
        for query, at, ns in zip(order, sent, latency, strict=True)
    ]


def per_sample(work: Callable[[], None]) -> float:
    """Nanoseconds of processor time per sample."""
    began = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - began) / SAMPLES


def main() -> int:
    """Measure, print, and append to the file that was asked for."""
    bench = harness.start(__doc__)
    rng = np.random.default_rng(7)
    judge, answers = truth(rng)
    start = time.perf_counter_ns()
    all_samples = samples(rng, answers, start)

    def loop() -> None:
        for _query, _sent, _done, _ids in all_samples:
            pass

    def append() -> None:
        kept: list[tuple[int, int, int, int, np.ndarray]] = []
        add = kept.append
        for query, sent, done, ids in all_samples:
            add((query, sent, sent, done, ids))

    def answer() -> None:
        recorder = Recorder(judge)
        recorder.start(start)
        add = recorder.answer
        for query, sent, done, ids in all_samples:
            add(query, sent, sent, done, ids)

    def operation() -> None:
        recorder = Recorder()
        recorder.start(start)
        add = recorder.operation
        for _query, sent, done, _ids in all_samples:
            add(sent, sent, done)

    works = (answer, operation, append, loop)
    measured = harness.interleave([lambda work=work: per_sample(work) for work in works], 15)
    bare = measured.pop()
    judged, timed, appended = (
        [value - least for value, least in zip(values, bare, strict=True)] for values in measured
    )
    against = "list append of a tuple"
    bench.add(
        harness.figure("answer, recorded and judged", "ns", judged, goal=200),
        harness.compare("answer, recorded and judged", "ns", judged, appended, baseline=against),
        harness.compare("operation, recorded", "ns", timed, appended, baseline=against),
    )
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
