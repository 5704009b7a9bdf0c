"""The native lane: searches that the engine sends over the native."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Recorder
from vectrial.engine.client import arrivals, closed, drive, record_or_raise
from vectrial.engine.parts import Order, Sent
from vectrial.engine.recorders import judge_of
from vectrial.engine.types import LoadSource
from vectrial.model.dataset import Truth
from vectrial.model.errors import StoreError
from vectrial.model.phase import Live, Phase
from vectrial.model.placement import Certificate
from vectrial.model.progress import Progress
from vectrial.model.workload import ClosedLoop, Load
from vectrial.workload.answer_log import AnswerCheck, AnswerLog, PhaseAnswers
from vectrial.workload.ceiling import certify, certify_machines
from vectrial.workload.live import progress_callback
from vectrial.workload.record import phase_of_outcome
from vectrial.workload.searchers import NativeSearches

#: Number of queries sent after a phase, and the most seconds for them.
PROBED, PROBED_S = 500, 2.0

#: Seconds that the warm-up may take, as in the other lanes.
WARMUP_S = 5.0


def run(
    search: NativeSearches,
    queries: NDArray[np.float32],
    truth: Truth,
    load: Load,
    certificate: Certificate,
    *,
    warmup_queries: int = 100,
    seed: int = 0,
    progress: Progress = lambda *_: None,
    show: Callable[[Live], None] = lambda _: None,
    name: str = "search",
    check: AnswerCheck | None = None,
    from_machines: Callable[[Order], Sent] | None = None,
    until: Callable[[], bool] | None = None,
) -> Phase:
    """Send the queries (q, d) under `load`, judge the answers by `truth`, and record how near the
    client was to its limits.

    check: called with the phase and its records; `with_probe_answers` has the answers themselves.
    from_machines: sends the load from other machines; see `Context.from_machines`.
    until: see `dispatch.search`; not called if other machines send the load.
    """
    judge = judge_of(truth)
    clients = load.clients if isinstance(load, ClosedLoop) else None
    load_1m = os.getloadavg()[0]
    placement = certificate.placement
    settings: dict[str, Any] = {
        "duration_s": _longest_s(load),
        "warmup_count": warmup_queries * (clients or 1),
        "warmup_s": WARMUP_S if warmup_queries else None,
        "dedicated": placement.dedicated,
        "seed": seed,
    }
    sent: Sent | None = None
    if from_machines is None:
        outcome = drive(
            search.native.target,
            [search.requests(name, queries, judge=judge)],
            [load_source(load)],
            threads=placement.threads,
            cores=placement.pins,
            progress=progress_callback(load, placement.threads, name, progress, show, until),
            **settings,
        )
        if until is not None:
            outcome["cancelled"] = False  # that end is the phase's own
    else:
        order = Order(
            to=search.native.target,
            requests=search.requests(name, queries),
            truth=(truth.k, truth.accept_offsets, truth.accept_ids, truth.available),
            source=load_source(load),
            settings=settings,
            threads=placement.threads,
            longest_s=_longest_s(load) + WARMUP_S,
        )
        sent = from_machines(order)
        outcome = sent.outcome(judge)
    (record,) = outcome["classes"]
    phase = phase_of_outcome(
        name,
        outcome,
        record,
        clients=clients,
        load_1m=load_1m,
        params=params_of(load),
        no_recall="no ground truth was given",
    )
    certify(phase, clients, certificate)
    if sent is not None:
        certify_machines(phase, sent, certificate)
    if check is not None:
        check(
            phase, PhaseAnswers(record["warmup"], Recorder(judge), record["recorder"], AnswerLog())
        )
    return phase


def with_probe_answers(
    search: NativeSearches,
    queries: NDArray[np.float32],
    truth: Truth,
    answers: PhaseAnswers,
    warm_up: NDArray[np.float32] | None = None,
) -> PhaseAnswers:
    """The answers of a phase that has ended, and answers to requests sent right after it, one at a
    time: to queries perturbed so that they are new, and to the same queries again. The engine keeps
    no answer under the clock.

    Args:
        queries: float32 (q, d), the dataset's queries, perturbed. answers: answers of the phase.
            warm_up: other queries (w, d), sent first if the store has been idle for a while:
            otherwise its first answers would be slow, as if it remembered the later ones.
    """
    requests = search.requests("probe", queries, judge=judge_of(truth), keep=True)
    source = closed(1, count=min(PROBED, len(queries)))
    if warm_up is not None:
        drive(
            search.native.target,
            [search.requests("warm-up", warm_up)],
            [closed(1, count=min(PROBED, len(warm_up)))],
            duration_s=PROBED_S,
        )
    first, later = (
        drive(search.native.target, [requests], [source], duration_s=PROBED_S)["classes"][0]
        for _ in range(2)
    )
    log = AnswerLog()
    if first["answers"] is not None:
        for which, ids, scores in zip(*first["answers"], strict=True):
            there = ids >= 0
            declared = search.native.convert_scores(scores[there])
            log.append(int(which), queries[which], ids[there], declared)
    return PhaseAnswers(answers.warmup, first["recorder"], later["recorder"], log, answers.later)


def answers(search: NativeSearches, queries: NDArray[np.float32]) -> list[NDArray[np.int64]]:
    """Ids found for each query (q, d), best first; every query is sent once, one at a time.

    Raises:
        StoreError: a request failed.
    """
    requests = search.requests("answers", queries, keep=True)
    outcome = drive(search.native.target, [requests], [closed(1, count=len(queries))])
    record = record_or_raise(outcome, "searches")
    assert record["answers"] is not None, "they were to be kept"
    which, ids, _ = record["answers"]
    if sorted(which.tolist()) != list(range(len(queries))):
        raise StoreError(f"{len(which)} answers came to {len(queries)} queries")
    return [row[row >= 0] for row in ids[np.argsort(which)]]


def load_source(load: Load, *, by_clock: bool = False) -> LoadSource:
    """A load in the form that the engine takes. by_clock: only the clock ends a closed loop."""
    if isinstance(load, ClosedLoop):
        return closed(load.clients, passes_s=None if by_clock or load.by_clock else load.min_s)
    return arrivals(load.rate, kind=load.arrivals, offsets=load.offsets, in_flight=load.in_flight)


def _longest_s(load: Load) -> float:
    return load.max_s if isinstance(load, ClosedLoop) else load.duration_s


def params_of(load: Load) -> Mapping[str, Any]:
    """Parameters of the phase that describe how the load is offered."""
    if isinstance(load, ClosedLoop):
        return {"loop": "closed", "clients": load.clients}
    return {"loop": "open", "arrivals": load.pattern, "rate": load.rate}
