"""`vectrial data import`, `inspect` and `truth`."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from vectrial.cli import options
from vectrial.cli.dataset_view import print_dataset, truth_objects, truth_table
from vectrial.cli.output import (
    Format,
    print_json,
    progress_bars,
    say,
    stderr_console,
    stdout_console,
)
from vectrial.datasets import library
from vectrial.datasets.ingest import Import, import_file, metric_of, name_of, peek
from vectrial.datasets.inspect import inspect as facts_of
from vectrial.datasets.readers import FORMATS, ReaderOptions, open_source
from vectrial.datasets.truth import truth_of
from vectrial.model.dataset import Dataset
from vectrial.model.errors import UserError
from vectrial.model.filters import Filter
from vectrial.model.filters import parse as parse_filter
from vectrial.model.metric import Metric
from vectrial.model.progress import Progress
from vectrial.util.suggest import suggestion


def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help=f"A file, folder or archive: {FORMATS}.")
    ],
    vectors: options.VectorsOption = None,
    id_: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="NAME",
            help="Column of ids; 'none' numbers the rows. Text ids and UUIDs become a metadata"
            " column and are shown in answers.",
            show_default="an integer column 'id'",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(metavar="METRIC", help="cosine, l2 or ip; required unless the file has it."),
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(
            metavar="N|FILE",
            help="Number of the file's queries to use, or of rows to hold out if it has none; or a"
            " file of queries.",
            show_default="all queries of the file, else 10 % of the rows, at most 1000",
        ),
    ] = None,
    name: options.NameOption = None,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Random seed for held-out rows.")
    ] = 0,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Metadata columns to keep: a,b or repeated; 'none' for no columns.",
            show_default="all",
        ),
    ] = None,
    rows: options.RowsOption = None,
    conditions: Annotated[
        bool,
        typer.Option("--conditions/--no-conditions", help="Import the filters of the queries."),
    ] = True,
    licence: options.LicenceOption = options.LICENCE,
    force: options.ReplaceOption = False,
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Import your own vectors as a dataset that suites can name.

    \b
    vectrial data import my.parquet --vectors embedding --id id --metric cosine

    Checks every row, holds out queries, keeps metadata columns for filters, computes the exact
    ground truth, and prints the facts of the dataset.
    """
    task = Import(
        path=file,
        name=name,
        metric=metric_of(metric),
        options=ReaderOptions(vectors, id_, _columns(keep), rows, conditions),
        queries=_queries(queries),
        seed=seed,
        licence=licence,
        replace_existing=force or _may_replace(name_of(file) if name is None else name),
    )
    with progress_bars() as progress:
        dataset = import_file(task, progress)
    print_dataset(dataset, form)
    if form is Format.TABLE:
        print(f'\nIn a suite:\n\n[[datasets]]\nname = "{dataset.name}"', file=sys.stderr)


def inspect(
    what: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A dataset, or any file.")],
    vectors: options.VectorsOption = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="METRIC",
            help="Metric of a file: cosine, l2 or ip.",
            show_default="the file's own, else l2",
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of rows of a file to read.")
    ] = 100_000,
    again: Annotated[bool, typer.Option("--again", help="Compute the facts again.")] = False,
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Show the facts of a dataset, or of a file without importing it.

    \b
    vectrial data inspect glove-words-50-50k
    vectrial data inspect my.parquet --vectors embedding

    Shows shape, duplicates, norms, intrinsic dimension, how well the queries match the
    distribution of the rows, and the values of the metadata.
    """
    with progress_bars() as progress:
        if what in library.names():
            dataset = _annotate(library.load(what), again, progress)
        elif Path(what).exists():
            dataset = _read_first_rows(Path(what), vectors, metric_of(metric), rows, progress)
        elif "/" in what or Path(what).suffix:
            known = suggestion(what, library.names())
            raise UserError(f"there is no file '{what}', and no dataset of that name", remedy=known)
        else:
            dataset = library.load(what)  # raises, and suggests a name
    print_dataset(dataset, form)


def _annotate(dataset: Dataset, again: bool, progress: Progress) -> Dataset:
    if not again and {"duplicates", "norms", "intrinsic_dimension"} <= set(dataset.facts):
        return dataset
    return library.annotate(dataset, {**dataset.facts, **facts_of(dataset, progress=progress)})


def _read_first_rows(
    path: Path, vectors: str | None, metric: Metric | None, rows: int, progress: Progress
) -> Dataset:
    with open_source(path, ReaderOptions(vectors=vectors, conditions=False)) as source:
        seen = peek(source, metric, rows)
        notes = [f"{source.format}, {source.rows:,} rows of {source.dtype}", *source.notes]
        if seen.rows < source.rows:
            notes.append(f"facts are of the first {seen.rows:,} rows")
        if metric is None and source.metric is None:
            notes.append("the file does not say its metric; l2 is assumed here")
        if source.neighbors is not None:
            notes.append(f"brings the {source.neighbors.shape[1]} nearest of every query")
    return replace(
        seen,
        provenance=replace(seen.provenance, notes=tuple(notes)),
        facts=facts_of(seen, progress=progress),
    )


def truth(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A dataset in the library.")],
    k: options.KOption = 10,
    where: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="JSON",
            help='Filter for all queries: \'{"eq": {"lang": "en"}}\'.',
            show_default="the filter of each query",
        ),
    ] = None,
    on: options.OnOption = "here",
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Print the exact nearest neighbours of a dataset's queries; cached.

    \b
    vectrial data truth my -k 10 --filter '{"eq": {"lang": "en"}}' --format jsonl
    vectrial data truth big --on ray      by all machines of a cluster: the same, to the last bit

    With --format jsonl, one object per query: query, ids, distances, available (rows that match,
    at most k), accepted (all ids that tie with the k-th, or are nearer).
    """
    from vectrial.run.place import scanner_at  # the other commands of datasets run nothing

    dataset = library.load(name)
    condition = dataset.filters if where is None else _filter(where)
    with progress_bars() as progress, scanner_at(on, dataset, _note) as scanner:
        found = truth_of(
            dataset,
            k,
            condition,
            progress=lambda done, of, _: progress(done, of, "searching"),
            scanner=scanner,
        )
    if form is Format.JSONL:
        print_json(truth_objects(dataset, found))
    else:
        stdout_console().print(truth_table(dataset, found))


def _note(text: str) -> None:
    say(stderr_console(), text)


def _filter(text: str) -> Filter:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UserError(
            f"it is not JSON: {error}", where="--filter", remedy='\'{"eq": {"lang": "en"}}\''
        ) from error
    except RecursionError as error:
        raise UserError("it is nested too deeply", where="--filter") from error
    return parse_filter(value, path="--filter")


def _columns(options: list[str] | None) -> tuple[str, ...] | None:
    if not options:
        return None
    names = [name.strip() for part in options for name in part.split(",")]
    return () if names == ["none"] else tuple(name for name in names if name)


def _queries(text: str | None) -> int | Path | None:
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        if Path(text).exists():
            return Path(text)
        raise UserError(
            f"'{text}' is neither a number nor a file", where="--queries", remedy="--queries 1000"
        ) from None


def _may_replace(name: str) -> bool:
    """Ask on a terminal whether to replace an existing dataset."""
    if not (library.path(name).exists() and sys.stdin.isatty()):
        return False
    return typer.confirm(f"Replace the dataset '{name}'?", err=True)
