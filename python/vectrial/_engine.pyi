"""The Rust engine. Times are nanoseconds of `time.perf_counter_ns` unless a name says else."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial.engine.types import LoadOutcome, LoadWindow, NullSettings
from vectrial.model.store import LoadTarget

__version__: str
SOURCES: str | None
"""The digest of its sources, where `make` compiled it."""

class Judge:
    """Tie-aware recall@k against exact neighbours; immutable, shared by recorders."""

    def __init__(
        self,
        k: int,
        accept_offsets: NDArray[np.int64],
        accept_ids: NDArray[np.int64],
        available: NDArray[np.int64],
    ) -> None:
        """From the fields of `vectrial.model.dataset.Truth`; accept_ids ascend within a query.

        Raises ValueError when the arrays do not fit together."""
    def recall(self, query: int, ids: NDArray[np.int64]) -> float:
        """Distinct accepted ids among the first k of `ids`, over what is available; 1.0 when
        nothing is available and nothing was returned, 0.0 when something was."""

class Recorder:
    """Everything about the operations of one class by one worker; merged losslessly.

    Latencies above 100 s are kept as 100 s and counted as `saturated`. Memory is bounded: about
    a megabyte, 16 bytes per query, and some hundred bytes per window.
    A call whose arguments make no sense (times that run backwards, a query that does not exist,
    ids that are not int64) raises ValueError and records nothing."""

    def __init__(self, judge: Judge | None = None, window_ns: int = 1_000_000_000) -> None: ...
    def start(self, at_ns: int) -> None:
        """Begin: windows count from here. Recorders to be merged start at the same instant."""
    def answer(
        self, query: int, intended_ns: int, sent_ns: int, done_ns: int, ids: NDArray[np.int64]
    ) -> None:
        """A search's answer: latency = done - intended, service = done - sent, judged."""
    def operation(self, intended_ns: int, sent_ns: int, done_ns: int) -> None:
        """A finished operation that has no answer to judge."""
    def error(self, intended_ns: int, sent_ns: int, done_ns: int, kind: str, message: str) -> None:
        """A failed operation: counted and timed in its own histogram, first messages kept."""
    def samples(self) -> int:
        """How many there are so far, failed ones too; cheap, for progress."""
    def finish(self, at_ns: int) -> None:
        """End of the phase: what qps divides by."""
    def started_ns(self) -> int | None:
        """When it began; None before."""
    def shift(self, by_ns: int) -> None:
        """Move every instant: to the clock of another machine, whose records are merged with
        this one."""
    def merge(self, other: Recorder) -> None:
        """Take in another worker's record, as if one recorder had seen everything."""
    def pack(self) -> bytes:
        """Everything but the judge, for another process, which calls `unpack`."""
    @staticmethod
    def unpack(packed: bytes, judge: Judge | None = None) -> Recorder:
        """What was packed, unchanged; `judge` is equal to the one it had. Raises ValueError for
        bytes that are no such record."""
    def summary(self) -> dict[str, float | int | None]:
        """By metric name of `vectrial.model.results_schema`: count, errors, saturated,
        incomplete_results, duplicate_answers, qps, latency_* (us), recall_*; None where nothing was
        recorded.
        Mean, least and greatest latency are exact, also beyond 100 s."""
    def windows(self) -> dict[str, list[float | int | None]]:
        """Columns second, count, errors, p50_us, p99_us (both to two digits), max_us, recall; one
        row per window from the start to the end, also where nothing happened."""
    def histogram(self, name: str) -> bytes:
        """HDR V2 encoding, ns, 3 significant digits; name: latency, service or error."""
    def total_s(self, name: str) -> float:
        """Exact sum in seconds of what that histogram holds; by name as above."""
    def errors(self) -> list[tuple[str, int, list[str]]]:
        """Error classes: kind, count, the earliest five distinct messages (300 characters)."""
    def query_recall(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Per query: sum of recalls and number of answers; both (q,)."""

def histogram_merge(parts: list[bytes]) -> bytes:
    """One histogram of all samples of the parts. Raises ValueError for bytes that are none."""

def histogram_quantiles(hdr: bytes, quantiles: list[float]) -> list[float]:
    """Values in microseconds at quantiles in [0, 1]. Raises ValueError when it is empty."""

def histogram_buckets(hdr: bytes) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Upper bounds in microseconds and counts of the buckets that are not empty."""

class TopK:
    """Exact nearest neighbours of many queries, block of rows by block of rows; see
    `vectrial.datasets.truth`, which drives it. Uses every core that rayon has."""

    def __init__(
        self,
        queries: NDArray[np.float32],
        metric: str,
        k: int,
        *,
        centre: NDArray[np.float32],
        scale: float,
        tie: float,
        noise: float,
        floor: float,
        most_held: int,
        filters: NDArray[np.int64] | None = None,
    ) -> None:
        """For `queries` (q, d). `centre` (d,) and the power of two `scale` move and stretch the
        vectors to the origin's unit ball, roughly: they change the speed, never the answer.
        `tie` is `vectrial.model.metric.tie_tolerance`, `noise` and `floor` its `uncertainty`;
        `filters` (q,) is the row of `allowed` that holds for a query, or -1. Raises ValueError when
        the arguments do not fit."""
    def scan(
        self,
        vectors: NDArray[np.float32],
        ids: NDArray[np.int64],
        allowed: NDArray[np.bool_] | None = None,
    ) -> None:
        """Look at a block (b, d) with ids (b,) and, per filter, the rows it keeps (f, b).

        Raises ValueError ("zero vector" | "not finite", id) for a row that has no distance, and
        MemoryError (hits) when more than `most_held` hits tie; the search is then spoilt."""
    def hits(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """The k nearest of the rows scanned until now and all that ties with the last of them, for
        `merge` of another search of the same queries: offsets (q + 1,), ids, distances, and the
        distances less their uncertainty."""
    def merge(
        self,
        offsets: NDArray[np.int64],
        ids: NDArray[np.int64],
        distances: NDArray[np.float64],
        least: NDArray[np.float64],
    ) -> None:
        """Take in the hits of another search; its rows, which are others, are then as if scanned.

        Raises ValueError when the arrays do not fit, and MemoryError as `scan`."""
    def finish(
        self,
    ) -> tuple[
        NDArray[np.int64],
        NDArray[np.float64],
        NDArray[np.int64],
        NDArray[np.int64],
        NDArray[np.int64],
    ]:
        """ids, distances, available, accept_offsets, accept_ids of `datasets.model.Truth`."""

class LoadControl:
    """A run of `run_load` under way, seen and stopped from another thread."""

    def __init__(self) -> None: ...
    def cancel(self) -> None:
        """End the run within some 20 ms; its outcome is what was recorded until then."""
    def hold(self) -> None:
        """Have the run, once it has connected and warmed up, wait for `begin`."""
    def is_ready(self) -> bool:
        """True when a held run waits."""
    def begin(self, at_ns: int) -> None:
        """Measure from this instant on; at once where it has passed."""
    def in_turns(self) -> None:
        """Have the run, once it has connected and warmed up, wait for `take_turn`, again and again.
        Called before it."""
    def take_turn(self, begin_ns: int, length_ns: int) -> LoadOutcome | None:
        """Let the run measure from this instant on, or from now where it has passed, for so long.
        Blocks without the GIL until all is answered. The first outcome has the warm-up. None: the
        run is over."""
    def end_turns(self) -> None:
        """There are no more turns: the run ends."""
    def began_ns(self) -> int:
        """When the last thread began to measure; 0 before."""
    def progress(self) -> tuple[int, int, int, int]:
        """Start of the measured stage (0 before it), and requests issued, answered and failed in
        it, at most 20 ms old."""
    def last_second(self, classes: int) -> list[LoadWindow | None]:
        """What each of so many classes did in the last second that is over, all threads together;
        None where it did nothing and before there is one. Cheap enough to ask often."""

def run_load(
    target: LoadTarget, plan: Mapping[str, Any], control: LoadControl
) -> LoadOutcome | None:
    """Drive a server as the plan says: `engine.types.LoadSettings`, the sources, the classes of
    `Requests.plain`, and the machine's number among the `machines` that send the load together,
    each with as many threads; counts, clients and schedules apply to all of them. Blocks without
    the GIL; requests are encoded before the clock starts. What the server does wrong is counted in
    the records and never raised. None where it was measured in turns.

    Raises ValueError for a plan or options that do not fit together."""

def serve_null(settings: NullSettings, ready: Callable[[int], None]) -> None:
    """Serve for ever, in this thread; `ready` is called with the port. See
    `vectrial.engine.null_server`."""

def spaced(texts: Sequence[str]) -> list[str]:
    """Each text with a space between words of scripts that put none (Chinese, Japanese, Thai, Lao,
    Khmer, Burmese), by the boundaries and dictionaries of Unicode; others stay as they are."""
