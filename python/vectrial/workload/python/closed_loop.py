"""The embedded lane: a library called in this process by threads with one request each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vectrial.engine.recorders import judge_of
from vectrial.model.dataset import Truth
from vectrial.model.errors import UserError
from vectrial.model.phase import Phase
from vectrial.model.progress import Progress
from vectrial.model.store import Searcher
from vectrial.workload.answer_log import AnswerCheck
from vectrial.workload.ndcg import NdcgScorer, RelevanceJudgments
from vectrial.workload.python.client_pool import ClientPool
from vectrial.workload.queries import Queries
from vectrial.workload.record import phase_of


def closed_loop(
    searcher: Searcher | Sequence[Searcher],
    queries: NDArray[np.float32] | Queries,
    truth: Truth | None,
    *,
    clients: int = 1,
    warmup_count: int = 100,
    warmup_max_s: float = 5.0,
    min_s: float = 0.0,
    max_s: float | None = None,
    count: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    name: str = "search",
    judgments: RelevanceJudgments | None = None,
    check: AnswerCheck | None = None,
) -> Phase:
    """Search with `clients` threads, each sending its next request when it has an answer.

    Every client walks over all queries in an order of its own, drawn anew for each pass; its first
    queries are new to all clients, as far as there are rounds for it. First each client warms up,
    untimed: `warmup_count` requests, or as many as fit into `warmup_max_s`. When all have, they
    begin together. Without `count`, a client makes whole passes until `min_s` seconds have passed,
    so that every query has the same weight; with it, all clients together send that many requests.
    No request is sent `max_s` seconds after the start or later; with `min_s == max_s` the clock
    alone ends the phase.

    With one client, the loop runs in the calling thread.

    Args:
        searcher: called directly; must be safe for concurrent calls if `clients` > 1. One for all
            queries, or one for each.
        queries: float32 (q, d), or rounds of them.
        truth: exact neighbours of the same queries; without it there is no recall.
        progress: called with (done, of, name) every half second, between two samples.
        judgments: which rows are relevant: then `ndcg` is the mean over the timed answers, and
            `ndcg_exact` that of the exact answers to the same requests.
        check: called with the phase and its answers, some of which are logged for it.

    Returns:
        The phase. Exceptions of the store are recorded in it as errors, never raised from here;
            `valid` is False, with the reason, if too many failed or the figures contradict each
            other.

    Raises:
        UserError: arguments that do not fit together.
        StoreError: the searcher's ids are not what `Searcher` promises, a fault of the adapter.
    """
    queries = queries if isinstance(queries, Queries) else Queries.constant(queries)
    _check(queries, truth, clients, count)
    judge = None if truth is None else judge_of(truth)
    pool = ClientPool(searcher, queries, judge, clients, seed, min_s, max_s, count)
    pool.warmup = (warmup_count, warmup_max_s)
    pool.logs_answers = check is not None
    if judgments is not None:
        pool.scorer = NdcgScorer.for_clients(judgments, clients)
    report = pool.reporter(progress, name)
    cpu_ns = pool.run(report, in_threads=clients > 1)
    phase = phase_of(
        name,
        pool.merged_recorder(),
        pool.phase_start,
        ended_ns=max(pool.ended),
        cpu_ns=cpu_ns,
        issued=sum(pool.issued),
        clients=clients,
        params={"loop": "closed", "clients": clients},
        no_recall="no ground truth was given",
    )
    phase.metrics |= {
        "warmup_count": sum(pool.warmed),
        "warmup_errors": sum(pool.warmup_errors),
    }
    if pool.scorer is not None:
        phase.metrics |= pool.scorer.total().metrics()
    if check is not None:
        check(phase, pool.answers())
    return phase


def _check(queries: Queries, truth: Truth | None, clients: int, count: int | None) -> None:
    if queries.rounds.ndim != 3 or not queries.count:
        shape = queries.rounds.shape[1:]
        raise UserError(f"queries have shape {shape}, not (q, d) with q ≥ 1")
    if clients < 1:
        raise UserError(f"{clients} clients cannot search", remedy="at least 1")
    if count is not None and count < clients:
        raise UserError(f"{count} requests are too few for {clients} clients")
    if truth is not None and len(truth.available) != queries.count:
        raise UserError(
            f"the truth is of {len(truth.available)} queries, but there are {queries.count}"
        )
