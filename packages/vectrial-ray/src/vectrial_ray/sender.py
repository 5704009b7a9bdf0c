"""One machine's share of a load that several send together."""

from __future__ import annotations

import queue
import threading

from vectrial.engine.client import MachineShare
from vectrial.engine.parts import LoadPart, Order
from vectrial.model.errors import StoreError

#: A load that is not begun for so long was given up by the machine that ordered it.
_ABANDONED_S = 120.0


class Sender:
    """A machine's share of a load, sent in the background; connected and warm once `is_ready`."""

    def __init__(self, order: Order, machine: int, machines: int) -> None:
        self._begin: queue.Queue[int] = queue.Queue()
        self._ready = threading.Event()
        self._at_ns = self._began_ns = 0
        self._part: LoadPart | None = None
        self._fault: Exception | None = None
        share = MachineShare(machine, machines, self._wait, self._was_begun)
        self._thread = threading.Thread(target=self._send, args=(order, share), daemon=True)
        self._thread.start()

    def _send(self, order: Order, share: MachineShare) -> None:
        try:
            self._part = order.send(share)
        except Exception as error:  # noqa: BLE001 - raised where the load was ordered
            self._fault = error
        self._ready.set()

    def _wait(self) -> int:
        self._ready.set()
        try:
            self._at_ns = self._begin.get(timeout=_ABANDONED_S)
        except queue.Empty:
            raise StoreError("nobody began the load") from None
        return self._at_ns

    def _was_begun(self, at_ns: int) -> None:
        self._began_ns = at_ns

    def is_ready(self) -> bool:
        """True if it waits for `begin`, or has ended.

        Raises:
            VectrialError: it failed.
        """
        if self._fault is not None:
            raise self._fault
        return self._ready.is_set()

    def begin(self, at_ns: int) -> None:
        """Start sending at this instant."""
        self._begin.put(at_ns)

    def end(self) -> tuple[LoadPart, int]:
        """Wait for the end. Returns this part of the load, and how late the last thread began, in
        ns.

        Raises:
            VectrialError: it failed.
        """
        self._thread.join()
        if self._part is None:
            raise self._fault or StoreError("it sent nothing")
        return self._part, max(0, self._began_ns - self._at_ns)
