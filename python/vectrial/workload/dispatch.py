"""Searches and loading of an experiment, in any lane."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial.model.context import Context, operating_point
from vectrial.model.filters import Filters
from vectrial.model.lane import Lane
from vectrial.model.phase import Phase
from vectrial.model.workload import Load
from vectrial.workload import ingest
from vectrial.workload.native import inserts
from vectrial.workload.native import search as native_search
from vectrial.workload.python import sdk_ingest
from vectrial.workload.python.sdk_process import opening_of
from vectrial.workload.search import SearchLoad
from vectrial.workload.searchers import native_searches, searchers


def search(
    context: Context,
    point: Mapping[str, Any],
    load: Load,
    *,
    warmup_queries: int = 100,
    where: Filters = None,
    name: str = "search",
    until: Callable[[], bool] | None = None,
) -> Phase:
    """The phase of a `SearchLoad` that is measured alone; see `SearchLoad`."""
    how = {"warmup_queries": warmup_queries, "where": where, "name": name, "until": until}
    return SearchLoad(context, point, load, **how).measure_whole()  # type: ignore[arg-type]  # as above


def answers(
    context: Context, point: Mapping[str, Any], where: Filters = None
) -> list[NDArray[np.int64]]:
    """Ids found for each of the dataset's queries, best first. Each query is sent once, untimed:
    for checks that need more than recall.

    Raises:
        StoreError: a request of the native lane failed.
    """
    setting = operating_point(context, point)
    arguments = (setting.returning, context.k, setting.search, where)
    if context.lane is Lane.NATIVE:
        asked = native_searches(context.store, *arguments)
        return native_search.answers(asked, context.dataset.queries)
    each = searchers(context.store, *arguments)
    queries = context.dataset.queries
    every = [each] * len(queries) if callable(each) else each
    return [search(query)[0] for query, search in zip(queries, every, strict=True)]


def load(context: Context, *, stop: int, clients: int = 1, batch_rows: int | None = None) -> Phase:
    """Insert rows 0 … stop into the existing collection, through the lane of the trial.

    Args:
        clients: each with one request in flight.
        batch_rows: rows of a request; unless given, the suite's.

    Returns:
        The phase `load`; not valid if rows are missing.
    """
    store, rows = context.store, batch_rows or context.batch_rows
    if context.lane is Lane.NATIVE:
        return inserts.load(
            store.native_rows(),
            context.dataset,
            context.schema,
            rows,
            context.progress,
            context.certificate,
            clients=clients,
            stop=stop,
        )
    if context.lane is Lane.SDK and clients > 1:
        return sdk_ingest.load(
            opening_of(context),
            context.dataset.name,
            rows,
            clients,
            context.progress,
            stop=stop,
            cores=context.certificate.placement.pins,
        )
    assert clients == 1, "the plan refuses more of this lane"
    return ingest.load(store, context.dataset, context.schema, rows, context.progress, stop=stop)
