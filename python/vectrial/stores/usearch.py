"""USearch: a single HNSW index in float32, with metadata kept beside it.

The library's default precision is bfloat16, half that of the data, which would be an unequal
comparison; so `f32` is used. Its Python interface has no filtered search.

Threads: writes use all cores that this process may run on; a search uses one. The number of
candidates belongs to the index, not to a query, so a searcher sets it with every call.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Bound

from vectrial.stores import common as vt

_METRICS = {vt.Metric.L2: "l2sq", vt.Metric.COSINE: "cos", vt.Metric.IP: "ip"}


class USearchBuild(vt.Params):
    """m: links per node and level ("connectivity"); ef_construction: candidates while building
    ("expansion_add")."""

    m: int = Bound(default=16, ge=2, le=512)
    ef_construction: int = Bound(default=128, ge=1, le=100_000)


class USearchSearch(vt.Params):
    """ef_search: candidates while searching ("expansion_search")."""

    ef_search: int = Bound(default=64, ge=1, le=1_000_000)


class USearchStore(vt.LibraryIndex):
    """One USearch index, its rows, and two files."""

    name: ClassVar[str] = "usearch"
    title: ClassVar[str] = "USearch"
    module: ClassVar[str | None] = "usearch"
    extra: ClassVar[str | None] = "usearch"
    suffix = "usearch"
    capabilities: ClassVar[vt.Capabilities] = vt.Capabilities(
        scores={
            vt.Metric.L2: vt.ScoreKind.L2_SQUARED,
            vt.Metric.COSINE: vt.ScoreKind.COSINE_DISTANCE,
            vt.Metric.IP: vt.ScoreKind.ONE_MINUS_INNER_PRODUCT,
        },
        indexes={
            "hnsw": vt.IndexKind(
                build=USearchBuild, search=USearchSearch, high_recall_params={"ef_search": 512}
            )
        },
        find=vt.ALL_OPERATORS,
        field_types=frozenset(vt.FieldType),
        nulls=True,
        persistent=True,
        concurrent_search=True,
        refuses_duplicates=True,
        caveats=(
            "metadata lies beside the index, in this process, and answers find by condition;"
            " there is no filtered search",
            "float32 is asked for; the library's own default is of lower precision",
            "writes use all cores, a search uses one",
            "flush writes the whole index to one file and syncs it",
        ),
    )

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        from usearch.index import Index as USearchIndex

        self._new_index = USearchIndex

    def version(self) -> str:
        return version("usearch")

    def _make(self, schema: vt.Schema, index: vt.Index) -> Any:
        params = USearchBuild.model_validate(index.params.model_dump())
        return self._new_index(
            ndim=schema.dim,
            metric=_METRICS[schema.metric],
            dtype="f32",
            connectivity=params.m,
            expansion_add=params.ef_construction,
        )

    def _load(self, schema: vt.Schema, index: vt.Index) -> Any:
        made = self._make(schema, index)
        made.load(str(self._index_file))
        return made

    def _save(self, path: Path) -> None:
        self._index.save(str(path))

    def _add(self, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        self._index.add(ids.view(np.uint64), vectors)

    def _remove(self, ids: NDArray[np.int64]) -> None:
        self._index.remove(ids.view(np.uint64))

    def _read(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = self._index.get(ids.view(np.uint64))
        return vectors

    def searcher(self, k: int, params: vt.Params, where: vt.Filter | None = None) -> vt.Searcher:
        assert isinstance(params, USearchSearch)
        assert where is None
        ef, index, query = params.ef_search, self._index, self._index.search

        def search(vector: NDArray[np.float32], /) -> vt.Hits:
            index.expansion_search = ef
            found = query(vector, k, threads=1)
            return found.keys.view(np.int64), found.distances

        return search

    def footprint(self) -> vt.Footprint:
        return vt.Footprint(index_bytes=int(self._index.serialized_length))
