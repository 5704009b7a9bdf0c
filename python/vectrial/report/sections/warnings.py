"""Warnings at the head of a report."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from vectrial.analysis import interference
from vectrial.analysis.analysis import sweeps
from vectrial.analysis.audit import UNBELIEVED
from vectrial.analysis.run_data import Point, RunData
from vectrial.model.phase import Role
from vectrial.report.sections.gate import wrong_stores
from vectrial.report.sections.provenance import flat_items
from vectrial.stats.intervals import LEAST_REPEATS
from vectrial.stats.turns import LEAST_LOADS
from vectrial.util import formatting

#: A load average that is above the cores by this share when a phase began deserves a warning, since
#: something else was using the machine.
BUSY = 0.5
#: Loads shorter than this (seconds) and latencies of fewer operations give a warning.
BRIEF_S, THIN = 0.1, 10
#: A setting that answers faster by this share than one of less work, beyond the spread of both, is
#: told: the work does not explain it.
AGAINST_SENSE = 0.05


def warnings(run: RunData) -> tuple[str, ...]:
    """Warnings for the reader, most serious first."""
    found: list[str] = []
    found += wrong_stores(run)
    counts = Counter(t.status for t in run.trials)
    for status, what in (("failed", "failed"), ("skipped", "skipped")):
        if counts[status]:
            found.append(
                f"{formatting.plural(counts[status], 'trial')} {what}; the report has the reasons."
            )
    invalid = [p for p in run.points if p.state == "invalid" and p.reason]
    if invalid:
        found.append(
            f"{formatting.plural(len(invalid), 'row')} of measurements "
            f"{'is' if len(invalid) == 1 else 'are'} invalid and excluded; the report has the"
            " reasons."
        )
    if doubtful := run.doubts:
        found.append(
            f"{formatting.plural(len(doubtful), 'figure')} "
            f"{'contradicts' if len(doubtful) == 1 else 'contradict'} other recorded values; "
            "the report has the reasons."
        )
    found += _unranked_warnings(run)
    few = _few_repeats(run)
    if few:
        found.append(f"{few}: no interval, so small differences may be chance.")
    loads = min((point.repeats for point in run.points if _has_slices(run, point)), default=None)
    if loads is not None and loads < LEAST_LOADS:
        found.append(
            f"In turns with {formatting.plural(loads, 'load')} of each store: what is decided is "
            f"true of these indexes. Of the stores, {LEAST_LOADS} loads decide it: `--repeats "
            f"{LEAST_LOADS}`."
        )
    if dict(flat_items(run.run["environment"])).get("git.dirty"):
        found.append("Measured with uncommitted changes to Vectrial.")
    found += filter(
        None,
        (
            _brief_phases(run),
            _thin_rows(run),
            _implausible_speedups(run),
            _swapping(run),
            _busy_machine(run),
        ),
    )
    found += interference.sentences(run)
    facts = dict(flat_items(run.run["environment"]))
    if clock_set_s := facts.get("clock_set_s"):
        found.append(
            f"The wall clock was set by {formatting.duration(abs(float(clock_set_s)) * 1e6)} while"
            " the run was measured: times of day after that are off; durations are not."
        )
    others = facts.get("resumed_at_revisions")
    if others:
        found.append(
            f"Measured with more than one Vectrial revision: resumed at {', '.join(others)}."
        )
    if run.run.get("finished_at") is None:
        found.append(
            "The run did not finish: this report covers what was measured before it stopped."
        )
    again = {
        row["name"]: f"{row['facts']['repeated_queries']:,} of the {row['queries']:,} queries of"
        f" {row['name']} repeat an earlier one: a store that caches results gets these for free."
        for row in run.datasets
        if row["facts"].get("repeated_queries")
    }
    found += again.values()
    stand_ins = {row["name"]: row["stand_in_for"] for row in run.datasets if row["stand_in_for"]}
    found += [
        f"{name} stands in for {other}; it is a different dataset."
        for name, other in stand_ins.items()
    ]
    return tuple(found)


def _unranked_warnings(run: RunData) -> Iterator[str]:
    """Measured points that are on no front, by store, except points that are not credible."""
    said: dict[str, dict[str, None]] = defaultdict(dict)
    for point in run.points:
        if point.state == "ok" and point.doubt and not point.doubt.startswith(UNBELIEVED):
            said[run.labels[point.series]][point.doubt] = None
    for store, reasons in said.items():
        first, *more = reasons
        others = f" (and {len(more)} more reasons)" if more else ""
        yield f"{store} has measurements that are not ranked: {first}{others}."


def _few_repeats(run: RunData) -> str:
    """'1 repeat of ingest and footprint; 2 repeats of crud': experiments with too few repeats. If a
    search for an answer decides what is measured next, only the answer can have repeats."""
    least: dict[str, int] = {}
    for point in run.points:
        if point.role == Role.STEP or _has_slices(run, point):
            continue
        if point.state == "ok":
            known = least.get(point.experiment, point.repeats)
            least[point.experiment] = min(known, point.repeats)
    few: dict[int, list[str]] = defaultdict(list)
    for experiment, count in least.items():
        if count < LEAST_REPEATS:
            few[count].append(experiment.replace("_", " "))
    return "; ".join(
        f"{formatting.plural(count, 'repeat')} of {formatting.list_in_words(names)}"
        for count, names in sorted(few.items())
    )


def _has_slices(run: RunData, point: Point) -> bool:
    """True if a point's interval comes from slices, not from repeats."""
    return bool(point.phases) and all(one.phase_id in run.slices for one in point.phases)


def _brief_phases(run: RunData) -> str | None:
    loads = [v for _, p in run.phases() if p.name == "load" and (v := p.value("load_s"))]
    brief = [seconds for seconds in loads if seconds < BRIEF_S]
    if not brief:
        return None
    return (
        f"{formatting.plural(len(brief), 'load')} took less than {BRIEF_S:g} s, the shortest"
        f" {min(brief) * 1e3:.0f} ms: rates over such short loads are unreliable."
    )


def _thin_rows(run: RunData) -> str | None:
    """Warning on rows with few operations: single calls are no average."""
    thin = Counter(
        trial.experiment.replace("_", " ")
        for trial, phase in run.phases()
        if "batches" not in phase.metrics
        and phase.value("latency_p50") is not None
        and (phase.value("count") or THIN) < THIN
    )
    if not thin:
        return None
    return (
        f"{formatting.plural(thin.total(), 'row')} of {formatting.list_in_words(list(thin))} "
        f"{'rests' if thin.total() == 1 else 'rest'} on fewer than {THIN} operations: no average."
    )


def _implausible_speedups(run: RunData) -> str | None:
    """Warning on settings that were faster despite more work and no less recall."""
    found: list[tuple[float, Point, Point, str]] = []
    for sweep in sweeps(run):
        for series in sweep.series:
            points = sweep.select(series)
            pairs = ((more, less) for more in points for less in points)
            for more, less in pairs:
                name, ratio = _raised_parameter(less, more), _speedup(less, more)
                if name is not None and ratio > 1 + AGAINST_SENSE:
                    found.append((ratio, more, less, name))
    if not found:
        return None
    ratio, more, less, name = max(found, key=lambda one: one[0])
    settings = {(more.series, str((more.index_params, more.params))) for _, more, _, _ in found}
    return (
        f"{formatting.plural(len(settings), 'setting')} ran faster than a setting with less work."
        f" The largest difference is {run.labels[more.series]}: {name} = {more.params[name]:g} "
        f"reached {formatting.number(more.value('qps') or 0)} QPS, {less.params[name]:g} "
        f"{formatting.number(less.value('qps') or 0)} QPS. "
        "Smaller differences than this may be chance."
    )


def _raised_parameter(first: Point, second: Point) -> str | None:
    """The one parameter that is greater in `second`, if two searches differ in nothing else and
    `second` has no lower recall; otherwise None."""
    if first.index_params != second.index_params or first.params.keys() != second.params.keys():
        return None
    differ = [name for name, value in second.params.items() if value != first.params[name]]
    if len(differ) != 1 or (second.value("recall_mean") or 0) < (first.value("recall_mean") or 0):
        return None
    low, high = first.params[differ[0]], second.params[differ[0]]
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (low, high))
    return differ[0] if numbers and low < high else None


def _speedup(first: Point, second: Point) -> float:
    """Least ratio of the speed of `second` to that of `first`, by the spread of both."""
    slow, fast = first.spread("qps"), second.spread("qps")
    return fast.low / slow.high if slow and fast and slow.high else 0.0


def _swapping(run: RunData) -> str | None:
    used = dict(flat_items(run.run["environment"])).get("memory.swap_used_bytes")
    if not used:
        return None
    return f"The machine had swapped out {formatting.size(used)} when the run began."


def _busy_machine(run: RunData) -> str | None:
    """Warning based on the load average, which includes client and server: only if the machine does
    not report what else kept it busy."""
    cores = _cores(run.run["environment"])
    watched = {trial.trial_id: trial for trial in interference.monitored_trials(run.trials)}
    phases = (phase for trial in watched.values() for phase in trial.phases)
    if any(phase.value("other_cores") is not None for phase in phases):
        unknown = [trial for trial in run.trials if trial.trial_id not in watched]
    else:
        unknown = list(run.trials)
    load_averages = (phase.value("load_1m") for trial in unknown for phase in trial.phases)
    loads = [load for load in load_averages if load is not None]
    if not cores or not loads:
        return None
    most = max(loads)
    over = sum(load > cores * (1 + BUSY) for load in loads)
    if not over:
        return None
    return (
        f"The machine was busy: load average up to {most:.1f} on {cores} cores when a phase began "
        f"({over} of {len(loads)} phases above {cores * (1 + BUSY):.1f}; what the phase before "
        "left behind counts in it)."
    )


def _cores(environment: Mapping[str, Any]) -> int:
    for path, value in flat_items(environment):
        last = path.rpartition(".")[2]
        if last in ("cores", "logical_cores", "cpus", "cpu_count", "logical") and (
            isinstance(value, int) and value > 0
        ):
            return value
    return 0
