"""Servers that stay up until somebody ends them: `vectrial up` and `vectrial down`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import tiny_server
from ended import all_ended

from vectrial.model.errors import Unsupported, UserError
from vectrial.model.placement import Limits, Provider
from vectrial.servers import running as up
from vectrial.servers.base import Server
from vectrial.servers.provide import make_server
from vectrial.servers.running import RunningServer, run_foreground, stop
from vectrial.stores.weaviate.server import WEAVIATE
from vectrial.testing.server_programs import program

HERE = Path(tiny_server.__file__).parent
HOLDER = """
import sys
sys.path.insert(0, {here!r})
import tiny_server
from vectrial.util import interrupts
from vectrial.model.errors import VectrialError
from vectrial.model.placement import Limits
from vectrial.servers.running import run_foreground

try:
    with interrupts.handle_signals():
        interrupts.allow_cleanup(60)  # it ends by itself, however busy the machine is
        run_foreground("little", tiny_server.recipe(), None, data=None, limits=Limits(),
            progress=print, ready=lambda one: print("ready", flush=True))
except KeyboardInterrupt:
    sys.exit(7)
except VectrialError as error:
    print(error, flush=True)
    sys.exit(error.exit_code)
"""


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def holder() -> Callable[[], subprocess.Popen[str]]:
    """Start a process that holds a little server; returns when that is ready."""

    def start() -> subprocess.Popen[str]:
        code = HOLDER.format(here=str(HERE))
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert any(line == "ready\n" for line in process.stdout)
        return process

    return start


def server_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return [p for p in psutil.Process(process.pid).children(recursive=True) if p.name() != "sleep"]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_is_up_until_its_holder_ends(
    how: signal.Signals, holder: Callable[[], subprocess.Popen[str]], own_home: Path
) -> None:
    process = holder()
    (one,) = up.running_servers()
    assert (one.store, one.provider, one.pid) == ("little", "local", process.pid)
    assert one.ready
    assert one.address_text() == f"127.0.0.1:http={one.ports['http']}"
    running = server_of(process)
    assert len(running) >= 2, "the guard and the server"
    process.send_signal(how)
    assert process.wait(30) == (-how if how is signal.SIGKILL else 7)
    assert all_ended(running)
    assert up.running_servers() == []
    if how is not signal.SIGKILL:
        assert not Path(one.data).exists(), "its data is thrown away"


def test_it_is_ended_through_its_holder(holder: Callable[[], subprocess.Popen[str]]) -> None:
    process = holder()
    (one,) = up.running_servers()
    running = server_of(process)
    assert stop(one, 5.0) is True
    assert all_ended(running)
    assert stop(one, 5.0) is False, "it had ended"


@pytest.mark.slow
def test_there_is_one_of_each(holder: Callable[[], subprocess.Popen[str]]) -> None:
    process = holder()
    try:
        second = subprocess.run(
            [sys.executable, "-c", HOLDER.format(here=str(HERE))],
            capture_output=True,
            text=True,
            check=False,
        )
        assert second.returncode == 2
        assert "little is up already" in second.stdout
        assert "vectrial down little" in second.stdout
    finally:
        process.terminate()
        process.wait(30)


def test_it_is_measured_by_a_run_against_its_address(
    holder: Callable[[], subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    process = holder()
    (one,) = up.running_servers()
    port = one.ports["http"]

    def at(address: str) -> Server:
        monkeypatch.setenv("VECTRIAL_LITTLE_ADDRESS", address)
        recipe = tiny_server.recipe()
        return up.as_up_server(recipe, make_server(recipe, Path(), provider=Provider.EXTERNAL))

    server = at(one.address_text())
    assert isinstance(server, up.UpServer)
    pids = set(server.processes().values())
    assert pids
    assert pids <= {p.pid for p in server_of(process)}
    assert [path.is_dir() for path in server.data_dirs()] == [True]
    facts = server.facts()
    assert facts["provider"] == "local"
    assert facts["program"].endswith("started by `vectrial up`")
    assert server.is_alive()
    server.stop()
    assert server.is_alive(), "it is not the run's to stop"
    with pytest.raises(Unsupported):
        server.kill()
    assert isinstance(at(f"localhost:http={port}"), up.UpServer)
    for other in (f"127.0.0.1:http={port + 1}", f"db.example:http={port}"):
        assert not isinstance(at(other), up.UpServer)
        assert at(other).processes() == {}
    assert stop(one, 5.0) is True
    assert server.processes() == {}
    assert not server.is_alive()
    assert not isinstance(at(one.address_text()), up.UpServer)


def test_a_note_of_an_earlier_version_measures_nothing(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(own_home)
    monkeypatch.setenv("VECTRIAL_LITTLE_ADDRESS", "127.0.0.1:http=1")
    recipe = tiny_server.recipe()
    server = make_server(recipe, Path(), provider=Provider.EXTERNAL)
    assert up.as_up_server(recipe, server) is server


def test_a_server_that_ends_by_itself_ends_its_holder(
    holder: Callable[[], subprocess.Popen[str]],
) -> None:
    process = holder()
    (server,) = (p for p in server_of(process) if "supervisor.py" not in " ".join(p.cmdline()))
    server.kill()
    assert process.stdout is not None
    said = process.stdout.read()
    assert process.wait(30) == 1
    assert "ended by itself; its log is" in said
    assert up.running_servers() == []


def note(path: Path, **changes: object) -> Path:
    me = psutil.Process()
    one = RunningServer(
        "little", "local", me.pid, me.create_time(), "127.0.0.1", {"http": 1}, "", ""
    )
    file = path / "up" / "little.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({**one.__dict__, **changes}))
    return file


def test_a_note_of_a_process_that_has_ended_is_removed(own_home: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    file = note(own_home, pid=gone.pid)
    assert up.running_servers() == []
    assert not file.exists()


def test_another_process_of_that_number_is_left_alone(own_home: Path) -> None:
    file = note(own_home, began=psutil.Process().create_time() - 100)
    stale = RunningServer(**json.loads(file.read_text()))
    assert stop(stale, 1.0) is False, "it would have ended this test"
    assert up.running_servers() == []


def test_a_note_that_makes_no_sense_is_removed(own_home: Path) -> None:
    file = note(own_home)
    file.write_text("{")
    assert up.running_servers() == []
    assert not file.exists()


def test_one_that_runs_elsewhere_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECTRIAL_WEAVIATE_ADDRESS", "db:http=1,grpc=2")
    with pytest.raises(UserError, match=r"runs elsewhere.*--provider local"):
        run_foreground(
            "weaviate", WEAVIATE, None, data=None, limits=Limits(), progress=print, ready=print
        )


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "vectrial.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def client(snippet: str) -> subprocess.CompletedProcess[str]:
    """The outcome of a program that connects. Once more for a minute where that fails: the client
    does not wait for longer than two seconds, which a busy machine may need."""
    ends = time.monotonic() + 60
    while True:
        done = subprocess.run(
            [sys.executable, "-c", snippet], capture_output=True, text=True, check=False
        )
        if done.returncode == 0 or time.monotonic() > ends:
            return done


@pytest.mark.slow
@pytest.mark.server("weaviate")
def test_weaviate_up_and_down(monkeypatch: pytest.MonkeyPatch, own_home: Path) -> None:
    monkeypatch.delenv("VECTRIAL_HOME")
    binary = program(WEAVIATE)
    monkeypatch.setenv("VECTRIAL_HOME", str(own_home))
    monkeypatch.setenv("VECTRIAL_WEAVIATE_BIN", str(binary))
    done = command("up", "weaviate", "--detach", "--format", "jsonl")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    holder = psutil.Process(told["pid"])
    try:
        exports = dict(line.split(" ")[1].split("=", 1) for line in told["export"].splitlines())
        ports = told["ports"]
        variable, address = "VECTRIAL_WEAVIATE_ADDRESS", exports["VECTRIAL_WEAVIATE_ADDRESS"]
        key = Path(exports["VECTRIAL_WEAVIATE_API_KEY_FILE"])
        assert key.stat().st_mode & 0o077 == 0
        assert key.read_text() not in done.stdout + done.stderr
        assert address == f"127.0.0.1:http={ports['http']},grpc={ports['grpc']}"
        monkeypatch.setenv(variable, address)
        connected = client(told["snippet"])
        assert connected.stdout.startswith("1."), connected.stderr
        assert json.loads(command("up", "--format", "jsonl").stdout)["store"] == "weaviate"
        assert "weaviate is up already" in command("up", "weaviate", "--provider", "local").stderr
        running = holder.children(recursive=True)
        done = command("down", "weaviate")
        assert done.stdout == "weaviate: ended\n"
        assert all_ended([holder, *running])
    finally:
        if holder.is_running():
            holder.terminate()
    assert "was not up" in command("down", "weaviate").stdout
    assert command("down").returncode == 2
    assert "is a library" in command("up", "memory").stderr
    assert not list((own_home / "up").glob("*.json"))
