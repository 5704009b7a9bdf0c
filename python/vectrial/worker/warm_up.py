"""Searches before anything counts: a server that compiles its code while it runs is slow for longer
than a few hundred searches."""

from __future__ import annotations

from time import perf_counter

from vectrial.experiments.base import row_searcher
from vectrial.model.context import Context
from vectrial.model.store import Store
from vectrial.workload import ingest

#: Rows of the collection that is searched so: enough for a graph with several layers.
_ROWS = 10_000


def load_first_rows(context: Context, store: Store) -> None:
    """Create a collection like the measured one, and load the first rows into it."""
    store.create(context.schema, context.index)
    rows = min(_ROWS, context.dataset.rows)
    ingest.load(
        store, context.dataset, context.schema, context.batch_rows, context.progress, stop=rows
    )
    ingest.finish(store, context.progress)


def warm_up(context: Context, store: Store, duration_s: float) -> None:
    """Search for `duration_s` seconds, one search after the other. Errors of the store are
    raised."""
    search, queries = row_searcher(store, context, {}), context.dataset.queries
    queries = queries if len(queries) else context.dataset.vectors[:_ROWS]
    began = perf_counter()
    while (elapsed_s := perf_counter() - began) < duration_s:
        context.progress(elapsed_s, duration_s, "warming up")
        for query in queries:
            search(query)
            if perf_counter() - began >= duration_s:
                break
