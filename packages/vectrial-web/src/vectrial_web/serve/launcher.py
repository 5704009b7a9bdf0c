"""Runs that pages start: processes of their own, one at a time, which outlive `vectrial serve`.

A note in the cache names the process that was started last, so that another `vectrial serve`, or
the same one after a restart, knows of it and can stop it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import psutil
from pydantic import BaseModel, ConfigDict, ValidationError

from vectrial.model.errors import UserError
from vectrial.results.database import DATABASE
from vectrial.results.folder import is_own, replace_text
from vectrial.results.progress import read_status
from vectrial.run.prepare import RESOLVED, new_folder
from vectrial.suite.model import Suite
from vectrial.util.child_environment import for_run
from vectrial.util.children import python
from vectrial.util.locks import file_lock
from vectrial.util.paths import home
from vectrial.util.process import same_process, tail
from vectrial_web.serve.answers import STARTED, run_address
from vectrial_web.serve.runs import ListedRun, Runs

#: Lines of a log that a page shows.
_LINES = 60


class StartedProcess(BaseModel):
    """A process that a page started.

    pid, created: id and start of the process; created: seconds since 1970, which tells it from a
        later process with the same pid. root: the folder served. log: its output. says: a sentence
        on what it does.
    """

    model_config = ConfigDict(frozen=True)

    pid: int
    created: float
    root: Path
    log: Path
    says: str

    @property
    def name(self) -> str:
        """Name of the process in forms."""
        return f"{self.pid}-{self.created!r}"


@dataclass(frozen=True)
class OngoingRun:
    """A run under way, which a second one would disturb. href: its page; empty if it has none."""

    what: str
    href: str = ""


class RunUnderWay(UserError):
    """A second run was requested while one is under way."""

    def __init__(self, busy: OngoingRun) -> None:
        super().__init__(f"{busy.what}: a second one would disturb its measurements")
        self.ongoing_run = busy


class Launcher:
    """Starts and stops the runs of a folder."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._folder = home() / "serve"
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def why_off(self) -> str:
        """Why no run can be started in the folder served; empty if one can."""
        if is_own(self._runs.root, self._runs.root / DATABASE):
            return "The folder served is one run. Serve the folder that runs are made in."
        if not os.access(self._runs.root, os.W_OK):
            return "The folder served cannot be written to."
        return ""

    def start(self, suite: Suite, text: str) -> None:
        """Start a run of a suite. Its text and the lines that the run prints are written next to
        the folder of the run.

        Raises:
            RunUnderWay: another run is under way.
            UserError: the files cannot be written.
        """
        with self._exclusive_start():
            base = new_folder(self._runs.root, suite)
            path, log = (base.with_name(f"{base.name}.{kind}") for kind in ("toml", "log"))
            with _private(path, "xb") as file:
                file.write(text.encode("utf-8"))
            arguments = ("run", str(path), "--out", str(self._runs.root))
            self._launch(arguments, log, f"vectrial run {path.name}")

    def resume(self, run: ListedRun) -> None:
        """Continue an interrupted run.

        Raises:
            RunUnderWay: another run is under way.
            UserError: the run holds no suite of its own, or its log cannot be written.
        """
        if not is_own(run.folder, run.folder / RESOLVED):
            raise UserError(f"the run holds no {RESOLVED}, so it cannot be continued")
        with self._exclusive_start():
            log = run.folder.with_name(f"{run.folder.name}.log")
            arguments = ("run", "--resume", str(run.folder))
            self._launch(arguments, log, f"vectrial run --resume {run.name}")

    def stop(self, name: str) -> bool:
        """Send SIGINT to the process with this name, as Ctrl-C does; False if it has ended, or if
        another process was started since."""
        started = self.started()
        if started is None or started.name != name:
            return False
        with ExitStack() as opened:
            try:
                # What is checked is what gets the signal: a descriptor stays with its process.
                process = os.pidfd_open(started.pid)
                opened.callback(os.close, process)
                if not self.is_alive(started):
                    return False
                signal.pidfd_send_signal(process, signal.SIGINT)
            except ProcessLookupError:
                return False
        return True

    def started(self) -> StartedProcess | None:
        """The process that was started last, which may have ended."""
        try:
            return StartedProcess.model_validate_json(self._note.read_bytes())
        except (OSError, ValidationError):
            return None

    def is_alive(self, started: StartedProcess) -> bool:
        """True while the process runs."""
        child = self._child
        if child is not None and child.pid == started.pid and child.poll() is not None:
            return False
        return same_process(started.pid, started.created) is not None

    def run_of(self, started: StartedProcess) -> ListedRun | None:
        """The run that the process measures or measured; None before the run has begun, or if it is
        in another folder."""
        for run in self._runs.listing():
            status = read_status(run.folder)
            if status and status.pid == started.pid and status.began > started.created - 1:
                return run
        return None

    def stoppable_process(self, run: ListedRun) -> StartedProcess | None:
        """The process of a run under way, if a page started it."""
        started = self.started()
        if started is None or run.status is None or run.status.pid != started.pid:
            return None
        return started if self.is_alive(started) else None

    def ongoing_run(self) -> OngoingRun | None:
        """The run under way, if there is one: started by a page, or in the folder served."""
        started = self.started()
        if started is not None and self.is_alive(started):
            if started.root == self._runs.root:
                return OngoingRun(f"A run is under way ({started.says})", STARTED)
            return OngoingRun(f"A run is under way in {started.root} ({started.says})")
        for run in self._runs.listing():
            if run.state == "running" and run.status is not None:
                return OngoingRun(f"A run is under way ({run.name})", run_address(run.id))
        return None

    def tail(self, started: StartedProcess) -> str:
        """The last lines that the process printed."""
        try:
            return tail(started.log, _LINES)
        except OSError:
            return ""

    def end(self, started: StartedProcess) -> str:
        """Description of how the process ended; empty if it still runs, or if another process
        started it."""
        child = self._child
        code = None if child is None or child.pid != started.pid else child.poll()
        if code is None:
            return ""
        return f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"

    def _exclusive_start(self) -> ExitStack:
        """Hold the exclusive right to start a run, among all pages and `vectrial serve` processes.

        Raises:
            RunUnderWay: a run is under way.
        """
        with ExitStack() as held:
            held.enter_context(self._lock)
            self._folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(file_lock(self._folder / "start.lock", "a run", lambda line: None))
            if (busy := self.ongoing_run()) is not None:
                raise RunUnderWay(busy)
            return held.pop_all()

    def _launch(self, arguments: Sequence[str], log: Path, says: str) -> None:
        with _private(log, "ab") as out:
            # A session of its own: Ctrl-C in the terminal of `vectrial serve` does not reach it.
            child = subprocess.Popen(
                python("vectrial.cli.main", *arguments),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=for_run(),
                start_new_session=True,
            )
        self._child = child
        created = psutil.Process(child.pid).create_time()  # it is there until it is waited for
        started = StartedProcess(
            pid=child.pid, created=created, root=self._runs.root, log=log, says=says
        )
        replace_text(self._note, started.model_dump_json())

    @property
    def _note(self) -> Path:
        return self._folder / "started.json"


def _private(path: Path, mode: Literal["xb", "ab"]) -> BinaryIO:
    """Open a file that only its owner can read, like those of runs; no link is followed.

    Raises:
        UserError: it cannot be written.
    """

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW, 0o600)

    try:
        return open(path, mode, opener=opener)
    except OSError as error:
        raise UserError(f"it cannot be written: {error.strerror}", where=str(path)) from error
