"""`vectrial data`: datasets, the user's own first."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from vectrial.cli.bars import bars
from vectrial.cli.dataset_view import as_json, as_table, truth_lines, truth_table
from vectrial.cli.form import Form, FormOption, on_stdout
from vectrial.datasets import library
from vectrial.datasets.ingest import Import, import_file, name_of, peek
from vectrial.datasets.inspect import inspect as facts_of
from vectrial.datasets.readers import FORMATS, Options, open_source
from vectrial.datasets.truth import truth_of
from vectrial.model.dataset import Dataset
from vectrial.model.errors import UserError
from vectrial.model.filters import Filter
from vectrial.model.filters import parse as parse_filter
from vectrial.model.metric import Metric
from vectrial.model.progress import Progress
from vectrial.util.suggest import suggestion

_METRICS = {
    "cosine": Metric.COSINE,
    "angular": Metric.COSINE,
    "l2": Metric.L2,
    "euclidean": Metric.L2,
    "ip": Metric.IP,
    "dot": Metric.IP,
}


_Vectors = Annotated[
    str | None,
    typer.Option(help="Column, key or array that holds the vectors, if there are several."),
]


def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help=f"A file, folder or archive: {FORMATS}.")
    ],
    vectors: _Vectors = None,
    id_: Annotated[
        str | None,
        typer.Option(
            "--id",
            help="Column of ids. Default: an integer column 'id'; 'none' numbers the rows. Text"
            " ids and UUIDs become a metadata column and are shown in answers.",
        ),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="cosine, l2 or ip; required if the file does not declare it.")
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(
            help="Number of the file's queries to use, or of rows to hold out if it has none; or a"
            " file of queries. Default: all queries of the file, else 10 % of the rows, at"
            " most 1000."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the dataset in suites. Default: from the file name.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for held-out rows.")] = 0,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Metadata columns to keep: a,b or repeated; 'none' for no columns."),
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Read only this many rows.")] = None,
    conditions: Annotated[
        bool,
        typer.Option("--conditions/--no-conditions", help="Import the filters of the queries."),
    ] = True,
    licence: Annotated[
        str, typer.Option(help="Licence, recorded in the dataset and in every run.")
    ] = ("not stated"),
    force: Annotated[
        bool, typer.Option("--force", "--yes", "-y", help="Replace a dataset of that name.")
    ] = False,
    form: FormOption = Form.TABLE,
) -> None:
    """Import your own vectors as a dataset that suites can name.

    Checks every row, holds out queries, keeps metadata columns for filters, computes the exact
    ground truth, and prints the facts of the dataset.

        vectrial data import my.parquet --vectors embedding --id id --metric cosine
    """
    wanted = Import(
        path=file,
        name=name,
        metric=_metric(metric),
        options=Options(vectors, id_, _keep(keep), rows, conditions),
        queries=_queries(queries),
        seed=seed,
        licence=licence,
        replace_existing=force or _may_replace(name_of(file) if name is None else name),
    )
    with bars() as progress:
        dataset = import_file(wanted, progress)
    _show(dataset, form)
    if form is Form.TABLE:
        print(f'\nIn a suite:\n\n[[datasets]]\nname = "{dataset.name}"', file=sys.stderr)


def inspect(
    what: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A dataset, or any file.")],
    vectors: _Vectors = None,
    metric: Annotated[
        str | None,
        typer.Option(help="Metric of a file: cosine, l2 or ip. Default: the file's own, else l2."),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Number of rows of a file to read.")] = 100_000,
    again: Annotated[bool, typer.Option("--again", help="Compute the facts again.")] = False,
    form: FormOption = Form.TABLE,
) -> None:
    """Show the facts of a dataset, or of a file without importing it.

    Shows shape, duplicates, norms, intrinsic dimension, how well the queries match the
    distribution of the rows, and the values of the metadata.

        vectrial data inspect glove-words-50-50k
        vectrial data inspect my.parquet --vectors embedding
    """
    with bars() as progress:
        if what in library.names():
            dataset = _facts(library.load(what), again, progress)
        elif Path(what).exists():
            dataset = _look(Path(what), vectors, _metric(metric), rows, progress)
        else:
            dataset = _unknown(what)
    _show(dataset, form)


def _facts(dataset: Dataset, again: bool, progress: Progress) -> Dataset:
    if not again and {"duplicates", "norms", "intrinsic_dimension"} <= set(dataset.facts):
        return dataset
    return library.annotate(dataset, {**dataset.facts, **facts_of(dataset, progress=progress)})


def _look(
    path: Path, vectors: str | None, metric: Metric | None, rows: int, progress: Progress
) -> Dataset:
    with open_source(path, Options(vectors=vectors, conditions=False)) as source:
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
    name: Annotated[str, typer.Argument(help="A dataset in the library.")],
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Neighbours per query.")] = 10,
    where: Annotated[
        str | None,
        typer.Option(
            "--filter",
            help='For all queries, as JSON: \'{"eq": {"lang": "en"}}\'. Default: each one\'s own.',
        ),
    ] = None,
    form: FormOption = Form.TABLE,
) -> None:
    """Print the exact nearest neighbours of a dataset's queries; cached.

    As `--format jsonl`, one object a query: query, ids, distances, available (rows that match,
    at most k), accepted (all ids that tie with the k-th, or are nearer).

        vectrial data truth my -k 10 --filter '{"eq": {"lang": "en"}}' --format jsonl
    """
    dataset = library.load(name)
    condition = dataset.filters if where is None else _filter(where)
    with bars() as progress:
        found = truth_of(
            dataset, k, condition, progress=lambda done, of, _: progress(done, of, "searching")
        )
    if form is Form.JSONL:
        for line in truth_lines(dataset, found):
            print(line)
    else:
        on_stdout().print(truth_table(dataset, found))


def _filter(text: str) -> Filter:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UserError(
            f"it is not JSON: {error}", where="--filter", remedy='\'{"eq": {"lang": "en"}}\''
        ) from error
    except RecursionError as error:
        raise UserError("it is nested too deeply", where="--filter") from error
    return parse_filter(value, at="--filter")


def _unknown(what: str) -> Dataset:
    if "/" in what or Path(what).suffix:
        known = suggestion(what, library.names())
        raise UserError(f"there is no file '{what}', and no dataset of that name", remedy=known)
    return library.load(what)


def _show(dataset: Dataset, form: Form) -> None:
    if form is Form.JSONL:
        print(as_json(dataset))
    else:
        on_stdout().print(as_table(dataset))


def _metric(text: str | None) -> Metric | None:
    if text is None:
        return None
    metric = _METRICS.get(text.lower())
    if metric is None:
        raise UserError(f"'{text}' is no metric", where="--metric", remedy="cosine, l2 or ip")
    return metric


def _keep(given: list[str] | None) -> tuple[str, ...] | None:
    if not given:
        return None
    names = [name.strip() for part in given for name in part.split(",")]
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
    """Asks, when there is someone to ask and something to replace."""
    if not (library.path(name).exists() and sys.stdin.isatty()):
        return False
    return typer.confirm(f"Replace the dataset '{name}'?", err=True)
