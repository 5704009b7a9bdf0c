"""Clients as threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

#: Seconds between two reports of progress.
PROGRESS_S = 0.5


def run_threads(
    clients: int,
    work: Callable[[int], None],
    stop: Callable[[], None],
    report: Callable[[], None],
) -> None:
    """Run `work(client)` in a thread for each client, until all have ended.

    Args:
        stop: lets every client end soon, and aborts the barrier that they may wait at. Called if a
            client fails, or if `report` raises.
        report: called in the calling thread, every half second.

    Raises:
        BaseException: what the first client that failed raised, or `report`.
    """
    failures: list[BaseException] = []

    def run_guarded(client: int) -> None:
        try:
            work(client)
        except threading.BrokenBarrierError:
            pass  # another client failed, and its failure is raised
        except BaseException as failure:  # noqa: BLE001 - raised in the calling thread
            failures.append(failure)
            stop()

    threads = [
        threading.Thread(target=run_guarded, args=(client,), name=f"client-{client}", daemon=True)
        for client in range(clients)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(PROGRESS_S)
                report()
    except BaseException:
        stop()
        raise
    finally:
        for thread in threads:
            if thread.ident is not None:
                thread.join()
    if failures:
        raise failures[0]


class ThreadTeam:
    """Threads that do successive tasks together, and sleep in between; a team of one is the calling
    thread."""

    def __init__(self, size: int) -> None:
        self._begin, self._end = (threading.Barrier(size + 1) for _ in range(2))
        self._work: Callable[[int], object] | None = None
        self._done: list[Any] = [None] * size
        self._failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run_member, args=(at,), name=f"client-{at}", daemon=True)
            for at in range(size if size > 1 else 0)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Let the threads end. May be called again."""
        for barrier in (self._begin, self._end):
            barrier.abort()
        for thread in self._threads:
            thread.join()

    def do(self, work: Callable[[int], T]) -> list[T]:
        """Have every member do its part; returns the results in the members' order.

        Raises:
            BaseException: what the first member that failed raised.
        """
        if not self._threads:
            return [work(0)]
        self._work, self._failures = work, []
        self._begin.wait()
        self._end.wait()
        if self._failures:
            raise self._failures[0]
        return list(self._done)

    def _run_member(self, at: int) -> None:
        try:
            while True:
                self._begin.wait()
                assert self._work is not None, "there is work when they begin"
                try:
                    self._done[at] = self._work(at)
                except BaseException as failure:  # noqa: BLE001 - raised in the calling thread
                    self._failures.append(failure)
                self._end.wait()
        except threading.BrokenBarrierError:
            pass  # the team ends
