"""The timed sample: read the clock, call, read the clock, record the answer or the error.

Nothing but the call lies between the two readings. Exceptions that end the program are raised;
every other error is recorded with its class and message.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Recorder
from vectrial.model.store import Hits, Searcher

A = TypeVar("A")
T = TypeVar("T")

#: Always raised again, because it ends the program. Every other error is recorded, also one
#: that does not derive from Exception, such as a panic in a Rust library.
FATAL = (KeyboardInterrupt, SystemExit, GeneratorExit)


class Sample(NamedTuple, Generic[T]):
    """One timed call.

    sent_ns, done_ns: `time.perf_counter_ns` right before and right after the call.
    result: the value that it returned; None if it failed.
    failure: the error that it raised, if it failed.
    """

    sent_ns: int
    done_ns: int
    result: T | None
    failure: BaseException | None


def call_timed(call: Callable[[A], T], argument: A) -> Sample[T]:
    """Call `call(argument)` under the clock.

    Raises:
        KeyboardInterrupt, SystemExit, GeneratorExit: raised by the call (`FATAL`).
    """
    sent = perf_counter_ns()
    try:
        result = call(argument)
    except FATAL:
        raise
    except BaseException as failure:  # noqa: BLE001 - recorded with its class and message
        return Sample(sent, perf_counter_ns(), None, failure)
    return Sample(sent, perf_counter_ns(), result, None)


def timed_search(search: Searcher, vector: NDArray[np.float32]) -> Sample[Hits]:
    """Search under the clock. An answer that is not a pair (ids, scores) is an error of the search;
    the pair is taken apart under the clock, since that may be where it is made.

    Raises:
        KeyboardInterrupt, SystemExit, GeneratorExit: raised by the search (`FATAL`).
    """

    def hits(vector: NDArray[np.float32]) -> Hits:
        ids, scores = search(vector)
        return ids, scores

    return call_timed(hits, vector)


def record_operation(recorder: Recorder, sample: Sample[T], due_ns: int | None = None) -> None:
    """Record a call without an answer to judge, or its error.

    due_ns: the intended start, from which the latency counts; by default the time of sending.
    """
    due = sample.sent_ns if due_ns is None else due_ns
    if sample.failure is None:
        recorder.operation(due, sample.sent_ns, sample.done_ns)
    else:
        recorder.error(due, sample.sent_ns, sample.done_ns, *describe(sample.failure))


def record_answer(
    recorder: Recorder,
    query: int,
    sample: Sample[Hits],
    due_ns: int | None = None,
) -> None:
    """Record the answer to a query, judged, or the error of its search.

    due_ns: see `record_operation`.
    """
    if sample.result is None:
        record_operation(recorder, sample, due_ns)
        return
    due = sample.sent_ns if due_ns is None else due_ns
    recorder.answer(query, due, sample.sent_ns, sample.done_ns, sample.result[0])


def describe(failure: BaseException) -> tuple[str, str]:
    """Class and message of an error, for `Recorder.error`."""
    kind = type(failure)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}", str(failure) or repr(failure)
