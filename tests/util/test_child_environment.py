"""Which variables child processes get."""

from __future__ import annotations

import json
import subprocess
from typing import ClassVar

import pytest

from vectrial.engine.null_server import null_server
from vectrial.model.capabilities import Environment
from vectrial.run import process
from vectrial.stores.memory import MemoryStore
from vectrial.util.child_environment import (
    for_engine,
    for_measuring,
    for_measuring_with_server,
    for_run,
    for_server,
)

SECRETS = {
    "VECTRIAL_SERVE_TOKEN": "canary-1",
    "VECTRIAL_WEAVIATE_API_KEY": "canary-2",
    "VECTRIAL_REDIS_PASSWORD": "canary-3",
    "VECTRIAL_REDIS_ADDRESS": "redis://canary-4@there",
    "AWS_SECRET_ACCESS_KEY": "canary-5",
    "http_proxy": "http://canary-6@proxy",
}


@pytest.fixture(autouse=True)
def canaries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


def test_no_child_gets_a_secret() -> None:
    for given in (for_server(), for_engine(), for_measuring()):
        assert "canary" not in str(given)
        assert "PATH" in given


def test_a_run_that_a_page_starts_gets_all_but_the_token_of_the_pages() -> None:
    given = for_run()
    assert "VECTRIAL_SERVE_TOKEN" not in given
    assert given["VECTRIAL_REDIS_PASSWORD"] == SECRETS["VECTRIAL_REDIS_PASSWORD"]


def test_a_server_gets_nothing_of_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert "PYTHONPATH" not in for_server()
    assert for_measuring()["PYTHONPATH"] == "/mine"
    assert for_server()["OMP_NUM_THREADS"] == for_measuring()["OMP_NUM_THREADS"] == "3"


def test_a_process_with_a_server_of_its_own_gets_that_servers_secrets() -> None:
    given = for_measuring_with_server(SECRETS, "weaviate")
    assert given == {"VECTRIAL_WEAVIATE_API_KEY": "canary-2"}
    assert for_measuring_with_server(SECRETS, None) == {}


def test_what_is_named_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_MINE", "1")
    monkeypatch.setenv("VECTRIAL_PASS", "OTHER, OF_MINE")
    assert for_server()["OF_MINE"] == for_measuring()["OF_MINE"] == "1"


def test_the_measuring_process_is_started_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    command = process.command_of(MemoryStore)
    assert "canary" not in str(command.env)
    argv = (*command.argv[:2], "-c", "import json, os; print(json.dumps(dict(os.environ)))")
    told = subprocess.run(argv, env=command.env, capture_output=True, text=True, check=True)
    assert "canary" not in json.dumps(json.loads(told.stdout))

    class Apart(MemoryStore):
        environment: ClassVar[Environment | None] = Environment("docarray")

    monkeypatch.setattr(
        process.environments,
        "command",
        lambda environment, *_, **__: process.environments.PythonCommand(
            ("python",), {**SECRETS, "PATH": "/"}
        ),
    )
    assert process.command_of(Apart).env == {"PATH": "/"}


def test_the_null_server_is_started_without_them() -> None:
    with (
        null_server("grpc", k=1) as server,
        open(f"/proc/{server.pid}/environ") as told,  # noqa: PTH123
    ):
        assert "canary" not in told.read()
