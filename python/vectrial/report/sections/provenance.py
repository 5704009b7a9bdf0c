"""The appendix: what did not run, the data, the stores, the machine, the method."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from vectrial.analysis.run_data import RunData
from vectrial.document.blocks import (
    Block,
    Column,
    Row,
    Section,
    Table,
    Text,
    columns,
    plain_cell,
)
from vectrial.model.trial import Series
from vectrial.stats.intervals import RANGE_REPEATS
from vectrial.util import formatting


def not_measured(run: RunData) -> Section | None:
    """Skipped and failed trials, invalid measurements, and figures that contradict other records of
    them, with reasons."""
    heads = columns("store", "dataset", "experiment", "what", count=("Count", ""), reason="Reason")
    rows: Counter[tuple[Series, str, str, str, str]] = Counter()
    for trial in run.trials:
        if trial.status in ("failed", "skipped"):
            key = (trial.series, trial.dataset, trial.experiment, trial.status)
            rows[*key, trial.reason or "no reason was recorded"] += 1
    for point in run.points:
        if point.state in ("ok", "invalid") and point.reason:
            what = f"invalid {'repeats of ' if point.state == 'ok' else ''}{point.phase}"
            rows[point.series, point.dataset, point.experiment, what, point.reason] += 1
    for doubt in run.doubts:
        trial, what = doubt.trial, f"doubtful {doubt.phase.name}"
        rows[trial.series, trial.dataset, trial.experiment, what, doubt.why] += 1
    for trial, phase in run.phases():  # of repeats that do not count, too
        for kind, count, messages in phase.errors:
            said, what = f"{kind}: {messages[0]}" if messages else kind, f"errors in {phase.name}"
            rows[trial.series, trial.dataset, trial.experiment, what, said] += count
    if not rows:
        return None
    made = tuple(
        Row(
            (
                plain_cell(run.labels[series]), plain_cell(dataset), plain_cell(experiment),
                plain_cell(what), plain_cell(count, f"{count:,}"), plain_cell(reason),
            ),
            "absent",
            series,
        )
        for (series, dataset, experiment, what, reason), count in rows.items()
    )  # fmt: skip
    return Section(
        "missing",
        "Skipped, failed and invalid",
        "Everything that did not run or does not count, with its reason.",
        (Table("not-measured", "Skipped, failed, invalid, doubtful, errors", heads, made),),
    )


def data(run: RunData) -> Section | None:
    """The datasets: facts, source, licence."""
    if not run.datasets:
        return None
    heads = (
        *columns(name="Dataset", rows=("Rows", ""), dim=("Dimension", "")),
        *columns(queries=("Queries", ""), metric_space="Distance"),
        Column.for_metric("raw_bytes", spread=False),
        Column.for_metric("metadata_bytes", spread=False),
        *columns("source", "licence", stand_in_for="Stands in for", fingerprint="Fingerprint"),
    )
    rows, facts = [], []
    for row in run.datasets:
        counts = [plain_cell(row[key], f"{row[key]:,}") for key in ("rows", "dim", "queries")]
        sizes = [
            plain_cell(row[key], formatting.size(row[key]))
            for key in ("raw_bytes", "metadata_bytes")
        ]
        rows.append(
            Row(
                (
                    plain_cell(row["name"]),
                    *counts,
                    plain_cell(row["metric_space"]),
                    *sizes,
                    plain_cell(row["source"]),
                    plain_cell(row["licence"]),
                    plain_cell(
                        row["stand_in_for"] or "", row["stand_in_for"] or formatting.NOTHING
                    ),
                    plain_cell(row["fingerprint"], str(row["fingerprint"])[:16]),
                ),
            )
        )
        said = [f"{path}: {_value_text(value)}" for path, value in flat_items(row["facts"])]
        if said:
            facts.append(f"{row['name']} — " + "; ".join(said))
    blocks: list[Block] = [Table("datasets", "Datasets", heads, tuple(rows))]
    if facts:
        blocks.append(Text(tuple(facts), "What was found in them", bullets=True))
    lead = "Source and licence of the vectors."
    return Section("data", "The data", lead, tuple(blocks))


def stores(run: RunData) -> Section:
    """Versions, and the caveats of each store."""
    heads = columns("store", "version", "lane", index="Index kinds", differences="Caveats")
    rows = []
    for store in run.stores:
        own = [t for t in run.trials if t.series.store == store]
        differences = run.differences[store]
        version = ", ".join(dict.fromkeys(t.store_version for t in own if t.store_version))
        rows.append(
            Row(
                (
                    plain_cell(store),
                    plain_cell(version, version or formatting.NOTHING),
                    plain_cell(", ".join(dict.fromkeys(t.series.lane for t in own))),
                    plain_cell(", ".join(dict.fromkeys(t.series.index_kind for t in own))),
                    plain_cell(
                        "; ".join(differences), "; ".join(differences) or formatting.NOTHING
                    ),
                ),
                series=own[0].series,
            )
        )
    return Section(
        "stores",
        "Stores and their caveats",
        "All stores get the same rows, queries, batch size and k; exceptions are listed here.",
        (Table("stores", "Stores", heads, tuple(rows)),),
    )


def environment(run: RunData) -> Section:
    """The machine and the versions."""
    heads = columns("fact", "value")
    facts: dict[str, list[str]] = defaultdict(list)
    for path, value in flat_items(run.run["environment"]):
        group, _, name = path.partition(".")
        shown = formatting.size(value) if path.endswith("_bytes") else _value_text(value)
        facts[group].append(f"{name} {shown}" if name else shown)
    rows = tuple(
        Row((plain_cell(group.replace("_", " ")), plain_cell("; ".join(said))))
        for group, said in facts.items()
    )
    return Section(
        "environment",
        "The machine",
        "Recorded when the run began.",
        (Table("environment", "Environment", heads, rows),),
    )


def flat_items(values: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of nested mappings as ('cpu.model', value); short lists are leaves."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield from flat_items(value, f"{path}.{key}" if path else str(key))
    elif isinstance(values, list) and any(isinstance(v, Mapping | list) for v in values):
        for i, value in enumerate(values):
            yield from flat_items(value, f"{path}.{i}")
    elif values not in (None, "", [], {}):
        yield path, values


def _value_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return formatting.number(value, 6) if isinstance(value, float) else str(value)


def method(run: RunData) -> Section:
    """Method of measurement in short, and the steps to reproduce it."""
    notes = (
        "Throughput, latency, recall and errors of a row come from the same requests.",
        "Closed loop: a client sends its next request when the last one is answered. Latency "
        "counts from sending, so it leaves out the queueing that a fixed arrival rate would show.",
        "Recall is tie-aware: an id counts if its true distance is at most the k-th true distance; "
        "duplicates count once. Vectrial computes the exact ground truth itself. “±” after a "
        "recall is its 95 % sampling error, where the clock ended a phase within a pass over the "
        "queries.",
        "Median over repeats. With three repeats or more the small print is the bootstrap 95 % "
        f"interval of the median (of three to {RANGE_REPEATS} repeats that is their range); with "
        "fewer the range, and no interval. Where spreads overlap, no order is claimed.",
        "A Pareto front holds the points that no other beats in both recall and QPS. Invalid "
        "points and those of a store that failed the gate are on no front.",
        "Errors are counted, never retried inside a sample. Warm-up is not in the figures.",
        "Disk is allocated blocks after flush; memory is the growth of the measuring process "
        "while everything is loaded.",
    )
    return Section(
        "method",
        "Method, and how to repeat the run",
        "Every figure can be recomputed from the run folder.",
        (
            Text((str(run.run["command"]),), "The command", code=True),
            *([Text((run.suite.strip(),), "The suite", code=True)] if run.suite else []),
            Text(notes, "Method", bullets=True),
        ),
    )
