"""`vectrial run --existing`: the suite that measures a collection that is there already."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from vectrial.cli.output import progress_bars, say
from vectrial.cli.run_suite import SuiteSource
from vectrial.datasets import library
from vectrial.datasets.ingest import metric_of
from vectrial.model.errors import UserError
from vectrial.model.existing import Description, Existing
from vectrial.model.schema import FieldType
from vectrial.model.store import Store
from vectrial.run.existing import (
    DEFAULT_QUERIES,
    ExistingCollection,
    describe,
    read_rows,
    running,
    suite_of,
)
from vectrial.run.prepare import toml_of
from vectrial.servers.local import variable
from vectrial.servers.provide import recipe_of
from vectrial.stores import registry

_PANEL = "A collection that is there already"


def _option(name: str, metavar: str, help_: str) -> object:
    return typer.Option(name, metavar=metavar, help=help_, rich_help_panel=_PANEL)


ExistingOption = Annotated[
    str | None,
    _option(
        "--existing",
        "STORE",
        "In place of SUITE: search a collection of a running server as it is. Nothing is created,"
        " changed or dropped.",
    ),
]
AddressOption = Annotated[
    str | None,
    _option(
        "--address",
        "HOST:PORT",
        "Address of the server; HOST:NAME=PORT,… if it has several ports. Default: the environment"
        " (docs/servers.md), as for secrets and TLS.",
    ),
]
CollectionOption = Annotated[
    str | None, _option("--collection", "NAME", "Name of the collection, table or index.")
]
IdOption = Annotated[
    str | None, _option("--id", "FIELD", "Field with the ids. Default: the primary key.")
]
VectorOption = Annotated[
    str | None, _option("--vector", "FIELD", "Field with the vectors, if there are several.")
]
ColumnsOption = Annotated[
    str | None,
    _option("--columns", "NAMES", "Columns to filter by, with commas between. Default: none."),
]
MetricOption = Annotated[
    str | None,
    _option("--metric", "METRIC", "cosine, l2 or ip, if the collection has no index that says so."),
]
QueriesOption = Annotated[
    str | None,
    _option("--queries", "N|FILE", f"File of queries, or rows to draw ({DEFAULT_QUERIES:,})."),
]
WhereOption = Annotated[
    str | None,
    _option(
        "--where",
        "CONDITION",
        'Condition of your application\'s searches, as it sends it, such as "deleted_at IS NULL".',
    ),
]
SearchOption = Annotated[
    str | None,
    _option(
        "--search",
        "NAME=VALUE,…",
        "Search parameters that your application sends, such as ef_search=100. Default: the"
        " server's own.",
    ),
]
DatasetOption = Annotated[
    str | None,
    _option(
        "--dataset",
        "NAME",
        "Dataset with the collection's rows and ids. Default: all rows are read from the server.",
    ),
]
KOption = Annotated[
    int,
    typer.Option(
        "--k", "-k", min=1, metavar="K", help="Neighbours per query.", rich_help_panel=_PANEL
    ),
]
LaneOption = Annotated[
    str | None, _option("--lane", "LANE", "native or sdk. Default: both, where ids are integers.")
]


@dataclass(frozen=True)
class ExistingOptions:
    """Options of `vectrial run` for a collection that already exists."""

    address: str | None
    collection: str | None
    id: str | None
    vector: str | None
    columns: str | None
    metric: str | None
    queries: str | None
    where: str | None
    search: str | None
    dataset: str | None
    lane: str | None
    k: int

    def refuse(self) -> None:
        """Raise `UserError` for an option that is given without --existing."""
        for name, value in vars(self).items():
            if value is not None and name != "k":
                raise UserError(
                    "it is about a collection that is there already",
                    where=f"--{name}",
                    remedy="name its store: --existing STORE",
                )


def existing_suite(
    store: str, options: ExistingOptions, repeats: int | None, console: Console
) -> SuiteSource:
    """The suite that measures an existing collection, after its rows have been read.

    Raises:
        UserError: options that do not fit, or no such store or collection.
        ServerError: the server does not answer.
    """
    kind = registry.load(store)
    if options.collection is None:
        raise UserError(
            "no collection is named", where="--existing", remedy="--collection products"
        )
    if options.address is not None:
        _set_address(kind, options.address)
    with running(kind) as address:
        reading = ExistingCollection(
            kind,
            address,
            Existing(
                options.collection,
                options.id or "",
                options.vector or "",
                where=options.where or "",
            ),
            _names(options.columns),
            metric_of(options.metric),
            _queries(options.queries),
            search=search_parameters(options.search),
        )
        found = describe(reading)
        for line in (_described(reading, found), *found.notes, *_filter_notes(reading, found)):
            say(console, line)
        if options.dataset is not None:
            dataset = library.load(options.dataset)
        else:
            with progress_bars() as progress:
                dataset = read_rows(reading, found, progress)
            say(console, f"{dataset.rows:,} rows were read into the dataset '{dataset.name}'")
    suite = suite_of(reading, found, dataset, k=options.k, repeats=repeats or 3, lane=options.lane)
    return SuiteSource(suite, toml_of(suite), "vectrial run --existing")


def _described(reading: ExistingCollection, found: Description) -> str:
    params = "".join(f" {name}={value}" for name, value in found.params.items())
    ids = "texts" if found.text_ids else "integers"
    return (
        f"{reading.existing.collection}: {found.rows:,} rows, {found.dim} components in"
        f" '{found.vector}', {found.metric}, {found.index}{params}; ids '{found.id}' are {ids}"
    )


def _filter_notes(reading: ExistingCollection, found: Description) -> Iterator[str]:
    """Note on why filters use only some of the columns."""
    numbers = (FieldType.INT, FieldType.FLOAT)
    others = [name for name in reading.columns if found.fields[name] not in numbers]
    if others and len(others) < len(reading.columns):
        yield f"filters are bounds on numbers; by {others[0]}: --columns {others[0]} alone"


def _set_address(store: type[Store], text: str) -> None:
    """Set the environment variable that holds the address, in this process and in the measuring
    processes."""
    recipe = recipe_of(store)
    if recipe is None:
        raise UserError(f"{store.name} has no server", where="--address", remedy="leave it out")
    os.environ[variable(recipe, "address")] = text


def _names(text: str | None) -> Sequence[str]:
    return tuple(name for part in (text or "").split(",") if (name := part.strip()))


def search_parameters(text: str | None) -> dict[str, Any]:
    """Names and values of search parameters, from comma-separated `NAME=VALUE` items.

    Raises:
        UserError: one has no value.
    """
    found: dict[str, Any] = {}
    for part in _names(text):
        name, _, value = part.partition("=")
        if not name or not value:
            raise UserError(
                f"'{part}' is no parameter", where="--search", remedy="--search ef_search=100"
            )
        try:
            found[name.strip()] = json.loads(value)  # a number or a truth value
        except json.JSONDecodeError:
            found[name.strip()] = value.strip()
    return found


def _queries(text: str | None) -> int | Path:
    if text is None:
        return DEFAULT_QUERIES
    if text.isdigit() and int(text):
        return int(text)
    if not Path(text).exists():
        raise UserError(
            f"'{text}' is neither a number nor a file", where="--queries", remedy="--queries 1000"
        )
    return Path(text)
