"""Loading: every row once, in bounded memory, and nothing that was refused counts as taken."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial.engine.client import target
from vectrial.engine.null_server import null_server
from vectrial.model.capabilities import Index, NoParams
from vectrial.model.context import fields_of
from vectrial.model.dataset import Dataset, Provenance
from vectrial.model.metric import Metric
from vectrial.model.phase import Phase
from vectrial.model.placement import Certificate, ClientLimits, Placement
from vectrial.model.schema import Schema
from vectrial.model.store import NativeRows
from vectrial.stores.memory import MemoryStore
from vectrial.workload import ingest
from vectrial.workload.native import inserts
from vectrial.workload.native.rows import columns_of, one_by_one

CERTIFICATE = Certificate(ClientLimits(cpu_share=99), Placement(), {})


def dataset(rows: int, dim: int = 8) -> Dataset:
    rng = np.random.default_rng(0)
    return Dataset(
        "small",
        Metric.L2,
        rng.random((rows, dim), np.float32),
        np.arange(rows, dtype=np.int64) * 3,
        rng.random((5, dim), np.float32),
        "",
        Provenance("here", "none", ""),
        pa.table({"number": np.arange(rows) % 7, "word": [f"w{i}" for i in range(rows)]}),
    )


def silent(*_: object) -> None:
    pass


@given(
    rows=st.integers(0, 5_000), batch=st.integers(1, 700), clients=st.integers(1, 5), dim=st.just(8)
)
def test_slabs_are_whole_rounds_of_batches_and_bounded(
    rows: int, batch: int, clients: int, dim: int
) -> None:
    whole = dataset(1, dim)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inserts, "SLAB_BYTES", 100_000)
        found = list(inserts.slabs(whole, batch, clients, rows))
    assert [at for first, last in found for at in range(first, last)] == list(range(rows))
    for first, last in found[:-1]:
        assert (last - first) % (batch * clients) == 0
        assert (last - first) * 300 <= 100_000 or last - first == batch * clients


def natively(
    rows: int, *, faults: Sequence[tuple[str, int]] = (), clients: int = 1, batch: int = 100
) -> Phase:
    given = dataset(rows)
    schema = Schema(given.dim, given.metric, fields_of(given))
    with null_server("grpc", faults=faults) as server:
        native = NativeRows(target("null-grpc", server.host, server.port))
        return inserts.load(native, given, schema, batch, silent, CERTIFICATE, clients=clients)


def test_a_native_load_counts_rows_and_times_batches() -> None:
    phase = natively(1_050, clients=3)
    assert phase.valid, phase.reason
    assert phase.metrics["count"] == 1_050
    assert phase.metrics["batches"] == 11
    assert phase.metrics["errors"] == 0
    assert phase.metrics["concurrency"] == 3
    seconds = phase.metrics["load_s"]
    assert seconds
    assert phase.metrics["rows_per_s"] == pytest.approx(1_050 / seconds)
    assert phase.metrics["mb_per_s"] == pytest.approx(1_050 * 8 * 4 / 1e6 / seconds)
    least, most = phase.metrics["latency_min"], phase.metrics["latency_max"]
    assert least
    assert most
    assert least <= (phase.metrics["latency_p50"] or 0) * 1.01 <= most * 1.02
    assert phase.histograms["latency"]
    assert sum(int(n or 0) for n in phase.windows["load"]["count"]) == 11


def test_slabs_of_a_load_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inserts, "SLAB_BYTES", 80_000)
    phase = natively(1_000)
    assert phase.valid, phase.reason
    assert phase.metrics["count"] == 1_000
    assert phase.metrics["batches"] == 10
    seconds = phase.windows["load"]["second"]
    assert list(seconds) == list(range(len(seconds)))
    assert len(seconds) >= 5, "a window of each slab at least"


def test_a_batch_that_fails_is_counted_by_class_and_makes_the_load_invalid() -> None:
    phase = natively(1_000, faults=[("status", 4)])
    assert not phase.valid
    assert phase.reason is not None
    assert "of 1,000 rows were taken" in phase.reason
    assert phase.metrics["errors"] == sum(count for _, count, _ in phase.errors) > 0
    assert phase.metrics["count"] == 1_000 - 100 * phase.metrics["errors"]
    assert all(kind.startswith("status:") for kind, _, _ in phase.errors)


def test_a_load_by_the_stores_own_method_has_the_same_figures(tmp_path: Path) -> None:
    given = dataset(250)
    schema = Schema(given.dim, given.metric, fields_of(given))
    store = MemoryStore(tmp_path)
    store.create(schema, Index("flat", NoParams()))
    own = ingest.load(store, given, schema, 100, silent)
    native = natively(250)
    assert store.count() == own.metrics["count"] == 250
    assert own.metrics["batches"] == 3
    only_native = {"client_cpu_share", "reconnects", "cpu_us_per_op"}
    assert native.metrics.keys() - own.metrics.keys() == only_native
    assert own.params == native.params == {"batch_rows": 100}


def test_columns_keep_what_is_missing() -> None:
    table = pa.table(
        {
            "number": pa.array([1, None, 3], pa.int64()),
            "price": pa.array([0.5, 1.5, None], pa.float64()),
            "word": ["a", None, ""],
            "flag": [True, None, False],
        }
    )
    number, price, word, flag = columns_of(table, {"number": "f0"})
    assert number["name"] == "f0"
    assert number["values"].tolist() == [1, 0, 3]  # type: ignore[union-attr]
    assert price["name"] == "price"
    assert price["values"].dtype == np.float64  # type: ignore[union-attr]
    assert word["values"] == ["a", "", ""]
    assert flag["values"].dtype == np.bool_  # type: ignore[union-attr]
    for column, missing in ((number, 1), (price, 2), (word, 1), (flag, 1)):
        assert column["valid"] is not None
        assert np.flatnonzero(~column["valid"]).tolist() == [missing]
    assert columns_of(table.slice(0, 1), {})[0]["valid"] is None


def test_rows_one_by_one_hold_the_client_to_its_processor_time() -> None:
    given, strict = dataset(50), ClientLimits(cpu_share=1e-9)
    told = []
    with null_server("grpc") as server:
        native = NativeRows(target("null-grpc", server.host, server.port))
        for limits in (CERTIFICATE.limits, strict):
            phase, sent = one_by_one(
                native,
                "insert",
                given.ids,
                given.vectors,
                name="create",
                certificate=Certificate(limits, Placement(threads=4), {}),
                max_s=None,
                progress=silent,
            )
            assert sent == 50
            assert (phase.metrics["client_cpu_share"] or 0) > 0
            assert "no ceiling of such requests" in phase.missing["ceiling_share"]
            told.append(phase.reason or "")
    assert told[0] == ""
    assert told[1].startswith("client-bound: the client used")


def test_columns_that_are_not_loaded_are_not_read() -> None:
    whole, rows = dataset(20), np.array([3, 17])
    bare = Schema(8, Metric.L2)
    assert ingest.metadata_of(whole, bare, rows) is None
    assert ingest.batch(whole, bare, rows).column_names == ["id", "vector"]
    (_, word) = fields_of(whole)
    told = ingest.metadata_of(whole, Schema(8, Metric.L2, (word,)), rows)
    assert told is not None
    assert told.to_pydict() == {"word": ["w3", "w17"]}
