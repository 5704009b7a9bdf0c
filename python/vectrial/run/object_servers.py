"""The object stores that the trials of a job ask for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from vectrial.model.errors import Unsupported, UserError
from vectrial.model.objects import ObjectsAccess, ObjectsRequest
from vectrial.servers.base import ServerError
from vectrial.servers.namespaces import Network
from vectrial.servers.objects import ObjectServer

#: Name of the folder, in a run's folder, with a folder for each unfinished trial that needs one.
OBJECTS = "objects"


class ObjectServers:
    """The object stores of trials: at most one at a time, because trials follow one another.

    Objects outlive a trial that fails or is interrupted: when the run is resumed, the trial finds
    the objects that it had finished.

    Args:
        folder: the run's folder. network: the measuring process's network, if not this one's.
        cores: processors of a server that is started. note: called with each progress line.
    """

    def __init__(
        self,
        folder: Path,
        network: Network | None,
        cores: tuple[int, ...],
        note: Callable[[str], None],
    ) -> None:
        self._folder, self._network = folder, network
        self._cores, self._note = cores, note
        self._current: ObjectServer | None = None

    def open(self, request: ObjectsRequest, key: str) -> ObjectsAccess | str:
        """Start what the trial with this key requests. Returns the reason if that is impossible."""
        self.stop()
        self._current = ObjectServer(
            request,
            key,
            self._folder / OBJECTS / key,
            self._network,
            self._cores,
            self._folder / "logs" / f"objects-{request.kind}-{key[:8]}.log",
            self._note,
        )
        try:
            return self._current.start()
        except (Unsupported, UserError, ServerError) as error:
            self.stop()
            return str(error)

    def close(self, *, done: bool) -> None:
        """Stop the object store. done: the trial no longer needs the objects."""
        current = self._current
        self.stop()
        if current is not None and done:
            current.remove()

    def stop(self) -> None:
        """Stop the object store if one runs; its objects stay. Calling it twice is harmless."""
        if self._current is not None:
            self._current.stop()
            self._current = None
