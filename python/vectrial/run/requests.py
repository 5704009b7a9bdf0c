"""Requests of the measuring process to the process that runs the server: faults, limits, object
stores, loads of client machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from vectrial.datasets.truth import FilesOnDisk
from vectrial.engine.parts import Sent
from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.faults import Crash, Fault
from vectrial.run.client_ceilings import ClientMachines
from vectrial.run.data_disk import DataDisk
from vectrial.run.object_servers import ObjectServers
from vectrial.servers.base import Server, ServerError
from vectrial.worker.messages import (
    Ack,
    CloseObjects,
    CrashServer,
    CutPower,
    FillDisk,
    GetTruth,
    LimitMemory,
    OpenObjects,
    PutTruth,
    RestartFailed,
    SendLoad,
    Serving,
    Strike,
    TruthFile,
)


@dataclass(frozen=True)
class RequestHandler:
    """Answers the requests of a measuring process.

    server: the server of the job's store; None if it has none. listen: turns the watching of the
        server on or off, when its processes change or will not answer.
    limit: changes the measuring process's memory, if it has limits; raises `Unsupported`.
    """

    server: Server | None
    disk: DataDisk
    objects: ObjectServers
    clients: ClientMachines | None
    listen: Callable[[bool], None]
    limit: Callable[[int], None] | None = None

    def answer(self, message: object) -> object | None:
        """Carry out a request; returns the answer to send, as text if the request is impossible.
        None if the message is not a request."""
        match message:
            case CrashServer(how):
                return self._crash_server(how)
            case CutPower():
                return _acknowledge(partial(self.disk.cut_power, None))
            case FillDisk(full):
                return _acknowledge(partial(self.disk.fill, full=full))
            case Strike():
                return self._strike(message)
            case LimitMemory(limit_bytes):
                return _acknowledge(partial(self._limit_memory, limit_bytes))
            case OpenObjects():
                return self.objects.open(message.request, message.key)
            case CloseObjects():
                self.objects.close(done=message.done)
                return Ack()
            case SendLoad():
                return self._drive(message)
            case GetTruth(name):
                return TruthFile(FilesOnDisk().get(name))
            case PutTruth(name, content):
                FilesOnDisk().put(name, content)
                return Ack()
            case _:
                return None

    @property
    def _local_server(self) -> Server:
        assert self.server is not None, "the measuring process knows whether there is one"
        return self.server

    def _limit_memory(self, limit_bytes: int | None) -> None:
        if self.server is not None:
            self.server.limit_memory(limit_bytes)
            return
        if self.limit is None or limit_bytes is None:
            raise Unsupported("it was started without a limit of memory")
        self.limit(limit_bytes)

    def _crash_server(self, how: Crash) -> Serving | RestartFailed | str:
        """End the server in the way `how`, and restart it on the same data."""
        server = self._local_server
        try:
            match how:
                case Crash.KILL:
                    server.kill()
                case Crash.POWER_CUT:
                    self.disk.cut_power(server)
                case Crash.COLD:
                    server.stop()
                    self.disk.forget()
                case Crash.RESTART:
                    pass
            server.restart()
        except Unsupported as error:
            return str(error)
        except ServerError as error:
            return RestartFailed(f"it did not start again after a {how.replace('_', ' ')}: {error}")
        self.listen(True)
        return serving(server)

    def _strike(self, request: Strike) -> Serving | str:
        """Inject or end a fault of a node. A paused node that is the only one is not asked whether
        it lives."""
        server = self._local_server
        try:
            name = (server.mend if request.back else server.strike)(request.node, request.fault)
        except (Unsupported, ServerError) as error:
            return str(error)
        if request.fault is Fault.PAUSE and not server.nodes():
            self.listen(request.back)
        return replace(serving(server), struck=name)

    def _drive(self, request: SendLoad) -> Sent | str:
        """Have the client machines send a load."""
        if self.clients is None:
            return "there are no client machines"
        try:
            return self.clients.drive(request.order)
        except StoreError as error:
            return str(error)


def serving(server: Server) -> Serving:
    """Current address, processes and folders of a server."""
    return Serving(server.address, server.processes(), server.data_dirs())


def _acknowledge(act: Callable[[], None]) -> Ack | str:
    try:
        act()
    except Unsupported as error:
        return str(error)
    return Ack()
