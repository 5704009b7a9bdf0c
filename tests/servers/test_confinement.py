"""Servers in a network of their own, by root and by an ordinary user; and without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import other_user
import psutil
import pytest
import tiny_server

from vectrial.model.availability import Availability
from vectrial.model.errors import UserError
from vectrial.model.placement import Provider
from vectrial.run import exposure
from vectrial.servers import local
from vectrial.servers.account import Account, free_account
from vectrial.servers.base import ServerError
from vectrial.servers.local import Local
from vectrial.servers.namespaces import (
    Network,
    NoNamespace,
    can_cover_folders,
    confine_command,
    why_no_network,
)
from vectrial.servers.provide import ProviderChoice
from vectrial.servers.server_network import ServerNetwork

HERE = Path(tiny_server.__file__).parent
STARTS = """
import sys
sys.path.insert(0, {here!r})
import tiny_server
from vectrial.model.store import Address
print(tiny_server.starts(Address("127.0.0.1", {{"http": int(sys.argv[1])}})))
"""


@pytest.fixture
def network() -> Iterator[Network]:
    try:
        network = Network()
    except NoNamespace as error:
        pytest.skip(f"no network can be made here: {error}")
    with network:
        yield network


def within(network: Network, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        network.enter(argv), pass_fds=network.files, capture_output=True, text=True, check=False
    )


def test_a_network_has_loopback_alone(network: Network) -> None:
    code = "import socket; print(*(name for _, name in socket.if_nameindex()))"
    names = within(network, sys.executable, "-c", code).stdout.split()
    assert "lo" in names
    up = within(network, sys.executable, "-c", "print(open('/proc/net/route').read().count('\\n'))")
    assert up.stdout == "1\n", "a line of titles, and no route"


@pytest.mark.slow
def test_a_server_is_reached_from_within_its_network_alone(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    recipe = tiny_server.recipe("--everywhere")
    with Local(
        recipe, tmp_path, server_network=ServerNetwork(network, "tiny_server:LITTLE")
    ) as server:
        port = server.address.ports["http"]
        assert not other_user.connects(port)
        code = STARTS.format(here=str(HERE))
        assert within(network, sys.executable, "-c", code, str(port)).stdout == "1\n"
        assert other_user.exposed(other_user.processes(server)) == []
        server.kill()
        server.restart()
        assert within(network, sys.executable, "-c", code, str(port)).stdout == "2\n"
        assert server.facts()["network"] == "its own"


WAITS = """
import sys
sys.path.insert(0, {here!r})
from vectrial.model.store import Address
from vectrial.servers.namespaces import Network
from vectrial.servers.server_network import ServerNetwork
with Network() as network:
    asked = ServerNetwork(network, "tiny_server:LITTLE")
    asked.wait_until(Address("127.0.0.1", {{"http": 1}}), 300, lambda: None)
"""


@pytest.mark.slow
def test_whoever_waits_for_a_server_goes_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    if why := why_no_network():
        pytest.skip(why)
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
    command = subprocess.Popen([sys.executable, "-c", WAITS.format(here=str(HERE))])
    try:
        waiting: list[psutil.Process] = []
        soon = time.monotonic() + 30
        while not any("server_network" in " ".join(one.cmdline()) for one in waiting):
            assert time.monotonic() < soon
            time.sleep(0.1)
            waiting = psutil.Process(command.pid).children(recursive=True)
        time.sleep(1)  # it has read its task
    finally:
        command.kill()
        command.wait()
    _, alive = psutil.wait_procs(waiting, timeout=10)
    for one in alive:
        one.kill()
    assert alive == []


def test_one_that_ends_in_a_network_is_known_to(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    inside = ServerNetwork(network, "tiny_server:LITTLE")
    broken = pytest.raises(ServerError, match="the configuration is wrong")
    with broken, Local(tiny_server.recipe("--breaks"), tmp_path, server_network=inside):
        pass


@pytest.mark.usefixtures("network")
def test_one_that_listens_everywhere_is_relayed_from_loopback(tmp_path: Path) -> None:
    with Local(tiny_server.recipe("--everywhere", exposed=True), tmp_path) as server:
        assert tiny_server.starts(server.address) == 1
        assert other_user.exposed(other_user.processes(server)) == []
        server.restart()
        assert tiny_server.starts(server.address) == 2
        port = server.address.ports["http"]
    assert not other_user.connects(port)


def test_where_no_network_can_be_made_it_is_not_started_unless_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "why_no_network", lambda: "nobody may")
    recipe = tiny_server.recipe(exposed=True)
    with pytest.raises(ServerError, match=r"nobody may.*--allow-exposed"):
        Local(recipe, tmp_path).start()
    with Local(recipe, tmp_path, allow_exposed=True) as server:
        assert tiny_server.starts(server.address) == 1
        assert server.facts()["network"] == "this machine's"


def _servers(server: str) -> dict[Any, None]:
    """As `Plan.servers`, of a store with this one."""
    return {(type("Kind", (), {"name": "kind", "server": server}), ""): None}


def test_a_run_says_before_it_measures_who_else_reaches_its_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def chosen(recipe: object, wanted: object) -> ProviderChoice:
        return ProviderChoice(Provider.LOCAL, "", Availability(True))

    monkeypatch.setattr(exposure, "why_no_network", lambda: "nobody may")
    monkeypatch.setattr(exposure, "choose_provider", chosen)
    said: list[str] = []
    servers = _servers("vectrial.stores.milvus.server:MILVUS")
    with pytest.raises(UserError, match=r"^milvus: listens on every interface") as refused:
        exposure.check(servers, said.append, allow_exposed=False)
    assert "--allow-exposed" in str(refused.value)
    exposure.check(servers, said.append, allow_exposed=True)
    assert [line.split(":")[0] for line in said] == [
        "other users of this machine can use the server of milvus while it runs"
    ]
    said.clear()
    servers = _servers("vectrial.stores.redis.server:REDIS")
    exposure.check(servers, said.append, allow_exposed=False)
    assert said == [], "it asks for a password"


ORDINARY = """
import json, os, sys
from pathlib import Path
sys.path[:0] = {paths!r}
import other_user, tiny_server
from vectrial.servers.server_network import ServerNetwork
from vectrial.servers.local import Local
from vectrial.servers.namespaces import Network, why_no_network

if why := why_no_network():
    print(json.dumps({{"why": why}}))
    sys.exit()
os.environ["PYTHONPATH"] = {here!r}
os.environ.update(other_user.CANARIES)
with Network() as network:
    server_network = ServerNetwork(network, "tiny_server:LITTLE")
    recipe = tiny_server.recipe("--everywhere")
    with Local(recipe, Path({folder!r}) / "in", server_network=server_network) as server:
        other_user.check(server)
        outside = other_user.connects(server.address.ports["http"])
with Local(tiny_server.recipe("--everywhere", exposed=True), Path({folder!r}) / "out") as server:
    other_user.check(server)
    relayed = tiny_server.starts(server.address)
mode = (Path({folder!r}) / "in").stat().st_mode & 0o777
print(json.dumps({{"why": "", "outside": outside, "relayed": relayed, "mode": mode,
                  "user": os.getuid()}}))
"""


@pytest.mark.slow
@other_user.needs_root
def test_an_ordinary_user_has_networks_too(tmp_path: Path) -> None:
    if not can_cover_folders():
        pytest.skip("root may not cover folders here")
    work = tmp_path / "work"
    work.mkdir()
    code = ORDINARY.format(here=str(HERE), folder=str(work), paths=[str(HERE)])
    user = Account(free_account().number, covers=True)
    shown = [Path(sys.executable), Path(sys.prefix), Path(sys.base_prefix), HERE.parents[1], work]
    order = user.confine_arguments(shown, tmp_path / "passwd")
    user.take_ownership(work)
    done = subprocess.run(
        confine_command((sys.executable, "-c", code), **order),
        cwd=work,
        env={"PATH": os.environ["PATH"], "HOME": str(work)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    if told["why"]:
        pytest.skip(f"users make no namespaces here: {told['why']}")
    assert told == {"why": "", "outside": False, "relayed": 1, "mode": 0o700, "user": user.number}


@other_user.needs_root
@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
def test_what_a_server_leaves_in_memory_goes_with_it(folder: str, tmp_path: Path) -> None:
    if not can_cover_folders():
        pytest.skip("root may not cover folders here")
    user = Account(free_account().number, covers=True)
    work = tmp_path / "work"
    work.mkdir()
    shown = [Path(sys.executable), Path(sys.prefix), Path(sys.base_prefix), work]
    order = user.confine_arguments(shown, tmp_path / "passwd")
    user.take_ownership(work)
    code = (
        "from pathlib import Path\n"
        f"here = Path({folder!r})\n"
        "(here / 'left-by-a-server').touch()\n"
        "print(*(path.name for path in here.iterdir()))"
    )
    done = subprocess.run(
        confine_command((sys.executable, "-c", code), **order),
        cwd=work,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) <= {"left-by-a-server", tmp_path.parts[2]}
    assert "left-by-a-server" in done.stdout
    assert not (Path(folder) / "left-by-a-server").exists()


@other_user.needs_root
def test_root_without_the_right_to_make_namespaces_is_told(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(HERE)!r}); import tiny_server\n"
        "from pathlib import Path\n"
        "from vectrial.servers.local import Local\n"
        "from vectrial.servers.account import free_account\n"
        "from vectrial.servers.namespaces import why_no_network\n"
        "assert why_no_network() and free_account().number == 65534\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "try:\n  Local(tiny_server.recipe(exposed=True), folder).start()\n"
        "except Exception as error: print(error)\n"
        "folder.chmod(0o700)\n"
        "try:\n  Local(tiny_server.recipe(), folder / 'in').start()\n"
        "except Exception as error: print(error)\n"
    )
    done = subprocess.run(
        ["setpriv", "--bounding-set=-sys_admin", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    exposed, closed = done.stdout.splitlines()
    assert "listens on every interface" in exposed, done.stderr
    assert "another user than root, who may not enter" in closed


def test_this_machine_says_whether_it_has_networks() -> None:
    assert why_no_network() == "" or os.geteuid() != 0 or not can_cover_folders()
