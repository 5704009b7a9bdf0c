"""Holders of the rows (a server, or a process with a library), and the faults that they suffer."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum

from vectrial.model.context import Context
from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.faults import Crash, Fault
from vectrial.model.schema import Schema
from vectrial.model.store import Store
from vectrial.workload.crash import ChangeScript, CrashWriter
from vectrial.workload.ledger import ChangeOutcome
from vectrial.workload.python.sdk_process import Opening, opening_of

#: Seconds that a disk is full, that a server stands still, and that a node is away.
_FULL_S, _PAUSE_S, _AWAY_S = 3.0, 30.0, 3.0
#: Seconds that the first change may take, for which a client connects.
_FIRST_S = 60.0
#: Shares of its resident memory that a server may keep, tried in this order until the kernel can
#: take no more; and seconds under this limit.
_MEMORY, _STARVED_S = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1), 3.0
NO_SERVER = "a library has no server that could suffer it"
_NO_DISK = "its files are not on a disk of their own: set data_disk in [placement]"


class Outage(StrEnum):
    """Kinds of outages of the process that holds the rows, while they change."""

    KILL = "kill"
    POWER_CUT = "power_cut"
    DISK_FULL = "disk_full"
    OUT_OF_MEMORY = "out_of_memory"
    PAUSE = "pause"
    NODE_KILL = "node_kill"


#: Outages that only a server suffers.
OF_SERVERS = frozenset({Outage.OUT_OF_MEMORY, Outage.PAUSE, Outage.NODE_KILL})


class Holder(ABC):
    """The process that holds the rows. As a context manager it leaves nothing behind."""

    def __init__(self, context: Context, schema: Schema) -> None:
        self.context, self.schema = context, schema
        self._created = False
        self._writer: CrashWriter | None = None
        self._store: Store | None = None

    def __enter__(self) -> Holder:
        return self

    def __exit__(self, *exc: object) -> None:
        self._end_writer()
        self._close()

    def load(self, script: ChangeScript) -> Sequence[ChangeOutcome]:
        """Make all changes of a script, and stop writing; returns the outcome of each change.

        Raises:
            StoreError: one failed.
        """
        self.begin(script)
        assert self._writer is not None
        self._writer.wait()
        outcomes = self._writer.outcomes()
        if failed := next((one.error for one in outcomes if one.error), ""):
            raise StoreError(failed)
        return outcomes

    def begin(self, script: ChangeScript) -> None:
        """Begin to make the changes."""
        self._close()
        if self._writer is None:
            self._writer = CrashWriter(self._opening(), create=not self._created)
            self._created = True
        self._writer.begin(script)

    def pause(self, seconds: float) -> None:
        """Wait this many seconds after the answer to the first change, while more changes are made.

        Raises:
            StoreError: the writer could not open the store.
        """
        assert self._writer is not None
        self._writer.wait_first(_FIRST_S)
        ends = time.monotonic() + seconds
        self._writer.wait(seconds)
        time.sleep(max(0.0, ends - time.monotonic()))

    @abstractmethod
    def strike(self, outage: Outage) -> Sequence[ChangeOutcome]:
        """Subject the store to an outage; returns the outcomes of the changes. On return the outage
        has ended, and nobody writes any more.

        Raises:
            Unsupported: there is no such outage here.
        """

    def store(self) -> Store:
        """The store, reopened. Nobody writes any more, since some libraries allow only one
        process."""
        self._end_writer()
        self._close()
        self._store = self._opening().open()
        return self._store

    def _opening(self) -> Opening:
        """The opening of the store, used here and by the writer."""
        return replace(opening_of(self.context), schema=self.schema)

    def _end_writer(self) -> Sequence[ChangeOutcome]:
        """Kill the writer; returns the outcomes of its changes."""
        writer, self._writer = self._writer, None
        if writer is None:
            return ()
        writer.kill()
        return writer.outcomes()

    def _stop_writer(self) -> Sequence[ChangeOutcome]:
        """Let the writer finish its current change, and end it."""
        assert self._writer is not None
        self._writer.stop()
        return self._end_writer()

    def _close(self) -> None:
        if self._store is not None:
            store, self._store = self._store, None
            store.close()


class ServerHolder(Holder):
    """The store's server."""

    def __init__(self, context: Context, schema: Schema) -> None:
        super().__init__(context, schema)
        self._address = context.address
        self._nodes_lost = 0

    def strike(self, outage: Outage) -> Sequence[ChangeOutcome]:
        context = self.context
        match outage:
            case Outage.KILL | Outage.POWER_CUT:
                if context.crash is None:
                    raise Unsupported("its server is not run here")
                how = Crash.KILL if outage is Outage.KILL else Crash.POWER_CUT
                self._address = context.crash(how)
                return self._stop_writer()
            case Outage.PAUSE:
                if context.strike is None:
                    raise Unsupported("its server is not run here")
                context.strike(0, Fault.PAUSE, False)
                time.sleep(_PAUSE_S)
                context.strike(0, Fault.PAUSE, True)
                return self._stop_writer()
            case Outage.NODE_KILL:
                self._lose_node()
                return self._stop_writer()
            case Outage.DISK_FULL:
                _fill_disk(context)
                return self._recover()
            case Outage.OUT_OF_MEMORY:
                self._starve()
                return self._recover()

    def _recover(self) -> Sequence[ChangeOutcome]:
        """Stop writing, and restart a server that has ended or no longer answers."""
        outcomes = self._stop_writer()
        try:
            self._opening().open().close()
        except Exception:  # noqa: BLE001 - whatever a store raises, it does not answer
            assert self.context.crash is not None, "its disk and its memory are ours"
            self._address = self.context.crash(Crash.KILL)
        return outcomes

    def _lose_node(self) -> None:
        """Kill a node, a different one each time, and restart it on its data after a while."""
        context = self.context
        nodes = 0 if context.address is None else len(context.address.nodes)
        if context.strike is None or nodes < 2:
            raise Unsupported("its server has no nodes that could be lost")
        node, self._nodes_lost = self._nodes_lost % nodes, self._nodes_lost + 1
        context.strike(node, Fault.KILL, False)
        time.sleep(_AWAY_S)
        context.strike(node, Fault.KILL, True)

    def _starve(self) -> None:
        """Take memory from the server until it is killed, or the kernel takes no more."""
        limit, resident = self.context.limit_memory, self.context.resident_bytes()
        if limit is None or resident is None:
            raise Unsupported("its server is not run here")
        limit(None)  # refused before anything is taken
        with suppress(Unsupported):  # that is all that can be taken, or it has ended
            for share in _MEMORY:
                limit(int(share * resident))
        time.sleep(_STARVED_S)
        with suppress(Unsupported):  # one that has ended has no limit
            limit(None)

    def _opening(self) -> Opening:
        return replace(super()._opening(), address=self._address)


class LibraryHolder(Holder):
    """A process that uses the library."""

    def strike(self, outage: Outage) -> Sequence[ChangeOutcome]:
        assert self._writer is not None
        match outage:
            case Outage.KILL:
                return self._end_writer()
            case Outage.POWER_CUT:
                if self.context.cut_power is None:
                    raise Unsupported(_NO_DISK)
                self._writer.freeze()
                self.context.cut_power()
                return self._end_writer()
            case Outage.DISK_FULL:
                _fill_disk(self.context)
                return self._stop_writer()
            case Outage.PAUSE | Outage.OUT_OF_MEMORY | Outage.NODE_KILL:
                raise Unsupported(NO_SERVER)


def _fill_disk(context: Context) -> None:
    """Keep the disk full for a while."""
    if context.fill_disk is None:
        raise Unsupported(_NO_DISK)
    context.fill_disk(True)
    time.sleep(_FULL_S)
    context.fill_disk(False)
