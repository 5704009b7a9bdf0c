"""The stores and the data of this machine that are compared by default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vectrial.datasets import catalog, library
from vectrial.datasets.ingest import Import, checksum, import_file, name_of
from vectrial.datasets.readers import ReaderOptions, open_source
from vectrial.model.dataset import Dataset
from vectrial.model.errors import DataError, PluginError, SourceUnavailable, UserError
from vectrial.model.metric import Metric
from vectrial.model.progress import LineProgress, Progress
from vectrial.model.store import Store
from vectrial.plan.model import DatasetShape
from vectrial.plan.quick import Contender
from vectrial.questions.bench import DATASET
from vectrial.run.prepare import shape_of
from vectrial.stores import registry
from vectrial.suite.model import DatasetRef
from vectrial.suite.validation import validate
from vectrial.util.distributions import installed_bytes

#: Data that need no source, where those of the first choice (`DATASET`) cannot be fetched.
DRAWN = "clustered-50-50k-cosine"
#: Bytes of vectors, and rows, that are read of a file: more do not fit a time of minutes.
_MOST_BYTES, _MOST_ROWS = 64 << 20, 100_000
#: Share of the rows that may become queries, as `import_file` holds them out.
_HELD_OUT = 1.12


@dataclass(frozen=True)
class SkippedStore:
    """A store that is not measured. reason: the reason, with the remedy."""

    store: str
    reason: str


# -- stores --------------------------------------------------------------------------------------


def contenders(
    names: Sequence[str], metric: Metric, clients: int
) -> tuple[list[Contender], list[SkippedStore]]:
    """The stores to measure, and those that cannot be measured.

    Args:
        names: names of stores, measured in this order. If empty, all stores that work here in
            process: first those that trade recall for speed, with the smallest library first.

    Raises:
        UserError: no store has one of these names.
    """
    known = [registry.load(name) for name in dict.fromkeys(names)] or _in_process_stores()
    able, skipped = [], []
    for store in known:
        if reason := _why_unmeasurable(store, metric, clients, named=bool(names)):
            skipped.append(SkippedStore(store.name, reason))
        else:
            able.append(Contender(store, store.capabilities.preferred_index(metric)))
    return able if names else _most_promising_first(able), skipped


def _in_process_stores() -> list[type[Store]]:
    stores = []
    for name in registry.names():
        try:
            store = registry.load(name)
        except PluginError:  # `vectrial stores` says what is wrong with it
            continue
        if store.server is None:
            stores.append(store)
    return stores


def _why_unmeasurable(store: type[Store], metric: Metric, clients: int, *, named: bool) -> str:
    """Reason why a store cannot be measured now; empty if it can."""
    available, _ = registry.availability_with_server(store)
    # What is made on first use may take minutes, which only somebody who names the store waits for.
    if available.works is False or (available.works is None and not named):
        return available.text
    can = store.capabilities
    if metric not in can.scores:
        return f"it has no metric {metric}: --metric {' or '.join(can.scores)}, or other data"
    if clients > 1 and not can.concurrent_search:
        return f"it must not be searched by {clients} clients at once: --clients 1"
    return ""


def _most_promising_first(able: Sequence[Contender]) -> list[Contender]:
    """The stores, first those that trade recall for speed, with the smallest library first: it is
    imported and started soonest."""
    modules = {one: (one.store.module or "").split(".")[0] for one in able}
    sizes = installed_bytes(modules.values())

    def place(one: Contender) -> tuple[bool, bool, int, str]:
        exact, apart = one.kind.recall_parameter is None, one.store.environment is not None
        return exact, apart, sizes[modules[one]], one.store.name

    return sorted(able, key=place)


# -- data ----------------------------------------------------------------------------------------


def default_dataset(progress: Progress, note: LineProgress) -> str:
    """The name of a real dataset, fetched if possible; else of a synthetic one, drawn here."""
    try:
        return catalog.ensure(DATASET, progress).name
    except (SourceUnavailable, DataError) as error:
        note(f"{DATASET} cannot be fetched: {error.what}; synthetic data are measured instead")
        return catalog.ensure(DRAWN, progress).name


def named_shape(name: str, rows: int | None = None) -> DatasetShape:
    """The shape of a dataset named on a command line, or of its first `rows` rows.

    Raises:
        UserError: there is no such dataset, or it has fewer rows.
    """
    cut = {} if rows is None else {"rows": rows}
    return shape_of(validate(DatasetRef, {"name": name, **cut}, "--dataset"))


def is_file(text: str) -> bool:
    """True if the text is the path of a data file, not the name of a dataset."""
    return bool(text) and not catalog.knows(text) and ("/" in text or Path(text).exists())


def dataset_of_file(
    path: Path, metric: Metric | None, progress: Progress, note: LineProgress
) -> Dataset:
    """The dataset of a file: its first rows, as many as a short measurement can use. A file
    imported before is not read again.

    metric: by default the file's own, else cosine.

    Raises:
        UserError, DataError: see `import_file`; the remedy is `vectrial data import`, which has
            more options.
    """
    try:
        order = _order(path, metric, note)
        name = order.name or name_of(path)
        if name not in library.names():
            return import_file(order, progress)
    except (UserError, DataError) as error:
        by_hand = f"import it with its options: vectrial data import {path} --name mine …"
        remedy = "; ".join(filter(None, (error.remedy, by_hand)))
        raise type(error)(error.what, where=error.where, remedy=remedy) from error
    return _earlier_import(library.load(name), path, metric, progress)


def _order(path: Path, metric: Metric | None, note: LineProgress) -> Import:
    with open_source(path, ReaderOptions()) as source:
        most = min(_MOST_ROWS, _MOST_BYTES // (4 * source.dim))
        if metric is None and source.metric is None:
            note("metric: cosine, since the file does not say which: --metric")
        order = Import(path, metric=metric or source.metric or Metric.COSINE)
        if source.rows <= most * _HELD_OUT:
            return order
        note(f"the first {most:,} of {source.rows:,} rows are imported: more do not fit the time")
    options = ReaderOptions(rows=most)
    return replace(order, options=options, name=f"{name_of(path)}-first-{most}")


def _earlier_import(
    dataset: Dataset, path: Path, metric: Metric | None, progress: Progress
) -> Dataset:
    """The dataset imported before, if it came from this file.

    Raises:
        UserError: it came from another file, or was imported under another metric.
    """
    name = dataset.name
    remedy = f"remove it (vectrial data remove {name}), or import the file by another name"
    if dataset.provenance.checksum != f"sha256:{checksum(path, progress)}":
        raise UserError(
            f"there is a dataset named '{name}' already, of other data",
            where=str(path),
            remedy=f"{remedy} (vectrial data import {path} --name mine)",
        )
    if metric not in (None, dataset.metric):
        raise UserError(
            f"'{name}' was imported with metric {dataset.metric}",
            where="--metric",
            remedy=f"{remedy} (vectrial data import {path} --name mine --metric {metric})",
        )
    return dataset


def check_shape(shape: DatasetShape, rows: int | None, k: int) -> None:
    """Check the requested rows and k against a dataset.

    Raises:
        UserError: it has fewer rows.
    """
    if rows is not None and rows > shape.rows:
        raise UserError(
            f"dataset '{shape.name}' has {shape.rows:,} rows, {rows:,} are asked for",
            where="--rows",
            remedy="ask for fewer rows",
        )
    if k > (rows or shape.rows):
        raise UserError(f"there are {rows or shape.rows:,} rows, fewer than k = {k:,}", where="--k")
