"""Check outside every clock that a store holds rows as they were written."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.gate.model import is_same_value, is_same_vector
from vectrial.model.capabilities import Index
from vectrial.model.schema import Schema
from vectrial.model.store import Store
from vectrial.stores.common.arrow import columns_of, ids_of, vectors_of


def read_back(
    store: Store,
    schema: Schema,
    index: Index,
    ids: NDArray[np.int64],
    vectors: NDArray[np.float32],
    metadata: pa.Table | None = None,
) -> int:
    """Number of these rows, ids (n,), vectors (n, d), metadata of n rows, that are stored as
    written. Rows are compared as in the gate.

    metadata: further columns to compare; None compares vectors alone.
    """
    table, kind = store.get(ids), store.capabilities.indexes[index.kind]
    position = {int(id_): at for at, id_ in enumerate(ids)}
    wanted = {} if metadata is None else metadata.to_pydict()
    read = columns_of(table, schema)
    got = vectors_of(table)
    right, seen = 0, set[int]()
    for at, id_ in enumerate(ids_of(table).tolist()):
        if id_ not in position or id_ in seen:
            continue
        seen.add(id_)
        want = position[id_]
        same = is_same_vector(got[at], vectors[want], schema, kind)
        right += same and all(
            is_same_value(read[name][at], cells[want]) for name, cells in wanted.items()
        )
    return right
