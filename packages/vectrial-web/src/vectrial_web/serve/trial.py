"""One trial as a document: its parameters, its outcome, and the machine's activity meanwhile."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from vectrial.document.blocks import (
    Block,
    Cell,
    Figure,
    Report,
    Row,
    Section,
    Table,
    Text,
    Tone,
    columns,
    plain_cell,
    table_of,
)
from vectrial.document.charts.theme import chart_of, description, finish_chart, ink, legend
from vectrial.document.charts.vegalite import Settings, channel
from vectrial.experiments.registry import all_metrics
from vectrial.results.clean import clean, parse_json
from vectrial.results.foreign import foreign_value_errors
from vectrial.results.reader import RunReader
from vectrial.util import formatting
from vectrial.util.variants import file_stem
from vectrial_web.serve.files import logs_of

#: Bytes of a log's end that are shown; the whole is there to be taken.
_TAIL = 20_000
#: Colours of what is drawn, by place.
_COLOURS = ("step1", "step3", "step4", "step2")


def trial_report(folder: Path, trial_id: int) -> tuple[Report, tuple[str, ...]] | None:
    """The document of a trial, and the names of its logs; None if there is no such trial.

    Raises:
        UserError: the run cannot be read.
    """
    with foreign_value_errors(folder.name), RunReader(folder) as reader:
        found = reader.rows(
            "select * exclude (started_at) from trial where trial_id = ?", [trial_id]
        )
        if not found:
            return None
        (trial,) = found
        logs = _logs(reader, folder, trial)
        sections = (
            Section(
                "asked", "What was asked", "", (_parameters(reader, trial), *_notes(reader, trial))
            ),
            _phases(reader, trial_id),
            _gate(reader, trial_id),
            _latency_section(reader, trial_id),
            _telemetry(reader, trial_id),
            _errors(reader, trial_id),
            _log(logs),
        )
    took = trial["duration_s"]
    report = Report(
        title=f"{trial['store']} · {trial['experiment']}",
        about="" if trial["reason"] is None else str(trial["reason"]),
        meta=(
            ("Trial", str(trial_id)),
            ("State", trial["status"]),
            ("Repeat", str(trial["repeat"])),
            ("Took", formatting.NOTHING if took is None else formatting.seconds(took)),
            ("Key", trial["key"][:12]),
        ),
        sections=tuple(section for section in sections if section is not None),
    )
    return report, tuple(path.name for path in logs)


def tone_of(status: str) -> Tone:
    """The tone of a trial's state."""
    tones: Mapping[str, Tone] = {"ok": "ok", "invalid": "invalid", "failed": "wrong"}
    return tones.get(status, "absent")


def _parameters(reader: RunReader, trial: Mapping[str, Any]) -> Table:
    server = reader.parse_value(trial.get("server") or "{}", dict)
    dataset = f"{trial['dataset']}, {formatting.rows(trial['rows'])}, {trial['dim']} dimensions"
    facts = [
        ("store", " ".join(filter(None, (trial["store"], trial["store_version"])))),
        ("lane", trial["lane"]),
        ("dataset", dataset),
        ("metric", trial["metric_space"]),
        ("experiment", trial["experiment"]),
        ("index", f"{trial['index_kind']}: {formatting.params(parse_json(trial['index_params']))}"),
        ("point", formatting.params(reader.parse_value(trial["params"], dict))),
        ("seed", trial["seed"]),
        ("environment", trial["environment_name"] or "Vectrial's own"),
        *((f"server {name}", _value_text(value)) for name, value in server.items()),
        ("key", trial["key"]),
    ]
    cells = ((name, str(value)) for name, value in facts)
    return table_of("trial-asked", "Parameters", columns(name="Name", value="Value"), cells)


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _notes(reader: RunReader, trial: Mapping[str, Any]) -> tuple[Block, ...]:
    notes = (*reader.texts(trial["differences"]), *reader.texts(trial.get("notes") or "[]"))
    return (Text(notes, title="To be known of it", bullets=True),) if notes else ()


def _phases(reader: RunReader, trial_id: int) -> Section | None:
    rows = reader.rows(
        """select p.phase_id, p.ordinal, p.name as phase, p.params, p.started_s, p.duration_s,
                  p.valid as phase_valid, p.reason as phase_reason,
                  m.name, m.value, m.unit, m.valid, m.reason
           from phase p left join metric m using (phase_id)
           where trial_id = ? order by p.ordinal""",
        [trial_id],
    )
    if not rows:
        return None
    phases = {row["phase_id"]: row for row in rows}
    overview = Table(
        "trial-phases",
        "Phases",
        columns(
            phase="Phase",
            params="Parameters",
            started=("Began after", "s"),
            duration=("Took", "s"),
            valid="Valid",
        ),
        tuple(
            Row.from_values(
                row["phase"],
                formatting.params(reader.parse_value(row["params"], dict)),
                plain_cell(row["started_s"], formatting.seconds(row["started_s"])),
                plain_cell(row["duration_s"], formatting.seconds(row["duration_s"])),
                plain_cell(row["phase_valid"], "yes" if row["phase_valid"] else "no",
                      note=row["phase_reason"] or ""),
                tone="ok" if row["phase_valid"] else "invalid",
            )
            for row in phases.values()
        ),
    )  # fmt: skip
    return Section(
        "measured", "What was measured", "Every value of this trial, as it is kept.",
        (overview, _metrics(rows)),
    )  # fmt: skip


def _metrics(rows: Sequence[Mapping[str, Any]]) -> Table:
    metrics, made = all_metrics(), []
    place = {name: nth for nth, name in enumerate(metrics)}
    for row in sorted(rows, key=lambda row: (row["ordinal"], place.get(row["name"], len(place)))):
        if row["name"] is None:
            continue
        value, reason = finite(row["value"]), row["reason"] or ""
        cell = (
            Cell(formatting.NOTHING, note=reason or "nothing was recorded", tone="absent")
            if value is None
            else Cell(formatting.figure(row["name"], value, row["unit"]), value, note=reason,
                      tone="ok" if row["valid"] else "invalid")
        )  # fmt: skip
        known = metrics.get(row["name"])
        phase = Cell(row["phase"], (row["ordinal"], row["phase"]))
        meaning = plain_cell(known.meaning if known else "")
        made.append((phase, row["name"], cell, row["unit"], meaning))
    heads = columns(
        phase="Phase", metric="Metric", value=("Value", ""), unit="Unit", meaning="Meaning"
    )
    return table_of("trial-metrics", "Metrics", heads, made, grouped_by=0)


def _gate(reader: RunReader, trial_id: int) -> Section | None:
    rows = reader.rows("select * from gate where trial_id = ? order by rowid", [trial_id])
    if not rows:
        return None
    words = {True: "yes", False: "no", None: "does not apply"}
    made = (
        (
            row["name"],
            Cell(words[row["passed"]], row["passed"],
                 tone="wrong" if row["passed"] is False else "ok"),
            row["detail"],
            row["demands"],
            row["invalidates"],
        )
        for row in rows
    )  # fmt: skip
    heads = columns(
        check="Check",
        passed="Passed",
        found="Found",
        demands="It demands",
        invalidates="If not, it invalidates",
    )
    lead = "The checks that the store passed, or not, before anything was timed."
    return Section("gate", "Gate", lead, (table_of("trial-gate", "Checks", heads, made),))


def _latency_section(reader: RunReader, trial_id: int) -> Section | None:
    rows = reader.rows(
        """select p.name as phase, p.ordinal, p.params, w.* exclude (phase_id)
           from "window" w join phase p using (phase_id)
           where trial_id = ? order by p.ordinal, operation, second""",
        [trial_id],
    )
    if not rows:
        return None
    # Of several the one that lasted longest: what led to it, or came after it, is brief.
    lasted = Counter((row["ordinal"], row["operation"]) for row in rows)
    longest = max(lasted, key=lasted.__getitem__)
    drawn = [row for row in rows if (row["ordinal"], row["operation"]) == longest]
    points = [
        {"x": row["second"], "y": row[key] / 1000, "what": name,
         "description": description((name, ""), ("second", str(row["second"])),
                                  ("latency", formatting.duration(row[key])))}
        for row in drawn
        for key, name in (("p50_us", "p50"), ("p99_us", "p99"), ("max_us", "greatest"))
        if row[key] is not None and row[key] > 0
    ]  # fmt: skip
    blocks: list[Block] = []
    if points:
        caption = "Of each second's answers: median, 99th percentile and the slowest."
        if len(lasted) > 1:
            caption += " Of this trial's phases it is the longest; the table has all of them."
        title = f"Latency, second by second: {_line_title(reader, drawn[0])}"
        axes = ("second of the phase", "latency, ms")
        blocks.append(_lines("trial-latency", title, caption, points, *axes, log=True))
    heads = columns(
        phase="Phase",
        operation="Operation",
        second=("Second", "s"),
        count=("Answers", ""),
        errors=("Errors", ""),
        p50=("p50", "us"),
        p99=("p99", "us"),
        max=("Greatest", "us"),
        recall=("Recall", ""),
    )
    made = (
        (
            row["phase"], row["operation"], row["second"],
            row["count"], row["errors"],
            *(
                optional_cell(row[key], formatting.duration)
                for key in ("p50_us", "p99_us", "max_us")
            ),
            optional_cell(row["recall"], formatting.recall),
        )
        for row in rows
    )  # fmt: skip
    blocks.append(table_of("trial-windows", "Second by second", heads, made, folded=True))
    return Section("time", "Second by second", "", tuple(blocks))


def _line_title(reader: RunReader, row: Mapping[str, Any]) -> str:
    """The phase, operation and rate of a row."""
    names = dict.fromkeys((row["phase"], row["operation"]))
    rate = reader.parse_value(row["params"], dict).get("rate")
    at = f" at {formatting.number(float(rate))}/s" if isinstance(rate, int | float) else ""
    return ", ".join(names) + at


def finite(value: float | None) -> float | None:
    """The value, or None if it cannot be shown."""
    return None if value is None or not math.isfinite(value) else value


def optional_cell(value: float | None, show: Callable[[float], str]) -> Cell:
    """A cell for a value that may be unknown."""
    return (
        Cell(formatting.NOTHING, tone="absent") if value is None else plain_cell(value, show(value))
    )


def _telemetry(reader: RunReader, trial_id: int) -> Section | None:
    rows = reader.rows(
        "select * exclude (trial_id) from telemetry where trial_id = ? order by process, at_s",
        [trial_id],
    )
    if not rows:
        return None
    cores, memory = [], []
    by_process: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_process[row["process"]].append(row)
    for process, samples in by_process.items():
        for sample in samples:
            used = sample["rss_bytes"]
            memory.append(_sample(process, sample, used / 1e6, "memory", formatting.size(used)))
        for before, sample in pairwise(samples):
            span = sample["at_s"] - before["at_s"]
            if span > 0:
                busy = max(0.0, (sample["cpu_s"] - before["cpu_s"]) / span)
                cores.append(_sample(process, sample, busy, "cores", f"{busy:.2f}"))
    figures = [
        _lines(name, title, caption, points, "seconds since the trial began", axis)
        for name, title, caption, points, axis in (
            ("trial-cores", "Processors kept busy", "Processor time between two samples, over the"
             " time between them.", cores, "cores"),
            ("trial-memory", "Resident memory", "At each sample.", memory, "MB"),
        )
        if points
    ]  # fmt: skip
    keys = [key for key in rows[0] if key not in ("process", "phase_id")]
    heads = columns(process="Process", **{key: (key, "") for key in keys})
    made = (
        (row["process"], *(optional_cell(row[key], formatting.number) for key in keys))
        for row in rows
    )
    table = table_of("trial-telemetry", "Every sample", heads, made, folded=True)
    lead = "What the measured processes used while the trial ran."
    return Section("telemetry", "Telemetry", lead, (*figures, table))


def _sample(
    process: str, sample: Mapping[str, Any], value: float, what: str, shown: str
) -> dict[str, Any]:
    at = sample["at_s"]
    text = description((process, ""), ("after", formatting.seconds(at)), (what, shown))
    return {"x": at, "y": value, "what": process, "description": text}


def _lines(
    name: str,
    title: str,
    caption: str,
    points: Sequence[Mapping[str, Any]],
    x: str,
    y: str,
    log: bool = False,
) -> Figure:
    names = list(dict.fromkeys(point["what"] for point in points))
    colours = [ink(_COLOURS[i % len(_COLOURS)]) for i in range(len(names))]

    def spec(width: int, with_legend: bool) -> Mapping[str, Any]:
        scale = Settings(type="log") if log else Settings(zero=True)
        chart = (
            chart_of(points)
            .mark("line", strokeWidth=1.6, point=Settings(size=22, filled=True, opacity=1))
            .encode(
                x=channel("x:Q", title=x, axis=Settings(grid=False)),
                y=channel("y:Q", title=y, scale=scale),
                color=channel(
                    "what:N", scale=Settings(domain=names, range=colours),
                    legend=legend(True, width, len(names)),
                ),
                description="description:N",
            )
        )  # fmt: skip
        return finish_chart(chart, width, 240 if width >= 480 else 200)

    return Figure(name, title, caption, f"{title}: {', '.join(names)}", spec)


def _errors(reader: RunReader, trial_id: int) -> Section | None:
    rows = reader.rows(
        """select p.name as phase, e.* exclude (phase_id) from error e join phase p using (phase_id)
           where trial_id = ? order by p.ordinal, count desc, kind""",
        [trial_id],
    )
    if not rows:
        return None
    made = (
        (
            row["phase"],
            row["kind"],
            row["count"],
            plain_cell("; ".join(reader.texts(row["messages"]))),
        )
        for row in rows
    )
    heads = columns(phase="Phase", kind="Class", count=("Requests", ""), messages="What was said")
    return Section("errors", "Errors", "", (table_of("trial-errors", "By class", heads, made),))


def _logs(reader: RunReader, folder: Path, trial: Mapping[str, Any]) -> list[Path]:
    """The logs of the process that measured the trial, and of its server. A log is named after the
    first trial of its process, which had the same index as all its trials."""
    same = reader.rows(
        """select key from trial where store = ? and index_kind = ? and rows = ? and repeat = ?
           and index_params::varchar = ?::varchar and dataset = ?""",
        [
            trial[name]
            for name in ("store", "index_kind", "rows", "repeat", "index_params", "dataset")
        ],
    )
    stem = f"{file_stem(trial['store'])}-" + "{index_kind}-{rows}-r{repeat}".format(**trial)
    names = {f"{stem}-{row['key'][:8]}{of}.log" for row in same for of in ("", "-server")}
    return [path for name, path in logs_of(folder).items() if name in names]


def _log(logs: Sequence[Path]) -> Section | None:
    blocks = []
    for path in logs:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL))
            end = clean(file.read().decode(errors="replace"))
        shown = end if size <= _TAIL else f"…\n{end.partition(chr(10))[2]}"
        blocks.append(Text((shown or "(empty)",), title=path.name, code=True))
    lead = "Of the measuring process, and of the server where there is one; the ends of long ones."
    return Section("logs", "Log", lead, tuple(blocks)) if blocks else None
