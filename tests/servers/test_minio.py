"""MinIO for real: objects go in and come out, for whoever knows the secrets and nobody else."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from later import Later
from readiness import ready

from vectrial.servers.base import AccessRefused, Server
from vectrial.servers.minio import MINIO, connect
from vectrial.servers.provide import make_server
from vectrial.testing.server_programs import require_startable

errors = Later("minio.error")

pytestmark = pytest.mark.server("minio")

OBJECT = bytes(range(256)) * 4_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("minio")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    require_startable(MINIO)
    with make_server(MINIO, folder / "server") as server:
        yield server


def test_an_object_is_kept_over_a_restart(server: Server) -> None:
    client = connect(server.address, 10.0)
    client.make_bucket("things")
    client.put_object("things", "a/b", io.BytesIO(OBJECT), len(OBJECT))
    server.restart()
    with client.get_object("things", "a/b") as answer:
        assert answer.read() == OBJECT
    assert [one.object_name for one in client.list_objects("things", recursive=True)] == ["a/b"]
    (data,) = server.data_dirs()
    assert (data / "things" / "a" / "b").exists()


def test_nobody_else_gets_in_and_no_secret_is_shown(server: Server, folder: Path) -> None:
    secrets = server.address.secrets
    assert len(set(secrets.values())) == 2
    assert all(len(secret) >= 16 for secret in secrets.values())
    for other in ({}, {**secrets, "password": "not this one"}, {"user": "x", "password": "y" * 9}):
        stranger = replace(server.address, secrets=other)
        with pytest.raises(errors.S3Error):
            connect(stranger, 10.0).list_buckets()
        with pytest.raises(
            AccessRefused, match="see VECTRIAL_MINIO_USER and VECTRIAL_MINIO_PASSWORD"
        ):
            ready(MINIO, stranger)
    (pid,) = server.processes().values()
    shown = Path(f"/proc/{pid}/cmdline").read_text() + repr(server.address) + str(server.facts())
    logs = [path.read_text(errors="replace") for path in folder.rglob("*.log")]
    assert logs
    for secret in secrets.values():
        assert secret not in shown
        assert all(secret not in log for log in logs)


def test_every_server_has_secrets_of_its_own(server: Server, tmp_path: Path) -> None:
    with make_server(MINIO, tmp_path / "other") as other:
        assert not set(other.address.secrets.values()) & set(server.address.secrets.values())
