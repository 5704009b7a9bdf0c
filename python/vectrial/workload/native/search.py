"""The native lane: searches that the engine sends over the wire."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Judge, Recorder
from vectrial.engine.client import Requests, arrivals, closed, drive, unfailed
from vectrial.engine.types import LoadSource
from vectrial.model.client_limits import Certificate
from vectrial.model.dataset import Truth
from vectrial.model.errors import StoreError
from vectrial.model.live import Live
from vectrial.model.phase import Phase
from vectrial.model.progress import Progress
from vectrial.model.store import NativeSearch
from vectrial.model.workload import ClosedLoop, Load
from vectrial.workload.answer_log import AnswerCheck, AnswerLog, PhaseAnswers
from vectrial.workload.ceiling import certify
from vectrial.workload.live import follower
from vectrial.workload.record import phase_of_outcome

#: Queries that are asked after a phase, and for how many seconds at most.
PROBED, PROBED_S = 500, 2.0

#: Seconds that the warm-up may take, as in the other lanes.
WARMUP_S = 5.0


def search(
    native: NativeSearch,
    filters: Sequence[bytes],
    filter_of: NDArray[np.uint32] | None,
    queries: NDArray[np.float32],
    truth: Truth,
    k: int,
    load: Load,
    certificate: Certificate,
    *,
    warmup_queries: int = 100,
    seed: int = 0,
    progress: Progress = lambda *_: None,
    show: Callable[[Live], None] = lambda _: None,
    name: str = "search",
    check: AnswerCheck | None = None,
) -> Phase:
    """Send the queries (q, d), each under its filter (see `native_searches`) under `load`, judge
    the answers by `truth`, and say how near the client was to its limits. check: called with the
    phase and its records; what its answers name is asked for by `probed`."""
    requests = Requests(
        name,
        vectors=queries,
        k=k,
        filters=filters,
        filter_of=filter_of,
        options=native.options,
        judge=Judge(truth.k, truth.accept_offsets, truth.accept_ids, truth.available),
    )
    clients = load.clients if isinstance(load, ClosedLoop) else None
    load_1m = os.getloadavg()[0]
    outcome = drive(
        native.target,
        [requests],
        [_source(load)],
        duration_s=_longest_s(load),
        warmup_count=warmup_queries * (clients or 1),
        warmup_s=WARMUP_S if warmup_queries else None,
        threads=certificate.placement.threads,
        cores=certificate.placement.pins,
        dedicated=certificate.placement.dedicated,
        seed=seed,
        progress=follower(load, certificate.placement.threads, name, progress, show),
    )
    (record,) = outcome["classes"]
    phase = phase_of_outcome(
        name,
        outcome,
        record,
        clients=clients,
        load_1m=load_1m,
        params=_params(load),
        no_recall="no ground truth was given",
    )
    certify(phase, clients, certificate)
    if check is not None:
        judge = requests.judge
        check(
            phase, PhaseAnswers(record["warmup"], Recorder(judge), record["recorder"], AnswerLog())
        )
    return phase


def probed(
    native: NativeSearch,
    filters: Sequence[bytes],
    filter_of: NDArray[np.uint32] | None,
    queries: NDArray[np.float32],
    truth: Truth,
    k: int,
    answers: PhaseAnswers,
) -> PhaseAnswers:
    """What is known of the answers of a phase that has ended, and of some asked right after it, one
    at a time: of so many queries, moved so that nobody has asked for them before, and of the same
    again. The engine keeps no answer under the clock.

    Args:
        queries: float32 (q, d), the dataset's, moved. answers: of the phase.
    """
    judge = Judge(truth.k, truth.accept_offsets, truth.accept_ids, truth.available)
    requests = Requests(
        "probe",
        vectors=queries,
        k=k,
        filters=filters,
        filter_of=filter_of,
        options=native.options,
        judge=judge,
        once=True,
        keep=True,
    )
    passes = []
    for _ in range(2):
        ended = drive(
            native.target,
            [requests],
            [closed(1, count=min(PROBED, len(queries)))],
            duration_s=PROBED_S,
        )
        passes.append(ended["classes"][0])
    first, later = passes
    log = AnswerLog()
    if first["answers"] is not None:
        for which, ids, scores in zip(*first["answers"], strict=True):
            there = ids >= 0
            log.append(int(which), queries[which], ids[there], scores[there])
    return PhaseAnswers(answers.warmup, first["recorder"], later["recorder"], log, answers.later)


def answers(
    native: NativeSearch,
    filters: Sequence[bytes],
    filter_of: NDArray[np.uint32] | None,
    queries: NDArray[np.float32],
    k: int,
) -> list[NDArray[np.int64]]:
    """Ids found for each query (q, d), best first; every one is sent once, one at a time.

    Raises:
        StoreError: a request failed.
    """
    requests = Requests(
        "answers",
        vectors=queries,
        k=k,
        filters=filters,
        filter_of=filter_of,
        options=native.options,
        once=True,
        keep=True,
    )
    outcome = drive(native.target, [requests], [closed(1, count=len(queries))])
    record = unfailed(outcome, "searches")
    assert record["answers"] is not None, "they were to be kept"
    which, ids, _ = record["answers"]
    if sorted(which.tolist()) != list(range(len(queries))):
        raise StoreError(f"{len(which)} answers came to {len(queries)} queries")
    return [row[row >= 0] for row in ids[np.argsort(which)]]


def _source(load: Load) -> LoadSource:
    if isinstance(load, ClosedLoop):
        return closed(load.clients, passes_s=None if load.by_clock else load.min_s)
    return arrivals(load.rate, kind=load.arrivals, offsets=load.offsets, in_flight=load.in_flight)


def _longest_s(load: Load) -> float:
    return load.max_s if isinstance(load, ClosedLoop) else load.duration_s


def _params(load: Load) -> Mapping[str, Any]:
    if isinstance(load, ClosedLoop):
        return {"loop": "closed", "clients": load.clients}
    return {"loop": "open", "arrivals": load.pattern, "rate": load.rate}
