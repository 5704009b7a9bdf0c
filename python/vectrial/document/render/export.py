"""The files of a report, and the run as data: one JSON object per measured row, one CSV file per
table."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from vectrial.document.blocks import Report, Table
from vectrial.document.render import draw, html, markdown
from vectrial.model.errors import UserError
from vectrial.model.progress import LineProgress
from vectrial.model.results_schema import EXPORT_KEYS
from vectrial.results.foreign import foreign_value_errors
from vectrial.results.reader import RunReader

#: Keys of an export object after EXPORT_KEYS, in order. docs/results-format.md explains them.
MORE_KEYS = (
    "kind", "run_id", "trial_key", "status", "store_version", "index_kind", "index_params",
    "trial_params", "phase_params", "phase_ordinal", "seed", "environment_name", "invalidates",
)  # fmt: skip

#: First characters by which spreadsheets know a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_TRIAL = """
t.trial_id, t.store, t.lane, t.dataset, t.rows, t.dim, t.metric_space, t.experiment,
t.repeat, t.key as trial_key, t.status, t.store_version, t.index_kind, t.index_params,
t.params as trial_params, t.seed, t.environment_name, t.reason as trial_reason
"""
_METRICS = f"""
select {_TRIAL}, p.name as phase, p.params as phase_params, p.ordinal as phase_ordinal,
       p.valid as phase_valid, p.reason as phase_reason, m.name as metric, m.value, m.unit,
       m.valid, m.reason
from metric m join phase p using (phase_id) join trial t using (trial_id)
where t.trial_id :trials order by t.trial_id, p.ordinal, m.name
"""
_GATE = f"""
select {_TRIAL}, g.name as metric, g.* exclude (trial_id, name)
from gate g join trial t using (trial_id)
where t.trial_id :trials order by t.trial_id, g.rowid
"""
_EMPTY = f"""
select {_TRIAL} from trial t
where t.status in ('failed', 'skipped') and t.trial_id :trials order by t.trial_id
"""


def measurements(folder: Path) -> Iterator[dict[str, Any]]:
    """Every row of a run: its metrics, then its gate checks, then trials that did not end well.

    A metric's row is valid if metric, phase and trial are. A gate check has the phase 'gate', its
    name as the metric and the value 1, 0, or None if it does not apply. A skipped or failed trial
    has one row without phase and metric, which says why.
    """
    with foreign_value_errors(folder), RunReader(folder) as reader:
        run_id = reader.run()["run_id"]
        for row in chain.from_iterable(reader.by_trials(_METRICS)):
            row["valid"] = row["valid"] and row["phase_valid"] and row["status"] == "ok"
            row["reason"] = row["reason"] or row["phase_reason"] or row["trial_reason"]
            yield _shape_row(reader, row, "metric", run_id)
        for row in chain.from_iterable(reader.by_trials(_GATE)):
            passed = row["passed"]
            row |= {
                "phase": "gate", "unit": "1", "valid": passed is not None,
                "value": None if passed is None else float(passed), "reason": row["detail"] or None,
            }  # fmt: skip
            yield _shape_row(reader, row, "gate", run_id)
        for row in chain.from_iterable(reader.by_trials(_EMPTY)):
            row |= {"valid": False, "reason": f"{row['status']}: {row['trial_reason']}"}
            yield _shape_row(reader, row, "trial", run_id)


def _shape_row(reader: RunReader, row: dict[str, Any], kind: str, run_id: str) -> dict[str, Any]:
    for key in ("index_params", "trial_params", "phase_params"):
        row[key] = reader.parse_value(row[key], dict) if row.get(key) else {}
    row["params"] = {**row["index_params"], **row["trial_params"], **row["phase_params"]}
    value = row.get("value")
    if value is not None and not math.isfinite(value):
        row |= {"value": None, "valid": False, "reason": row.get("reason") or f"value is {value}"}
    row |= {"kind": kind, "run_id": run_id}
    return {key: row.get(key) for key in (*EXPORT_KEYS, *MORE_KEYS)}


def write_jsonl(rows: Iterable[dict[str, Any]], out: TextIO) -> None:
    """Write one object per line, UTF-8, keys in order."""
    for row in rows:
        out.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


def write_measurements(rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Write the same rows as CSV; parameters as JSON."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*EXPORT_KEYS, *MORE_KEYS])
        writer.writeheader()
        for row in rows:
            texts = [
                json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value
                for value in row.values()
            ]
            writer.writerow(dict(zip(row, csv_row(texts), strict=True)))


def csv_row(values: Iterable[Any]) -> list[Any]:
    """The cells of a row of CSV: a text that a spreadsheet would take for a formula begins with an
    apostrophe, since texts of a run may be anybody's."""
    return [f"'{v}" if isinstance(v, str) and v[:1] in _FORMULA else v for v in values]


def write_table(table: Table, path: Path) -> None:
    """Write a report's table as CSV: see `tidy_table`."""
    header, rows = tidy_table(table)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(map(csv_row, rows))


def tidy_table(table: Table) -> tuple[list[str], list[list[Any]]]:
    """A report's table as its header and rows.

    Values are plain, units are in the header, and the notes in a last column. A column with a
    spread has `<key>_low` and `<key>_high` after it. `state` is the row's tone.
    """
    header: list[str] = []
    for column in table.columns:
        unit = f" [{column.unit}]" if column.unit not in ("", "1") else ""
        header.append(column.key + unit)
        if column.spread:
            header += [f"{column.key}_low{unit}", f"{column.key}_high{unit}"]
    rows = []
    for row in table.rows:
        values: list[Any] = []
        for column, cell in zip(table.columns, row.cells, strict=True):
            values.append(cell.value)
            if column.spread:
                values += [cell.low, cell.high]
        notes = dict.fromkeys(cell.note for cell in row.cells if cell.note)
        rows.append([*values, row.tone, "; ".join(notes)])
    return [*header, "state", "notes"], rows


def write_raw(folder: Path, out: Path) -> None:
    """Write the run's tables of time series and trials."""
    with RunReader(folder) as reader:
        for name in ("trial", "window", "telemetry", "error"):
            table = reader.query(f'select * from "{name}"')
            with (out / f"raw-{name}.csv").open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(table.column_names)
                for batch in table.to_batches():
                    rows = zip(*(c.to_pylist() for c in batch.columns), strict=True)
                    writer.writerows(map(csv_row, rows))


def write_html(report: Report, out: Path) -> Path:
    """Write `report.html`."""
    path = out / "report.html"
    path.write_text(html.render(report), encoding="utf-8")
    return path


def write_markdown(report: Report, out: Path) -> Path:
    """Write `report.md`; its figures are those that `write_figures` writes."""
    path = out / "report.md"
    path.write_text(markdown.render(report), encoding="utf-8")
    return path


def write_figures(
    report: Report, out: Path, progress: LineProgress = lambda name: None
) -> list[Path]:
    """Write `figures/<name>.svg` and `.png` for every figure."""
    folder = make_folder(out / "figures")
    for figure in report.figures():
        progress(figure.name)
        draw.export(figure, folder)
    return [folder / f"{f.name}.{kind}" for f in report.figures() for kind in ("svg", "png")]


def write_csv(report: Report, run: Path, out: Path) -> list[Path]:
    """Write `csv/<table>.csv` for every table, all measurements, and the run's time series."""
    folder = make_folder(out / "csv")
    for table in report.tables():
        write_table(table, folder / f"{table.name}.csv")
    write_measurements(measurements(run), folder / "measurements.csv")
    write_raw(run, folder)
    return sorted(folder.glob("*.csv"))


def make_folder(folder: Path) -> Path:
    """The folder, created if it is missing.

    Raises:
        UserError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"the folder cannot be made: {error.strerror}", where=str(folder),
            remedy="give another one with --out",
        ) from error  # fmt: skip
    return folder
