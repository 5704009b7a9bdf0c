"""The origin of runs: revision, date, duration, machine, and number of measured trials."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from vectrial.results.bundle import SUFFIX, run_folder
from vectrial.results.database import DATABASE
from vectrial.results.reader import RunReader
from vectrial.util import formatting
from vectrial_reproduce.reports.folder import MANIFEST
from vectrial_reproduce.reports.results.declarations import CommittedResult

#: Trials follow each other within the start of a server: a longer gap is a run that stood still,
#: to be resumed later.
_TRIALS = """
with span as (
    select status, started_at as began,
           started_at + to_microseconds((coalesce(duration_s, 0) * 1e6)::bigint) as ended
    from trial
), gap as (
    select *, began - max(ended) over (
        order by began rows between unbounded preceding and 1 preceding) as before
    from span
)
select count(*) filter (status in ('ok', 'invalid')) as measured, count(*) as trials,
       max(ended) as ended,
       coalesce(sum(epoch(before)) filter (before > interval 10 minutes), 0.0) as paused_s
from gap
"""


@dataclass(frozen=True)
class RunOrigin:
    """Facts about a run. revisions: revisions of the code that began it and of the code that
    continued it; None if unknown. was_changed: there were uncommitted changes. ended: end of its
    last trial. paused: total time of pauses before it was resumed. measured: trials with a result,
    out of `trials`. finished: the run is complete."""

    started: datetime
    ended: datetime
    paused: timedelta
    finished: bool
    revisions: tuple[str | None, ...]
    was_changed: bool
    machine: str
    measured: int
    trials: int


@dataclass(frozen=True)
class CommittedState:
    """A result's committed state. parts: facts by folder within its own; "" for a run's bundle."""

    result: CommittedResult
    parts: dict[str, RunOrigin]

    @property
    def revisions(self) -> tuple[str | None, ...]:
        """Revisions of all parts, each once."""
        return tuple(dict.fromkeys(one for part in self.parts.values() for one in part.revisions))

    @property
    def measured(self) -> int:
        """Number of measured trials in all parts."""
        return sum(part.measured for part in self.parts.values())

    @property
    def started(self) -> datetime | None:
        """Start of its first part."""
        return min((part.started for part in self.parts.values()), default=None)

    @property
    def duration(self) -> timedelta:
        """Total duration of the parts, without pauses."""
        spans = (part.ended - part.started - part.paused for part in self.parts.values())
        return sum(spans, timedelta())

    @property
    def was_changed(self) -> bool:
        """True if a part was measured with uncommitted changes."""
        return any(part.was_changed for part in self.parts.values())

    @property
    def machine(self) -> str:
        """Machines of the parts, each once."""
        return "; ".join(dict.fromkeys(part.machine for part in self.parts.values()))


def facts(run: Path) -> RunOrigin:
    """Facts about a run, given as a folder or a bundle.

    Raises:
        VectrialError: it cannot be read.
    """
    with run_folder(run) as folder, RunReader(folder) as reader:
        record = reader.run()
        trials = reader.rows(_TRIALS)[0]
    environment = record["environment"]
    ends = [one for one in (record["finished_at"], trials["ended"]) if one is not None]
    return RunOrigin(
        record["started_at"],
        ends[0] if ends else record["started_at"],
        timedelta(seconds=trials["paused_s"]),
        record["finished_at"] is not None,
        (record["git_revision"], *environment.get("resumed_at_revisions", [])),
        bool((environment.get("git") or {}).get("dirty")),
        _machine(environment),
        trials["measured"],
        trials["trials"],
    )


def _machine(environment: dict[str, Any]) -> str:
    cpu, memory = environment.get("cpu") or {}, environment.get("memory") or {}
    parts = [
        str(cpu.get("model") or "unknown processor"),
        f"{cpu['logical']} cores" if cpu.get("logical") else "",
        "AVX-512" if "avx512f" in (cpu.get("flags") or ()) else "",
        formatting.size(memory["total_bytes"]) if memory.get("total_bytes") else "",
    ]
    return ", ".join(filter(None, parts))


def committed_state(result: CommittedResult, results: Path) -> CommittedState:
    """The committed state of a result.

    Raises:
        VectrialError: a bundle cannot be read.
    """
    return CommittedState(
        result, {name: facts(path) for name, path in bundles(results / result.name)}
    )


def bundles(folder: Path) -> list[tuple[str, Path]]:
    """The bundles of a result by part: in its folder, and in those of a reproduction's parts."""
    return [
        ("" if path.parent == folder else path.parent.name, path)
        for pattern in (f"*{SUFFIX}", f"*/*{SUFFIX}")
        for path in sorted(folder.glob(pattern))
    ]


def folders(results: Path) -> set[str]:
    """Names of the folders that hold a result: a bundle, or the bundles of a reproduction."""
    found = set()
    for path in results.rglob(f"*{SUFFIX}"):
        above = path.parent.parent
        own = above if (above / MANIFEST).is_file() else path.parent
        found.add(own.relative_to(results).as_posix())
    return found


def runs(folder: Path) -> dict[str, Path]:
    """The runs in a folder that `vectrial run` or `vectrial reproduce` wrote, by part. A link to
    the latest of them is none."""
    if (folder / DATABASE).is_file():
        return {"": folder}
    parts = (path.parent for path in sorted(folder.glob(f"*/{DATABASE}")))
    return {part.name: part for part in parts if not part.is_symlink()}
