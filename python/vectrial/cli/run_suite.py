"""The suite that `vectrial run` measures: of a file, of a run folder, of a bundle, or, with
--existing, of a collection that is there already."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from vectrial.cli.output import progress_bars, say
from vectrial.datasets import catalog, library
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
    running_address,
    suite_of,
)
from vectrial.run.prepare import RESOLVED, Fingerprints, toml_of
from vectrial.servers.local import variable_name
from vectrial.servers.provide import recipe_of
from vectrial.stores import registry
from vectrial.suite import builtin
from vectrial.suite.model import Suite, parse_suite, suite_text
from vectrial.util.suggest import suggestion


@dataclass(frozen=True)
class SuiteSource:
    """A suite and its origin.

    text: text of its file. where: the file, for messages. fingerprints: those of its datasets,
        which must match. seal: seal of its bundle, if it comes from a bundle.
    """

    suite: Suite
    text: str
    where: str
    fingerprints: Fingerprints = field(default_factory=dict)
    seal: str = ""

    def restricted(self, stores: Sequence[str], repeats: int | None) -> SuiteSource:
        """The suite reduced to these stores (all if none is named), and with `repeats` unless None.

        Raises:
            UserError: it has no such store, or no experiment for these stores.
        """
        suite = self.suite
        if repeats is not None:
            suite = suite.with_repeats(repeats, "--repeats")
        known = {name for ref in suite.stores for name in (ref.store, ref.name)}
        for name in stores:
            if name not in known:
                raise UserError(
                    f"the suite has no store '{name}'",
                    where=self.where,
                    remedy=suggestion(name, known),
                )
        if stores:
            suite = suite.with_stores(stores)
            if not suite.experiments:
                raise UserError(
                    f"the suite has no experiment for {' and '.join(stores)}",
                    where=self.where,
                    remedy="its experiments name the stores that they are for",
                )
        return replace(self, suite=suite)


def find_suite(
    path: Path | None, resume: Path | None, sealed: Path | None, seal: str | None = None
) -> SuiteSource:
    """The suite from exactly one source: a file, a run folder or a bundle.

    path: a file, or the name of a suite that comes with Vectrial. seal: the bundle's expected seal.

    Raises:
        UserError: it cannot be read, the bundle has another seal, or a dataset is not available.
    """
    if seal is not None and sealed is None:
        raise UserError("only a bundle has a seal", where="--seal", remedy="--from FILE names one")
    sources = [source for source in (path, resume, sealed) if source is not None]
    if len(sources) != 1:
        raise UserError(
            "a SUITE, --resume and --from exclude each other" if sources else "no suite given",
            remedy="vectrial run demo, vectrial run FILE.toml; these come with Vectrial:"
            f" {', '.join(builtin.names())}",
        )
    if sealed is not None:
        return _bundle_source(sealed, seal)
    if resume is not None:
        path = resume / RESOLVED
        if not path.is_file():
            raise UserError("there is no run here to resume", where=str(resume))
    else:
        assert path is not None
        path = builtin.suite_file(path)
    text = suite_text(path)
    return SuiteSource(parse_suite(text, str(path)), text, str(path))


def _bundle_source(sealed: Path, seal: str | None) -> SuiteSource:
    # Imported here: the readers of results take a while.
    from vectrial.results.bundle import open_bundle
    from vectrial.results.reader import RunReader

    with open_bundle(sealed, seal) as (bundle, folder):
        path = folder / RESOLVED
        if not path.is_file():
            raise UserError(
                f"the bundle holds no {RESOLVED}", where=str(sealed), remedy="have it sealed anew"
            )
        text = path.read_text(encoding="utf-8")
        suite = parse_suite(text, f"{sealed}: {RESOLVED}")
        with RunReader(folder) as reader:
            rows = reader.rows("select name, rows, fingerprint, metric_space, source from dataset")
    _check_datasets(suite, rows, sealed)
    same = {(row["name"], row["rows"]): row["fingerprint"] for row in rows}
    return SuiteSource(suite, text, str(sealed), same, bundle.seal)


def _check_datasets(suite: Suite, measured: Sequence[Mapping[str, Any]], sealed: Path) -> None:
    """Raise `UserError` for a dataset that is neither in the library nor in the catalogue.

    measured: the datasets of the bundle's run, for the message.
    """
    known = {row["name"]: row for row in measured}
    for ref in suite.datasets:
        if catalog.knows(ref.name):
            continue
        catalog.check_package(ref.name)
        row = known.get(ref.name)
        made = f" (made of {row['source']})" if row else ""
        metric = f" --metric {row['metric_space']}" if row else ""
        raise UserError(
            f"the run measured dataset '{ref.name}'{made}, which is neither here nor in the"
            " catalogue; a bundle holds no data",
            where=str(sealed),
            remedy="ask for the data as well, and import them with the same options:"
            f" `vectrial data import FILE --name {ref.name}{metric} …`;"
            " the fingerprint tells whether they are the same",
        )


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
    with running_address(kind) as address:
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
        for line in (
            _collection_line(reading, found),
            *found.notes,
            *_filter_notes(reading, found),
        ):
            say(console, line)
        if options.dataset is not None:
            dataset = library.load(options.dataset)
        else:
            with progress_bars() as progress:
                dataset = read_rows(reading, found, progress)
            say(console, f"{dataset.rows:,} rows were read into the dataset '{dataset.name}'")
    suite = suite_of(reading, found, dataset, k=options.k, repeats=repeats or 3, lane=options.lane)
    return SuiteSource(suite, toml_of(suite), "vectrial run --existing")


def _collection_line(reading: ExistingCollection, found: Description) -> str:
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
    os.environ[variable_name(recipe, "address")] = text


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
