"""The client's ceiling: the rate that the client alone can reach, and how near to it a trial came.

The native lane is driven against the null server, which answers at once, with requests and answers
of the same size and as many in flight as a trial will have. The rate that it reaches there is its
ceiling: no store can be measured beyond it, nor well near it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from vectrial.engine.client import Requests, closed, drive, target
from vectrial.engine.null_server import null_server
from vectrial.engine.parts import Sent
from vectrial.model.errors import StoreError
from vectrial.model.phase import Phase
from vectrial.model.placement import Ceiling, Certificate, ClientLimits, Placement

#: The family of null server that answers in each protocol's own messages.
FAMILIES: Mapping[str, str] = {
    "null-grpc": "grpc",
    "milvus": "grpc",
    "qdrant": "grpc",
    "weaviate": "grpc",
    "elasticsearch": "http",
    "redis": "resp",
    "redis-pipelined": "resp",
    "flight": "flight",
    "postgres": "postgres",
}
#: Requests in flight at which the ceiling of open loops is taken, and of closed ones with more:
#: beyond it the client gains nothing, since every system call carries several requests already.
MOST_IN_FLIGHT = 32
#: Options that a protocol requires, by its names for them; the null server has no collections.
_NOWHERE = {"collection": "null", "dataset": "null", "table": "null"}
_QUERIES = 500
_MARK = "client-bound"
_WARMUP_S, _MEASURE_S = 0.2, 0.6


def in_flight_for(clients: int | None, machines: int = 0) -> int:
    """Requests in flight at which a machine's ceiling is measured, for this many clients of a
    closed loop, or for an open one (None). machines: number of machines that share the clients; 0
    and 1 are the same."""
    if clients is None:
        return MOST_IN_FLIGHT
    return min(-(-clients // max(1, machines)), MOST_IN_FLIGHT)


@dataclass(frozen=True)
class Searches:
    """Searches whose ceiling is measured. protocol: one of `FAMILIES`. dialect: which of its
    searches; see `Store.dialect`. dim: dimension of the queries. k: rows of an answer. in_flight:
    requests at once."""

    protocol: str
    dim: int
    k: int
    in_flight: int
    dialect: Mapping[str, str] = field(default_factory=dict)


def measure(searches: Searches, placement: Placement) -> Ceiling:
    """Drive a null server that speaks the protocol of the searches, for less than a second.

    Raises:
        KeyError: there is no null server for the protocol; see `FAMILIES`.
        StoreError: it does not start, or nothing was answered.
    """
    family, options = FAMILIES[searches.protocol], {**_NOWHERE, **searches.dialect}
    queries = np.random.default_rng(0).random((_QUERIES, searches.dim), dtype=np.float32)
    with null_server(family, k=searches.k, cores=placement.server_cores or ()) as server:
        outcome = drive(
            target(searches.protocol, server.host, server.port, options=searches.dialect),
            [Requests("search", vectors=queries, k=searches.k, options=options)],
            [closed(searches.in_flight)],
            warmup_s=_WARMUP_S,
            duration_s=_MEASURE_S,
            threads=placement.threads,
            cores=placement.pins,
        )
    seen = outcome["classes"][0]["recorder"].summary()
    if not seen["count"] or not seen["qps"]:
        raise StoreError(f"the null server ({family}) answered nothing")
    return Ceiling(searches.in_flight, seen["qps"], outcome["cpu_ns"] / 1e3 / seen["count"])


def certify(phase: Phase, clients: int | None, certificate: Certificate) -> None:
    """Write into a phase of the native lane how near to its limits the client was, and mark the
    phase if the client exceeded one. clients: closed-loop clients; None for an open loop."""
    limits, placement = certificate.limits, certificate.placement
    metrics = phase.metrics
    seconds = (phase.ended_ns - phase.started_ns) / 1e9
    cpu_s = metrics["cpu_s"] or 0.0
    threads = placement.threads * max(1, placement.client_machines)
    cpu_share = cpu_s / seconds / threads if seconds else None
    metrics["client_cpu_share"] = cpu_share
    in_flight = in_flight_for(clients, placement.client_machines)
    ceiling = certificate.ceilings.get(in_flight)
    rate = metrics["qps"] if clients is not None else metrics["sent_rate"]
    share = rate / ceiling.qps if ceiling is not None and rate is not None else None
    metrics |= {"ceiling_qps": ceiling.qps if ceiling else None, "ceiling_share": share}
    for name in ("ceiling_qps", "ceiling_share", "client_cpu_share"):
        if metrics[name] is None:
            phase.missing[name] = certificate.lacking or "nothing was measured"
    # A loop that waits by turning takes its core whole, whatever it has to do.
    turning = placement.dedicated and clients is None
    ceiling_qps = None if ceiling is None else ceiling.qps
    if share is not None and share > 1:
        certificate.disproved.add(in_flight)
    if in_flight in certificate.disproved:
        ceiling_qps = None
    faults = _exceeded_limits(
        limits, "the client", None if turning else cpu_share, rate, ceiling_qps
    )
    if clients is None and (late := _why_late(metrics, limits)):
        faults.append(late)
    if faults:
        reasons = [phase.reason] if phase.reason else []
        phase.valid = False
        phase.reason = "; ".join([*reasons, f"{_MARK}: {', '.join(faults)}"])
    if share is not None and ceiling is not None and share > 1:
        phase.remark(
            f"{share:.0%} of the {ceiling.qps:,.0f} requests/s that the client reached before the"
            " run: something else was busy then, and the phase is not held to it"
        )


def certify_machines(phase: Phase, sent: Sent, certificate: Certificate) -> None:
    """Write into a phase who sent it and how closely the machines' starts agree, and mark it if a
    machine exceeded a limit or is lost. `certify` holds their sum to the limits; machines are of
    one kind, so each one's ceiling is an equal part of the total."""
    placement = certificate.placement
    phase.params = {**phase.params, "client_machines": len(sent.parts)}
    phase.remark(f"sent by {' and '.join(sent.parts)}; they began within {sent.error_us:,.0f} µs")
    for why in sent.lost:
        phase.invalidate(why)
    in_flight = in_flight_for(phase.params.get("clients"), placement.client_machines)
    together_qps = phase.metrics.get("ceiling_qps")
    if in_flight in certificate.disproved:
        together_qps = None
    ceiling_qps = together_qps and together_qps / len(sent.parts)
    turning = placement.dedicated and phase.params.get("loop") == "open"
    for name, part in sent.parts.items():
        seconds = (part.fields["ended_ns"] - part.fields["started_ns"]) / 1e9
        if not seconds:
            continue
        cpu_share = part.fields["cpu_ns"] / 1e9 / seconds / placement.threads
        rate = sum(one["issued"] for one in part.classes) / seconds
        for fault in _exceeded_limits(
            certificate.limits, name, None if turning else cpu_share, rate, ceiling_qps
        ):
            phase.invalidate(f"{_MARK}: {fault}")


def _exceeded_limits(
    limits: ClientLimits,
    client: str,
    cpu_share: float | None,
    rate: float | None,
    ceiling_qps: float | None,
) -> list[str]:
    """The limits that a client of this name exceeded. A value that is None is not held to a
    limit."""
    faults = []
    if cpu_share is not None and cpu_share > limits.cpu_share:
        faults.append(
            f"{client} used {cpu_share:.0%} of its processor time, more than {limits.cpu_share:.0%}"
        )
    if rate is not None and ceiling_qps and rate / ceiling_qps > limits.ceiling_share:
        faults.append(
            f"{rate / ceiling_qps:.0%} of the {ceiling_qps:,.0f} requests/s that {client} can send,"
            f" more than {limits.ceiling_share:.0%}"
        )
    return faults


def is_client_bound(phase: Phase, limits: ClientLimits) -> bool:
    """True if the client exceeded one of its limits: in the native lane by the marks of the phase,
    in the sdk lane by the processor time of its processes. An embedded client and its store are one
    process."""
    if phase.reason is not None and _MARK in phase.reason:
        return True
    in_processes = phase.metrics.get("client_processes") is not None
    return in_processes and (phase.metrics.get("client_cpu_share") or 0.0) > limits.cpu_share


def faults_without_client(phase: Phase) -> list[str]:
    """Faults of a phase, except the client's own limits; remarks on a valid phase are not
    faults."""
    if phase.valid:
        return []
    said = (phase.reason or "").partition(f"{_MARK}: ")[0]
    return [fault for fault in said.split("; ") if fault]


def _why_late(metrics: Mapping[str, float | None], limits: ClientLimits) -> str | None:
    """Reason why requests were sent late, or None. Requests that waited for room in flight do not
    count: the server causes that wait."""
    # Too few requests have no p99; half of them late is late.
    for name in ("p99", "p50"):
        lag, latency = metrics.get(f"schedule_lag_{name}"), metrics.get(f"latency_{name}")
        if lag is None or latency is None:
            continue
        if metrics.get("in_flight_limit_hits"):
            return None
        if lag <= limits.lag_us or lag <= limits.lag_share * latency:
            return None
        return (
            f"{name} of the schedule lag is {lag:,.0f} µs, of a {name} latency of {latency:,.0f} µs"
        )
    return None
