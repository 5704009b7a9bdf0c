"""Rows through the native lane: written in batches, or one at a time, as the engine sends them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial._engine import LoadControl
from vectrial.engine.client import Requests, closed, drive
from vectrial.engine.types import LoadColumn, LoadOutcome
from vectrial.model.phase import Phase
from vectrial.model.placement import Certificate, Placement
from vectrial.model.progress import Progress
from vectrial.model.store import NativeRows
from vectrial.workload.ceiling import certify
from vectrial.workload.record import phase_of_outcome

#: Seconds until a request that writes, reads or deletes rows has failed.
TIMEOUT_S = 300.0


def columns_of(
    metadata: pa.Table | None, names: Mapping[str, str], fields: Sequence[str] | None = None
) -> list[LoadColumn]:
    """Metadata columns (n rows) in the form that the engine takes, under the names given to them.

    Args:
        names: names of columns → names under which they are written; others keep theirs.
        fields: which columns; None for all.
    """
    if metadata is None:
        return []
    wanted = metadata.column_names if fields is None else fields
    return [_column(names.get(name, name), metadata.column(name)) for name in wanted]


def _column(name: str, column: pa.ChunkedArray[Any]) -> LoadColumn:
    """A column for the engine; missing values become the type's zero, and are marked as missing."""
    whole = column.combine_chunks()
    valid = None if not whole.null_count else np.asarray(whole.is_valid().to_numpy(False))
    if pa.types.is_string(whole.type):
        texts = [text or "" for text in whole.to_pylist()]
        return {"name": name, "values": texts, "valid": valid}
    zero = pa.scalar(0).cast(whole.type)
    values = whole.fill_null(zero).to_numpy(zero_copy_only=False)
    return {"name": name, "values": values, "valid": valid}


def send(
    native: NativeRows,
    operation: str,
    ids: NDArray[np.int64],
    vectors: NDArray[np.float32] | None = None,
    columns: Sequence[LoadColumn] = (),
    *,
    batch: int = 1,
    clients: int = 1,
    placement: Placement = Placement(),  # noqa: B008 - frozen
    max_s: float | None = None,
    progress: Callable[[LoadControl], None] | None = None,
) -> LoadOutcome:
    """Send every row once, `batch` in a request, by this many clients of a closed loop.

    With one client, requests go out in the order of the rows. No request is sent `max_s` seconds
    after the start or later.

    Args:
        operation: insert, upsert, get or delete. ids (n,); vectors (n, d) and columns of n rows if
            it writes.

    Raises:
        UserError: the rows are not what the protocol takes.
    """
    # Each thread sends every n-th request: more threads than clients would leave some unsent.
    threads = min(placement.threads, clients)
    requests = Requests(
        operation,
        operation,
        vectors=vectors,
        ids=ids,
        columns=columns,
        batch=batch,
        options=native.options,
        once=True,
    )
    return drive(
        native.target,
        [requests],
        [closed(clients)],
        duration_s=max_s,
        threads=threads,
        cores=placement.pins[:threads],
        timeout_s=TIMEOUT_S,
        progress=progress,
    )


def one_by_one(
    native: NativeRows,
    operation: str,
    ids: NDArray[np.int64],
    vectors: NDArray[np.float32] | None = None,
    columns: Sequence[LoadColumn] = (),
    *,
    name: str,
    certificate: Certificate,
    max_s: float | None,
    progress: Progress,
) -> tuple[Phase, int]:
    """Send one row at a time, each timed; returns the phase, and how many rows were sent.

    The client is held to its processor time only; its ceilings are those of searches.
    """
    placement = certificate.placement.model_copy(update={"threads": 1})  # as one client needs
    held = Certificate(certificate.limits, placement, {}, "no ceiling of such requests is known")
    load_1m = os.getloadavg()[0]

    def tell(control: LoadControl) -> None:
        _, issued, _, _ = control.progress()
        progress(issued, len(ids), name)

    outcome = send(
        native,
        operation,
        ids,
        vectors,
        columns,
        placement=placement,
        max_s=max_s,
        progress=tell,
    )
    (record,) = outcome["classes"]
    phase = phase_of_outcome(
        name,
        outcome,
        record,
        clients=1,
        load_1m=load_1m,
        params={"loop": "closed", "clients": 1},
        no_recall="an operation has no answer to judge",
    )
    certify(phase, 1, held)
    return phase, record["issued"]
