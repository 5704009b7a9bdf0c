"""Runs of several sizes of a dataset, with figures that grow by known laws."""

from __future__ import annotations

import math
from collections.abc import Sequence

import capacity_runs as made
from run_contents import RunContents
from synthetic_runs import SECOND

from vectrial.model.phase import Phase, Role
from vectrial.results.writer import TrialRecord

SIZES = (10_000, 20_000, 50_000, 100_000, 200_000, 1_000_000)
CLIENTS = (1, 8)


def ready_s(rows: int) -> float:
    return 2.0 + 1e-4 * rows


def memory_bytes(rows: int) -> float:
    return 5e7 + 700.0 * rows


def disk_bytes(rows: int) -> float:
    return 1e6 + 600.0 * rows


def query_us(rows: int, clients: int) -> float:
    """Of each client, at recall 0.95."""
    return clients * (20.0 + 15.0 * math.log(rows))


def trials(store: str, rows: int, **about: object) -> list[TrialRecord]:
    """A load, its sizes, and searches with settings whose odds of a hit and whose QPS are as far
    from those at recall 0.95, in opposite directions."""
    load = Phase("ingest", 0, SECOND, {}, {"ready_s": ready_s(rows)}, role=Role.LOAD)
    held = {"rss_growth_bytes": memory_bytes(rows), "disk_bytes": disk_bytes(rows)}
    size = Phase("footprint", 0, SECOND, {}, held, role=Role.SIZE)
    found = [
        made.trial(store, load, experiment="ingest", rows=rows, **about),
        made.trial(store, size, experiment="storage", rows=rows, **about),
    ]
    for clients in CLIENTS:
        for ef, odds, factor in ((16, 19 / 1.3, 1.2), (64, 19 * 1.3, 1 / 1.2)):
            recall = odds / (1 + odds)
            us = query_us(rows, clients) / factor
            figures = made.figures(1e6 * clients / us, 3 * us, recall)
            params = {"clients": clients, "ef_search": ef, "loop": "closed"}
            phase = Phase("search", 0, SECOND, params, figures, role=Role.SEARCH)
            own = {"k": 10, "returns": "ids", "clients": clients, "ef_search": ef}
            about_search = {"experiment": "search", "rows": rows, "params": own, **about}
            found.append(made.trial(store, phase, **about_search))
    return found


def grown(
    stores: Sequence[str] = ("faiss", "hnswlib"),
    sizes: Sequence[int] = SIZES,
    suite: str = "",
    lane: str = "native",
) -> RunContents:
    """The run of these stores at these sizes."""
    every = [
        trial for store in stores for rows in sizes for trial in trials(store, rows, lane=lane)
    ]
    return made.contents_of(every, suite)
