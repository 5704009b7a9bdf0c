"""A server started here: ready when it answers, with its log when it does not, never left over."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import tiny_server
from ended import all_ended

from vectrial.servers import supervisor
from vectrial.servers.base import ServerError
from vectrial.servers.local import Local, free_ports

HERE = Path(tiny_server.__file__).parent


def everything(server: Local) -> list[psutil.Process]:
    """Its program and what that started."""
    program = psutil.Process(server.processes()["server"])
    (folder,) = server.data_dirs()
    return [program, psutil.Process(int((folder / "child").read_text()))]


def test_a_server_runs_while_its_block_lasts(tmp_path: Path) -> None:
    with Local(tiny_server.recipe(), tmp_path) as server:
        assert server.is_alive()
        assert server.address.host == "127.0.0.1"
        assert set(server.address.ports) == {"http"}, "a port that is not public"
        assert tiny_server.starts(server.address) == 1
        running = everything(server)
    assert all_ended(running, 0.0)
    assert not server.is_alive()
    assert server.processes() == {}
    assert "little: hello" in (tmp_path / "server.log").read_text()
    server.stop()  # harmless


def test_one_that_does_not_run_answers_nobody(tmp_path: Path) -> None:
    # A run looks for a sign of life from another thread while an experiment ends and starts it.
    server = Local(tiny_server.recipe(), tmp_path)
    assert not server.is_answering()
    with server:
        assert server.is_answering()
    assert not server.is_answering()


def test_what_comes_first_comes_once(tmp_path: Path) -> None:
    with Local(tiny_server.recipe(first="echo made >> made"), tmp_path) as server:
        (data,) = server.data_dirs()
        server.restart()
        assert (data / "made").read_text() == "made\n"
        assert tiny_server.starts(server.address) == 2


def test_what_comes_first_may_fail(tmp_path: Path) -> None:
    server = Local(tiny_server.recipe(first="echo no room >&2; exit 3"), tmp_path)
    with pytest.raises(ServerError, match=r"(?s)ended with 3 .*no room"), server:
        pytest.fail("it was started all the same")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a program as somebody else")
def test_root_starts_it_as_a_user_of_its_own(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)  # as a home folder is
    beside = tmp_path / "beside"
    beside.write_text("not the server's")
    first = f"id -u > who; id -G >> who; id -un >> who; cat {beside} > taken || echo none > taken"
    with Local(tiny_server.recipe(first=first), tmp_path / "in") as server:
        (data,) = server.data_dirs()
        number, groups, name = (data / "who").read_text().splitlines()
        assert number == groups
        assert name == "vectrial"
        assert (data / "taken").read_text() == "none\n"
        running = everything(server)
        assert {one.uids() for one in running} == {(int(number),) * 3}
        for one in running:
            status = Path(f"/proc/{one.pid}/status").read_text()
            assert re.search(r"^CapPrm:\t0+$", status, re.M)
            assert re.search(r"^CapEff:\t0+$", status, re.M)
            assert re.search(r"^CapAmb:\t0+$", status, re.M)
            assert re.search(r"^Groups:\t\s*$", status, re.M)
            assert "NoNewPrivs:\t1" in status
        server.restart()
        assert tiny_server.starts(server.address) == 2
        running += everything(server)
    assert all_ended(running, 0.0)


def test_it_gets_no_variable_that_is_not_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canaries = ("VECTRIAL_SERVE_TOKEN", "VECTRIAL_WEAVIATE_API_KEY", "AWS_SECRET_ACCESS_KEY")
    for name in canaries:
        monkeypatch.setenv(name, "canary-5533")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("OF_MINE", "yes")
    monkeypatch.setenv("VECTRIAL_PASS", "OF_MINE")
    with Local(tiny_server.recipe(), tmp_path) as server:
        program, child = everything(server)
        supervisor = program.parent()
        assert supervisor is not None
        for one in (program, child, supervisor):
            variables = one.environ()
            assert "canary" not in str(variables)
            assert variables["OMP_NUM_THREADS"] == "1"
            assert variables["OF_MINE"] == "yes"
            assert variables["LITTLE"] == "yes"


def test_nobody_else_enters_its_folder(tmp_path: Path) -> None:
    with Local(tiny_server.recipe(), tmp_path / "in") as server:
        assert (tmp_path / "in").stat().st_mode & 0o077 == 0
        (data,) = server.data_dirs()
        assert (data / "starts").stat().st_mode & 0o077 == 0, "its files are private, too"
        assert (tmp_path / "in" / "server.log").stat().st_mode & 0o077 == 0


def test_an_error_ends_it(tmp_path: Path) -> None:
    running: list[psutil.Process] = []

    def fails() -> None:
        with Local(tiny_server.recipe(), tmp_path) as server:
            running.extend(everything(server))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert running
    assert all_ended(running, 0.0)


@pytest.mark.slow
def test_a_crash_and_a_restart_keep_data_and_ports(tmp_path: Path) -> None:
    with Local(tiny_server.recipe(), tmp_path) as server:
        before, first = server.address, everything(server)
        server.kill()
        assert not server.is_alive()
        assert all_ended(first, 0.0), "what it had started outlived it"
        server.restart()
        assert server.address == before
        assert tiny_server.starts(before) == 2
        server.restart()
        assert tiny_server.starts(before) == 3


def test_one_that_does_not_listen_to_reason_is_killed(tmp_path: Path) -> None:
    told: list[str] = []
    server = Local(tiny_server.recipe("--deaf", stop_s=0.3), tmp_path, progress=told.append)
    with server:
        running = everything(server)
    assert all_ended(running, 0.0)
    assert any("killed" in line for line in told)


def test_the_death_of_the_thread_that_started_it_is_no_reason(tmp_path: Path) -> None:
    server = Local(tiny_server.recipe(), tmp_path)
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    try:
        server.wait_ready(20)
        time.sleep(0.2)
        assert server.is_alive()
        assert tiny_server.starts(server.address) == 1
    finally:
        server.stop()


def test_one_that_breaks_shows_its_log_at_once(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(ServerError) as raised, Local(tiny_server.recipe("--breaks"), tmp_path):
        pass
    assert time.monotonic() - began < 30, "it waited for the deadline"
    assert "ended with 1 before it was ready" in str(raised.value)
    assert "the configuration is wrong" in str(raised.value)
    assert "server.log" in str(raised.value)


def test_one_that_is_never_ready_shows_its_log_at_the_deadline(tmp_path: Path) -> None:
    server = Local(tiny_server.recipe("--never"), tmp_path)
    server.start()
    try:
        child = tmp_path / "data" / "child"
        while not (child.exists() and child.read_text()):  # it comes so far, and no further
            assert server.is_alive()
            time.sleep(0.02)
        with pytest.raises(ServerError) as raised:
            server.wait_ready(0.5)
        assert "was not ready within 0.5 s" in str(raised.value)
        assert "little: hello" in str(raised.value)
        running = everything(server)
    finally:
        server.stop()
    assert all_ended(running, 0.0)


def test_a_program_that_cannot_be_executed(tmp_path: Path) -> None:
    from dataclasses import replace

    from vectrial.servers.base import Command

    absent = replace(tiny_server.recipe(), command=lambda *_: Command(("/no/such/program",)))
    refused = pytest.raises(ServerError, match="/no/such/program cannot be executed")
    with refused, Local(absent, tmp_path):
        pass


def test_it_runs_on_the_cores_it_is_given(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    with Local(tiny_server.recipe(), tmp_path, cores=[core]) as server:
        assert psutil.Process(server.processes()["server"]).cpu_affinity() == [core]
    assert len(os.sched_getaffinity(0)) >= 1


def test_free_ports_are_distinct() -> None:
    assert len(set(free_ports(20))) == 20


PARENT = """
import sys, time
from pathlib import Path
sys.path.insert(0, {here!r})
import tiny_server
from vectrial.servers.local import Local

with Local(tiny_server.recipe(), Path({folder!r})) as server:
    print("running", server.processes()["server"], flush=True)
    time.sleep(1000)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_server_outlives_whoever_started_it(how: signal.Signals, tmp_path: Path) -> None:
    code = PARENT.format(here=str(HERE), folder=str(tmp_path))
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert parent.stdout is not None
    told = re.match(r"running (\d+)", parent.stdout.readline())
    assert told
    child = int((tmp_path / "data" / "child").read_text())
    running = [psutil.Process(int(told[1])), psutil.Process(child)]
    parent.send_signal(how)
    parent.wait(20)
    assert all_ended(running)


def test_one_that_ends_while_it_is_looked_for_keeps_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a server had started may be waited for by a parent of its own at any moment."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    other = subprocess.Popen(["sleep", "1000"])
    found = [psutil.Process(one.pid) for one in (ended, other)]
    ended.wait()

    class Guard:
        def children(self, recursive: bool) -> list[psutil.Process]:
            return found if other.poll() is None else []

    stand_in = SimpleNamespace(
        Process=Guard,
        NoSuchProcess=psutil.NoSuchProcess,
        STATUS_ZOMBIE=psutil.STATUS_ZOMBIE,
        wait_procs=lambda found, timeout: time.sleep(0.01),
    )
    monkeypatch.setattr(supervisor, "psutil", stand_in)
    try:
        supervisor.end_descendants()
        assert other.poll() == -signal.SIGKILL
    finally:
        other.kill()
        other.wait()


def test_no_server_outlives_its_guard(tmp_path: Path) -> None:
    server = Local(tiny_server.recipe(), tmp_path)
    with server:
        program = everything(server)[0]
        supervisor = program.parent()
        assert supervisor is not None
        assert "supervisor.py" in " ".join(supervisor.cmdline())
        supervisor.kill()
        assert all_ended([program])
        assert not server.is_alive()
        for left in psutil.process_iter(["cmdline"]):  # the guard could not see to this one
            if left.pid == int((tmp_path / "data" / "child").read_text()):
                left.kill()
