"""One function for the searches of an experiment, whoever issues them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vectrial.experiments.base import Context, Phase, returning_of, search_params
from vectrial.filters import Filter
from vectrial.load import embedded, native_search, sdk_search
from vectrial.load.lane import Lane
from vectrial.load.offered import Closed, Load
from vectrial.stores.registry import reference


def search(
    context: Context,
    point: Mapping[str, Any],
    load: Load,
    *,
    warmup_queries: int = 100,
    where: Filter | None = None,
    name: str = "search",
) -> Phase:
    """Ask the dataset's queries under `load`, through the lane of the trial, and judge every
    answer.

    Args:
        point: the operating point, with the search parameters among its entries.
        warmup_queries: of each client, before the clock starts.
        where: a filter that every search is under.

    Returns:
        The phase; its `params` are the point's, k, and how the load was offered. What the store
        or the server did wrong is in it as errors.
    """
    params, truth = search_params(context, point), context.truth(context.k, where)
    returning = returning_of(point)
    match context.lane:
        case Lane.NATIVE:
            phase = native_search.search(
                context.store.wire(context.k, params, where, returning),
                context.dataset.queries,
                truth,
                context.k,
                load,
                context.certificate,
                warmup_queries=warmup_queries,
                seed=context.seed,
                progress=context.progress,
                show=context.show,
                name=name,
            )
        case Lane.SDK:
            assert isinstance(load, Closed), "the plan refuses open loops of this lane"
            # What the server keeps of the search parameters is settled here, where the store
            # remembers it; the clients then find it as it should be.
            context.store.searcher_returning(returning, context.k, params, where)
            phase = sdk_search.search(
                sdk_search.Question(
                    store=reference(type(context.store)),
                    location=context.store.location,
                    address=context.address,
                    schema=context.schema,
                    index=context.index,
                    k=context.k,
                    params=params,
                    where=where,
                    returning=returning,
                    durability=context.store.durability,
                ),
                context.dataset.queries,
                truth,
                load,
                cores=context.certificate.placement.pins,
                warmup_queries=warmup_queries,
                seed=context.seed,
                progress=context.progress,
                name=name,
            )
        case Lane.EMBEDDED:
            assert isinstance(load, Closed), "the plan refuses open loops of this lane"
            phase = embedded.closed_loop(
                context.store.searcher_returning(returning, context.k, params, where),
                context.dataset.queries,
                truth,
                clients=load.clients,
                warmup_count=warmup_queries,
                min_s=load.min_s,
                max_s=load.max_s,
                seed=context.seed,
                progress=context.progress,
                name=name,
            )
    phase.params = {**phase.params, "k": context.k, **point}
    return phase
