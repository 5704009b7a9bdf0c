"""What of a measuring process's memory is not the library's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vectrial.experiments.fit import own_memory
from vectrial.experiments.fit.own_memory import ClientMemory, bare_bytes
from vectrial.model.dataset import Truth
from vectrial.model.metric import Metric
from vectrial.model.workload import ClosedLoop, Load, OpenLoop

MIB = 2**20
QUERIES = np.eye(8, dtype=np.float32)
TRUTH = Truth(
    k=1,
    ids=np.arange(8, dtype=np.int64)[:, None],
    distances=np.ones((8, 1)),
    accept_offsets=np.arange(9, dtype=np.int64),
    accept_ids=np.arange(8, dtype=np.int64),
    available=np.ones(8, dtype=np.int64),
)
DATASET = SimpleNamespace(queries=QUERIES, vectors=QUERIES, metric=Metric.L2, dim=8, rows=8)


def rehearsed(load: Load, monkeypatch: pytest.MonkeyPatch) -> ClientMemory:
    monkeypatch.setattr(own_memory, "_REHEARSAL_S", 0.2)
    context: Any = SimpleNamespace(truth=lambda k, where: TRUTH, k=1, seed=1, dataset=DATASET)
    return ClientMemory(context, load, one_thread=False)


@pytest.mark.parametrize(
    "load", [OpenLoop(200.0, 5.0, in_flight=4), ClosedLoop(4, 5.0, 5.0)], ids=["open", "closed"]
)
def test_what_the_client_took_is_held_until_it_is_needed(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = rehearsed(load, monkeypatch)
    assert found.peak_bytes is not None
    assert found.peak_bytes > 10 * MIB, "this process with numpy"
    held = found._ballast
    assert held is not None
    assert held.nbytes < found.peak_bytes
    found.release()
    assert found._ballast is None


def test_more_clients_take_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    now = own_memory._anonymous_bytes()
    assert now is not None
    many = rehearsed(OpenLoop(2000.0, 5.0, in_flight=64), monkeypatch)
    assert many.peak_bytes is not None
    assert many.peak_bytes - now > 32 * MIB


def test_a_platform_that_tells_no_memory_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_memory, "_status", dict)
    found = rehearsed(ClosedLoop(1, 1.0, 1.0), monkeypatch)
    assert found.peak_bytes is None
    found.release()


def test_a_process_without_rows_is_small_and_an_unknown_module_is_none() -> None:
    bare = bare_bytes("json")
    assert bare is not None
    assert MIB < bare < 100 * MIB
    assert bare_bytes("no_such_module_anywhere") is None
