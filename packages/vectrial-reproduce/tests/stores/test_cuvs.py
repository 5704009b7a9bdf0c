"""cuVS: what can be known of its driver without a GPU, and that a machine without one says so.

Where there is an NVIDIA GPU, the conformance suite tests the driver itself, in its own environment:
`test_own_environments.py`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cuvs_stand_in
import numpy as np
import pytest
from pydantic import ValidationError

import vectrial
import vectrial_reproduce
from vectrial.model.errors import NotInstalled, StoreError, Unsupported, UserError
from vectrial.model.filters import Eq
from vectrial.model.metric import Metric
from vectrial.model.refusals import refuse
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.stores import registry
from vectrial.stores.common import Index
from vectrial.stores.common.arrow import batch_of
from vectrial.testing.run import conformance
from vectrial.util import environments
from vectrial_reproduce.stores import cuvs
from vectrial_reproduce.stores.cuvs import (
    CagraBuild,
    CagraSearch,
    CuvsIvfPqBuild,
    CuvsIvfPqSearch,
    CuvsStore,
)

CAN = CuvsStore.capabilities
WHY = "needs an NVIDIA GPU: no /dev/nvidia0 here"
REMEDY = "on a machine that has one: python -m vectrial.util.environments cuvs"
ENVIRONMENT = CuvsStore.environment
assert ENVIRONMENT is not None

without_gpu = pytest.mark.skipif(
    not environments.missing_hardware(ENVIRONMENT), reason="there is an NVIDIA GPU here"
)


def test_it_imports_without_its_libraries() -> None:
    code = (
        "import sys\n"
        "for name in ('cuvs', 'pylibraft', 'rmm', 'cupy'):\n"
        "    sys.modules[name] = None\n"
        "from vectrial.stores import registry\n"
        "assert registry.load('cuvs').title == 'NVIDIA cuVS'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_it_declares() -> None:
    assert list(CAN.indexes) == ["cagra", "ivf_pq", "flat"]
    assert CAN.indexes["flat"].exact
    assert set(CAN.scores) == set(Metric)
    assert CAN.persistent
    assert CAN.for_index("cagra").filters
    assert not CAN.for_index("ivf_pq").filters
    for operation in ("get", "scan", "upsert", "delete", "inserts_after_build"):
        assert not getattr(CAN, operation)


def test_a_filter_is_refused_where_the_index_takes_none() -> None:
    schema = Schema(8, Metric.L2, (Field("colour", FieldType.STRING),))
    refuse(CuvsStore, schema, Index("cagra", CagraBuild()), Eq("colour", "red"))
    with pytest.raises(Unsupported, match="filter"):
        refuse(CuvsStore, schema, Index("ivf_pq", CuvsIvfPqBuild()), Eq("colour", "red"))


def test_parameters_that_cuvs_would_change_or_refuse_are_refused() -> None:
    assert CagraBuild(graph_degree=32, intermediate_graph_degree=32).build_algo == "ivf_pq"
    with pytest.raises(ValidationError, match="at most intermediate_graph_degree"):
        CagraBuild(graph_degree=64, intermediate_graph_degree=32)
    with pytest.raises(ValidationError, match="build_algo"):
        CagraBuild.model_validate({"build_algo": "guess"})
    assert CuvsIvfPqBuild(m_pq=24, nbits=5).m_pq == 24
    with pytest.raises(ValidationError, match="multiple of 8"):
        CuvsIvfPqBuild(m_pq=3, nbits=5)
    with pytest.raises(ValidationError, match="itopk_size"):
        CagraSearch(itopk_size=0)


@pytest.mark.parametrize("rows", [1, 31, 32, 33, 1000])
def test_bits_of_the_rows_that_a_filter_keeps(rows: int) -> None:
    kept = np.random.default_rng(rows).random(rows) < 0.3
    words = cuvs._bit_mask(kept)
    assert (words.dtype, words.shape) == (np.uint32, (-(-rows // 32),))
    held = [bool(words[row // 32] >> np.uint32(row % 32) & np.uint32(1)) for row in range(rows)]
    assert held == kept.tolist()
    assert sum(int(word).bit_count() for word in words) == kept.sum()


@pytest.mark.parametrize(
    ("kind", "none"),
    [(np.uint32, 2**32 - 1), (np.int64, 2**63 - 1), (np.int64, -1)],
)
def test_positions_that_no_row_has_are_left_out(kind: type[np.integer], none: int) -> None:
    ids = np.array([70, 30, -5], np.int64)
    scores = np.array([0.5, 1.5, 9.0], np.float32)
    found, near = cuvs._hits(np.array([2, 0, none], kind), scores, ids)
    assert (found.tolist(), near.tolist()) == ([-5, 70], [0.5, 1.5])
    assert (found.dtype, near.dtype) == (np.int64, np.float32)
    found, near = cuvs._hits(np.array([2, 0, 1], kind), scores, ids)
    assert (found.tolist(), near.tolist()) == ([-5, 70, 30], [0.5, 1.5, 9.0])


@pytest.mark.parametrize("metric", list(Metric))
@pytest.mark.parametrize("kind", list(CAN.indexes))
def test_calls_are_those_of_the_wheel_and_a_reopened_index_answers(
    kind: str, metric: Metric, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuvs_stand_in.install(monkeypatch)
    schema = Schema(8, metric, (Field("colour", FieldType.STRING),))
    vectors = np.random.default_rng(1).standard_normal((60, 8)).astype(np.float32)
    ids = np.arange(60)[::-1] * 10
    index = Index(kind, CAN.indexes[kind].build())
    store = CuvsStore(tmp_path)
    store.create(schema, index)
    for start in (0, 40):
        colours = ["red", "blue"] * 10 * (2 if start == 0 else 1)
        part = slice(start, start + len(colours))
        store.insert(batch_of(schema, ids[part], vectors[part], {"colour": colours}))
    store.build()
    near = exact(vectors, vectors[7], metric)
    where = Eq("colour", "red") if CAN.for_index(kind).filters else None
    for _ in range(2):
        params = CAN.indexes[kind].search()
        found, scores = store.searcher(5, params)(vectors[7])
        assert found.tolist() == ids[near[:5]].tolist()
        assert len(scores) == 5
        if where is not None:
            found, _ = store.searcher(40, params, where)(vectors[7])
            assert found.tolist() == ids[near[near % 2 == 0]].tolist()
        store.close()
        store = CuvsStore(tmp_path)
        store.open(schema, index)
    store.drop()


def test_a_long_answer_of_few_cells_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU it ended in what was in memory: 300 rows of a cell of 219 were two."""
    cuvs_stand_in.install(monkeypatch)
    schema = Schema(8, Metric.L2)
    store = CuvsStore(tmp_path)
    store.create(schema, Index("ivf_pq", CuvsIvfPqBuild(nlist=4)))
    vectors = np.random.default_rng(1).standard_normal((400, 8)).astype(np.float32)
    store.insert(batch_of(schema, np.arange(400), vectors, {}))
    store.build()
    with pytest.raises(Unsupported, match="all 4 cells"):
        store.searcher(257, CuvsIvfPqSearch(nprobe=3))
    assert len(store.searcher(256, CuvsIvfPqSearch(nprobe=3))(vectors[0])[0]) == 256
    assert len(store.searcher(257, CuvsIvfPqSearch(nprobe=4))(vectors[0])[0]) == 257


def test_no_graph_is_made_of_a_single_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """cuVS ends the process: an illegal memory access on the GPU."""
    cuvs_stand_in.install(monkeypatch)
    schema = Schema(8, Metric.L2)
    store = CuvsStore(tmp_path)
    store.create(schema, Index("cagra", CagraBuild()))
    store.insert(batch_of(schema, np.array([7]), np.ones((1, 8), np.float32), {}))
    with pytest.raises(StoreError, match="no graph of a single row"):
        store.build()


def exact(vectors: np.ndarray, query: np.ndarray, metric: Metric) -> np.ndarray:
    """Positions of all vectors, the nearest first."""
    match metric:
        case Metric.L2:
            far = ((vectors - query) ** 2).sum(axis=1)
        case Metric.COSINE:
            far = -(vectors @ query) / np.linalg.norm(vectors, axis=1)
        case Metric.IP:
            far = -(vectors @ query)
    return np.argsort(far)


def test_what_its_environment_has() -> None:
    """The lock says what `Environment.objects` promises, of every store; and has CUDA's runtime,
    without which cuRAND, and so cuVS, cannot be imported."""
    locks = Path(vectrial_reproduce.__file__).parent / "locks"
    lock = (locks / "cuvs.lock").read_text(encoding="utf-8")
    assert "\ncuvs-cu13==26.10.0 " in lock
    assert "\nnvidia-cuda-runtime==13." in lock
    for name in registry.names():
        environment = registry.load(name).environment
        if environment is not None:
            lock = (locks / f"{environment.name}.lock").read_text(encoding="utf-8")
            assert ("\nobstore==" in lock) is environment.objects, name


@without_gpu
def test_without_a_gpu_it_says_so_and_what_to_do() -> None:
    assert registry.availability(CuvsStore) == registry.Availability(False, WHY, REMEDY)


@without_gpu
def test_without_a_gpu_nothing_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ENVIRONMENT is not None
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path))
    with pytest.raises(NotInstalled, match=f"environment 'cuvs' {WHY}"):
        environments.ensure(ENVIRONMENT)
    assert list(tmp_path.iterdir()) == []


@without_gpu
def test_without_a_gpu_conformance_is_refused_with_the_reason() -> None:
    with pytest.raises(UserError, match=f"cuvs: {WHY}: {REMEDY}"):
        conformance(CuvsStore)


@without_gpu
def test_without_a_gpu_a_run_skips_it_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = vectrial.run_suite(
        {
            "name": "on-a-gpu",
            "repeats": 1,
            "datasets": [{"name": "clustered-16-2k", "queries": 10}],
            "stores": [{"store": "cuvs", "index": kind} for kind in CAN.indexes],
            "experiments": [{"experiment": "search", "max_s": 0.1}],
        }
    )
    trials = run.trials().to_pylist()
    assert [trial["index_kind"] for trial in trials] == list(CAN.indexes)
    assert {trial["status"] for trial in trials} == {"skipped"}
    assert {trial["reason"] for trial in trials} == {f"environment 'cuvs' {WHY}"}
