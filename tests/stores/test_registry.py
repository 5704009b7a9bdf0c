"""Finding stores by name and by place, and saying why one does not work."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

from vectrial.cli.app import app
from vectrial.model.capabilities import Environment, IndexKind, Params
from vectrial.model.errors import StoreError, UserError
from vectrial.model.filters import Filter
from vectrial.model.store import Searcher
from vectrial.stores import registry
from vectrial.stores.memory import MemoryStore
from vectrial.stores.qdrant.store import Qdrant
from vectrial.util import environments
from vectrial.worker import probe

EXPECTED = {"memory", "sqlite", "sqlite-vec", "faiss", "hnswlib", "usearch"}


def test_the_stores_are_there_and_say_their_own_names() -> None:
    assert set(registry.names()) >= EXPECTED
    for name in EXPECTED:
        store = registry.load(name)
        assert store.name == name
        assert registry.resolve(registry.reference(store)) is store


def test_every_store_calls_its_exhaustive_index_flat() -> None:
    for name in registry.names():
        kinds = registry.load(name).capabilities.indexes
        assert {kind for kind, index in kinds.items() if index.exact} <= {"flat"}, name
        assert "flat" not in kinds or kinds["flat"].exact, name


def test_inverted_lists_name_their_parameters_alike() -> None:
    found = 0
    for name in registry.names():
        for kind, index in registry.load(name).capabilities.indexes.items():
            if kind in ("ivf_flat", "ivf_pq"):
                common = {"nlist"} if kind == "ivf_flat" else {"nlist", "m_pq", "nbits"}
                assert common <= set(index.build.model_fields), (name, kind)
                assert "nprobe" in index.search.model_fields, (name, kind)
                found += 1
    assert found >= 4


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'faiss'"):
        registry.load("fais")


def test_a_broken_module_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_store.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(StoreError, match="no_such_library"):
        registry.resolve("broken_store:Store")
    with pytest.raises(StoreError, match="cannot be imported"):
        registry.resolve("vectrial.stores.memory:NoSuchStore")
    with pytest.raises(StoreError, match="not a subclass"):
        registry.resolve("vectrial.stores.common.rows:Rows")


def test_every_module_imports_without_its_library() -> None:
    code = (
        "import sys\n"
        "for name in ('faiss', 'hnswlib', 'usearch', 'sqlite_vec', 'pysqlite3'):\n"
        "    sys.modules[name] = None\n"
        "from vectrial.stores import registry\n"
        f"for name in {sorted(EXPECTED)!r}:\n"
        "    registry.load(name)\n"
    )
    import subprocess

    subprocess.run([sys.executable, "-c", code], check=True)


class Missing(MemoryStore):
    name: ClassVar[str] = "missing"
    module: ClassVar[str | None] = "no_such_library.inner"
    extra: ClassVar[str | None] = "missing"


class Elsewhere(MemoryStore):
    name: ClassVar[str] = "elsewhere"
    environment: ClassVar[Environment | None] = Environment("tiny")


class ServedElsewhere(Qdrant):
    environment: ClassVar[Environment | None] = Environment("tiny")


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that brings the lock of an environment."""
    (tmp_path / "theirs" / "locks").mkdir(parents=True)
    (tmp_path / "theirs" / "locks" / "tiny.lock").touch()
    monkeypatch.setattr(environments.plugins, "packages", lambda: {"theirs": tmp_path / "theirs"})
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))


class Deaf(MemoryStore):
    """Fails as a library would."""

    name: ClassVar[str] = "deaf"

    def count(self) -> int:
        return 0

    def version(self) -> str:
        raise OSError("libdeaf.so is not there")


@pytest.mark.usefixtures("tiny")
def test_availability() -> None:
    assert registry.availability(MemoryStore) == registry.Availability(True)
    missing = registry.availability(Missing)
    assert missing.works is False
    assert missing.text == "not installed: pip install 'vectrial[missing]'"
    elsewhere = registry.availability(Elsewhere)
    assert elsewhere.works is None
    assert "python -m vectrial.util.environments tiny" in elsewhere.remedy


@pytest.mark.usefixtures("tiny")
def test_a_store_in_its_own_environment_is_not_available_without_its_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("VECTRIAL_QDRANT_BIN", raising=False)
    found = registry.availability(ServedElsewhere)
    assert found.works is False
    assert "no program 'qdrant'" in found.reason
    assert registry.availability(ServedElsewhere, served=True).works is not False


def test_probe() -> None:
    outcome = probe.probe(MemoryStore)
    assert outcome.works
    assert outcome.version is not None
    assert "numpy" in outcome.version
    assert "10 of the 10" in outcome.detail


def test_a_probe_that_fails_names_the_fault(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "resolve", lambda where: Deaf)
    monkeypatch.setattr(sys, "argv", ["probe", "tests:Deaf"])
    probe.main()
    told = json.loads(capsys.readouterr().out)
    assert told == {"works": False, "detail": "OSError: libdeaf.so is not there", "version": None}


@pytest.mark.slow
def test_the_table_of_stores_fits_80_columns_and_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is installed, and no program is there: every store has a reason and a remedy."""
    monkeypatch.setattr(registry, "_importable", lambda module: False)
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    lines = CliRunner().invoke(app, ["stores", "--format", "jsonl"]).stdout.splitlines()
    facts = [json.loads(line) for line in lines]
    lacking = [store for store in facts if not store["works"]]
    assert len(lacking) > len(facts) // 2
    assert [store["store"] for store in lacking if not store["remedy"]] == []
    narrow = CliRunner().invoke(app, ["stores"], env={"COLUMNS": "80"}).stdout
    assert max(map(len, narrow.splitlines())) <= 80
    assert "…" not in narrow
    words = " ".join(narrow.split())
    for store in lacking:
        for text in (store["store"], store["reason"], store["remedy"]):
            assert " ".join(text.split()) in words
    assert words.count("pip install 'vectrial[faiss]'") == 1
    for store in facts:
        for index in store["capabilities"]["indexes"]:
            assert index in words


@pytest.mark.slow
def test_stores_command() -> None:
    table = CliRunner().invoke(app, ["stores"], env={"COLUMNS": "200"})
    assert table.exit_code == 0
    assert set(registry.names()) <= set(table.stdout.split())
    lines = CliRunner().invoke(app, ["stores", "--format", "jsonl"])
    told = {store["store"]: store for store in map(json.loads, lines.stdout.splitlines())}
    assert set(told) == set(registry.names())
    assert told["memory"]["works"] is True
    lacking = [store for store in told.values() if not store["works"]]
    assert all(store["reason"] and store["remedy"] for store in lacking)
    first = ["store", "kind", "provider", "works", "reason", "lanes", "capabilities"]
    assert all(list(store)[:7] == first for store in told.values())
    assert (told["memory"]["provider"], told["memory"]["lanes"]) == (None, ["embedded"])
    assert told["weaviate"]["kind"] == "server"
    assert told["weaviate"]["provider"] in ("local", "external", "docker")
    assert told["weaviate"]["lanes"] == ["native", "sdk"]
    hnsw = told["hnswlib"]["capabilities"]["indexes"]["hnsw"]
    assert hnsw["build"] == {"m": 16, "ef_construction": 200}
    filters = told["memory"]["capabilities"]["filters"]
    assert np.array_equal(sorted(filters), filters)
    fused, alone = (told[name]["capabilities"]["hybrid"] for name in ("pgvector", "memory"))
    assert list(fused["fusions"]) == ["relative_score", "reciprocal_rank"]
    assert (alone["fusions"], alone["text"]) == ({}, None)
    assert alone["reason"] == MemoryStore.capabilities.hybrid


def test_one_store_in_detail_with_probe() -> None:
    told = CliRunner().invoke(app, ["stores", "memory", "--probe"], env={"COLUMNS": "200"})
    assert told.exit_code == 0
    assert "a filter is evaluated once" in told.stdout
    assert "10 of the 10 nearest found" in told.stdout
    assert "18 checks passed" in told.stdout


@pytest.mark.parametrize("name", ["weaviate", "memory"])
def test_one_store_in_detail_says_what_a_search_can_be(name: str) -> None:
    told = CliRunner().invoke(app, ["stores", name], env={"COLUMNS": "400"}).stdout
    can = registry.load(name).capabilities
    (returned,) = (line.split() for line in told.splitlines() if line.split()[:1] == ["returns"])
    assert returned[1:] == sorted(can.returns)
    if isinstance(can.hybrid, str):
        assert f"none: it {can.hybrid}" in told
    else:
        for fusion, how in can.hybrid.fusions.items():
            assert f"fusion {fusion}" in told
            assert how in told


def test_a_probe_that_fails_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECTRIAL_REDIS_ADDRESS", "127.0.0.1:redis=1")
    monkeypatch.setenv("VECTRIAL_REDIS_PASSWORD", "hush-hush")
    failed = probe.Probe(False, "no redis://hush-hush@127.0.0.1")
    monkeypatch.setattr("vectrial.cli.stores.probe", lambda store, progress: failed)
    told = CliRunner().invoke(app, ["stores", "redis", "--probe", "--format", "jsonl"])
    assert told.exit_code == 1
    assert json.loads(told.stdout)["probe"]["detail"] == "no redis://[secret]@127.0.0.1"


class Wrong(MemoryStore):
    """Counts a row too many: nothing that it says can be trusted."""

    name: ClassVar[str] = "wrong"

    def count(self) -> int:
        return super().count() + 1


class WrongWhenFiltered(MemoryStore):
    """Forgets its filters, and is right otherwise."""

    name: ClassVar[str] = "wrong-when-filtered"

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        return super().searcher(k, params, None)


def test_a_probe_asks_the_gate() -> None:
    wrong = probe.run_probe(Wrong)
    assert not wrong.works
    assert "gate failed: row_count" in wrong.detail
    partly = probe.run_probe(WrongWhenFiltered)
    assert partly.works, "unfiltered searches are right"
    assert "gate failed: filters_hold" in partly.detail


def test_an_unknown_store_ends_the_command() -> None:
    told = CliRunner().invoke(app, ["stores", "fais"])
    assert isinstance(told.exception, UserError)


class _Effort(Params):
    ef_search: int = 10


@pytest.mark.parametrize("name", ["high_recall_params", "strong_consistency_params", "not_native"])
def test_an_index_names_only_parameters_that_it_has(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: _Effort has no ef"):
        IndexKind(search=_Effort, **{name: {"ef": 512}})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tuning_ranges: NoParams has no m"):
        IndexKind(tuning_ranges={"m": (4, 64)})
