"""Readiness of a store that reports itself ready: its first search and the cold ones after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Recorder
from vectrial.experiments.base import row_searcher
from vectrial.model.context import Context
from vectrial.model.phase import Phase
from vectrial.workload import ingest
from vectrial.workload.python.timed import record_operation, timed_search

#: The searches after a load that are cold, and the seconds after which no further one is sent.
COLD_SEARCHES, COLD_S = 100, 2.0


def finish_steps(context: Context, point: Mapping[str, Any]) -> Iterator[ingest.Step]:
    """The steps of `ingest.finish_steps`, and then the first search: a store is ready when it has
    answered a search, so an index that the first search builds has been built by then.

    Exceptions of the store propagate.
    """
    yield from ingest.finish_steps(context.store, context.progress)
    yield first_search(context, point)


def first_search(context: Context, point: Mapping[str, Any]) -> ingest.Step:
    """Prepare to search, and search once. Exceptions of the store propagate."""
    started = perf_counter_ns()
    row_searcher(context.store, context, point)(_queries(context)[0])
    return ingest.Step("first_search", started, perf_counter_ns())


def finish(context: Context, point: Mapping[str, Any]) -> list[ingest.Step]:
    """All steps of `finish_steps`, one after the other."""
    return list(finish_steps(context, point))


def cold_searches(context: Context, first: ingest.Step) -> Phase:
    """The searches after the `first`, one at a time by the store's own client, before the gate and
    any warm-up: slow initial searches show here, and in no other figure.

    The phase's metrics cover `first` and these searches together.
    """
    search, queries = row_searcher(context.store, context, {}), _queries(context)
    phase = Phase("cold_searches", perf_counter_ns(), 0)
    recorder, latencies, errors = Recorder(), [float(first.ended_ns - first.started_ns)], 0
    recorder.start(phase.started_ns)
    done = phase.started_ns
    for number in range(1, COLD_SEARCHES):
        if done - phase.started_ns > COLD_S * 1e9:
            break
        sample = timed_search(search, queries[number % len(queries)])
        record_operation(recorder, sample)
        done = sample.done_ns
        if sample.failure is None:
            latencies.append(float(done - sample.sent_ns))
        else:
            errors += 1
    phase.ended_ns = perf_counter_ns()
    recorder.finish(phase.ended_ns)
    phase.errors = recorder.errors()
    phase.metrics |= {
        "cold_count": float(len(latencies)),
        "errors": float(errors),
        "cold_first": latencies[0] / 1e3,
        "cold_p50": float(np.median(latencies)) / 1e3,
        "cold_max": max(latencies) / 1e3,
    }
    return phase


def _queries(context: Context) -> NDArray[np.float32]:
    """The dataset's queries, or its rows if it has no queries."""
    given = context.dataset
    return given.queries if len(given.queries) else given.vectors
