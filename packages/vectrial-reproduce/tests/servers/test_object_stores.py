"""Object stores for real: MinIO on one drive and on four, over loopback and over a link; what goes
wrong with them, and that what was done is not done again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from ended import all_ended
from experiment_worlds import dataset, index_of

from vectrial.model.dataset import Dataset
from vectrial.model.errors import StoreError, Unsupported, UserError
from vectrial.model.objects import ObjectsAccess, ObjectsKind, ObjectsRequest, ObjectTransport
from vectrial.model.schema import Schema
from vectrial.servers.minio import MINIO
from vectrial.servers.objects import ObjectServer
from vectrial.stores.hnswlib import HnswlibStore
from vectrial.testing.server_programs import require_startable
from vectrial_reproduce.segments import objects as of_objects
from vectrial_reproduce.segments.index_files import SegmentBuilder
from vectrial_reproduce.segments.objects import ObjectError, Objects
from vectrial_reproduce.segments.pipeline import Pipeline, PipelineSettings
from vectrial_reproduce.segments.spans import Stage

pytestmark = pytest.mark.server("minio")

LOOPBACK = ObjectsRequest(ObjectsKind.MINIO, ObjectTransport.LOOPBACK)
#: More than one part, so that it is sent in parts.
LARGE = os.urandom(1 << 20) * 12


def served(request: ObjectsRequest, folder: Path) -> ObjectServer:
    require_startable(MINIO)
    return ObjectServer(request, "key", folder, None, (), folder.with_suffix(".log"), print)


@pytest.fixture(scope="module")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectsAccess]:
    server = served(LOOPBACK, tmp_path_factory.mktemp("minio") / "server")
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
def access(minio: ObjectsAccess, request: pytest.FixtureRequest) -> ObjectsAccess:
    """The server, with keys of this test's own."""
    return replace(minio, prefix=request.node.name.replace("[", "-").rstrip("]"))


def pipeline(access: ObjectsAccess, rows: Dataset, folder: Path) -> Pipeline:
    builder = SegmentBuilder(
        HnswlibStore, Schema(rows.dim, rows.metric), index_of(HnswlibStore, "hnsw"), 50
    )
    return Pipeline(
        rows, Objects(access, part_bytes=5 << 20), builder, PipelineSettings(1, 1, 100), folder,
        lambda *_: None,
    )  # fmt: skip


def test_objects_come_out_as_they_went_in(access: ObjectsAccess, tmp_path: Path) -> None:
    objects = Objects(access, part_bytes=5 << 20)
    for data in (b"", b"x", LARGE):
        objects.put("one", data)
        assert bytes(objects.get("one")) == data
    (tmp_path / "file").write_bytes(LARGE)
    objects.put_file("folder/two", tmp_path / "file")
    objects.get_file("folder/two", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == LARGE
    assert objects.keys() == ["folder/two", "one"]
    objects.delete("one")
    assert objects.keys() == ["folder/two"]


def test_every_segment_comes_through(access: ObjectsAccess, tmp_path: Path) -> None:
    one = pipeline(access, dataset(), tmp_path)
    assert not one.put().failed
    assert not one.index().failed
    stores, outcome = one.load(tmp_path / "loaded")
    assert not outcome.failed
    assert [store.count() for store in stores] == [100] * 6
    for store in stores:
        store.close()
    one.remove()
    assert Objects(access).keys() == []


# -- faults ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"password": "not this one"}, "refused: the credentials are not accepted"),
        ({"user": "nobody"}, "refused: the credentials are not accepted"),
        ({"bucket": "elsewhere"}, "there is no such bucket"),
        ({"endpoint": "http://127.0.0.1:9"}, "the object store does not answer"),
    ],
)
def test_an_access_that_is_wrong_says_how(
    access: ObjectsAccess, change: dict[str, str], said: str
) -> None:
    wrong = Objects(replace(access, **change))  # type: ignore[arg-type]
    with pytest.raises(ObjectError, match=f"^key: {said}") as caught:
        wrong.put("key", b"data")
    assert access.password not in str(caught.value)
    with pytest.raises(ObjectError, match=f"^key: {said}"):
        wrong.get("key")


def test_a_connection_that_breaks_fails_the_object_and_is_not_tried_again(
    access: ObjectsAccess,
) -> None:
    asked = []
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def hang_up() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                asked.append(1)
                connection.recv(100)
                connection.close()

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        broken = replace(access, endpoint=f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(ObjectError, match=r"^key: the (connection|object store)"):
            Objects(broken).get("key")
    assert len(asked) == 1


@pytest.mark.parametrize("what", ["segments/00002.arrow", "segments/00002.arrow.receipt.json"])
def test_a_removed_object_fails_its_segment_alone(
    what: str, access: ObjectsAccess, tmp_path: Path
) -> None:
    rows, objects = dataset(), Objects(access)
    pipeline(access, rows, tmp_path).put()
    kept = bytes(objects.get(what))
    objects.delete(what)
    outcome = pipeline(access, rows, tmp_path).index()
    assert list(outcome.failed) == [2]
    assert outcome.failed[2].startswith(f"{what}: missing")
    objects.put(what, kept)
    again = pipeline(access, rows, tmp_path)
    assert again.index().resumed == [0, 1, 3, 4, 5]
    assert [span.segment for span in again.spans.select(Stage.BUILD)] == [2]


def test_a_drive_that_lost_a_part_of_an_object_is_noticed(
    minio: ObjectsAccess, access: ObjectsAccess, tmp_path: Path
) -> None:
    """MinIO itself finds what was changed on its only drive; one clear reason names the object."""
    objects = Objects(access, part_bytes=5 << 20)
    objects.put("big", LARGE)
    (data,) = minio.data_dirs
    parts = [path for path in data.rglob("part.*") if "big" in str(path)]
    assert parts
    with parts[0].open("r+b") as file:
        file.seek(1 << 20)
        byte = file.read(1)
        file.seek(1 << 20)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(ObjectError, match=r"^big: the object store broke off its answer"):
        objects.get("big")


def test_an_object_that_is_replaced_while_it_is_read_is_not_mixed(
    access: ObjectsAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects, head = Objects(access, part_bytes=5 << 20), Objects._head
    objects.put("big", LARGE)

    def head_and_replace(self: Objects, key: str) -> Mapping[str, Any]:
        known = head(self, key)
        self.put(key, LARGE[::-1])
        return known

    monkeypatch.setattr(Objects, "_head", head_and_replace)
    with pytest.raises(ObjectError, match=r"^big: it was replaced while it was read"):
        objects.get("big")
    monkeypatch.setattr(Objects, "_head", head)
    assert bytes(objects.get("big")) == LARGE[::-1]


def test_a_server_that_stands_still_is_not_waited_for_without_end(
    minio: ObjectsAccess, access: ObjectsAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pid,) = minio.processes.values()
    patient = Objects(access)
    patient.put("one", b"data")
    monkeypatch.setattr(of_objects, "_TIMEOUT_S", 1.0)
    hurried = Objects(access)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(ObjectError, match=r"^one: the object store does not answer in time"):
            hurried.get("one")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert bytes(patient.get("one")) == b"data"


#: Loaded before the C library, sets the clock an hour forward.
CLOCK = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    long done = syscall(SYS_clock_gettime, id, now);
    if (!done && id == CLOCK_REALTIME) now->tv_sec += 3600;
    return done;
}
"""
PUTS = """
import json, sys
from vectrial.model.objects import ObjectsAccess
from vectrial_reproduce.segments.objects import ObjectError, Objects
try:
    Objects(ObjectsAccess(**json.loads(sys.stdin.read()))).put("one", b"data")
except ObjectError as error:
    print(error)
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="a clock that is wrong needs a C compiler")
def test_a_clock_that_is_wrong_is_said(access: ObjectsAccess, tmp_path: Path) -> None:
    library = tmp_path / "clock.so"
    (tmp_path / "clock.c").write_text(CLOCK)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "clock.c")], check=True
    )
    names = ("endpoint", "bucket", "region", "user", "password", "prefix")
    given = json.dumps({name: getattr(access, name) for name in names})
    done = subprocess.run(
        [sys.executable, "-c", PUTS], input=given, env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "one: refused: the clocks of client and server differ too much\n"


def test_a_server_that_was_killed_loses_nothing_that_was_done(tmp_path: Path) -> None:
    rows, folder = dataset(), tmp_path / "server"
    first = served(LOOPBACK, folder)
    access = first.start()
    try:
        pipeline(access, rows, tmp_path / "a").put()
        half = pipeline(access, rows, tmp_path / "a")
        half.bounds = half.bounds[:3]
        assert not half.index().failed
        (pid,) = access.processes.values()
        server = psutil.Process(pid)
        os.kill(pid, signal.SIGKILL)
        assert all_ended([server])
        with pytest.raises(StoreError, match=r"does not answer|connection broke"):
            pipeline(access, rows, tmp_path / "a").index()
    finally:
        first.stop()
    second = served(LOOPBACK, folder)
    try:
        again = pipeline(second.start(), rows, tmp_path / "a")
        outcome = again.index()
        assert outcome.resumed == [0, 1, 2]
        assert not outcome.failed
        stores, _ = again.load(tmp_path / "loaded")
        assert sum(store.count() for store in stores) == len(rows.ids)
        for store in stores:
            store.close()
    finally:
        second.stop()
        second.remove()
    assert not folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no small disk: {mounted.stderr.decode()}")
    server = served(LOOPBACK, folder / "server")
    try:
        objects = Objects(server.start(), part_bytes=5 << 20)

        def fill() -> None:
            for number in range(20):
                objects.put(f"filler-{number}", LARGE)

        with pytest.raises(ObjectError, match="the object store is full"):
            fill()
    finally:
        server.stop()
        subprocess.run(["umount", "-l", folder], check=True)


def test_objects_come_through_tls(tmp_path: Path) -> None:
    server = served(ObjectsRequest(ObjectsKind.MINIO, ObjectTransport.TLS), tmp_path / "server")
    try:
        access = server.start()
        assert access.endpoint.startswith("https://")
        objects = Objects(access)
        objects.put("one", LARGE)
        assert bytes(objects.get("one")) == LARGE
        # The certificate of a service that was given is checked.
        with pytest.raises(ObjectError, match=r"^one: "):
            Objects(replace(access, self_signed=False)).get("one")
    finally:
        server.stop()


def test_four_drives_serve_as_one(tmp_path: Path) -> None:
    server = served(
        ObjectsRequest(ObjectsKind.MINIO_DRIVES, ObjectTransport.LOOPBACK), tmp_path / "server"
    )
    try:
        access = server.start()
        objects = Objects(access)
        objects.put("one", LARGE)
        (data,) = access.data_dirs
        assert len({path.parts[len(data.parts)] for path in data.rglob("part.1")}) == 4
        # Erasure coding: two of four drives may lose it.
        for drive in sorted(data.glob("drive-*"))[:2]:
            for part in drive.rglob("part.*"):
                part.unlink()
        assert bytes(objects.get("one")) == LARGE
        for part in data.rglob("part.*"):
            part.unlink()
        with pytest.raises(ObjectError, match=r"^one: the object store broke off its answer"):
            objects.get("one")
    finally:
        server.stop()


# -- a service that is given -----------------------------------------------------------------------


def test_a_service_is_given_by_the_environment(
    minio: ObjectsAccess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = ObjectServer(
        ObjectsRequest(ObjectsKind.S3, ObjectTransport.NETWORK), "a-trial", tmp_path / "x", None,
        (), tmp_path / "log", print,
    )  # fmt: skip
    with pytest.raises(Unsupported, match="VECTRIAL_S3_ADDRESS"):
        given.start()
    monkeypatch.setenv("VECTRIAL_S3_ADDRESS", f"{minio.endpoint}/path")
    with pytest.raises(UserError, match="not the URL of a service"):
        given.start()
    monkeypatch.setenv("VECTRIAL_S3_ADDRESS", minio.endpoint)
    with pytest.raises(UserError) as lacking:
        given.start()
    assert lacking.value.where == "VECTRIAL_S3_BUCKET"
    monkeypatch.setenv("VECTRIAL_S3_BUCKET", minio.bucket)
    monkeypatch.setenv("VECTRIAL_S3_USER", minio.user)
    with pytest.raises(UserError) as lacking:
        given.start()
    assert lacking.value.where == "VECTRIAL_S3_PASSWORD"
    (tmp_path / "secret").write_text(minio.password + "\n")
    monkeypatch.setenv("VECTRIAL_S3_PASSWORD_FILE", str(tmp_path / "secret"))
    access = given.start()
    assert minio.password not in repr(access)
    objects = Objects(access)
    objects.put("one", b"data")
    assert Objects(minio).keys("vectrial/a-trial") == ["vectrial/a-trial/one"]
    objects.delete("one")
