"""An environment that makes no sense is refused before a folder is made or anything is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_calls import Call

Refused = Callable[..., str]

WRONG = [
    ("VECTRIAL_REDIS_ADDRESS", "nonsense"),
    ("VECTRIAL_REDIS_ADDRESS", ":redis=6379"),
    ("VECTRIAL_REDIS_ADDRESS", "127.0.0.1"),
    ("VECTRIAL_REDIS_ADDRESS", "127.0.0.1:0"),
    ("VECTRIAL_REDIS_ADDRESS", "127.0.0.1:redis="),
    ("VECTRIAL_REDIS_ADDRESS", "127.0.0.1:redis=x"),
    ("VECTRIAL_REDIS_ADDRESS", "127.0.0.1:redis=0"),
    ("VECTRIAL_REDIS_ADDRESS", "127.0.0.1:redis=-1"),
    ("VECTRIAL_REDIS_ADDRESS", "127.0.0.1:redis=99999"),
    ("VECTRIAL_REDIS_ADDRESS", "127.0.0.1:http=1"),
    ("VECTRIAL_REDIS_ADDRESS", "127.0.0.1:redis=1,http=2"),
    ("VECTRIAL_REDIS_ADDRESS", "redis://127.0.0.1:6379"),
    ("VECTRIAL_REDIS_PROVIDER", "cloud"),
    ("VECTRIAL_REDIS_PROVIDER", "external"),
    ("VECTRIAL_REDIS_BIN", "/nope"),
    ("VECTRIAL_REDIS_BIN", "/tmp"),
    ("VECTRIAL_REDIS_BIN", "/etc/passwd"),
    ("VECTRIAL_REDIS_PASSWORD_FILE", "/nope"),
    ("VECTRIAL_REDIS_PASSWORD_FILE", "/tmp"),
    ("VECTRIAL_ELASTICSEARCH_VERSION", "1.0"),
    ("VECTRIAL_ELASTICSEARCH_BIN", "/nope"),
    ("VECTRIAL_WEAVIATE_ADDRESS", "db.example:http=8080"),
    ("VECTRIAL_WEAVIATE_PROVIDER", "Docker"),
    ("VECTRIAL_MILVUS_BIN", "/nope"),
    ("VECTRIAL_POSTGRES_BIN", "/nope"),
]

SUITE = """\
name = "mine"
repeats = 1
[[datasets]]
name = "clustered-8-1k-cosine"
[[stores]]
store = "{store}"
[[experiments]]
experiment = "search"
"""
_STORES = {"postgres": "pgvector"}


def store_of(variable: str) -> str:
    name = variable.split("_")[1].lower()
    return _STORES.get(name, name)


@pytest.mark.parametrize("command", ["run", "capacity", "tune", "up"])
@pytest.mark.parametrize(("variable", "value"), WRONG)
def test_what_makes_no_sense(
    refused: Refused,
    given: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    variable: str,
    value: str,
) -> None:
    monkeypatch.setenv(variable, value)
    store = store_of(variable)
    (given / "suite.toml").write_text(SUITE.format(store=store))
    said = {
        "run": lambda: refused("run", str(given / "suite.toml")),
        "capacity": lambda: refused("capacity", store, "--dataset", "clustered-8-1k-cosine"),
        "tune": lambda: refused("tune", store, "--dataset", "clustered-8-1k-cosine"),
        "up": lambda: refused("up", store),
    }[command]()
    named = variable.removesuffix("_PROVIDER") if value == "external" else variable
    assert named in said


def test_a_reproduction(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECTRIAL_WEAVIATE_PROVIDER", "cloud")
    said = refused("reproduce", "milvus-weaviate", "--scale", "0.01", "--store", "weaviate")
    assert "VECTRIAL_WEAVIATE_PROVIDER" in said


def test_other_stores_are_measured(
    call: Call, given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong of a store that is not asked does not matter."""
    monkeypatch.setenv("VECTRIAL_REDIS_PROVIDER", "cloud")
    (given / "suite.toml").write_text(SUITE.format(store="hnswlib"))
    assert call("run", str(given / "suite.toml"), "--dry-run").code == 0
