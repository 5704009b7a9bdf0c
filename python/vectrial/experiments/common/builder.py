"""Rows that are inserted and indexed while a store is searched."""

from __future__ import annotations

import threading
from contextlib import closing
from time import perf_counter_ns

from vectrial.experiments.common.row_parts import insert
from vectrial.model.context import Context
from vectrial.model.dataset import Dataset
from vectrial.model.errors import StoreError
from vectrial.workload import ingest
from vectrial.workload.python.sdk_process import opening_of
from vectrial.workload.python.timed import describe


class Builder:
    """Inserts rows and has them indexed, in a thread and through a connection of its own. The
    engine writes to the server without holding Python's lock, and the steps after it only wait."""

    def __init__(self, context: Context, rows: Dataset) -> None:
        self._context, self._rows = context, rows
        self._thread = threading.Thread(target=self._work, name="builder", daemon=True)
        self._started_ns = self._added_ns = self._indexed_ns = 0
        self._failure: BaseException | None = None
        self._in_time = False

    def has_ended(self) -> bool:
        """True when every row is indexed, or a step has failed. The first call begins the work:
        the clock of the searches has started by then."""
        if not self._started_ns:
            self._started_ns = perf_counter_ns()
            self._thread.start()
        self._in_time = not self._thread.is_alive()
        return self._in_time

    def join(self) -> None:
        """Wait until the work has ended, if it has begun.

        Raises:
            StoreError: a step failed.
        """
        if self._started_ns:
            self._thread.join()
        if self._failure is not None:
            said = ": ".join(describe(self._failure))
            raise StoreError(f"the rows were not indexed: {said}") from self._failure

    @property
    def added_s(self) -> float:
        """Seconds until all rows were inserted."""
        return (self._added_ns - self._started_ns) / 1e9

    @property
    def indexed_s(self) -> float:
        """Seconds until all rows were indexed."""
        return (self._indexed_ns - self._started_ns) / 1e9

    @property
    def has_finished_in_time(self) -> bool:
        """True if everything was done when `has_ended` was last called."""
        return self._in_time

    def _work(self) -> None:
        context = self._context
        try:
            with closing(opening_of(context).open()) as store:
                insert(store, context, self._rows, _report_nothing)
                self._added_ns = perf_counter_ns()
                ingest.finish(store, _report_nothing)
                self._indexed_ns = perf_counter_ns()
        except BaseException as failure:  # noqa: BLE001 - raised in the calling thread
            self._failure = failure


def _report_nothing(done: float, of: float, what: str) -> None:
    """Report nothing: the searches report progress."""
