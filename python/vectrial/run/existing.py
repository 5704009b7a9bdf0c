"""Rows of a collection that somebody else made, as a dataset; and the suite that measures it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.datasets import library
from vectrial.datasets.ingest import TRUTH_K, read_queries
from vectrial.datasets.inspect import inspect
from vectrial.datasets.truth import truth_of
from vectrial.experiments.common.recall_parameter import parameter_values
from vectrial.model.capabilities import Index, IndexKind
from vectrial.model.dataset import OWN_IDS, QUERIES_ARE_ROWS, Dataset, Provenance
from vectrial.model.errors import UserError
from vectrial.model.existing import Description, Existing, IntegerKeys, NewKeys
from vectrial.model.lane import Lane, lanes_of
from vectrial.model.metric import Metric
from vectrial.model.placement import Provider
from vectrial.model.progress import Progress, silent
from vectrial.model.schema import Field, Schema
from vectrial.model.store import Address, Store
from vectrial.servers.provide import make_server, recipe_of
from vectrial.stores import registry
from vectrial.stores.attached import open_existing
from vectrial.stores.common.arrow import ids_of, vectors_of
from vectrial.suite.model import Suite
from vectrial.suite.validation import validate
from vectrial.util.file_names import legible_name

#: Queries that are drawn from the rows unless a number is given.
DEFAULT_QUERIES = 1000
#: Values of the search parameter in the suite: from the least to a generous one.
_VALUES = 4
#: Rows of a batch that is read.
_BATCH = 5_000


@dataclass(frozen=True)
class ExistingCollection:
    """A collection to read and measure.

    address: its server's address. columns: metadata columns to read, for filters.
    metric: None means the index's metric. queries: a file, or the number of rows to draw.
    search: search parameters that the application sends, without those left to the server.
    """

    store: type[Store]
    address: Address
    existing: Existing
    columns: Sequence[str] = ()
    metric: Metric | None = None
    queries: int | Path = DEFAULT_QUERIES
    seed: int = 0
    search: Mapping[str, Any] = field(default_factory=dict)


@contextmanager
def running_address(store: type[Store]) -> Iterator[Address]:
    """The address of the running server that the environment names; it has answered.

    Raises:
        UserError: the store has none, or cannot read collections made by others.
        ServerError: the server does not answer, or refuses access.
    """
    recipe = recipe_of(store)
    if store.capabilities.existing is None or recipe is None:
        raise UserError(
            f"{store.name} measures no collection that is there already",
            where="--existing",
            remedy=f"of these stores: {', '.join(_reading_stores())}",
        )
    with make_server(recipe, Path(), provider=Provider.EXTERNAL) as server:
        yield server.address


def _reading_stores() -> list[str]:
    """Names of the stores that can measure collections made by others."""
    known, _ = registry.STORES.working()
    return [name for name in known if registry.load(name).capabilities.existing is not None]


def describe(reading: ExistingCollection) -> Description:
    """The server's description of the collection, with the metric filled in.

    Raises:
        UserError: there is no such collection, field, column or search parameter; no metric is
            known; or the store takes no conditions.
    """
    support = reading.store.capabilities.existing
    assert support is not None, "`running_address` refuses"
    if reading.existing.where and not support.condition:
        raise UserError(
            f"{reading.store.name} takes no condition in its own words",
            where="--where",
            remedy="leave it out",
        )
    store = reading.store(Path(), replace(reading.address, read_only=True))
    try:
        found = store.describe(replace(reading.existing, metric=reading.metric))
    finally:
        store.close()
    kind = reading.store.capabilities.indexes[found.index]
    validate(kind.search, reading.search, "--search")
    if unknown := [name for name in reading.columns if name not in found.fields]:
        raise UserError(
            f"'{unknown[0]}' is no column that filters know",
            where="--columns",
            remedy=f"those are {', '.join(found.fields) or 'none'}",
        )
    metric = reading.metric or found.metric
    if metric is None:
        raise UserError(
            "there is no index that says how vectors are compared",
            remedy="give --metric cosine, l2 or ip",
        )
    if found.metric not in (None, metric):
        raise UserError(
            f"the collection's index is for {found.metric}", where="--metric", remedy="leave it out"
        )
    return replace(found, metric=metric)


def read_rows(
    reading: ExistingCollection, description: Description, progress: Progress = silent
) -> Dataset:
    """Read every row of a collection into a dataset of the library, with its queries and their
    exact neighbours. It replaces the dataset of an earlier reading.

    Raises:
        DataError: the rows cannot be used. UserError: there are fewer rows than k.
    """
    assert description.metric is not None
    collection = reading.existing.collection
    fields = tuple(Field(name, description.fields[name]) for name in reading.columns)
    schema = Schema(description.dim, description.metric, fields)
    keys = NewKeys() if description.text_ids else IntegerKeys()
    drawn = _query_rows(reading, description)
    parts: list[NDArray[np.float32]] = []
    with library.Writer(
        name_of(reading), description.metric, _provenance(reading), replace_existing=True
    ) as writer:
        store = open_existing(
            reading.store, Path(), reading.address, reading.existing, schema,
            index_of(reading.store, description), keys,
        )  # fmt: skip
        try:
            for batch in _batches(store, schema, reading.columns):
                progress(writer.rows, description.rows, f"reading {collection}")
                vectors, at = vectors_of(batch), writer.rows
                parts.append(vectors[drawn[(drawn >= at) & (drawn < at + len(vectors))] - at])
                metadata = _metadata(batch, schema, description, keys)
                writer.add(vectors, ids=ids_of(batch), metadata=metadata)
        finally:
            store.close()
        queries = (
            read_queries(reading.queries, description.dim, description.metric)
            if isinstance(reading.queries, Path)
            else np.concatenate([np.empty((0, description.dim), np.float32), *parts])
        )
        if not len(queries):
            raise UserError(f"collection '{collection}' has no rows")
        return writer.finish(
            queries, find=lambda dataset: _facts(reading, description, dataset, progress)
        )


def _batches(store: Store, schema: Schema, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """All rows, batch by batch.

    Raises:
        UserError: a column has values that stores' filters treat differently.
    """
    import pyarrow.compute as pc  # here: most collections are read without columns

    remedy = f"leave it out of --columns {','.join(columns)}"
    try:
        for batch in store.scan(_BATCH):
            for name, own in schema.columns.items():
                column = batch.column(own)
                if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                    raise UserError(f"column '{name}' holds what is no number (NaN)", remedy=remedy)
            yield batch
    except pa.ArrowException as error:
        raise UserError(
            f"a column holds several values in a row, or of another type: {error}", remedy=remedy
        ) from error


def name_of(reading: ExistingCollection) -> str:
    """Name of the dataset into which the rows are read."""
    name = f"existing-{reading.store.name}-{legible_name(reading.existing.collection)}"[:100]
    if not (where := reading.existing.where):
        return name
    # Rows under another condition are another dataset.
    return f"{name[:91]}-{hashlib.sha256(where.encode()).hexdigest()[:8]}"


def index_of(store: type[Store], description: Description) -> Index:
    """The collection's index, in the store's own declaration.

    Raises:
        UserError: it has parameters that the store's driver does not support.
    """
    kind = store.capabilities.indexes[description.index]
    return Index(
        description.index, validate(kind.build, description.params, "the collection's index")
    )


def suite_of(
    reading: ExistingCollection,
    description: Description,
    dataset: Dataset,
    *,
    k: int,
    repeats: int,
    lane: str | None,
) -> Suite:
    """The suite that measures the collection: searches at several settings, without filters and
    with filters on the columns that were read."""
    kind, existing = reading.store.capabilities.indexes[description.index], reading.existing
    support = reading.store.capabilities.existing
    assert support is not None, "`running_address` refuses"
    search: dict[str, Any] = dict(description.search)
    if kind.recall_parameter and kind.recall_parameter not in support.settings:
        search[kind.recall_parameter] = _spread_values(parameter_values(kind, k))
    # The application's own settings first; then others, which the labels name.
    first = (support.defaults and search) or reading.search
    settings = [dict(reading.search), search] if first else [search]
    experiments: list[Mapping[str, Any]] = [
        {"experiment": "search", "search": one, "clients": [1, 8]} for one in settings
    ]
    if reading.columns:
        only = {"predicates": ["column"], "payload_index": ["on"]}
        experiments += [
            {"experiment": "filtered", "search": one, **only}
            for one in [*settings[:-1], _middle_setting(search, kind)]
        ]
    text_ids = dataset.own_ids is not None
    lanes = [one for one in lanes_of(reading.store) if not (text_ids and one is Lane.NATIVE)]
    plain = {
        "name": name_of(reading),
        "k": k,
        "repeats": repeats,
        "datasets": [{"name": dataset.name}],
        "stores": [
            {
                "store": reading.store.name,
                "index": description.index,
                "params": dict(description.params),
                "lane": lane or [str(one) for one in lanes],
                "existing": {
                    "collection": existing.collection,
                    "id": description.id,
                    "vector": description.vector,
                    "columns": dict(existing.columns),
                    **({"where": existing.where} if existing.where else {}),
                },
            }
        ],
        "experiments": experiments,
    }
    return validate(Suite, plain, "vectrial run --existing")


def _middle_setting(search: Mapping[str, Any], kind: IndexKind) -> Mapping[str, Any]:
    """The middle of several settings, with what makes filtered answers complete."""
    if not search:
        return {}
    complete = {n: v for n, v in kind.high_recall_params.items() if n != kind.recall_parameter}
    one = {n: v[len(v) // 2] if isinstance(v, list) else v for n, v in search.items()}
    return {**complete, **one}


def _spread_values(values: Sequence[int]) -> list[int]:
    """A few of the ascending values, including the first and the last."""
    at = np.linspace(0, len(values) - 1, min(_VALUES, len(values))).round().astype(int)
    return [values[one] for one in dict.fromkeys(at.tolist())]


def _query_rows(reading: ExistingCollection, description: Description) -> NDArray[np.int64]:
    """Positions of the rows drawn as queries, ascending; empty if the queries come from a file."""
    if isinstance(reading.queries, Path):
        return np.empty(0, np.int64)
    count = min(reading.queries, description.rows)
    rng = np.random.default_rng(reading.seed)
    return np.sort(rng.choice(description.rows, count, replace=False)).astype(np.int64)


def _metadata(
    batch: pa.RecordBatch, schema: Schema, description: Description, keys: NewKeys | IntegerKeys
) -> pa.Table | None:
    """Columns of a batch under their own names, and the collection's ids if they are text."""
    columns = {field: batch.column(name) for field, name in schema.columns.items()}
    if isinstance(keys, NewKeys):
        own = keys.keys(ids_of(batch))
        columns[description.id] = pa.array(own, pa.string())
    return pa.table(columns) if columns else None


def _provenance(reading: ExistingCollection) -> Provenance:
    read = f"read on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    drawn = (
        f"queries from {reading.queries}"
        if isinstance(reading.queries, Path)
        else f"queries are rows of the collection, drawn with seed {reading.seed}"
    )
    source = f"collection '{reading.existing.collection}' of {reading.store.name}"
    if reading.existing.where:
        source += f", the rows with {reading.existing.where}"
    return Provenance(source, "not stated", "", notes=(read, drawn))


def _facts(
    reading: ExistingCollection, description: Description, dataset: Dataset, progress: Progress
) -> dict[str, Any]:
    facts = inspect(dataset, seed=reading.seed, progress=progress)
    truth_of(dataset, min(TRUTH_K, dataset.rows), progress=progress)
    if description.text_ids:
        facts[OWN_IDS] = description.id
    facts[QUERIES_ARE_ROWS] = not isinstance(reading.queries, Path)
    return facts
