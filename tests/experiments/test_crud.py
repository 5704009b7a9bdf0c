"""Single operations are many, on rows drawn at random, and each is verified to have its effect."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from experiment_worlds import ROWS, Frozen, Immortal, by_name, dataset, run
from numpy.typing import NDArray

from vectrial.experiments.crud.experiment import Crud
from vectrial.stores.common.arrow import ids_of, vectors_of
from vectrial.stores.memory import MemoryStore

SAMPLES = 200
ASKED = Crud(samples=SAMPLES)
VERIFIED = ("read", "create", "update", "delete")


class Watched(MemoryStore):
    """Keeps what it was asked for."""

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        ASKED_FOR.clear()

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        if len(ids) == 1:
            ASKED_FOR.setdefault("read", []).append(ids[0])
        return super().get(ids)

    def upsert(self, batch: pa.RecordBatch) -> None:
        ASKED_FOR.setdefault("update", []).append((ids_of(batch)[0], vectors_of(batch)[0]))
        super().upsert(batch)

    def delete(self, ids: NDArray[np.int64]) -> None:
        ASKED_FOR.setdefault("delete", []).append(ids[0])
        super().delete(ids)


ASKED_FOR: dict[str, list[object]] = {}


class ReadsAnother(MemoryStore):
    """Reads one row whatever is asked for."""

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        return super().get(dataset().ids[:1] if len(ids) == 1 else ids)


class Lossy(MemoryStore):
    """Acknowledges a new row and does not keep it."""

    def insert(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows > 1:
            super().insert(batch)


def test_each_operation_is_of_many_rows_and_an_update_moves_its_row(tmp_path: Path) -> None:
    """Traps 001-1, an average of one call, and 001-5, the same document written back."""
    phases = by_name(run(ASKED, Watched, tmp_path))
    for name in VERIFIED:
        found = phases[name]
        assert found.valid, found.reason
        assert (found.metrics["count"], found.metrics["verified"]) == (SAMPLES, SAMPLES)
        assert found.metrics["ineffective"] == 0
    assert len(set(ASKED_FOR["read"])) > SAMPLES / 2
    assert len(set(ASKED_FOR["delete"])) == SAMPLES
    rows = dataset()
    before = dict(zip(rows.ids.tolist(), rows.vectors, strict=True))
    updates = ASKED_FOR["update"]
    assert len({id_ for id_, _ in updates}) == SAMPLES < ROWS  # type: ignore[misc,attr-defined]
    for id_, vector in updates:  # type: ignore[misc,attr-defined]
        assert not np.allclose(vector, before[int(id_)])


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [(ReadsAnother, "read"), (Lossy, "create"), (Frozen, "update"), (Immortal, "delete")],
)
def test_an_operation_without_its_effect_has_no_valid_figure(
    kind: type[MemoryStore], wrong: str, tmp_path: Path
) -> None:
    """Traps 001-5, 002-7 and 004-4: what is acknowledged and does not happen."""
    found = by_name(run(ASKED, kind, tmp_path))[wrong]
    assert not found.valid
    assert "acknowledged without their effect" in str(found.reason)
    assert found.metrics["verified"] == SAMPLES
    assert (found.metrics["ineffective"] or 0) > 0.9 * SAMPLES
