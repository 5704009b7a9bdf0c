"""What bounds the figures: what did not run, the data, the machine, the method."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from vectrial.report import capacities, sections_anomaly, sections_experiments, text
from vectrial.report.analysis import operating_point
from vectrial.report.audit import doubts
from vectrial.report.data import PhaseResult, Point, RunData, Series, Trial
from vectrial.report.document import (
    Block,
    Column,
    Row,
    Section,
    Table,
    Text,
    plain,
    spread_cell,
)
from vectrial.report.sections_gate import wrong_stores
from vectrial.stats.intervals import LEAST_REPEATS

#: A load average that is above the cores by this share when a phase began deserves a warning, since
#: something else was using the machine.
BUSY = 0.5
#: Loads shorter than so many seconds, and latencies of fewer operations, deserve one.
BRIEF_S, THIN = 0.1, 10


def warnings(run: RunData) -> tuple[str, ...]:
    """What a reader must know before believing a figure."""
    found: list[str] = []
    found += wrong_stores(run)
    counts = Counter(t.status for t in run.trials)
    for status, what in (("failed", "failed"), ("skipped", "skipped")):
        if counts[status]:
            found.append(f"{text.plural(counts[status], 'trial')} {what}; reasons below.")
    invalid = [p for p in run.points if p.state == "invalid" and p.reason]
    if invalid:
        found.append(
            f"{text.plural(len(invalid), 'row')} of measurements may not be trusted and "
            "count nowhere; reasons below."
        )
    if doubtful := doubts(run):
        found.append(
            f"{text.plural(len(doubtful), 'figure')} cannot be believed beside what else was "
            "recorded; reasons below."
        )
    few = _few_repeats(run)
    if few:
        found.append(f"{few}: no interval, so small differences may be chance.")
    if dict(flat(run.run["environment"])).get("git.dirty"):
        found.append("Measured with changes to Vectrial that no revision holds.")
    found += filter(None, (_brief(run), _thin(run), _swapped(run), _busy(run)))
    others = dict(flat(run.run["environment"])).get("resumed_at_revisions")
    if others:
        found.append(f"Measured by several states of Vectrial: resumed at {', '.join(others)}.")
    if run.run.get("finished_at") is None:
        found.append("The run did not finish: what is here was measured before it stopped.")
    again = {
        row["name"]: f"{row['facts']['repeated_queries']:,} of the {row['queries']:,} queries of"
        f" {row['name']} repeat an earlier one: who remembers answers has them for nothing."
        for row in run.datasets
        if row["facts"].get("repeated_queries")
    }
    found += again.values()
    stand_ins = {row["name"]: row["stand_in_for"] for row in run.datasets if row["stand_in_for"]}
    found += [
        f"{name} stands in for {other}: not that dataset." for name, other in stand_ins.items()
    ]
    return tuple(found)


def _few_repeats(run: RunData) -> str:
    """'1 repeat of ingest and footprint; 2 repeats of crud', of those with too few."""
    least: dict[str, int] = {}
    for point in run.points:
        if point.state == "ok":
            known = least.get(point.experiment, point.repeats)
            least[point.experiment] = min(known, point.repeats)
    few: dict[int, list[str]] = defaultdict(list)
    for experiment, count in least.items():
        if count < LEAST_REPEATS:
            few[count].append(experiment.replace("_", " "))
    return "; ".join(
        f"{text.plural(count, 'repeat')} of {text.joined(names)}"
        for count, names in sorted(few.items())
    )


def _brief(run: RunData) -> str | None:
    loads = [v for _, p in _phases(run) if p.name == "load" and (v := p.value("load_s"))]
    brief = [seconds for seconds in loads if seconds < BRIEF_S]
    if not brief:
        return None
    return (
        f"{text.plural(len(brief), 'load')} took less than {BRIEF_S:g} s, the shortest"
        f" {min(brief) * 1e3:.0f} ms: rates of so short a time say little."
    )


def _thin(run: RunData) -> str | None:
    """Single calls are no average."""
    thin = Counter(
        trial.experiment.replace("_", " ")
        for trial, phase in _phases(run)
        if "batches" not in phase.metrics
        and phase.value("latency_p50") is not None
        and (phase.value("count") or THIN) < THIN
    )
    if not thin:
        return None
    return (
        f"{text.plural(thin.total(), 'row')} of {text.joined(list(thin))} "
        f"{'rests' if thin.total() == 1 else 'rest'} on fewer than {THIN} operations: no average."
    )


def _swapped(run: RunData) -> str | None:
    used = dict(flat(run.run["environment"])).get("memory.swap_used_bytes")
    if not used:
        return None
    return f"The machine had swapped out {text.size(used)} when the run began."


def _phases(run: RunData) -> Iterator[tuple[Trial, PhaseResult]]:
    return ((trial, phase) for trial in run.trials for phase in trial.phases)


def _busy(run: RunData) -> str | None:
    cores = _cores(run.run["environment"])
    loads = [
        load
        for trial in run.trials
        for phase in trial.phases
        if (load := phase.value("load_1m")) is not None
    ]
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
    for path, value in flat(environment):
        last = path.rpartition(".")[2]
        if last in ("cores", "logical_cores", "cpus", "cpu_count", "logical") and (
            isinstance(value, int) and value > 0
        ):
            return value
    return 0


def not_measured(run: RunData) -> Section | None:
    """Skipped and failed trials, measurements that may not be trusted, and figures that contradict
    what was recorded with them, with reasons."""
    columns = (
        Column("store", "Store", numeric=False),
        Column("dataset", "Dataset", numeric=False),
        Column("experiment", "Experiment", numeric=False),
        Column("what", "What", numeric=False),
        Column("count", "How many"),
        Column("reason", "Reason", numeric=False),
    )
    rows: Counter[tuple[Series, str, str, str, str]] = Counter()
    for trial in run.trials:
        if trial.status in ("failed", "skipped"):
            key = (trial.series, trial.dataset, trial.experiment, trial.status)
            rows[*key, trial.reason or "no reason was recorded"] += 1
    for point in run.points:
        if point.state in ("ok", "invalid") and point.reason:
            what = f"invalid {'repeats of ' if point.state == 'ok' else ''}{point.phase}"
            rows[point.series, point.dataset, point.experiment, what, point.reason] += 1
    for doubt in doubts(run):
        trial, what = doubt.trial, f"doubtful {doubt.phase.name}"
        rows[trial.series, trial.dataset, trial.experiment, what, doubt.why] += 1
    for trial, phase in _phases(run):  # of repeats that do not count, too
        for kind, count, messages in phase.errors:
            said, what = f"{kind}: {messages[0]}" if messages else kind, f"errors in {phase.name}"
            rows[trial.series, trial.dataset, trial.experiment, what, said] += count
    if not rows:
        return None
    made = tuple(
        Row(
            (
                plain(run.labels[series]), plain(dataset), plain(experiment), plain(what),
                plain(count, f"{count:,}"), plain(reason),
            ),
            "absent",
            series,
        )
        for (series, dataset, experiment, what, reason), count in rows.items()
    )  # fmt: skip
    return Section(
        "missing",
        "What did not run, and what does not count",
        "Nothing is dropped in silence.",
        (Table("not-measured", "Skipped, failed, invalid, doubtful, errors", columns, made),),
    )


KNOWN = (
    "ingest", "recall_sweep", "concurrency", "open_loop", "crud", "footprint", "hybrid",
    capacities.EXPERIMENT, sections_anomaly.EXPERIMENT, *sections_experiments.EXPERIMENTS,
)  # fmt: skip


def others(run: RunData) -> Section | None:
    """Experiments that have no section of their own: every value, in one table."""
    points = [p for p in run.points if p.experiment not in KNOWN]
    if not points:
        return None
    columns = (
        Column("store", "Store", numeric=False),
        Column("dataset", "Dataset", numeric=False),
        Column("experiment", "Experiment", numeric=False),
        Column("phase", "Phase", numeric=False),
        Column("at", "Setting", numeric=False),
        Column("metric", "Metric", numeric=False),
        Column("value", "Value", spread=True),
        Column("unit", "Unit", numeric=False),
    )
    rows = tuple(row for point in points for row in _every_metric(run, point))
    table = Table("others", "Everything measured", columns, rows)
    return Section("others", "Other experiments", "Every value as measured.", (table,))


def _every_metric(run: RunData, point: Point) -> Iterator[Row]:
    names = dict.fromkeys(name for phase in point.phases for name in phase.metrics)
    for name in names:
        unit = next(p.metrics[name].unit for p in point.phases if name in p.metrics)
        shown = spread_cell(point, name, unit)
        if shown.value is not None:
            shown = replace(shown, note=point.reason or "")
        head = (run.labels[point.series], point.dataset, point.experiment, point.phase)
        cells = (*map(plain, head), plain(operating_point(point)), plain(name), shown, plain(unit))
        yield Row(cells, point.state, point.series)


def data(run: RunData) -> Section | None:
    """The datasets: facts, source, licence."""
    if not run.datasets:
        return None
    columns = (
        Column("name", "Dataset", numeric=False),
        Column("rows", "Rows"),
        Column("dim", "Dimension"),
        Column("queries", "Queries"),
        Column("metric_space", "Distance", numeric=False),
        Column("raw_bytes", "Raw", "B"),
        Column("metadata_bytes", "Metadata", "B"),
        Column("source", "Source", numeric=False),
        Column("licence", "Licence", numeric=False),
        Column("stand_in_for", "Stands in for", numeric=False),
        Column("fingerprint", "Fingerprint", numeric=False),
    )
    rows, facts = [], []
    for row in run.datasets:
        counts = [plain(row[key], f"{row[key]:,}") for key in ("rows", "dim", "queries")]
        sizes = [plain(row[key], text.size(row[key])) for key in ("raw_bytes", "metadata_bytes")]
        rows.append(
            Row(
                (
                    plain(row["name"]),
                    *counts,
                    plain(row["metric_space"]),
                    *sizes,
                    plain(row["source"]),
                    plain(row["licence"]),
                    plain(row["stand_in_for"] or "", row["stand_in_for"] or text.NOTHING),
                    plain(row["fingerprint"], str(row["fingerprint"])[:16]),
                ),
            )
        )
        said = [f"{path}: {_shown(value)}" for path, value in flat(row["facts"])]
        if said:
            facts.append(f"{row['name']} — " + "; ".join(said))
    blocks: list[Block] = [Table("datasets", "Datasets", columns, tuple(rows))]
    if facts:
        blocks.append(Text(tuple(facts), "What was found in them", bullets=True))
    lead = "Where the vectors come from, and what may be done with them."
    return Section("data", "The data", lead, tuple(blocks))


def stores(run: RunData) -> Section:
    """Versions, and what each store forces that the others do not."""
    columns = (
        Column("store", "Store", numeric=False),
        Column("version", "Version", numeric=False),
        Column("lane", "Lane", numeric=False),
        Column("index", "Index kinds", numeric=False),
        Column("differences", "What it forces", numeric=False),
    )
    rows = []
    for store in run.stores:
        own = [t for t in run.trials if t.series.store == store]
        differences = run.differences[store]
        version = ", ".join(dict.fromkeys(t.store_version for t in own if t.store_version))
        rows.append(
            Row(
                (
                    plain(store),
                    plain(version, version or text.NOTHING),
                    plain(", ".join(dict.fromkeys(t.series.lane for t in own))),
                    plain(", ".join(dict.fromkeys(t.series.index_kind for t in own))),
                    plain("; ".join(differences), "; ".join(differences) or text.NOTHING),
                ),
                series=own[0].series,
            )
        )
    return Section(
        "stores",
        "The stores, and what each of them forces",
        "Every store gets the same rows, queries, batch size and k. What it does not let be equal "
        "stands here.",
        (Table("stores", "Stores", columns, tuple(rows)),),
    )


def environment(run: RunData) -> Section:
    """The machine and the versions."""
    columns = (Column("fact", "Fact", numeric=False), Column("value", "Value", numeric=False))
    facts: dict[str, list[str]] = defaultdict(list)
    for path, value in flat(run.run["environment"]):
        group, _, name = path.partition(".")
        shown = text.size(value) if path.endswith("_bytes") else _shown(value)
        facts[group].append(f"{name} {shown}" if name else shown)
    rows = tuple(
        Row((plain(group.replace("_", " ")), plain("; ".join(said))))
        for group, said in facts.items()
    )
    return Section(
        "environment",
        "The machine",
        "As found when the run began.",
        (Table("environment", "Environment", columns, rows),),
    )


def flat(values: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of nested mappings as ('cpu.model', value); short lists are leaves."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield from flat(value, f"{path}.{key}" if path else str(key))
    elif isinstance(values, list) and any(isinstance(v, Mapping | list) for v in values):
        for i, value in enumerate(values):
            yield from flat(value, f"{path}.{i}")
    elif values not in (None, "", [], {}):
        yield path, values


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return text.number(value, 6) if isinstance(value, float) else str(value)


def method(run: RunData) -> Section:
    """How it was measured, in short, and how to do it again."""
    notes = (
        "Throughput, latency, recall and errors of a row come from the same requests.",
        "Closed loop: a client sends its next request when the last is answered; latency counts "
        "from sending to the answer, so waiting that a fixed schedule would show is not in it.",
        "Recall is tie-aware: an id counts when its true distance is within the k-th true "
        "distance; duplicates count once. The truth is exact and our own.",
        "Median over repeats. With three repeats or more the small print is the bootstrap 95 % "
        "interval of the median (of three repeats that is their range); with fewer the range, and "
        "no interval. Where spreads overlap, no order is claimed.",
        "A Pareto front holds the points that no other beats in both recall and speed. Points of a "
        "store that failed the gate, or that are invalid, are on no front.",
        "Errors are counted, never retried inside a sample. Warm-up is not in the figures.",
        "Disk is allocated blocks after flush; memory is the growth of the measuring process "
        "while everything is loaded.",
    )
    return Section(
        "method",
        "How it was measured, and how to repeat it",
        "Every figure can be recomputed from the run folder.",
        (
            Text((str(run.run["command"]),), "The command", code=True),
            *([Text((run.suite.strip(),), "The suite", code=True)] if run.suite else []),
            Text(notes, "Method", bullets=True),
        ),
    )
