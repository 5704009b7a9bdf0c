"""The list of committed results as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from vectrial.document.blocks import Column, Report, Row, Section, Table, plain_cell
from vectrial.util import formatting
from vectrial_reproduce.reports.results import code
from vectrial_reproduce.reports.results.sealed import CommittedState

_COLUMNS = (
    Column("result", "Result", numeric=False),
    Column("revision", "Revision", numeric=False),
    Column("behind", "Commits since"),
    Column("measured", "Measured", numeric=False),
    Column("took", "Took"),
    Column("trials", "Trials"),
    Column("machine", "Machine", numeric=False),
    Column("command", "Command", numeric=False),
)
_NOTES = (
    "Commits since: those after that revision that touch what measures, not what reads runs.",
    "Took: from start to end, pauses of a run that was resumed included.",
    "* measured with changes that no commit holds.",
)


def page(states: Sequence[CommittedState]) -> Report:
    """Page with a row for each result."""
    table = Table("results", "", _COLUMNS, tuple(_row(one) for one in states), _NOTES)
    return Report("Committed results", "", sections=(Section("results", "", "", (table,)),))


def _row(state: CommittedState) -> Row:
    about = as_object(state)
    if state.started is None:
        cells = ["", "", "not yet", "", "", ""]
        words = [plain_cell(text) for text in (about["result"], *cells, about["command"])]
        return Row(tuple(words), "absent")
    revisions = ", ".join((one or "unknown")[:10] for one in about["revisions"])
    return Row(
        (
            plain_cell(about["result"]),
            plain_cell(revisions + ("*" if about["changed"] else "")),
            plain_cell(
                about["behind"], "unknown" if about["behind"] is None else str(about["behind"])
            ),
            plain_cell(about["measured"], f"{state.started:%Y-%m-%d %H:%M} UTC"),
            plain_cell(about["took_s"], formatting.seconds(about["took_s"])),
            plain_cell(about["trials"], f"{about['trials']:,}"),
            plain_cell(about["machine"]),
            plain_cell(about["command"]),
        )
    )


def as_object(state: CommittedState) -> dict[str, Any]:
    """A row as an object. behind: None if unknown, or if nothing is measured."""
    return {
        "result": state.result.name,
        "command": " ".join(("vectrial", *state.result.words)),
        "needs": state.result.needs,
        "revisions": list(state.revisions),
        "changed": state.was_changed,
        "behind": commits_behind(state),
        "measured": None if state.started is None else state.started.isoformat(),
        "took_s": state.duration.total_seconds() if state.parts else None,
        "trials": state.measured,
        "machine": state.machine,
    }


def commits_behind(state: CommittedState) -> int | None:
    """Commits since the result was measured; see `vectrial_reproduce.reports.results.code`."""
    return code.commits_since(state.result, state.revisions) if state.parts else None


def is_stale(state: CommittedState, older: int = 0) -> bool:
    """True if the result is missing, or of an unknown revision, or over `older` commits old."""
    count = commits_behind(state)
    return count is None or count > older


def objects(states: Sequence[CommittedState]) -> Iterator[dict[str, Any]]:
    """Each result as an object."""
    return map(as_object, states)
