"""Progress of a run, in a small file of its folder, since only the writer can open its database.

The file is replaced atomically, so that readers always see a complete one: at most once a second
while a trial is measured, so as not to disturb it, and immediately when a job begins, a trial ends
or there is something to note.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vectrial.results.folder import replace_text

STATUS = "progress.json"


class Status(BaseModel):
    """Status of a run under way.

    pid: id of the process that writes the run. began, updated: seconds since 1970.
    trials: number in the whole plan, including skipped ones; done: number of finished ones,
        including those before a resume; counts: trials of this process by status.
    job: the number of the job that is loaded now, out of `jobs`. what: the work under way;
        part_done of part_of are done (0 of 0: unknown).
    live: the last second of a long phase. recent: the last lines about trials, the newest last.
    ended: the process has left the run, finished or not.
    """

    model_config = ConfigDict(frozen=True)

    pid: int
    began: float
    updated: float
    trials: int
    done: int = 0
    counts: Mapping[str, int] = Field(default_factory=dict)
    job: str = ""
    number: int = 0
    jobs: int = 0
    what: str = ""
    part_done: float = 0.0
    part_of: float = 0.0
    live: str = ""
    recent: tuple[str, ...] = ()
    ended: bool = False


def write_status(folder: Path, status: Status) -> None:
    """Replace the status of the run in `folder`."""
    replace_text(folder / STATUS, status.model_dump_json())


def read_status(folder: Path) -> Status | None:
    """The status in a run's folder; None if there is no readable one."""
    try:
        return Status.model_validate_json((folder / STATUS).read_bytes())
    except (OSError, ValidationError):
        return None
