"""Clients as threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable

#: Seconds between two reports of progress.
PROGRESS_S = 0.5


def run_threads(
    clients: int,
    work: Callable[[int], None],
    stop: Callable[[], None],
    report: Callable[[], None],
) -> None:
    """Run `work(client)` in a thread for each client, to the end of all.

    Args:
        stop: lets every client end soon, and aborts the barrier that they may wait at. Called
            when one fails, or when `report` raises.
        report: called in the calling thread, every half second.

    Raises:
        BaseException: what the first client that failed raised, or `report`.
    """
    failures: list[BaseException] = []

    def guarded(client: int) -> None:
        try:
            work(client)
        except threading.BrokenBarrierError:
            pass  # another client failed, and its failure is raised
        except BaseException as failure:  # noqa: BLE001 - raised in the calling thread
            failures.append(failure)
            stop()

    threads = [
        threading.Thread(target=guarded, args=(client,), name=f"client-{client}", daemon=True)
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
