"""Searches and loading of an experiment, in any lane."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial.model.capabilities import Returning
from vectrial.model.context import Context, operating_point
from vectrial.model.dataset import Truth
from vectrial.model.filters import Filters
from vectrial.model.fusion import Blend
from vectrial.model.lane import Lane
from vectrial.model.phase import Phase
from vectrial.model.store import Store
from vectrial.model.workload import ClosedLoop, Load
from vectrial.stores.registry import reference
from vectrial.workload import ingest
from vectrial.workload.answer_log import PhaseAnswers
from vectrial.workload.answers import judge
from vectrial.workload.native import inserts
from vectrial.workload.native import search as native_search
from vectrial.workload.ndcg import RelevanceJudgments
from vectrial.workload.python import sdk_ingest, sdk_search
from vectrial.workload.python.closed_loop import closed_loop
from vectrial.workload.python.open_loop import open_loop
from vectrial.workload.python.sdk_process import Opening
from vectrial.workload.queries import drawn
from vectrial.workload.searchers import hybrid_searchers, native_searches, searchers

#: Numbers of the phases of this process: the queries of each are moved otherwise.
_PHASES = itertools.count()


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
    """Ask the dataset's queries under `load`, through the lane of the trial, and judge every
    answer. They are moved a little each time, unless the context repeats them.

    Args:
        point: the operating point, with the search parameters among its entries.
        warmup_queries: of each client, before the clock starts; in an open loop of all together.
        where: a filter that every search is under, or one for each query.
        until: asked a few times a second once the clock runs; the phase ends when it says so, if
            the load has not ended before. Native lane only.

    Returns:
        The phase; its `params` are the point's, k, and how the load was offered. What the store
        or the server did wrong is in it as errors. Some of its answers are still to be looked at,
        by `Phase.look`.
    """
    setting, truth = operating_point(context, point), context.truth(context.k, where)
    arguments = (setting.returning, context.k, setting.search, where)
    seed = (context.seed, next(_PHASES))
    queries = drawn(context.dataset, truth, seed, repeat=context.repeat_queries)

    def check(phase: Phase, answers: PhaseAnswers) -> None:
        phase.pending = partial(judge, context, where, phase, answers)

    def check_natively(phase: Phase, answers: PhaseAnswers) -> None:
        def pending() -> None:
            asked = native_searches(context.store, *arguments)
            try:
                probed = native_search.probed(asked, queries.warmup, truth, answers)
            except Exception as error:  # noqa: BLE001 - whatever a store raises is its answer
                phase.remark(f"nothing was asked after it: {type(error).__name__}: {error}")
                probed = answers
            judge(context, where, phase, probed)

        phase.pending = pending

    how: dict[str, Any] = {"seed": context.seed, "progress": context.progress, "name": name}
    if context.lane is Lane.NATIVE:
        phase = native_search.run(
            native_searches(context.store, *arguments),
            context.dataset.queries,
            truth,
            load,
            context.certificate,
            warmup_queries=warmup_queries,
            show=context.show,
            check=check_natively,
            from_machines=context.from_machines,
            until=until,
            **how,
        )
    else:
        assert until is None, "the plan refuses other lanes"
        # Of the sdk lane: what the server keeps of the search parameters is settled here, where the
        # store remembers it; the clients then find it as it should be.
        made = searchers(context.store, *arguments)
        how["check"] = check
        if context.lane is Lane.SDK:
            question = sdk_search.Question(
                opening(context), context.k, setting.search, where, setting.returning
            )
            how |= {"cores": context.certificate.placement.pins, "warmup_queries": warmup_queries}
            phase = sdk_search.search(question, queries, truth, load, **how)
        elif isinstance(load, ClosedLoop):
            how |= {"clients": load.clients, "min_s": load.min_s, "max_s": load.max_s}
            phase = closed_loop(made, queries, truth, warmup_count=warmup_queries, **how)
        else:
            how |= {
                "alone": _one_thread(context, setting.returning),
                "warmup_queries": warmup_queries,
            }
            phase = open_loop(made, queries, truth, load, **how)
    phase.params = {**phase.params, "k": context.k, **point}
    return phase


def answers(
    context: Context, point: Mapping[str, Any], where: Filters = None
) -> list[NDArray[np.int64]]:
    """Ids of the rows found for each of the dataset's queries, best first, each asked once and
    nothing timed: for what is judged by more than recall.

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


def hybrid(
    context: Context,
    point: Mapping[str, Any],
    load: ClosedLoop,
    blend: Blend,
    texts: Sequence[str],
    truth: Truth,
    judgments: RelevanceJudgments | None,
    *,
    warmup_queries: int = 100,
    name: str = "search",
) -> Phase:
    """As `search`, by the vectors of the dataset's queries and their `texts`.

    Args:
        truth: what an exact fusion finds, by which recall is judged.
        judgments: of which rows are relevant to each query: then the phase has `ndcg` and
            `ndcg_exact`.
    """
    params = operating_point(context, point).search
    asked = context.dataset.queries, truth
    how: dict[str, Any] = {
        "seed": context.seed,
        "progress": context.progress,
        "name": name,
        "judgments": judgments,
    }
    # Settings that a server keeps are settled here, as in `search`.
    here = hybrid_searchers(context.store, context.k, params, blend, texts)
    if context.lane is Lane.SDK:
        question = sdk_search.HybridQuestion(
            opening(context), context.k, params, blend, tuple(texts)
        )
        cores = context.certificate.placement.pins
        how |= {"cores": cores, "warmup_queries": warmup_queries}
        phase = sdk_search.search(question, *asked, load, **how)
    else:
        how |= {"clients": load.clients, "min_s": load.min_s, "max_s": load.max_s}
        phase = closed_loop(here, *asked, warmup_count=warmup_queries, **how)
    phase.params = {**phase.params, "k": context.k, **point}
    return phase


def load(context: Context, *, stop: int, clients: int = 1, batch_rows: int | None = None) -> Phase:
    """Insert rows 0 … stop into the collection, which exists, through the lane of the trial.

    Args:
        clients: each with one request in flight.
        batch_rows: rows of a request; unless given, the suite's.

    Returns:
        The phase `load`; not valid when rows are missing.
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
            opening(context),
            context.dataset.name,
            rows,
            clients,
            context.progress,
            stop=stop,
            cores=context.certificate.placement.pins,
        )
    assert clients == 1, "the plan refuses more of this lane"
    return ingest.load(store, context.dataset, context.schema, rows, context.progress, stop=stop)


def _one_thread(context: Context, returning: Returning) -> bool:
    """The store's searches must not be called from several threads, nor may what they fetch."""
    can = type(context.store).capabilities.under(context.index.kind)
    fetched = returning is not Returning.IDS and returning not in can.returns
    return fetched or not can.concurrent_search


def opening(context: Context, store: Store | None = None) -> Opening:
    """Opening by which another process opens the context's store, or one beside it."""
    store = context.store if store is None else store
    return Opening(
        store=reference(type(store)),
        location=store.location,
        address=context.address,
        schema=context.schema,
        index=context.index,
        durability=store.durability,
        existing=context.existing,
        dataset=context.dataset.name,
    )
