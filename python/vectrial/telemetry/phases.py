"""A server's usage in each phase, from the samples of its trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vectrial.model.phase import Phase

#: The name of the client in the samples.
CLIENT = "client"
#: Shortest time that has a rate: the system counts processor time in steps of 10 ms.
_LEAST_S = 0.1
#: Longest delay of the last sample of a phase after its end, in seconds and as a share of its
#: length: after a longer one the sample counts other work, too.
_LATE_S, _LATE_SHARE = 0.25, 0.05
#: Metric → the counter in the samples that it is the growth of.
_COUNTERS = {
    "server_read_bytes": ("read_bytes",),
    "server_write_bytes": ("write_bytes",),
    "server_major_faults": ("major_faults",),
    "server_link_bytes": ("link_bytes",),
    "server_link_packets": ("link_packets",),
    "server_switches": ("voluntary_switches", "involuntary_switches"),
}


def why_not_sampled(phase: Phase, sampled_ns: int) -> str | None:
    """The reason why samples until `sampled_ns` (`time.perf_counter_ns`) are not the phase's own,
    or None."""
    if phase.unsampled is not None:
        return phase.unsampled
    ended_ns = phase.ended_ns + phase.paused_ns
    late_s, length_s = (sampled_ns - ended_ns) / 1e9, (ended_ns - phase.started_ns) / 1e9
    if late_s <= max(_LATE_S, _LATE_SHARE * length_s):
        return None
    return f"it was told {late_s:.1f} s after its end: what the server did in it is not known"


def add_server_metrics(
    phases: Sequence[Phase], samples: Sequence[Mapping[str, Any]], started_ns: int
) -> None:
    """Add the server's usage to the metrics of every phase in which it was sampled.

    Counters are read at the phase's end, when a sample is taken, and interpolated at its start
    between the samples around it, which are a second apart. A rate is over the time in which its
    counter was read; the phase's clock may have run for less.

    A phase whose usage is unknown gets the reason instead.

    Args:
        samples: samples of one trial from `Sampler.rows`. started_ns: the trial's start.
    """
    servers = [row for row in samples if row["process"] != CLIENT]
    for phase in phases if servers else ():
        if phase.unsampled is not None:
            phase.missing |= dict.fromkeys(("server_cpu_s", "server_cores"), phase.unsampled)
    for name in dict.fromkeys(row["process"] for row in servers):
        own = [row for row in servers if row["process"] == name]
        starts = [phase.started_ns for phase in phases]
        for ordinal, phase in enumerate(phases):
            at_s = (phase.started_ns - started_ns) / 1e9
            inside = [row for row in own if row["phase"] == ordinal]
            if inside:
                _add_usage(
                    phase, own, inside, at_s, starts_alone=starts.count(phase.started_ns) == 1
                )


def _add_usage(
    phase: Phase,
    rows: Sequence[Mapping[str, Any]],
    samples_inside: Sequence[Mapping[str, Any]],
    at_s: float,
    *,
    starts_alone: bool,
) -> None:
    """Add the usage of one server process tree to the phase's. starts_alone: no other phase began
    at the same moment; phases of operations that are sent in turns do."""
    last = samples_inside[-1]
    span_s = last["at_s"] - at_s
    _add_metric(phase, "server_cpu_s", cpu_between(rows, at_s, last))
    total = phase.metrics["server_cpu_s"]
    count = phase.metrics.get("count")
    if total is not None:
        if span_s >= _LEAST_S:
            phase.metrics["server_cores"] = total / span_s
        else:
            phase.missing["server_cores"] = "shorter than processor time is told in"
        if count and starts_alone:
            phase.metrics["server_cpu_us_per_op"] = total / count * 1e6
        elif count:
            phase.missing["server_cpu_us_per_op"] = "its operations took turns with others"
    for metric, counters in _COUNTERS.items():
        parts = [growth(rows, counter, at_s, last) for counter in counters]
        known = [part for part in parts if part is not None]
        if known:
            _add_metric(phase, metric, sum(known))
    _add_metric(phase, "server_rss_bytes", last["rss_bytes"])
    _add_metric(phase, "server_peak_rss_bytes", _peak(rows, samples_inside))
    _add_metric(phase, "server_threads", last["threads"])
    disk = [row["disk_bytes"] for row in rows if row["at_s"] <= last["at_s"]]
    known = [one for one in disk if one is not None]
    if known:
        _add_metric(phase, "server_disk_bytes", known[-1])


def cpu_between(
    rows: Sequence[Mapping[str, Any]], at_s: float, last: Mapping[str, Any]
) -> float | None:
    """Processor seconds from `at_s` to the sample `last`, of the process's own control group if it
    has one."""
    if last.get("group_cpu_s") is not None:
        grown = growth(rows, "group_cpu_s", at_s, last)
        if grown is not None:
            return grown
    return growth(rows, "cpu_s", at_s, last)


def growth(
    rows: Sequence[Mapping[str, Any]], counter: str, at_s: float, last: Mapping[str, Any]
) -> float | None:
    """The growth of a counter from `at_s`, interpolated between samples, to the sample `last`; None
    if unknown."""
    known = [row for row in rows if row.get(counter) is not None]
    if last.get(counter) is None or not known:
        return None
    before = [row for row in known if row["at_s"] <= at_s]
    after = [row for row in known if row["at_s"] > at_s]
    if not before:  # the phase began with the trial
        return float(last[counter] - known[0][counter])
    base, low = before[-1][counter], before[-1]["at_s"]
    if after and after[0]["at_s"] > low:
        share = (at_s - low) / (after[0]["at_s"] - low)
        base += (after[0][counter] - base) * share
    return max(0.0, float(last[counter] - base))


def _peak(
    rows: Sequence[Mapping[str, Any]], samples_inside: Sequence[Mapping[str, Any]]
) -> float | None:
    """Peak memory in a phase: the kernel's record if it grew meanwhile, else the largest sample."""
    seen = max(row["rss_bytes"] for row in samples_inside)
    earlier = [row for row in rows if row["at_s"] < samples_inside[0]["at_s"]]
    ends, began = samples_inside[-1].get("peak_rss_bytes"), None
    if earlier:
        began = earlier[-1].get("peak_rss_bytes")
    if ends is not None and (began is None or ends > began):
        return float(max(ends, seen))
    return float(seen)


def _add_metric(phase: Phase, metric: str, value: float | int | None) -> None:
    if value is None:
        phase.metrics.setdefault(metric, None)
        return
    phase.metrics[metric] = (phase.metrics.get(metric) or 0.0) + float(value)
