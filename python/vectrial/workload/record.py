"""The phase of a recorder: all figures come from the same requests, and are checked."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Recorder, histogram_quantiles
from vectrial.engine.types import LoadOutcome, LoadRecord
from vectrial.model.consistency import ROUNDING, contradictions
from vectrial.model.phase import Phase
from vectrial.stats.quantiles import withhold_quantiles

#: The greatest share of failed operations at which a phase still counts as measured.
ERROR_SHARE = 0.001
#: How the fault of an open loop begins in which requests waited in the client for room in flight.
NO_ROOM = "no room for"
#: A closed loop has stalled in a second whose longest answer took longer than this, and than so
#: many times the phase's median.
STALL_S, STALL_MEDIANS = 0.1, 50.0
#: Largest difference between service times and the time in flight in an open loop, as a share. A
#: request whose connection has to be opened first is in flight and not in service.
OPEN_TOLERANCE = 0.01
#: An open loop is overloaded where the backlog (arrivals due, and neither answered nor failed yet)
#: grows in the third quarter of its time and in the fourth, in each by more than this share of the
#: arrivals n of a quarter ...
BACKLOG_SHARE = 0.05
#: ... and by more than this multiple of √n, the standard deviation of Poisson arrivals.
BACKLOG_DEVIATIONS = 3.0
#: Quantile of the normal distribution for an interval of 95 %.
_Z95 = 1.96


@dataclass(frozen=True)
class PhaseStart:
    """The state of process and machine when a phase begins."""

    started_ns: int
    cpu_ns: int
    load_1m: float

    @staticmethod
    def now() -> PhaseStart:
        """The state right before the first request; its clock is `time.perf_counter_ns`."""
        load_1m = os.getloadavg()[0]
        return PhaseStart(cpu_ns=time.process_time_ns(), load_1m=load_1m, started_ns=_clock())


_clock = time.perf_counter_ns


def phase_of(
    name: str,
    recorder: Recorder,
    phase_start: PhaseStart,
    *,
    ended_ns: int,
    cpu_ns: int,
    issued: int,
    clients: int,
    params: Mapping[str, Any],
    no_recall: str,
    among: int | None = None,
) -> Phase:
    """The phase made from a recorder of this process, checked for consistency.

    Args:
        recorder: recorder of all clients, started at `phase_start`, not yet finished.
        ended_ns: when the last operation was done.
        cpu_ns: `time.process_time_ns` right after it, before anything is merged or summed up.
        issued: operations sent, counted apart from the recorder.
        clients: maximum number of operations in flight.
        no_recall: why recall may be missing, for the reader.
        among: number of operations of all kinds that took turns, including these; processor time is
            that of all. None: there were no others.
    """
    recorder.finish(ended_ns)
    more: dict[str, float | None] = {"load_1m": phase_start.load_1m}
    if among:
        more["cpu_us_per_op"] = (cpu_ns - phase_start.cpu_ns) / 1e3 / among
    return _phase(
        name,
        recorder,
        (phase_start.started_ns, ended_ns),
        cpu_s=(cpu_ns - phase_start.cpu_ns) / 1e9,
        issued=issued,
        clients=clients,
        more=more,
        params=params,
        no_recall=no_recall,
    )


def phase_of_slices(
    name: str,
    recorder: Recorder,
    started_ns: int,
    seconds: float,
    *,
    longest_us: Sequence[float],
    cpu_s: float,
    issued: int,
    clients: int,
    more: Mapping[str, float | None],
    params: Mapping[str, Any],
    no_recall: str,
) -> Phase:
    """The phase of a closed loop that took turns with others, as if its slices had followed one
    another; checked for consistency.

    Args:
        recorder: recorder of all slices, shifted to begin at `started_ns`, and not yet finished.
        seconds: total of all slices, each the mean over its clients.
        longest_us: the longest latency of each slice.
        more: further metrics.
    """
    ended_ns = started_ns + round(seconds * 1e9)
    recorder.finish(ended_ns)
    phase = _phase(
        name,
        recorder,
        (started_ns, ended_ns),
        cpu_s=cpu_s,
        issued=issued,
        clients=clients,
        more=more,
        params=params,
        no_recall=no_recall,
        by_second=False,
    )
    if told := _stall_note(longest_us, phase.metrics, "slices"):
        phase.remark(told)
    return phase


def phase_of_outcome(
    name: str,
    outcome: LoadOutcome,
    record: LoadRecord,
    *,
    clients: int | None,
    load_1m: float,
    params: Mapping[str, Any],
    no_recall: str,
    expect_errors: bool = False,
    by_second: bool = True,
) -> Phase:
    """The phase made from one class of a run of the engine, checked for consistency.

    Args:
        record: one of `outcome`'s classes. Processor time, requests in flight and arrivals that
            were not sent are those of the whole run.
        clients: number of clients of a closed loop; None for an open one.
        load_1m: the machine's load average when the run began.
        no_recall: why recall may be missing, for the reader.
        expect_errors: errors, and a load that is not sustained, are what is measured.
        by_second: the phase has windows.
    """
    recorder = record["recorder"]
    seconds = (outcome["ended_ns"] - outcome["started_ns"]) / 1e9
    done = sum(one["recorder"].samples() for one in outcome["classes"])
    warm = record["warmup"].summary()
    more: dict[str, float | None] = {
        "load_1m": load_1m,
        "warmup_count": (warm["count"] or 0) + (warm["errors"] or 0),
        "warmup_errors": warm["errors"] or 0,
        "cpu_us_per_op": outcome["cpu_ns"] / 1e3 / done if done else None,
        "unanswered": record["in_flight"],
        "reconnects": outcome["reconnects"],
        "in_flight_mean": outcome["in_flight_s"] / seconds if seconds else None,
        "in_flight_peak": outcome["peak_in_flight"],
    }
    if clients is None:
        more |= _open_loop_metrics(outcome, record, seconds)
    phase = _phase(
        name,
        recorder,
        (outcome["started_ns"], outcome["ended_ns"]),
        cpu_s=outcome["cpu_ns"] / 1e9,
        issued=record["issued"] - record["in_flight"],
        clients=clients,
        more=more,
        params=params,
        no_recall=no_recall,
        expect_errors=expect_errors,
        by_second=by_second,
    )
    for fault in [] if expect_errors else _run_faults(outcome, seconds):
        phase.invalidate(fault)
    if clients is None:
        phase.histograms["lag"] = record["lag"]
        if phase.metrics["count"]:
            phase.histograms["service"] = recorder.histogram("service")
    return phase


def outcome_of_clients(
    classes: Sequence[tuple[str, Recorder, Recorder, int]],
    started_ns: int,
    ended_ns: int,
    *,
    cpu_ns: int,
    unsent: int,
    late: int,
    clients: int,
    in_flight_ns: int,
    duration_s: float,
    backlog: list[int],
) -> LoadOutcome:
    """The outcome of an open loop of Python clients, in the form of the engine's outcomes.

    Args:
        classes: for each class the name, the finished recorder, a recorder of actual minus intended
            send times, and the number of requests sent, counted apart from it.
        late: requests that were due before a client was free.
        in_flight_ns: the total time of all requests.
    """

    def record(name: str, recorder: Recorder, lag: Recorder, issued: int) -> LoadRecord:
        return {
            "name": name,
            "recorder": recorder,
            "warmup": Recorder(),
            "lag": lag.histogram("latency"),
            "issued": issued,
            "in_flight": 0,
            "rows": issued,
            "answers": None,
            "requests": None,
        }

    return {
        "classes": [record(*one) for one in classes],
        "started_ns": started_ns,
        "ended_ns": ended_ns,
        "busy_s": in_flight_ns / 1e9,
        "cpu_ns": cpu_ns,
        "unsent": unsent,
        # A client that is late is what these lanes measure; a fault where requests were lost.
        "in_flight_limit_hits": late if unsent else 0,
        "peak_in_flight": clients,
        "in_flight_s": in_flight_ns / 1e9,
        "reconnects": 0,
        "cancelled": False,
        "duration_s": duration_s,
        "backlog": backlog,
    }


def _run_faults(outcome: LoadOutcome, seconds: float) -> list[str]:
    """Faults of the run as a whole."""
    faults = []
    if overloaded := _why_overloaded(outcome, seconds):
        faults.append(overloaded)
    if outcome["cancelled"]:
        faults.append("the run was stopped before its end")
    if outcome["in_flight_limit_hits"]:
        faults.append(
            f"{NO_ROOM} {outcome['in_flight_limit_hits']} requests beside the"
            f" {outcome['peak_in_flight']} in flight: they had to wait in the client,"
            f" and {outcome['unsent']} were not sent"
        )
    return faults


def _why_overloaded(outcome: LoadOutcome, seconds: float) -> str | None:
    """Reason why the offered rate could not be sustained, or None: the backlog kept growing.

    Let B(t) be the requests due but not done by t, T the time given and n the arrivals in a quarter
    of it. The load is an overload if B(3T/4) - B(T/2) and B(T) - B(3T/4) are both above
    max(`BACKLOG_SHARE` n, `BACKLOG_DEVIATIONS` √n). A pause of the server, even at the end, lets
    one of them grow; a long but steady queue, neither.
    """
    backlog = outcome["backlog"]
    if backlog is None or outcome["cancelled"]:
        return None
    arrivals = sum(record["issued"] for record in outcome["classes"]) + outcome["unsent"]
    quarter = arrivals / len(backlog)
    _, half, late, end = backlog
    if min(late - half, end - late) <= max(
        BACKLOG_SHARE * quarter, BACKLOG_DEVIATIONS * quarter**0.5
    ):
        return None
    rate = f"{arrivals / _offered_s(outcome, seconds):,.0f}/s"
    return (
        f"overloaded: {(end - half) / (2 * quarter):.0%} of the arrivals of the second half were"
        f" left over ({half:,}, {late:,} and {end:,} were waiting at its begin, middle and end):"
        f" {rate} are not sustained, and latencies depend on how long the phase lasts"
    )


def _offered_s(outcome: LoadOutcome, seconds: float) -> float:
    """Time during which requests were offered, without the wait for the last ones."""
    duration_s = outcome["duration_s"]
    return seconds if duration_s is None else min(duration_s, seconds)


def _open_loop_metrics(
    outcome: LoadOutcome, record: LoadRecord, seconds: float
) -> dict[str, float | None]:
    """Metrics of an open loop: the requests offered, their outcomes, and the delay in sending."""
    names, seconds = ("p50", "p99"), _offered_s(outcome, seconds)
    recorder, unsent = record["recorder"], outcome["unsent"]
    answered = bool(recorder.summary()["count"])
    service = histogram_quantiles(recorder.histogram("service"), [0.5, 0.99]) if answered else None
    lag = histogram_quantiles(record["lag"], [0.5, 0.99]) if record["issued"] else None
    out: dict[str, float | None] = {
        "offered_rate": (record["issued"] + unsent) / seconds if seconds else None,
        "sent_rate": record["issued"] / seconds if seconds else None,
        "unsent": unsent,
        "in_flight_limit_hits": outcome["in_flight_limit_hits"],
        "littles_law": _open_loop_littles_law(outcome),
    }
    if (backlog := outcome["backlog"]) is not None:
        out["backlog"] = backlog[-1]
    out |= {f"service_{n}": None if service is None else service[i] for i, n in enumerate(names)}
    return out | {f"schedule_lag_{n}": None if lag is None else lag[i] for i, n in enumerate(names)}


def _open_loop_littles_law(outcome: LoadOutcome) -> float | None:
    """Total service time divided by requests in flight integrated over time: 1 by Little's law.
    None if any request failed or was never answered, since its service time is not recorded."""
    for record in outcome["classes"]:
        if record["in_flight"] or record["recorder"].summary()["errors"]:
            return None
    service_s = sum(record["recorder"].total_s("service") for record in outcome["classes"])
    return service_s / outcome["in_flight_s"] if outcome["in_flight_s"] else None


def _phase(
    name: str,
    recorder: Recorder,
    between_ns: tuple[int, int],
    *,
    cpu_s: float,
    issued: int,
    clients: int | None,
    more: Mapping[str, float | None],
    params: Mapping[str, Any],
    no_recall: str,
    expect_errors: bool = False,
    by_second: bool = True,
) -> Phase:
    """A phase from a finished recorder. clients: None for an open loop, whose `littles_law` is in
    `more`. by_second: the phase has windows of its seconds."""
    seen = recorder.summary()
    metrics: dict[str, float | None] = dict(seen)
    count, errors = int(seen["count"] or 0), int(seen["errors"] or 0)
    if clients is not None:
        qps, mean_us = seen["qps"], seen["latency_mean"]
        law = None if qps is None or mean_us is None else qps * mean_us / 1e6 / clients
        metrics |= {"concurrency": clients, "littles_law": law}
    if (error := recall_error(*recorder.query_recall())) is not None:
        metrics["recall_error"] = error
    metrics |= {"cpu_s": cpu_s, "cpu_us_per_op": cpu_s * 1e6 / count if count else None, **more}
    reason = _fault(count, errors, issued, clients, metrics, expect_errors)
    histograms = {"latency": recorder.histogram("latency")} if count else {}
    if errors:
        histograms["error"] = recorder.histogram("error")
    windows: dict[str, Mapping[str, Sequence[float | int | None]]] = {}
    if by_second:
        windows[name] = recorder.windows()
    told = None
    if clients is not None and windows:
        longest_us = [value for value in windows[name]["max_us"] if value is not None]
        told = _stall_note(longest_us, metrics, "seconds")
    phase = Phase(
        name=name,
        started_ns=between_ns[0],
        ended_ns=between_ns[1],
        params=params,
        metrics=metrics,
        missing=_missing_reasons(metrics, count, errors, no_recall),
        histograms=histograms,
        windows=windows,
        errors=recorder.errors(),
        valid=reason is None,
        reason="; ".join(filter(None, (reason, told))) or None,
    )
    withhold_quantiles(phase)
    return phase


def recall_error(sums: NDArray[np.float64], counts: NDArray[np.int64]) -> float | None:
    """Half of the 95 % interval of a phase's mean recall, as an estimate of the recall of whole
    passes, in which every query would be answered equally often.

    The number of answers to a query (in a loop that the clock ended) is unrelated to its recall,
    since the order is random. Under all permutations of the counts c over the Q queries the mean
    Σcr / Σc has the variance S² Σ(c - c̄)² / (Σc)², with S² the variance of recall over queries:
    S²/n · (1 - n/Q) if n queries were answered once and the others not at all.

    Args:
        sums, counts: for each query (q,), its answers' summed recalls, and their number.

    Returns:
        0 after whole passes; None without recall, or if fewer than two queries were answered.
    """
    answered = counts > 0
    if len(counts) and (counts == counts[0]).all() and counts[0]:
        return 0.0
    if answered.sum() < 2:
        return None
    recall = sums[answered] / counts[answered]
    uneven = float(((counts - counts.mean()) ** 2).sum())
    return float(_Z95 * recall.std(ddof=1) * uneven**0.5 / counts.sum())


def _stall_note(
    longest_us: Sequence[float], metrics: dict[str, float | None], parts: str
) -> str | None:
    """Note on the stalls of a closed loop, which its percentiles hardly show: no request is sent
    during a stall that would wait as well. Counted in parts of the phase, seconds or slices, whose
    longest latency was so long."""
    median = metrics.get("latency_p50")
    if median is None or not longest_us:
        return None
    least_us = max(STALL_S * 1e6, STALL_MEDIANS * median)
    stalls = [value for value in longest_us if value > least_us]
    metrics["stalls"] = len(stalls)
    p99 = metrics.get("latency_p99")
    if not stalls or p99 is None or p99 > least_us:  # the percentile tells by itself
        return None
    times = "once" if len(stalls) == 1 else f"in {len(stalls)} of {len(longest_us)} {parts}"
    return (
        f"stalled {times}, for up to {max(stalls) / 1e6:.2g} s, which p99 does not show: a closed"
        " loop sends nothing while it waits; an open loop shows how long clients would wait"
    )


_OF_ANSWERS = ("recall_mean", "recall_p05", "recall_min", "incomplete_results", "duplicate_answers")


def _missing_reasons(
    metrics: Mapping[str, float | None], count: int, errors: int, no_recall: str
) -> dict[str, str]:
    def why(name: str) -> str:
        if not count:
            return "no operation succeeded"
        if name in _OF_ANSWERS:
            return no_recall
        if name == "littles_law":
            failed = f"{errors} operations failed" if errors else "not everything was answered"
            return f"{failed}: their time in service is not known"
        return "nothing was recorded"

    return {name: why(name) for name, value in metrics.items() if value is None}


def _fault(
    count: int,
    errors: int,
    issued: int,
    clients: int | None,
    metrics: Mapping[str, float | None],
    expect_errors: bool,
) -> str | None:
    """Fault of a phase, or None. An impossible value is a fault of the harness: every sample
    lies within the phase."""
    faults = []
    if count + errors != issued:
        faults.append(f"{issued} operations were sent, but {count} + {errors} errors recorded")
    if errors and not count:
        faults.append(f"all {errors} operations failed")
    elif not count:
        faults.append("nothing was measured")
    elif not expect_errors and errors > ERROR_SHARE * (count + errors):
        share = errors / (count + errors)
        faults.append(
            f"{errors} of {count + errors} operations failed: {share:.2%}, more than"
            f" {ERROR_SHARE:.1%}"
        )
    faults += contradictions(metrics, clients=clients)
    law = metrics.get("littles_law")
    if law is not None and clients is None and not -OPEN_TOLERANCE < law - 1 < ROUNDING:
        faults.append(f"service times are {law:.4f} of the requests in flight over time, not 1")
    return "; ".join(faults) or None
