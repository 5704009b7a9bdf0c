"""The clock of the sdk lane starts when every process is there, connected and warm."""

from __future__ import annotations

import os
from pathlib import Path

import null_store
import numpy as np
import pytest
from null_store import StampingStore

from vectrial.datasets.exact import exact_topk
from vectrial.model.capabilities import Index, NoParams
from vectrial.model.metric import Metric
from vectrial.model.schema import Schema
from vectrial.model.workload import ClosedLoop
from vectrial.stores.common.arrow import batch_of
from vectrial.workload.python import sdk_search
from vectrial.workload.python.sdk_process import Opening

ROWS, DIM, K, CLIENTS, WARM_UP = 50, 4, 3, 2, 5
HERE = Path(null_store.__file__).parent


def test_processes_are_started_connected_and_warm_before_the_clock_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap 000-6: the start of processes, imports and connecting were inside."""
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)
    schema, flat = Schema(DIM, Metric.L2), Index("flat", NoParams())
    vectors = np.random.default_rng(1).normal(size=(ROWS, DIM)).astype(np.float32)
    ids = np.arange(ROWS, dtype=np.int64)
    store = StampingStore(tmp_path)
    store.create(schema, flat)
    store.insert(batch_of(schema, ids, vectors, {}))
    store.wait_indexed()
    store.close()
    queries = vectors[:20]
    opening = Opening("null_store:StampingStore", tmp_path, None, schema, flat, None)
    load = ClosedLoop(CLIENTS, min_s=0, max_s=60)
    question = sdk_search.VectorSearchTask(opening, K, NoParams())
    truth = exact_topk(vectors, ids, queries, Metric.L2, K)
    whole = sdk_search.ClientShare(question, queries, truth, load, (), WARM_UP, 0, "search")
    phase = sdk_search.search(whole, load)
    assert phase.metrics["count"] == CLIENTS * len(queries)
    opened, asked = (stamps(tmp_path, what) for what in ("opened", "asked"))
    assert len(opened) == phase.metrics["client_processes"]
    assert max(opened) <= phase.started_ns
    before = sum(at < phase.started_ns for at in asked)
    assert before == phase.metrics["warmup_count"] == CLIENTS * WARM_UP
    assert len(asked) - before == phase.metrics["count"]


def stamps(folder: Path, what: str) -> list[int]:
    """All that the processes wrote down."""
    return [int(line) for file in folder.glob(f"{what}-*") for line in file.read_text().split()]
