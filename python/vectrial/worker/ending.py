"""The end of a trial: measured, invalid, or failed, and whose fault that is.

At its time limit, a signal from the parent ends the trial at once; the phases measured so far are
kept.

A store is wrong only if it gave a wrong answer. If the machine lacks something (disk space, file
handles, memory, local ports), the trial fails, and `--resume` measures it again.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager

from vectrial.gate import GateResult
from vectrial.model.results_schema import MetricName, metrics_with
from vectrial.model.trial import MACHINE_LACKED, Scope
from vectrial.worker.messages import Finished

#: Things that the machine may lack, and the messages of the system and libraries for them.
_LACKS = {
    "room on a disk": (
        "No space left on device",
        "Disk quota exceeded",
        "database or disk is full",
        "flood-stage watermark",
        "MISCONF",
    ),
    "a disk that can be written": ("Read-only file system", "Input/output error"),
    "file handles": ("Too many open files",),
    "local ports": ("Cannot assign requested address", "Address already in use"),
    "memory": ("Cannot allocate memory", "MemoryError"),
    "threads or processes": ("can't start new thread", "BlockingIOError"),
}
_SAID = {what: re.compile("|".join(map(re.escape, said))) for what, said in _LACKS.items()}
#: Resources that a suite can take from a store on purpose: it fills and cuts off a separate disk,
#: and limits memory.
DISK, MEMORY = frozenset({"room on a disk", "a disk that can be written"}), frozenset({"memory"})


def log_error(error: Exception) -> str:
    """Write the traceback of an error to stderr, which is the job's log: whoever writes an
    experiment or a store looks for the line there. Returns the error as the reason of a trial."""
    traceback.print_exception(error, file=sys.stderr)
    return f"{type(error).__name__}: {error}"


def drop_undeclared(out: Finished, own_metrics: Sequence[MetricName]) -> None:
    """Remove the metrics that neither the results' schema nor the experiment (own) declares, so
    that the others can be written. The trial has failed."""
    known, undeclared = metrics_with(own_metrics), set[str]()
    for phase in out.phases:
        for values in (phase.metrics, phase.missing):
            undeclared |= (names := values.keys() - known.keys())
            for name in names:
                del values[name]
    if undeclared and out.status != "failed":
        out.status = "failed"
        out.reason = (
            f"undeclared metric {', '.join(sorted(undeclared))}: declare it in the experiment's"
            " `metrics`, or in vectrial.model.results_schema"
        )


def judge(
    out: Finished,
    results: Sequence[GateResult],
    scopes: Container[Scope],
    taken: Container[str] = (),
) -> None:
    """Set the status of a trial: invalid if it depends on a check of the gate that failed, failed
    if a check raised an error or the machine lacked something.

    Args:
        results: the gate's results on the trial's load.
        scopes: what the trial's figures depend on.
        taken: resources (`DISK`, `MEMORY`) that the suite itself takes from the store.
    """
    out.gate = [result.row(scopes) for result in results]
    relevant = [one for one, row in zip(results, out.gate, strict=True) if row.relevant]
    if out.status == "ok":
        wrong = [one for one in relevant if one.passed is False]
        raised = [one for one in relevant if one.raised]
        if wrong:
            out.status = "invalid"
            out.reason = "gate failed: " + "; ".join(f"{r.name}: {r.detail}" for r in wrong)
        elif raised:
            out.status, out.reason = "failed", f"gate: {raised[0].name}: {raised[0].detail}"
    if out.overdue:
        return
    for said in _error_messages(out, relevant):
        what = next((what for what, text in _SAID.items() if text.search(said)), None)
        if what is not None and what not in taken:
            out.status = "failed"
            out.reason = f"{MACHINE_LACKED} {what}, which is no fault of the store: {said}"
            return


def _error_messages(out: Finished, relevant: Sequence[GateResult]) -> Iterator[str]:
    """Messages of errors: in the trial's reason, from checks, and in answers."""
    if out.status == "failed" and out.reason is not None:
        yield out.reason
    for result in relevant:
        if result.raised or result.passed is False:
            yield f"gate: {result.name}: {result.detail}"
    for phase in out.phases:
        for kind, count, messages in phase.errors:
            yield f"{phase.name}: {count:,} × {kind}" + (f": {messages[0]}" if messages else "")


class TrialTimeUp(KeyboardInterrupt):
    """The trial has reached its time limit. Like Ctrl-C this is nobody's error: no client retries,
    and no sample records it."""


class BlockTimer:
    """Lets a signal end a block of the main thread, once."""

    def __init__(self, is_sending: Callable[[], bool]) -> None:
        """is_sending: true while the block must not end; the parent repeats its signal."""
        self._is_sending = is_sending
        self._open = False

    @contextmanager
    def block(self) -> Iterator[None]:
        """A context that the signal ends with `TrialTimeUp`."""
        self._open = True
        try:
            yield
        finally:
            self._open = False

    def handle_signal(self, *_: object) -> None:
        """Handle the signal."""
        if self._open and not self._is_sending():
            self._open = False
            raise TrialTimeUp
