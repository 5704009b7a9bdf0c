"""The datasets of the Flight reference server: our embedded stores, one each, behind a lock.

On the disk a dataset is a folder named after it, with `dataset.json` and whatever its store wrote
when it was flushed. Datasets that were never flushed are lost. Full-text indexes are not written:
texts are indexed again when the rows are read.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.capabilities import Index
from vectrial.model.errors import StoreError
from vectrial.model.filters import Eq, In, IsNull, Not, Or
from vectrial.model.fusion import RankedRows
from vectrial.model.metric import Metric, ScoreKind, score_from_distance
from vectrial.model.schema import ARROW_TYPES
from vectrial.model.store import Hits, Searcher
from vectrial.stores.common.arrow import batch_of, ids_of, vectors_of
from vectrial.stores.common.files import atomic_replace
from vectrial_reproduce.stores.flight.filters import from_members
from vectrial_reproduce.stores.flight.reference.about import ENGINES, DatasetDescription
from vectrial_reproduce.stores.flight.reference.text import NOTHING, TextQuery, Texts

#: The scores that searches answer with; the larger, the closer.
SCORES = {
    Metric.L2: ScoreKind.INVERSE_L2,
    Metric.COSINE: ScoreKind.COSINE_SIMILARITY,
    Metric.IP: ScoreKind.INNER_PRODUCT,
}
#: Searches that are kept prepared, with the rows that their filter keeps.
_PREPARED = 64
_ABOUT = "dataset.json"
#: Prefix of the folder of a dataset, whose name may be "..".
_PREFIX = "dataset-"


class ServedDataset:
    """One dataset: any number of searches at a time, or one write."""

    def __init__(self, folder: Path, about: DatasetDescription, *, saved: bool) -> None:
        self._folder, self._about = folder, about
        self._names = ["id", "vector", *about.schema.columns]
        arrow = zip(about.schema.arrow(), self._names, strict=True)
        self.schema = pa.schema([column.with_name(name) for column, name in arrow])
        engine = ENGINES[about.index]
        self._kind = engine.capabilities.indexes[about.index]
        self._score = engine.capabilities.scores[about.schema.metric]
        build = self._kind.build.model_validate(dict(about.params))
        folder.mkdir(parents=True, exist_ok=True)
        self._store = engine(folder)
        begin = self._store.open if saved else self._store.create
        begin(about.schema, Index(about.index, build))
        texts = any(field.text for field in about.schema.fields)
        self._texts = Texts(about.schema) if texts else None
        if self._texts and saved:
            for rows in self._store.scan():
                self._texts.put(rows)
        self._lock = _Lock()
        self._prepared: OrderedDict[tuple[Any, ...], Searcher] = OrderedDict()
        self._preparing = threading.Lock()

    def put(self, batch: pa.RecordBatch) -> None:
        """Add rows, replacing rows whose ids exist."""
        rows = self._to_layout(batch)
        with self._lock.exclusive():
            self._prepared.clear()
            self._store.upsert(rows)
            if self._texts:
                self._texts.put(rows)

    def _to_layout(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows in the dataset's own layout, whatever the order of their columns."""
        schema, found = self._about.schema, set(batch.schema.names)
        vector = "vector" if "vector" in found else "embedding"
        names = {field.name for field in schema.fields}
        if not {"id", vector} <= found or (more := found - names - {"id", vector}):
            what = f"it has no column '{min(more)}'" if {"id", vector} <= found else "id and vector"
            raise StoreError(f"the rows do not fit the dataset: {what}")
        dim = batch.schema.field(vector).type.list_size
        if dim != schema.dim:
            raise StoreError(f"vectors have {dim} components, and the dataset's {schema.dim}")
        columns: dict[str, pa.Array[Any]] = {
            field.name: batch.column(field.name)
            if field.name in found
            else pa.array([None] * batch.num_rows, ARROW_TYPES[field.type])
            for field in schema.fields
        }
        ids = batch.column("id").cast(pa.int64(), safe=False).to_numpy()
        return batch_of(schema, ids, _vectors(batch.column(vector)), columns)

    def delete(self, ids: NDArray[np.int64]) -> None:
        """Remove rows; absent ids are ignored."""
        with self._lock.exclusive():
            self._prepared.clear()
            self._store.delete(ids)
            if self._texts:
                self._texts.delete(ids)

    def flush(self) -> None:
        """Write everything to the disk."""
        with self._lock.exclusive():
            self._store.flush()
            aside = self._folder / f"{_ABOUT}.new"
            aside.write_text(self._about.text())
            atomic_replace(aside, self._folder / _ABOUT)

    def drop(self) -> None:
        """Remove the dataset with its files."""
        with self._lock.exclusive():
            self._store.drop()
            shutil.rmtree(self._folder, ignore_errors=True)

    def count(self) -> int:
        """Number of rows."""
        with self._lock.shared():
            return self._store.count()

    def ready(self) -> None:
        """Wait until searches find everything that was put."""
        if self._texts:
            with self._lock.shared():
                self._texts.commit()

    def vector(self, id_: int) -> NDArray[np.float32]:
        """The vector (d,) of a row.

        Raises:
            StoreError: there is no such row.
        """
        with self._lock.shared():
            found = self._store.get(np.array([id_], np.int64))
        if not found.num_rows:
            raise StoreError(f"no row {id_}")
        vector: NDArray[np.float32] = vectors_of(found)[0]
        return vector

    def search(
        self,
        vector: NDArray[np.float32],
        k: int,
        ef: int | None,
        filters: Sequence[Any],
        *,
        text_query: TextQuery | None = None,
        include_vectors: bool,
        include_metadata: bool,
    ) -> pa.RecordBatch:
        """The k best rows, by nearness, or by vector and text: `id` uint64, `score` float32, and
        the included columns."""
        if vector.shape != (self._about.schema.dim,) and (text_query is None or text_query.alpha):
            raise StoreError(f"a query has {vector.size} components: {self._about.schema.dim} here")
        with self._lock.shared():
            if text_query is None:
                ids, scores = self._nearest_rows(vector, k, ef, filters)
            else:
                ids, scores = self._fuse(vector, k, ef, text_query)
            rows = self._store.get(ids) if include_vectors or include_metadata else None
        columns: dict[str, Any] = {
            "id": pa.array(ids.view(np.uint64)),
            "score": pa.array(scores),
        }
        if rows is not None:
            place = {id_: at for at, id_ in enumerate(rows.column("id").to_pylist())}
            rows = rows.take(pa.array([place[id_] for id_ in ids.tolist()], pa.int64()))
            if include_vectors:
                raw = [row.tobytes() for row in vectors_of(rows)]
                columns["vector"] = pa.array(raw, pa.binary())
            if include_metadata:
                columns["metadata"] = _struct(
                    rows.rename_columns(self._names).drop_columns(["id", "vector"])
                )
        return pa.RecordBatch.from_pydict(columns)

    def _nearest_rows(
        self, vector: NDArray[np.float32], k: int, ef: int | None, filters: Sequence[Any]
    ) -> Hits:
        ids, scores = self._searcher(k, ef, filters)(vector)
        return ids, self._scores(scores)

    def _fuse(
        self, vector: NDArray[np.float32], k: int, ef: int | None, text_query: TextQuery
    ) -> Hits:
        """The best rows by vector and text. A side without weight is not searched."""
        dense = text = NOTHING
        if text_query.alpha > 0:
            ids, closeness = self._nearest_rows(vector, text_query.candidates, ef, ())
            dense = RankedRows(ids, closeness.astype(np.float64))
        if text_query.alpha < 1:
            if self._texts is None:
                raise StoreError("the dataset has no column with a full-text index")
            text = self._texts.best(text_query.column, text_query.text, text_query.candidates)
        found = text_query.fuse(dense, text, k)
        return found.rows, found.scores.astype(np.float32)

    def _searcher(self, k: int, ef: int | None, filters: Sequence[Any]) -> Searcher:
        key = (k, ef, json.dumps(filters, sort_keys=True))
        with self._preparing:
            searcher = self._prepared.get(key)
            if searcher is None:
                settings = {} if ef is None else {"ef_search": ef}
                params = self._kind.search.model_validate(settings)
                searcher = self._store.searcher(k, params, from_members(filters))
                self._prepared[key] = searcher
                if len(self._prepared) > _PREPARED:
                    self._prepared.popitem(last=False)
            else:
                self._prepared.move_to_end(key)
        return searcher

    def _scores(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """The store's scores, converted to Longbow's."""
        match self._score:
            case ScoreKind.L2_SQUARED:
                distance = np.sqrt(np.maximum(scores.astype(np.float64), 0.0))
            case ScoreKind.COSINE_SIMILARITY | ScoreKind.ONE_MINUS_INNER_PRODUCT:
                one = 1.0 if self._score is ScoreKind.COSINE_SIMILARITY else -1.0
                distance = one * (1.0 - scores.astype(np.float64))
            case ScoreKind.INNER_PRODUCT:
                distance = -scores.astype(np.float64)
            case _:
                distance = scores.astype(np.float64)
        return score_from_distance(SCORES[self._about.schema.metric], distance).astype(np.float32)

    def scan(
        self,
        filters: Sequence[Any],
        limit: int | None,
        columns: Sequence[str] | None,
        page: int,
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The rows that filters keep, at most `limit` if given, with these columns if given. Rows
        deleted during the scan are left out."""
        where = from_members(filters)
        with self._lock.shared():
            match where:
                case Eq("id", value):
                    ids = _integers([value])
                case In("id", values):
                    ids = _integers(values)
                case None:
                    ids = self._ids()
                case _:
                    ids = self._store.find(where, self._store.count())
        ids = ids[:limit]
        names = self.schema.names if columns is None else list(columns)
        if unknown := set(names) - set(self.schema.names):
            raise StoreError(f"no column '{min(unknown)}'")
        schema = pa.schema([self.schema.field(name) for name in names])

        def batches_of() -> Iterator[pa.RecordBatch]:
            for start in range(0, len(ids), page):
                part = ids[start : start + page]
                if names == ["id"]:
                    yield pa.RecordBatch.from_arrays([pa.array(part)], schema=schema)
                    continue
                with self._lock.shared():
                    rows = self._store.get(part).rename_columns(self._names)
                yield from rows.select(names).combine_chunks().to_batches()

        return schema, batches_of()

    def _ids(self) -> NDArray[np.int64]:
        """The ids of all rows."""
        for field in self._about.schema.fields:
            missing = IsNull(field.name)
            return self._store.find(Or((missing, Not(missing))), self._store.count())
        return np.concatenate([np.empty(0, np.int64), *map(ids_of, self._store.scan())])


class Datasets:
    """All datasets, by name; those that were flushed into `folder` are there at once."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._lock = threading.Lock()
        self._datasets: dict[str, ServedDataset] = {}
        for place in sorted(folder.iterdir()):
            if place.name.startswith(_PREFIX) and (place / _ABOUT).exists():
                about = DatasetDescription.from_text((place / _ABOUT).read_text())
                name = unquote(place.name.removeprefix(_PREFIX))
                self._datasets[name] = ServedDataset(place, about, saved=True)

    def names(self) -> list[str]:
        """Names of all datasets."""
        with self._lock:
            return sorted(self._datasets)

    def get(self, name: str) -> ServedDataset:
        """The dataset with this name.

        Raises:
            StoreError: there is no such dataset.
        """
        with self._lock:
            found = self._datasets.get(name)
        if found is None:
            raise StoreError(f"no dataset '{name}'")
        return found

    def get_or_create(self, name: str, schema: pa.Schema) -> ServedDataset:
        """The dataset, created for rows of this schema if it does not exist."""
        with self._lock:
            if name not in self._datasets:
                place = self._folder / f"{_PREFIX}{quote(name, safe='')}"
                self._datasets[name] = ServedDataset(
                    place, DatasetDescription.from_put(schema), saved=False
                )
            return self._datasets[name]

    def drop(self, name: str) -> None:
        """Remove the dataset if it exists."""
        with self._lock:
            found = self._datasets.pop(name, None)
        if found is not None:
            found.drop()

    def versions(self) -> Mapping[str, str]:
        """Versions of the libraries behind each kind of index."""
        from importlib.metadata import version

        return {"hnswlib": version("hnswlib"), "faiss": version("faiss-cpu")}


class _Lock:
    """Shared by readers, or held by one writer, who goes before readers that come later."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers, self._writing, self._waiting = 0, False, 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._writing and not self._waiting)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: not self._writing and not self._readers)
            self._waiting -= 1
            self._writing = True
        try:
            yield
        finally:
            with self._changed:
                self._writing = False
                self._changed.notify_all()


def _struct(rows: pa.Table) -> pa.Array[Any]:
    """The rows' columns as one struct column; empty structs if there are no columns."""
    if not rows.num_columns:
        return pa.array([{}] * rows.num_rows, pa.struct([]))
    columns = [column.combine_chunks() for column in rows.columns]
    return pa.StructArray.from_arrays(columns, fields=list(rows.schema))


def _vectors(column: Any) -> NDArray[np.float32]:
    """The vectors (n, d) in a column of fixed-size lists."""
    flat = column.flatten().to_numpy()
    return np.asarray(flat, np.float32).reshape(len(column), -1)


def _integers(values: Sequence[Any]) -> NDArray[np.int64]:
    if not all(isinstance(value, int) for value in values):
        raise StoreError("an id is an integer")
    return np.unique(np.array(values, np.int64))
