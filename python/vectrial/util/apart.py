"""Work in a process of its own, with limits: what somebody else's file makes a library do there
costs an answer, and never the program that asked.

The process starts at the first request and is kept for the next ones. It is ended when a request
takes too much processor time, which a busy machine does not change, and started anew after it has
ended, however that came.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from vectrial.model.errors import VectrialError
from vectrial.util.children import program

#: Processes of one kind that are kept while nobody asks them.
_IDLE = 2
#: Seconds that a request may take at most, beside so many for each of processor time: a machine
#: may be busy with other things, but what does nothing at all is not waited for.
_PATIENCE_S, _PATIENCE_PER_S = 60.0, 10.0

#: What a request is answered by: its JSON and its bytes → those of the answer.
Answer = tuple[Mapping[str, Any], bytes]
Handler = Callable[[Mapping[str, Any], bytes], Answer]


class ProcessEnded(VectrialError):
    """The process ended during a request, or was ended because the request took too long."""


class TooLong(ProcessEnded):
    """A request took longer than allowed."""


class Apart:
    """One process that answers requests.

    Args:
        module: its `main` calls `serve`.
        memory_bytes: memory that the process may have for itself.
    """

    def __init__(self, module: str, memory_bytes: int) -> None:
        self._module, self._memory = module, memory_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection[Any, Any] | None = None

    @property
    def runs(self) -> bool:
        """True if the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def full(self) -> bool:
        """True if it holds more than half of its memory, as it may after a request that needed more
        than there is: the next request would fail because of what that one left behind."""
        if self._process is None or not self.runs:
            return False
        import psutil  # here: the process itself has no use for it

        try:
            return bool(psutil.Process(self._process.pid).memory_info().data > self._memory / 2)
        except psutil.Error:
            return False

    def start(self) -> None:
        """Start the process, unless it runs, without waiting for it."""
        if self.runs:
            return
        self.end()
        self._connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                program(self._module, str(self._memory), str(theirs.fileno())),
                # Arrow's own allocator reserves 1 GiB at its first allocation.
                env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # what a library says as it dies is not for a user
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C is for us
            )

    def ask(
        self, request: Mapping[str, Any], content: bytes = b"", *, cpu_s: float, anew: bool = True
    ) -> Answer:
        """Send a request and wait for its answer, which may take this much processor time. The
        answer's `cpu_s` is the time used, in seconds.

        anew: start the process if it does not run.

        Raises:
            TooLong: it took more. Ended: the process ended.
        """
        if anew:
            self.start()
        process, connection = self._process, self._connection
        if process is None or connection is None:
            raise ProcessEnded("the process that did it was ended")
        patience_s = _PATIENCE_S + _PATIENCE_PER_S * cpu_s
        ends = time.monotonic() + patience_s
        # Sending and receiving wait for the process: it is killed in time.
        timer = threading.Timer(patience_s, process.kill)
        timer.daemon = True
        timer.start()
        try:
            connection.send_bytes(json.dumps({**request, "cpu_s": cpu_s}).encode())
            connection.send_bytes(content)
            answer = connection.recv_bytes(self._memory)
            return json.loads(answer), connection.recv_bytes(self._memory)
        except (OSError, EOFError):
            late = time.monotonic() >= ends
            code = self._ended()
            if late or code == -signal.SIGXCPU:
                raise TooLong(f"it took more than {cpu_s:.3g} s of processor time") from None
            how = f"ended with {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
            raise ProcessEnded(f"the process that did it {how}") from None
        finally:
            timer.cancel()

    def _ended(self) -> int:
        assert self._process is not None
        try:
            return self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return 0
        finally:
            self.end()

    def end(self) -> None:
        """End the process, if it runs."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        if self._connection is not None:
            self._connection.close()


class Pool:
    """Processes of one kind: one per concurrent request, up to a maximum; others wait."""

    def __init__(self, module: str, memory_bytes: int, most: int) -> None:
        """module, memory_bytes: see `Apart`. most: maximum number of processes at once."""
        self._module, self._memory = module, memory_bytes
        self._free = threading.BoundedSemaphore(most)
        self._idle: list[Apart] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()
        atexit.register(self._end)

    def warm(self) -> None:
        """Start a process in advance, so that it is ready when needed."""
        with self.one() as process:
            process.start()

    @contextmanager
    def one(self) -> Iterator[Apart]:
        """A process for the caller's use until the block ends."""
        with self._free:
            with self._lock:
                process = self._idle.pop() if self._idle else None
            process = process or Apart(self._module, self._memory)
            try:
                yield process
            finally:
                usable = process.runs and not process.full
                with self._lock:
                    idle = usable and len(self._idle) < _IDLE
                    if idle:
                        self._idle.append(process)
                if not idle:
                    process.end()

    def _end(self) -> None:
        if os.getpid() == self._pid:
            for process in self._idle:
                process.end()


def serve(handle: Handler) -> None:
    """Answer requests, within the process, until the other end is closed."""
    memory, connection = int(sys.argv[1]), Connection(int(sys.argv[2]))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with connection, suppress(EOFError):
        while True:
            request = json.loads(connection.recv_bytes())
            content = connection.recv_bytes()
            before = _used_s()
            limit = math.ceil(before + request["cpu_s"])
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            answer, made = handle(request, content)
            used = _used_s() - before
            connection.send_bytes(json.dumps({**answer, "cpu_s": used}).encode())
            connection.send_bytes(made)


def _used_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
