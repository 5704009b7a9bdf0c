"""Files that a page offers: tables, figures, measurements, logs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from vectrial.document.blocks import Figure, Table, footnotes
from vectrial.document.render import draw, export
from vectrial.model.results_schema import EXPORT_KEYS
from vectrial.results.folder import is_own
from vectrial.results.reader import RunReader

#: Kind of file → what it is called on the way.
MEDIA = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson; charset=utf-8",
    "json": "application/json",
    "toml": "text/plain; charset=utf-8",
    "log": "text/plain; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "png": "image/png",
    "svg": "image/svg+xml",
}


def figure_file(figure: Figure, kind: str) -> bytes:
    """A figure as 'svg' or 'png', with title and legend."""
    drawn = draw.standalone_svg(figure)
    return draw.png(drawn) if kind == "png" else drawn.encode("utf-8")


def table_file(table: Table, kind: str) -> bytes:
    """A table as 'csv', 'json' (an object per row) or 'parquet'."""
    header, rows = export.tidy_table(table)
    if kind == "csv":
        return _csv(header, rows)
    header = [name if header.count(name) == 1 else f"{name} {i}" for i, name in enumerate(header)]
    if kind == "json":
        return _json(table, header, rows)
    columns = list(zip(*rows, strict=True)) or [()] * len(header)
    return _parquet(pa.table({n: _column(c) for n, c in zip(header, columns, strict=True)}))


def _json(table: Table, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    notes = dict.fromkeys((*footnotes(table)[1], *table.notes))
    objects = [dict(zip(header, row, strict=True)) for row in rows]
    content = {"title": table.title, "notes": list(notes), "rows": objects}
    return json.dumps(content, ensure_ascii=False, default=str).encode("utf-8")


def _column(values: Sequence[Any]) -> pa.Array[Any]:
    """A column of numbers if all values are numbers, otherwise of text."""
    known = [value for value in values if value is not None]
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in known):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def _csv(header: Sequence[str], rows: Iterable[Iterable[Any]]) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(header)
    writer.writerows(map(export.csv_row, rows))
    return out.getvalue().encode("utf-8")


def _parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()


def _measurements(folder: Path) -> list[dict[str, Any]]:
    return [
        {
            key: json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value
            for key, value in row.items()
        }
        for row in export.measurements(folder)
    ]


def _measurements_csv(folder: Path) -> bytes:
    keys = (*EXPORT_KEYS, *export.MORE_KEYS)
    return _csv(keys, ([row[key] for key in keys] for row in _measurements(folder)))


def _measurements_jsonl(folder: Path) -> bytes:
    out = io.StringIO()
    export.write_jsonl(export.measurements(folder), out)
    return out.getvalue().encode("utf-8")


def _measurements_parquet(folder: Path) -> bytes:
    keys = (*EXPORT_KEYS, *export.MORE_KEYS)
    rows = _measurements(folder)
    columns = {key: [row[key] for row in rows] for key in keys}
    return _parquet(pa.table(columns))


def _table(name: str, folder: Path) -> bytes:
    with RunReader(folder) as reader:
        return _parquet(reader.table(name))


def tables_of(reader: RunReader, names: Sequence[str]) -> dict[str, bytes]:
    """Tables of an open run as Parquet, by file name."""
    return {f"{name}.parquet": _parquet(reader.table(name)) for name in names}


def _own_file(name: str, folder: Path) -> bytes:
    if not is_own(folder, folder / name):
        raise FileNotFoundError(name)
    return (folder / name).read_bytes()


#: Files of a run by name, made of its folder; FileNotFoundError where it holds none.
DATA: Mapping[str, Callable[[Path], bytes]] = {
    "measurements.csv": _measurements_csv,
    "measurements.jsonl": _measurements_jsonl,
    "measurements.parquet": _measurements_parquet,
    **{
        f"{name}.parquet": partial(_table, name)
        for name in ("trial", "phase", "metric", "window", "telemetry", "gate", "error")
    },
    **{name: partial(_own_file, name) for name in ("suite.toml", "environment.json")},
}


def logs_of(folder: Path) -> dict[str, Path]:
    """The run's logs by name. Links that lead out of the run are left out."""
    inside = folder / "logs"
    return {path.name: path for path in sorted(inside.glob("*.log")) if is_own(inside, path)}
