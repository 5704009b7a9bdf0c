"""CSV and TSV, parsed by DuckDB: vectors are texts in one column, or a column for each component.

A text is a list such as `[0.1, 0.2]`, `{0.1,0.2}` or `0.1 0.2`. Columns of components are numbered
from 0 or 1 without a gap: `v0`, `v1`, `v2`. Types are those of all rows together.
"""

from __future__ import annotations

import csv
import glob
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from vectrial.datasets.readers.base import (
    Block,
    ReaderOptions,
    VectorSource,
    check_shape,
    choose,
    reading,
)
from vectrial.datasets.readers.columns import USUAL_VECTORS, block_of, by_plan, plan_columns
from vectrial.datasets.readers.parquet import ARROW_ERRORS
from vectrial.model.errors import DataError, shown

#: Rows that are looked at to find the vectors.
_HEAD = 100
_NUMBERED = re.compile(r"(.*?)(\d{1,7})")
_LIST = pa.list_(pa.float64())
#: One thread: it reads in order, and no further than is asked for.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": "1",
    "memory_limit": "1GiB",
    "max_temp_directory_size": "0B",
}
_MAX_LINE_BYTES = 64 << 20


def open_text_table(path: Path, options: ReaderOptions) -> VectorSource:
    """Open a .csv or .tsv file, with a header or without.

    Raises:
        DataError: it is not UTF-8, a line has another number of cells than the first, or the
            numbers of the columns of components have a gap.
    """
    import duckdb  # here: loading it takes a while

    where = str(path)
    with _parsing(path):
        db = duckdb.connect(config=_CONFIG)
        table = db.read_csv(
            glob.escape(str(path.absolute())),
            sep="\t" if path.suffix.lower() == ".tsv" else None,
            header=_header(path),
            sample_size=options.rows or -1,
            skiprows=0,  # else lines that do not fit are taken for a preface
            comment="",
            hive_partitioning=False,
        )
        if len(table.columns) == 1:  # or no two lines were found to have as many cells
            _check_lines(path)
        table = table if options.rows is None else table.limit(options.rows)
        (rows,) = table.aggregate("count(*)").fetchall()[0]
        head = table.limit(_HEAD).to_arrow_table()
    check_shape(rows, 1, where)
    name, parts, dim = _vectors(head, options.vectors, where)
    fields = [field for field in head.schema if field.name not in (name, *parts)]
    schema = pa.schema([pa.field(name, _LIST), *fields] if name else fields)
    plan = plan_columns(schema, options, where)
    if plan.ids is not None:
        with _parsing(path):
            (least,) = table.aggregate(f"min({_quoted(plan.ids)})").fetchall()[0]
        if least is not None and least < 0:
            plan = plan_columns(schema, options, where, odd_ids="some are negative")
    check_shape(rows, dim, where)
    listed = f"[{', '.join(map(_quoted, parts))}]::double[]" if parts else _quoted(name)
    others = (_quoted(one) for one in plan.columns if one != name)
    chosen = ", ".join((f"{listed} as {_quoted(name)}", *others))

    def read(step: int) -> Iterator[Block]:
        at = 0
        with _parsing(path):
            for batch in table.project(chosen).to_arrow_reader(step):
                if not parts:
                    batch = batch.set_column(0, name, _lists(batch.column(0), name, at, where))
                yield block_of(batch, plan, dim, at, where)
                at += batch.num_rows

    source = VectorSource(path, "csv", rows, dim, "csv number", read, on_close=(db.close,))
    return by_plan(source, plan)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _vectors(head: pa.Table, requested: str | None, where: str) -> tuple[str, list[str], int]:
    """The column of vectors, the columns of its components if it is none of the file's, and their
    number; empty if there are no vectors. `v0..v9` is the name of the columns `v0` to `v9`."""
    texts, groups = dict[str, int](), defaultdict[str, dict[int, str]](dict)
    for field in head.schema:
        found = _NUMBERED.fullmatch(field.name)
        if pa.types.is_string(field.type):
            cell = next((one for one in head.column(field.name).to_pylist() if one), "")
            numbers = _numbers(cell) or []
            if len(numbers) > 1 or (numbers and cell.strip()[0] in "[{("):
                texts[field.name] = len(numbers)
        elif found and (pa.types.is_floating(field.type) or pa.types.is_integer(field.type)):
            groups[found[1]][int(found[2])] = field.name
    numbered = {
        f"{group[min(group)]}..{group[max(group)]}": group
        for group in groups.values()
        if len(group) > 1 and min(group) in (0, 1)
    }
    offered = list(numbered) if requested in numbered else list(texts or numbered)
    if not offered:
        return "", [], 0
    what = "column of vectors (lists of numbers)"
    name = choose(requested, offered, usual=USUAL_VECTORS, what=what, where=where)
    group = numbered.get(name, {})
    for number in sorted(group)[:-1]:
        if number + 1 not in group:
            raise DataError(
                f"{name} have a gap: no column of numbers has the number {number + 1}",
                where=where,
                remedy="components are numbered without a gap; `--vectors` names other columns",
            )
    return name, [group[number] for number in sorted(group)], len(group) or texts[name]


def _numbers(cell: str) -> list[float] | None:
    """The numbers of a text; None if it is no list of numbers."""
    text = cell.strip()
    if text[:1] + text[-1:] in ("[]", "{}", "()"):
        text = text[1:-1].replace(",", " ")
    try:
        return [float(one) for one in text.split()]
    except ValueError:
        return None


def _lists(cells: Any, name: str, first_row: int, where: str) -> Any:
    """A column of texts as lists of numbers."""
    lists = [None if cell is None else _numbers(cell) for cell in cells.to_pylist()]
    for at, numbers in enumerate(lists):
        if numbers is None and cells[at].is_valid:
            raise DataError(
                f"'{name}' is not a list of numbers: {shown(cells[at].as_py())}",
                where=f"{where}, row {first_row + at}",
                remedy="vectors are written as [0.1, 0.2], {0.1,0.2} or 0.1 0.2",
            )
    return pa.array(lists, _LIST)


@contextmanager
def _parsing(path: Path) -> Iterator[None]:
    """Turn an error of DuckDB into a `DataError`, which names the line if that can be found."""
    import duckdb

    kinds = (*ARROW_ERRORS, duckdb.Error)
    with reading(path, *kinds):
        try:
            yield
        except kinds:
            _check_lines(path)
            raise


def _header(path: Path) -> bool | None:
    """True if the first line holds names, False if it holds a row, None if DuckDB is to decide.

    pandas names the columns of a matrix 0, 1, 2, which DuckDB takes for a row. A list or a fraction
    is no name, but DuckDB takes 0.5 for one if the lines below have an integer there.
    """
    cells = list[str]()
    with suppress(csv.Error):
        cells = next(_rows(path))
    names = cells[1:] if cells[:1] == [""] else cells
    numbers = list(map(str, range(len(names))))
    if names and names == numbers and (len(names) > 3 or len(names) < len(cells)):
        return True
    lists = [_numbers(one) or () for one in cells]
    if any(len(one) > 1 for one in lists):
        return False
    fractions = any(not number.is_integer() for one in lists for number in one)
    return False if fractions and all(lists) else None


def _check_lines(path: Path) -> None:
    """Raise `DataError` at the first line that is not UTF-8, or has another number of cells than
    the first."""
    rows = _rows(path)
    with suppress(csv.Error):
        cells = len(next(rows))
        for row in rows:
            if cells > 1 and row and len(row) != cells:
                raise DataError(
                    f"the line has {len(row)} cells where the first has {cells}",
                    where=f"{path}, line {rows.line_num}",
                    remedy="it is cut short, or a cell that holds a separator has no quotes",
                )


def _rows(path: Path) -> Any:
    """The cells of each line, read by Python; slow."""
    lines = _lines(path)
    first = next(lines)
    separator = "\t" if path.suffix.lower() == ".tsv" else max(",;|\t", key=first.count)
    return csv.reader(chain((first,), lines), delimiter=separator)


def _lines(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE_BYTES), b""), 1):
            try:
                yield line.decode()
            except UnicodeDecodeError as error:
                raise DataError(
                    "the line is not UTF-8",
                    where=f"{path}, line {number}",
                    remedy="convert the file: iconv -f latin1 -t utf-8",
                ) from error
