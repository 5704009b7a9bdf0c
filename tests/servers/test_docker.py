"""Containers, as far as they can be tried without an engine: what is asked of it, in which order,
and that nothing is left over."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import tiny_server
from ended import all_ended

from vectrial.model.availability import Availability
from vectrial.model.placement import Limits, Provider
from vectrial.servers import docker
from vectrial.servers.base import Image, NoProgram, Recipe, ServerError
from vectrial.servers.docker import Docker, image_availability, run_command
from vectrial.servers.provide import choose_provider, make_server, prepare, recipe_of
from vectrial.stores import registry

HERE = Path(tiny_server.__file__).parent
IMAGE = Image(
    "registry.example/little", "1.2", "sha256:abc", {"http": 80}, "/data", {"A": "b"}, ("serve",)
)


def recipe(image: Image = IMAGE) -> Recipe:
    return replace(tiny_server.recipe(), image=image)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine of our own, named by the environment; returns its folder of state."""
    state = tmp_path / "engine"
    state.mkdir()
    text = (HERE / "fake_docker.py").read_text()
    for name, value in (
        ("python", sys.executable),
        ("state", state),
        ("little", HERE / "tiny_server.py"),
    ):
        text = text.replace("{" + name + "}", str(value))
    command = tmp_path / "engine-command"
    command.write_text(text)
    command.chmod(0o755)
    monkeypatch.setenv(docker.ENGINE, str(command))
    return state


def official() -> list[Recipe]:
    """What has an image, of all that stores need."""
    recipes = [recipe_of(registry.load(name)) for name in registry.names()]
    return [recipe for recipe in recipes if recipe is not None and recipe.image is not None]


def calls(state: Path) -> list[list[str]]:
    return [json.loads(line) for line in (state / "calls").read_text().splitlines()]


def containers(state: Path) -> list[psutil.Process]:
    return [
        psutil.Process(pid)
        for file in state.glob("vectrial-little-*")
        for pid in json.loads(file.read_text())
    ]


def test_the_command_says_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(docker.ENGINE, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getegid", lambda: 100)
    argv = run_command(
        replace(IMAGE, options=("--shm-size=1g",)),
        name="vectrial-little-1",
        ports={"http": 4711},
        data=Path("/tmp/here"),
        cores=[0, 2],
        limits=Limits(1.5, 2**30),
    )
    assert argv == (
        "docker", "run", "--rm", "--pull", "never", "--name", "vectrial-little-1",
        "--label", f"org.vectrial.owner={os.getpid()}",
        "--publish", "127.0.0.1:4711:80",
        "--volume", "/tmp/here:/data",
        "--user", "1000:100", "--group-add", "0",
        "--cpuset-cpus", "0,2", "--cpus", "1.5",
        "--memory", "1073741824", "--memory-swap", "1073741824",
        "--env", "A=b", "--shm-size=1g", "registry.example/little:1.2@sha256:abc", "serve",
    )  # fmt: skip


@pytest.mark.parametrize("recipe", official(), ids=lambda one: one.name)
def test_of_an_official_image_every_public_port_is_published(recipe: Recipe) -> None:
    image = docker.image_of(recipe)
    ports = {name: 4711 + at for at, name in enumerate(recipe.public)}
    argv = run_command(image, name="it", ports=ports, data=Path("/tmp/data"))
    at = argv.index(image.reference)
    published = {argv[i + 1] for i, one in enumerate(argv[:at]) if one == "--publish"}
    assert published == {f"127.0.0.1:{ports[name]}:{image.ports[name]}" for name in recipe.public}
    assert f"/tmp/data:{image.data}" in argv[:at]
    assert argv[at + 1 :] == image.argv
    assert set(image.env) <= {word.split("=")[0] for word in argv[:at]}
    assert re.search(r"\d\.\d", image.tag), "a version, and not the latest"
    assert str(ports[recipe.public[0]]) in recipe.snippet.format(
        host="127.0.0.1", **ports, **dict.fromkeys(recipe.secrets, "None")
    )


def test_without_an_engine_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(docker.ENGINE, str(tmp_path / "no-such-engine"))
    with pytest.raises(NoProgram, match=r"no '.*no-such-engine' here.*VECTRIAL_DOCKER"):
        Docker(recipe(), tmp_path).start()
    assert image_availability(recipe()).works is False


def test_an_engine_that_is_not_reached(engine: Path, tmp_path: Path) -> None:
    (engine / "down").write_text("")
    with pytest.raises(NoProgram, match="has no engine to talk to: Cannot connect"):
        Docker(recipe(), tmp_path / "s").start()
    assert "Cannot connect" in image_availability(recipe()).reason


def test_a_server_without_an_image(tmp_path: Path) -> None:
    with pytest.raises(NoProgram, match="no container image of little"):
        Docker(tiny_server.recipe(), tmp_path)
    lacking = recipe(replace(IMAGE, ports={"grpc": 1}))
    with pytest.raises(NoProgram, match="where 'http' listens"):
        Docker(lacking, tmp_path)


def test_an_image_that_cannot_be_pulled(engine: Path, tmp_path: Path) -> None:
    (engine / "unknown").write_text("")
    with pytest.raises(
        NoProgram, match=r"registry.example/little:1.2@sha256:abc cannot be pulled: man"
    ):
        Docker(recipe(), tmp_path / "s").start()


def test_the_official_image_is_the_default_where_an_engine_answers(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = choose_provider(recipe())
    assert (choice.provider, choice.by_default) == (Provider.DOCKER, True)
    assert "engine-command' answers" in choice.why
    assert isinstance(make_server(recipe(), tmp_path), Docker)
    assert choose_provider(tiny_server.recipe()).provider is Provider.LOCAL, "it has no image"
    assert choose_provider(recipe(), Provider.LOCAL).why == "requested"
    monkeypatch.setenv("VECTRIAL_LITTLE_PROVIDER", "local")
    assert choose_provider(recipe(), Provider.DOCKER).provider is Provider.LOCAL
    monkeypatch.delenv("VECTRIAL_LITTLE_PROVIDER")
    monkeypatch.setenv("VECTRIAL_LITTLE_BIN", "/usr/bin/little")
    assert choose_provider(recipe()).why == "VECTRIAL_LITTLE_BIN is set"
    assert choose_provider(recipe()).provider is Provider.LOCAL
    monkeypatch.setenv("VECTRIAL_LITTLE_ADDRESS", "here:http=1")
    assert choose_provider(recipe()).provider is Provider.EXTERNAL


def test_without_an_engine_the_default_is_a_program_of_this_machine() -> None:
    choice = choose_provider(recipe())
    assert choice.provider is Provider.LOCAL
    assert "since there is no 'no-engine-in-tests' here" in choice.why


def test_an_image_that_cannot_be_pulled_is_replaced_only_where_nobody_asked_for_it(
    engine: Path,
) -> None:
    (engine / "unknown").write_text("")
    lines: list[str] = []
    choice = prepare(recipe(), lines.append)
    assert choice.provider is Provider.LOCAL
    assert "cannot be pulled: manifest unknown" in choice.why
    assert lines[-1].endswith("a program of this machine is used instead")
    with pytest.raises(NoProgram, match=r"manifest unknown.*--provider local.*_PROVIDER=local"):
        prepare(recipe(), lines.append, Provider.DOCKER)
    lacking = replace(recipe(), availability=lambda: Availability(False, "no program of it"))
    with pytest.raises(NoProgram, match=r"no program of it; nor in a container: .*manifest"):
        prepare(lacking, lines.append)


def test_a_container_runs_while_its_block_lasts(engine: Path, tmp_path: Path) -> None:
    told: list[str] = []
    assert image_availability(recipe()).works is None, "it would be pulled"
    with Docker(recipe(), tmp_path / "s", limits=Limits(2.0), progress=told.append) as server:
        assert server.is_alive()
        assert tiny_server.starts(server.address) == 1
        running = containers(engine)
        assert server.processes() == {}, "a process that is not the container's, by its group"
        assert server.facts() == {
            "provider": "docker",
            "program": "registry.example/little:1.2@sha256:abc",
            "limits": "2 processors: applied by the engine",
            "cpus": 2.0,
        }
        before = server.address
        server.kill()
        assert all_ended(running)
        server.restart()
        assert server.address == before
        assert tiny_server.starts(before) == 2, "its data stayed"
        running = containers(engine)
    assert running
    assert all_ended(running)
    assert "little: hello" in (tmp_path / "s" / "server.log").read_text()
    assert any("pulling" in line for line in told)
    assert sum(call[0] == "pull" for call in calls(engine)) == 1
    assert image_availability(recipe()).works is True


def test_its_processes_are_known_by_their_control_group(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Docker(recipe(), tmp_path / "s") as server:
        (process,) = containers(engine)
        assert server.is_remote(), "no process of this machine is in the container's group"
        assert server.processes() == {}
        groups = Path(f"/proc/{process.pid}/cgroup").read_text()
        (engine / "id").write_text(groups.splitlines()[0].split(":")[1] or "0")
        assert server.processes() == {"server": process.pid}
        assert not server.is_remote()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_an_engine_that_hangs_does_not_end_the_run(
    how: str, engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    quick = replace(recipe(), stop_s=0.5)
    with Docker(quick, tmp_path / "s", progress=told.append) as server:
        running = containers(engine)
        (engine / "hangs").write_text("inspect image kill stop")
        monkeypatch.setattr(docker, "_ASK_S", 3.0)  # in which it says its version
        assert image_availability(quick).works is None, "it may have to be pulled"
        monkeypatch.setattr(docker, "_ASK_S", 1.0)
        assert server.processes() == {}
        getattr(server, how)()
        assert not server.is_alive()
    assert running
    assert all_ended(running)
    assert told[-1] == "little: did not end within 0.5 s; killed"


def test_a_container_that_ends_by_itself_shows_its_log(engine: Path, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    (folder / "data" / "starts").mkdir(parents=True)  # where the server expects a file
    with pytest.raises(ServerError, match=r"(?s)ended with 1 before it was ready.*IsADirectory"):
        Docker(recipe(), folder).__enter__()


PARENT = """
import sys, time
from pathlib import Path
sys.path[:0] = {paths!r}
from test_docker import recipe
from vectrial.servers.docker import Docker

with Docker(recipe(), Path({folder!r})) as server:
    print("running", flush=True)
    time.sleep(1000)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_container_outlives_whoever_started_it(
    how: signal.Signals, engine: Path, tmp_path: Path
) -> None:
    code = PARENT.format(paths=[str(Path(__file__).parent), str(HERE)], folder=str(tmp_path / "s"))
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert parent.stdout is not None
    assert re.match("running", parent.stdout.readline())
    running = containers(engine)
    assert running
    parent.send_signal(how)
    parent.wait(20)
    assert all_ended(running)
    ends = time.monotonic() + 20
    while not any(call[:2] == ["rm", "--force"] for call in calls(engine)):
        assert time.monotonic() < ends, "the engine was not told to remove it"
        time.sleep(0.05)
