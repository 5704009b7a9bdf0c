"""Figures that contradict each other within one measurement, whatever its source.

Every phase is checked when it is recorded (`workload.record`), every phase of a stored run when it
is read (`analysis.audit`), and every published row in the reports (`inconsistencies`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

#: Rounding of sums and quotients of float64.
ROUNDING = 1e-6
#: Percentiles are bounds of a histogram's buckets, which have three significant digits.
BUCKET = 2e-3
#: Two clocks are read where a rate and its time are compared: before and after the samples.
CLOCKS = 1e-3

#: Ratio of the median times of first and later answers to the same queries from which answers are
#: called cached: processor caches make less of a difference ...
REMEMBERED = 1.5
#: ... if both medians are of at least this many answers, and the first answers took this many
#: seconds in total. Shorter phases may have met a bad moment of the machine, unless the ratio is
#: at least the third value.
REMEMBERED_OF, REMEMBERED_S, REMEMBERED_AT_ONCE = 30, 0.1, 5.0

#: Beginnings of the sentences of `cache_suspicion`: each repeat has its own figures in them.
FIRST_ANSWERS = "the first answer to each query took"
NEW_QUERIES = "right after the phase a new query took"

_PERCENTILES = ("p50", "p90", "p95", "p99", "p99_9")
_STEPS = ("load_s", "flush_s", "build_s", "wait_s")


def contradictions(
    figures: Mapping[str, float | None],
    *,
    clients: float | None = None,
    rounding: float = ROUNDING,
) -> list[str]:
    """Contradictions among the figures of one measurement, a sentence each.

    Args:
        figures: by metric of `vectrial.model.results_schema`, in its units; also `duration_s`, the
            measured time if known.
        clients: number in a closed loop, each with one request in flight; None for other loads.
        rounding: relative error that rounding may have caused in the figures.
    """
    known = {name: float(value) for name, value in figures.items() if value is not None}
    return [
        *_in_flight_contradictions(known, clients, rounding),
        *_rate(known, rounding),
        *_order(known, rounding),
        *_recall(known, rounding),
        *_sum_contradictions(known, rounding),
        *_size(known, rounding),
    ]


def cache_suspicion(figures: Mapping[str, float | None]) -> str | None:
    """A statement that answers to queries took longer than answers to the same or to like queries,
    as when a store caches answers or the machine was disturbed for a while; None if they did
    not."""
    first, later = figures.get("first_pass_p50"), figures.get("later_pass_p50")
    counts = [figures.get(f"{name}_pass_count") or 0 for name in ("first", "later")]
    if first and later and _is_longer(first, later, counts):
        return (
            f"{FIRST_ANSWERS} {first:,.0f} us (median), later ones to the same queries"
            f" {later:,.0f} us"
        )
    unlike, like = figures.get("unfamiliar_p50"), figures.get("familiar_p50")
    if unlike and like and _is_longer(unlike, like, [figures.get("familiar_count") or 0]):
        return (
            f"{NEW_QUERIES} {like:,.0f} us (median) if it was like those that were sent, and"
            f" {unlike:,.0f} us if it was not"
        )
    return None


def _is_longer(longer: float, shorter: float, counts: Sequence[float]) -> bool:
    """True if a median is longer than another by more than processor caches make of it. counts:
    numbers of answers, the first of them that of the longer."""
    if min(counts) < REMEMBERED_OF:
        return False
    brief = longer * counts[0] < REMEMBERED_S * 1e6
    return longer > (REMEMBERED_AT_ONCE if brief else REMEMBERED) * shorter


def _in_flight_contradictions(
    known: Mapping[str, float], clients: float | None, rounding: float
) -> Iterator[str]:
    """Little's law: throughput × mean latency is the mean number of requests in flight."""
    if clients and "qps" in known and "latency_mean" in known:
        share = known["qps"] * known["latency_mean"] / 1e6 / clients
        if share > 1 + rounding:
            yield f"qps × mean latency is {share:.4f} of the clients: more than can be"


def _rate(known: Mapping[str, float], rounding: float) -> Iterator[str]:
    if {"qps", "count", "duration_s"} <= known.keys() and known["duration_s"]:
        rate = known["count"] / known["duration_s"]
        if abs(known["qps"] - rate) > max(rounding, CLOCKS) * rate:
            yield (
                f"{known['count']:,.0f} in {known['duration_s']:.4g} s are {rate:.4g}/s,"
                f" not {known['qps']:.4g}/s"
            )


def _order(known: Mapping[str, float], rounding: float) -> Iterator[str]:
    """Least ≤ mean ≤ greatest, and percentiles ascend between them. Figures of a histogram that was
    too small for its latencies (`saturated`) are ignored."""
    shown = ["latency_min", "latency_mean", "latency_max"]
    yield from _order_contradictions(
        [(name, known[name]) for name in shown if name in known], rounding
    )
    if not known.get("saturated"):
        percentiles = (f"latency_{name}" for name in _PERCENTILES)
        names = ("latency_min", *percentiles, "latency_max")
        yield from _order_contradictions(
            [(n, known[n]) for n in names if n in known], max(rounding, BUCKET)
        )
    names = ("recall_min", "recall_p05")
    yield from _order_contradictions([(n, known[n]) for n in names if n in known], rounding)


def _order_contradictions(values: Sequence[tuple[str, float]], rounding: float) -> Iterator[str]:
    for (low, less), (high, more) in pairwise(values):
        if less > more * (1 + rounding) + 1e-9:
            yield f"{low} is {less:.6g}, above {high}, which is {more:.6g}"


def _recall(known: Mapping[str, float], rounding: float) -> Iterator[str]:
    for name in ("recall_mean", "recall_p05", "recall_min"):
        if not -rounding <= known.get(name, 0.0) <= 1 + rounding:
            yield f"{name} is {known[name]:.6g}, which is no share"


def _sum_contradictions(known: Mapping[str, float], rounding: float) -> Iterator[str]:
    if "ready_s" in known and set(_STEPS) <= known.keys():
        # Results that were measured before the first search was a step have none.
        whole = sum(known[name] for name in _STEPS) + known.get("first_search_s", 0.0)
        if abs(known["ready_s"] - whole) > max(rounding, CLOCKS) * whole + 1e-6:
            yield f"ready_s is {known['ready_s']:.4g}, and its parts are {whole:.4g} together"


def _size(known: Mapping[str, float], rounding: float) -> Iterator[str]:
    if not {"disk_bytes", "raw_bytes"} <= known.keys():
        return
    if known["disk_bytes"] < known["raw_bytes"] * (1 - rounding):
        share = known["disk_bytes"] / known["raw_bytes"]
        yield (
            f"{share:.0%} of the bytes of the raw vectors on disk: compressed, or not all of it is"
            " there"
        )
