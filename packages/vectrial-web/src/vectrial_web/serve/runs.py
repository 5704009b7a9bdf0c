"""The runs in a folder and their entries in the list, cached so that no run is read twice.

A run is identified by its id, which is looked up in the listing: no path is ever built from a
request. A link is followed if its target is in the same folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import psutil
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from vectrial.model.errors import UserError
from vectrial.results import note
from vectrial.results.database import DATABASE, RunBeingWritten
from vectrial.results.folder import is_own
from vectrial.results.foreign import foreign_value_errors
from vectrial.results.progress import Status, read_status
from vectrial.results.reader import ReadTimeLimit, RunReader
from vectrial.util.paths import home

#: Folders between the root and a run.
_DEPTH = 3
#: Folders in a run's folder that hold no run.
_NOT_RUNS = ("work", "logs", "report")
#: Runs that are read at once.
_READERS = 2
#: Changed whenever a summary says something else.
_LAYOUT = 3

State = Literal["finished", "interrupted", "running", "unread", "unreadable"]


class Summary(BaseModel):
    """Summary of a run in the list. counts: trials by status; wrong: stores that failed the
    gate."""

    model_config = ConfigDict(frozen=True)

    suite: str
    started: float
    finished: float | None
    version: str
    stores: tuple[str, ...]
    datasets: tuple[str, ...]
    experiments: tuple[str, ...]
    counts: Mapping[str, int]
    wrong: tuple[str, ...]
    note: str = ""


class _CachedSummary(BaseModel):
    """A summary, or the reason why there is none, and the files it was read from: (mtime in ns,
    bytes). written: the run was being written. passing: the reason may be temporary."""

    files: tuple[tuple[int, int], ...]
    summary: Summary | None
    why: str = ""
    written: bool = False
    passing: bool = False


_KEPT = TypeAdapter(tuple[int, dict[str, _CachedSummary]])


@dataclass(frozen=True)
class ListedRun:
    """A run of the listing. id: id for addresses. name: its path below the root. why: the reason of
    a bad state. status: status of a run that is under way."""

    id: str
    folder: Path
    name: str
    state: State
    summary: Summary | None = None
    why: str = ""
    status: Status | None = None
    changed: float = 0.0

    @property
    def title(self) -> str:
        """The suite's name, or the folder's name until that is known."""
        return self.summary.suite if self.summary else self.folder.name

    @property
    def at(self) -> float:
        """Start of the run, in seconds since 1970, as far as known."""
        return self.summary.started if self.summary else self.changed


class Runs:
    """The runs below a folder."""

    def __init__(self, root: Path) -> None:
        """Prepare the listing; nothing is read yet.

        Raises:
            UserError: there is no such folder.
        """
        if not root.is_dir():
            raise UserError(
                "there is no such folder",
                where=str(root),
                remedy="give the folder that runs are made in; vectrial run makes ./runs",
            )
        self.root = root.resolve()
        name = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:16]
        self._file = home() / "serve" / f"summaries-{name}.json"
        self._known = _cached_summaries(self._file)
        self._places: Mapping[str, Path] = {}
        self._lock = threading.Lock()
        self._reader: threading.Thread | None = None

    def listing(self) -> list[ListedRun]:
        """Every run, newest first; unread runs are read in the background."""
        found = [self._run(folder) for folder in _folders(self.root)]
        self._places = {run.id: run.folder for run in found}
        self._read_new(found)
        return sorted(found, key=lambda run: (run.at, run.name), reverse=True)

    def get(self, run_id: str) -> ListedRun | None:
        """The run of this id."""
        folder = self._places.get(run_id)
        if folder is None:
            self.listing()  # it may be a new one
            folder = self._places.get(run_id)
        if folder is None or not is_own(self.root, folder / DATABASE):
            return None
        run = self._run(folder)
        self._read_new([run])
        return run

    def read_all(self) -> None:
        """Read all unread runs, and return when that is done."""
        self._wait()  # for one that may have looked at a run before what is to be read came
        self.listing()
        self._wait()

    def _wait(self) -> None:
        reader = self._reader
        if reader is not None:
            reader.join()

    def _run(self, folder: Path) -> ListedRun:
        files = _files(folder)
        name = folder.relative_to(self.root).as_posix()
        run_id, changed = _id(self.root, folder), max((f[0] for f in files), default=0) / 1e9
        status = read_status(folder)
        if status is not None and is_under_way(status):
            return ListedRun(run_id, folder, name, "running", status=status, changed=status.began)
        known = self._known.get(name)
        if known is None or known.files != files:
            return ListedRun(run_id, folder, name, "unread", status=status, changed=changed)
        if known.written:
            return ListedRun(run_id, folder, name, "running", why=known.why, changed=changed)
        if known.summary is None:
            return ListedRun(run_id, folder, name, "unreadable", why=known.why, changed=changed)
        state: State = "interrupted" if known.summary.finished is None else "finished"
        return ListedRun(run_id, folder, name, state, known.summary, changed=changed)

    def _read_new(self, found: list[ListedRun]) -> None:
        """Read unread runs, and reread runs that another process had open: closing a run changes no
        file."""
        left = [r for r in found if r.state == "unread" or (r.state == "running" and not r.status)]
        with self._lock:
            if left and (self._reader is None or not self._reader.is_alive()):
                self._reader = threading.Thread(target=self._read, args=(left,), daemon=True)
                self._reader.start()

    def _read(self, left: list[ListedRun]) -> None:
        news = False
        # Several at once, so that one that takes its time to be refused keeps no other waiting.
        with ThreadPoolExecutor(_READERS) as readers:
            looks = {readers.submit(_read_summary, run.folder): run.name for run in left}
            for look in as_completed(looks):
                known = look.result()
                self._known = {**self._known, looks[look]: known}
                news = news or not known.passing
        if news:
            self._write_cache()

    def _write_cache(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        lasting = {name: known for name, known in self._known.items() if not known.passing}
        fresh = self._file.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(_KEPT.dump_json((_LAYOUT, lasting)))
        fresh.replace(self._file)


def _read_summary(folder: Path) -> _CachedSummary:
    """The summary of a run, or the reason why there is none."""
    files = _files(folder)
    try:
        return _CachedSummary(files=files, summary=summary_of(folder))
    except UserError as error:
        passing = isinstance(error, RunBeingWritten | ReadTimeLimit)
        written = isinstance(error, RunBeingWritten)
        why = str(error)
        return _CachedSummary(files=files, summary=None, why=why, written=written, passing=passing)
    except OSError as error:  # closed to us
        return _CachedSummary(files=files, summary=None, why=f"it cannot be read: {error}")


def summary_of(folder: Path) -> Summary:
    """Read the summary of a run.

    Raises:
        UserError: it is being written, damaged, or nothing was measured.
    """
    with foreign_value_errors(folder.name), RunReader(folder) as reader:
        (run,) = reader.rows(
            "select suite_name, vectrial_version, epoch(started_at) as started,"
            " epoch(finished_at) as finished from run"
        ) or ({},)
        if not run:
            reader.run()  # says what is amiss
        datetime.fromtimestamp(run["started"], UTC)  # raises where that is no time of a calendar

        def distinct(column: str) -> tuple[str, ...]:
            found = reader.rows(
                f"select {column} as it from trial group by 1 order by min(trial_id)"
            )
            return tuple(row["it"] for row in found)

        counts = reader.rows("select status, count(*) as n from trial group by 1 order by 1")
        failed = reader.rows(
            "select store, g.* from gate g join trial using (trial_id) where not passed order by 1"
        )
        return Summary(
            suite=run["suite_name"],
            started=run["started"],
            finished=run["finished"],
            version=run["vectrial_version"],
            stores=distinct("store"),
            datasets=distinct("dataset"),
            experiments=distinct("experiment"),
            counts={row["status"]: row["n"] for row in counts},
            wrong=tuple(dict.fromkeys(r["store"] for r in failed if r["relevant"])),
            note=note.read(folder),
        )


def is_under_way(status: Status) -> bool:
    """True if the process that wrote this status still runs."""
    if status.ended:
        return False
    try:
        # A process that began later has merely got the same number.
        return psutil.Process(status.pid).create_time() <= status.began + 1
    except psutil.Error:
        return False


def _cached_summaries(file: Path) -> dict[str, _CachedSummary]:
    try:
        layout, known = _KEPT.validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return {}  # nothing is lost: it is read again
    return known if layout == _LAYOUT else {}


def _folders(root: Path) -> Iterator[Path]:
    """Every folder with a run, each once; the root itself may be one."""
    seen = set()
    for folder in _walk(root, root, _DEPTH):
        real = folder.resolve()
        if real not in seen and real.is_relative_to(root):
            seen.add(real)
            yield real


def _walk(root: Path, folder: Path, depth: int) -> Iterator[Path]:
    if is_own(root, folder / DATABASE):
        yield folder
        return
    if depth == 0:
        return
    try:
        inside = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return  # not ours to read
    for entry in inside:
        if not entry.name.startswith(".") and entry.name not in _NOT_RUNS and _is_folder(entry):
            # A link may lead in a circle: it is looked at, and not searched.
            yield from _walk(root, Path(entry.path), 0 if entry.is_symlink() else depth - 1)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """True for a folder; False if the entry cannot be read, such as a link to itself."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _files(folder: Path) -> tuple[tuple[int, int], ...]:
    found = []
    for name in (DATABASE, f"{DATABASE}.wal", note.NOTE):
        try:
            stat = (folder / name).stat()
        except OSError:
            continue
        found.append((stat.st_mtime_ns, stat.st_size))
    return tuple(found)


def _id(root: Path, folder: Path) -> str:
    """A readable id that is unique for every path below the root."""
    name = folder.relative_to(root).as_posix()
    plain = re.sub(r"[^A-Za-z0-9-]+", "-", folder.name).strip("-")[:60]
    return f"{plain}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"
