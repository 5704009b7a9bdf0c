"""Servers that stay up until they are ended, and the notes about them.

A process of ours holds each server: it starts the server, writes a note to
`home()/up/<store>.json`, and ends the server on request. The note has the id and the start time of
that process, so that a later process with the same id is not mistaken for it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from vectrial.model.errors import UserError
from vectrial.model.placement import Limits, Provider
from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers.account import allow_passage
from vectrial.servers.base import External, Recipe, Server, ServerError
from vectrial.servers.cluster import clustering
from vectrial.servers.local import variable_name
from vectrial.servers.managed_process import secret_file
from vectrial.servers.namespaces import why_no_network
from vectrial.servers.provide import make_server, prepare
from vectrial.util import interrupts, paths
from vectrial.util.process import same_process

_POLL_S = 0.2
#: Seconds beyond what a server may take to end, for the process that holds it.
_SPARE_S = 20.0


@dataclass(frozen=True)
class RunningServer:
    """A server that is up, or starting (then without ports).

    pid, began: id and start time (by psutil) of the process that holds it. log: the server's log.
    secrets: files with the server's secrets, by name.
    nodes: name, host, ports, log and data of each node of a cluster; the first is the server
        itself.
    processes: ids and start times (by psutil) of the server's processes, by name.
    data_dirs: the folders that hold its data. facts: see `Server.facts`.
    """

    store: str
    provider: str
    pid: int
    began: float
    host: str
    ports: Mapping[str, int]
    data: str
    log: str
    secrets: Mapping[str, str] = field(default_factory=dict)
    nodes: Sequence[Mapping[str, Any]] = ()
    processes: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    data_dirs: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """True if the server answers."""
        return bool(self.ports)

    def address_text(self) -> str:
        """The address, or the addresses of the nodes, in the format of the environment variable."""
        nodes = self.nodes or ({"host": self.host, "ports": self.ports},)
        return ";".join(
            f"{node['host']}:" + ",".join(f"{key}={port}" for key, port in node["ports"].items())
            for node in nodes
        )


class UpServer(External):
    """A server that `vectrial up` started on this machine. It is left alone like any external
    server, but measured like one that a run starts itself."""

    def __init__(self, recipe: Recipe, address: Address, note: RunningServer) -> None:
        super().__init__(recipe, address)
        self._noted = note

    def processes(self) -> Mapping[str, int]:
        """Processes that still run."""
        found = self._noted.processes.items()
        return {name: pid for name, (pid, began) in found if same_process(pid, began) is not None}

    def data_dirs(self) -> tuple[Path, ...]:
        return tuple(map(Path, self._noted.data_dirs))

    def is_alive(self) -> bool:
        return _holding_process(self._noted) is not None

    def facts(self) -> Mapping[str, Any]:
        facts = self._noted.facts
        return {**facts, "program": f"{facts.get('program', '')}, started by `vectrial up`"}


def as_up_server(recipe: Recipe, server: Server) -> Server:
    """The server, as an `UpServer` if it is external and `vectrial up` started it on this machine:
    its usage can then be measured."""
    if not isinstance(server, External):
        return server
    address = server.address
    places = [_endpoint(node.host, node.ports) for node in address.nodes or (address,)]
    for one in running_servers():
        nodes = one.nodes or ({"host": one.host, "ports": one.ports},)
        its_own = [_endpoint(node["host"], node["ports"]) for node in nodes]
        if one.ready and one.processes and its_own == places:
            return UpServer(recipe, address, one)
    return server


def _endpoint(host: str, ports: Mapping[str, int]) -> tuple[str, frozenset[tuple[str, int]]]:
    return "127.0.0.1" if host == "localhost" else host, frozenset(ports.items())


def folder() -> Path:
    """The folder of notes, logs and data of running servers."""
    return paths.home() / "up"


def running_servers() -> list[RunningServer]:
    """All servers that are up, by store. Notes whose process has ended are removed."""
    found = []
    for path in sorted(folder().glob("*.json")):
        try:
            one = RunningServer(**json.loads(path.read_text()))
        except FileNotFoundError:
            continue  # it has just ended
        except (ValueError, TypeError):
            path.unlink(missing_ok=True)
            continue
        if _holding_process(one) is None:
            path.unlink(missing_ok=True)
        else:
            found.append(one)
    return found


def run_foreground(
    store: str,
    recipe: Recipe,
    provider: Provider | None,
    *,
    data: Path | None,
    limits: Limits,
    progress: LineProgress,
    ready: Callable[[RunningServer], None],
    allow_exposed: bool = False,
    nodes: int = 1,
) -> None:
    """Start a server, call `ready`, and hold the server until this process is interrupted.

    Args:
        store: the store that uses it. provider: see `choose`.
        data: folder for its data, which stays; by default data is discarded.
        allow_exposed: see `Local`. nodes: see `make_server`.

    Raises:
        UserError: a server is up already, or it runs elsewhere. ServerError: it cannot be obtained,
            did not start, or ended by itself.
    """
    _refuse_second(store)
    if nodes != 1:
        clustering(recipe, nodes)
    choice = prepare(recipe, progress, provider, nodes=nodes)
    if choice.provider is Provider.EXTERNAL:
        raise UserError(
            f"{store} runs elsewhere: {choice.why}",
            remedy=f"--provider local, or unset {variable_name(recipe, 'address')}",
        )
    progress(f"{store}: starting it by provider '{choice.provider}': {choice.why}")
    place = data or folder() / store
    log = folder() / f"{store}.log"
    note = folder() / f"{store}.json"
    if data is None:
        shutil.rmtree(place, ignore_errors=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    allow_passage(log.parent)
    log.unlink(missing_ok=True)
    me = psutil.Process()
    one = RunningServer(
        store, choice.provider, me.pid, me.create_time(), "", {}, str(place), str(log)
    )
    try:
        _reserve(note, one)
        server = make_server(
            recipe,
            place,
            provider=choice.provider,
            log=log,
            limits=limits,
            progress=progress,
            allow_exposed=allow_exposed,
            nodes=nodes,
        )
        with server:
            address = server.address
            one = replace(
                one,
                host=address.host,
                ports=dict(address.ports),
                secrets={name: str(secret_file(place, name)) for name in address.secrets},
                nodes=server.nodes(),
                processes={
                    name: (pid, _start_time(pid)) for name, pid in server.processes().items()
                },
                data_dirs=[str(one) for one in server.data_dirs()],
                facts=dict(server.facts()),
            )
            fresh = note.with_suffix(".new")
            fresh.write_text(json.dumps(asdict(one)))
            fresh.replace(note)
            for line in warnings(recipe, choice.provider):
                progress(f"{store}: {line}")
            ready(one)
            try:
                while server.is_alive():
                    time.sleep(_POLL_S)
                    interrupts.check()  # looking at processes may have swallowed one
            except KeyboardInterrupt:
                if data is not None:  # it may have something to write
                    interrupts.allow_cleanup(recipe.stop_s + _SPARE_S)
                    server.stop()
                raise
            raise ServerError(f"{store} ended by itself; its log is {log}")
    finally:
        _forget(note, me.pid)
        if data is None:
            shutil.rmtree(place, ignore_errors=True)


def warnings(recipe: Recipe, provider: Provider) -> list[str]:
    """Warnings about a server that stays up."""
    lines = []
    generated = recipe.generated
    if provider is Provider.DOCKER:
        generated = tuple(recipe.image.generated) if recipe.image else ()
    if not generated:
        lines.append("it asks for no password: every user of this machine can use it")
    if provider is Provider.LOCAL and recipe.exposed:
        if why := why_no_network():
            lines.append(f"others on the network can reach it ({why})")
        else:
            lines.append(
                "its ports are relayed to a network of its own, which takes time: "
                "measure a server that the run starts itself"
            )
    return lines


def stop(server: RunningServer, stop_s: float) -> bool:
    """Stop a server that is up, through the process that holds it; False if it had already ended.

    Raises:
        ServerError: that process did not end in time.
    """
    process = _holding_process(server)
    if process is None:
        return False
    with contextlib.suppress(psutil.NoSuchProcess):
        process.terminate()
    try:
        process.wait(stop_s + _SPARE_S)
    except psutil.TimeoutExpired as error:
        raise ServerError(f"{server.store} did not end; process {server.pid} holds it") from error
    return True


def _holding_process(server: RunningServer) -> psutil.Process | None:
    """The process that holds a server; None if it has ended, even if another process now has its
    id."""
    return same_process(server.pid, server.began)


def _start_time(pid: int) -> float:
    """Start time of a process; 0 if it has ended."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return 0.0


def _refuse_second(store: str) -> None:
    for one in running_servers():
        if one.store == store:
            raise UserError(
                f"{store} is {'up' if one.ready else 'starting'} already"
                + (f", at {one.address_text()}" if one.ready else ""),
                remedy=f"end it with: vectrial down {store}",
            )


def _reserve(note: Path, server: RunningServer) -> None:
    """Write the note that a server is about to be up; there must be none yet."""
    try:
        with note.open("x") as file:
            json.dump(asdict(server), file)
    except FileExistsError as error:
        raise UserError(f"{server.store} is being started already") from error


def _forget(note: Path, pid: int) -> None:
    """Remove a note if it belongs to this process."""
    with contextlib.suppress(OSError, ValueError):
        if json.loads(note.read_text())["pid"] == pid:
            note.unlink()
