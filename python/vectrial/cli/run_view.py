"""Views of a run: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live as Screen
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from vectrial.cli.output import say
from vectrial.model.phase import Live, Phase, Role
from vectrial.plan.estimate import Pace
from vectrial.plan.model import Job, Plan, PlannedTrial
from vectrial.results.writer import TrialRecord
from vectrial.run.plan_summary import about_time, summarize
from vectrial.run.runner import RunTimeLimit
from vectrial.util.formatting import is_recall, recall
from vectrial.worker import messages

#: Seconds between two lines about the same work, without a terminal.
LINE_EVERY_S = 10.0


def make_view(
    plan: Plan,
    console: Console,
    before: int = 0,
    time_limit: RunTimeLimit | None = None,
    *,
    known_lines: set[str] | None = None,
    slowdown: float = 1.0,
) -> PlainView:
    """The live view if stderr is a terminal, otherwise plain lines.

    before: number of trials that an earlier process has measured. time_limit: the time of the run.
        known_lines: notes that were already printed and are not repeated; with it, jobs and trials
        have no lines. slowdown: how many times as long work takes on the machine as it is.
    """
    kind = LiveView if console.is_terminal else PlainView
    return kind(plan, console, before, time_limit, known_lines=known_lines, slowdown=slowdown)


@dataclass(eq=False)
class PlainView:
    """One line per job and trial. Fields: see `make_view`."""

    plan: Plan
    console: Console
    before: int = 0
    time_limit: RunTimeLimit | None = None
    known_lines: set[str] | None = field(default=None, kw_only=True)
    slowdown: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        plan = self.plan
        self._of = len(plan.trials) + len(plan.refusals)  # refused ones end at once, as skipped
        self._done = self.before
        self._last = ("", 0.0)
        expected = plan.busy_estimate_s(self.slowdown) / plan.estimate_s if plan.jobs else 1.0
        self._pace = Pace(plan.estimate_s, expected)
        self._shown: float | None = None
        self._skipped: tuple[str, str | None] | None = None
        self._repeated = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        pass

    def fetching(self, done: float, of: float, what: str) -> None:
        """Print a line when the work changes, and every ten seconds."""
        now = time.monotonic()
        if what != self._last[0] or now - self._last[1] > LINE_EVERY_S:
            self._last = (what, now)
            share = f" {done / of:.0%}" if of else ""
            self._line(f"{what}{share}")

    def job(self, job: Job, number: int, of: int) -> None:
        """Print a line with the remaining time of the run."""
        seconds = self._remaining_s(job)
        if self.known_lines is None:
            self._line(f"[{number}/{of}] {job.label} (about {about_time(seconds)} left)")

    def _remaining_s(self, job: Job) -> float:
        """Remaining seconds of the run when a job begins."""
        seconds = self._pace.record_begin(job.estimate_s, time.monotonic())
        return seconds if self.time_limit is None else min(seconds, self.time_limit.remaining_s)

    def started(self, trial: PlannedTrial) -> None:
        self._shown = None

    def progress(self, progress: messages.Progress) -> None:
        """Print nothing."""

    def live(self, live: Live) -> None:
        """Print a line every ten seconds, so that short phases have none."""
        now = time.monotonic()
        if self._shown is None:
            self._shown = now
        elif now - self._shown >= LINE_EVERY_S:
            self._shown = now
            self._line(f"    {phase_line(live)}")

    def finished(self, record: TrialRecord) -> None:
        """Print a line per trial, and two for a store whose trials are skipped for one reason."""
        self._done += 1
        if self.known_lines is not None:
            return
        skipped = (record.row.store, record.reason) if record.status == "skipped" else None
        if skipped is None or skipped != self._skipped:
            self._line(f"  {describe(record)}")
        elif not self._repeated:
            self._line(f"  {record.row.store}: so are its other trials, for the same reason")
        self._repeated = skipped is not None and skipped == self._skipped
        self._skipped = skipped

    def note(self, text: str) -> None:
        if self.known_lines is not None:
            if text in self.known_lines:
                return
            self.known_lines.add(text)
        self._line(text)

    def _line(self, text: str) -> None:
        say(self.console, text)


class _RemainingTime(ProgressColumn):
    """The remaining time until `ends`, a reading of the monotonic clock; empty if the task has
    none."""

    def render(self, task: Task) -> Text:
        ends: float | None = task.fields.get("ends")
        left = "" if ends is None else f"{about_time(max(0.0, ends - time.monotonic()))} left"
        return Text(left, style="progress.remaining")


class LiveView(PlainView):
    """A bar over all trials, one for the current work, and finished trials scrolling above."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._whole = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            _RemainingTime(),
            console=self.console,
        )
        self._part = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%")
        )
        self._trials = self._whole.add_task("trials", total=self._of, completed=self.before)
        self._now = self._part.add_task("preparing", total=None)
        self._label = "preparing"
        self._figures = Text(style="dim", no_wrap=True, overflow="ellipsis")
        self._live = Screen(
            Group(self._part, self._figures, self._whole),
            console=self.console,
            refresh_per_second=4,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def fetching(self, done: float, of: float, what: str) -> None:
        self._part.update(self._now, description=what, completed=done, total=of or None)

    def job(self, job: Job, number: int, of: int) -> None:
        self._label = job.label
        super().job(job, number, of)

    def _remaining_s(self, job: Job) -> float:
        seconds = super()._remaining_s(job)
        self._whole.update(self._trials, ends=time.monotonic() + seconds)
        return seconds

    def started(self, trial: PlannedTrial) -> None:
        self._figures.plain = ""
        description = f"{self._label}: {trial.row.experiment}"
        self._part.update(self._now, description=description, completed=0, total=None)

    def progress(self, progress: messages.Progress) -> None:
        description = f"{self._label}: {progress.what}"
        self._part.update(
            self._now, description=description, completed=progress.done, total=progress.total
        )

    def live(self, live: Live) -> None:
        self._figures.plain = f"  {phase_line(live)}"

    def finished(self, record: TrialRecord) -> None:
        self._figures.plain = ""
        super().finished(record)
        self._whole.update(self._trials, completed=self._done)


def phase_line(live: Live) -> str:
    """One line about a running phase: load, latency, recall, errors, client."""
    rate = f"{live.achieved:,.0f} QPS"
    if live.offered is not None:
        rate = f"offered {live.offered:,.0f}/s, achieved {live.achieved:,.0f}/s"
    parts = [rate]
    for name, us in (("p50", live.p50_us), ("p99", live.p99_us)):
        if us is not None:
            parts.append(f"{name} {us:,.0f} µs")
    if live.recall is not None:
        parts.append(f"recall {live.recall:.3f}")
    parts += [f"errors {live.errors:,}", f"client {live.client_share:.0%}"]
    if live.server_cores is not None:
        parts.append(f"server {live.server_cores:.1f} cores")
    if live.remaining_s is not None:
        parts.append(f"{live.remaining_s:.0f} s of this load left")
    return ", ".join(parts)


def describe(record: TrialRecord) -> str:
    """One line about a trial: its point, and its first metrics or the reason why it has none."""
    row = record.row
    plain = {"k": row.params.get("k"), "returns": "ids"}
    point = ", ".join(f"{k}={v}" for k, v in row.params.items() if plain.get(k) != v)
    lane = "" if row.lane == "embedded" else f" {row.lane}"
    head = f"{row.store}{lane} {row.experiment}" + (f" ({point})" if point else "")
    if record.status in ("failed", "skipped"):
        return f"{head}: {record.status}: {record.reason}"
    fault = _fault(record)
    return f"{head}: {'  '.join(filter(None, (_figures(record), fault))) or 'done'}"


def _fault(record: TrialRecord) -> str:
    """The reason why a trial or some of its phases are invalid; empty if there is none. For a
    capacity only the result counts, since the search needs rates that fail."""
    if record.status == "invalid":
        return f"INVALID: {record.reason}"
    phases = _results(record) or record.phases
    invalid = [phase for phase in phases if not phase.valid]
    if not invalid:
        return ""
    first = invalid[0]
    if len(phases) == 1:
        return f"INVALID: {first.reason}"
    return f"INVALID ({len(invalid)} of {len(phases)} phases): {first.name}: {first.reason}"


_SHOWN = (
    ("sustained_qps", "sustains {:,.0f} QPS"),
    ("recall_mean", "recall {}"),
    ("qps", "{:,.0f} QPS"),
    ("latency_p50", "p50 {:,.0f} µs"),
    ("latency_p99", "p99 {:,.0f} µs"),
    ("rows_per_s", "{:,.0f} rows/s"),
    ("ready_s", "ready after {:.1f} s"),
    ("disk_ratio", "disk ×{:.2f}"),
    ("rss_ratio", "memory ×{:.2f}"),
)


def _figures(record: TrialRecord) -> str:
    if all(phase.role == Role.OPERATION for phase in record.phases):
        parts = []
        for phase in record.phases:
            p50 = phase.metrics.get("latency_p50")
            parts.append(f"{phase.name} {p50:,.0f} µs" if p50 is not None else f"{phase.name} –")
        return ", ".join(parts)
    parts = []
    for name, form in _SHOWN:
        for phase in _results(record) or record.phases:
            value = phase.metrics.get(name)
            if value is not None:
                parts.append(form.format(recall(value) if is_recall(name) else value))
                break
    return ", ".join(parts)


def _results(record: TrialRecord) -> list[Phase]:
    """The result phase of a capacity; empty for other experiments."""
    return [phase for phase in record.phases if "sustained_qps" in phase.metrics]


def dry_run_table(plan: Plan, slowdown: float = 1.0) -> RenderableType:
    """The plan: one row per store, index and number of rows, then the skipped trials.

    slowdown: how many times as long work takes on the machine as it is.
    """
    summary = summarize(plan, slowdown)
    table = Table(box=SIMPLE_HEAD, title=summary.title, caption=summary.estimate)
    for name in ("store", "index", "dataset", "rows"):
        table.add_column(name, overflow="fold", justify="right" if name == "rows" else "left")
    table.add_column(summary.trials_title)
    table.add_column("time", justify="right", no_wrap=True)
    for load in summary.loads:
        seconds = f"{load.estimate_s:,.0f} s"
        table.add_row(load.store, load.index, load.dataset, f"{load.rows:,}", load.trials, seconds)
    servers = [Text(f"  {line}") for line in summary.servers]
    skipped = [Text(f"  skipped: {what}: {reason}") for what, reason in summary.skipped]
    return Group(table, *servers, *skipped)


def plan_objects(plan: Plan, shared: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """One JSON object per trial, in the order of measuring, then one per skipped trial.

    shared: leading keys of every object.
    """
    planned = [
        ("trial", trial.row, seconds, None)
        for job in plan.jobs
        for trial, seconds in zip(job.trials, job.estimates_s, strict=True)
    ]
    refused = [("skipped", refusal.row, None, refusal.reason) for refusal in plan.refusals]
    for kind, row, estimate_s, reason in [*planned, *refused]:
        yield {
            **(shared or {}),
            "kind": kind,
            "store": row.store,
            "index": row.index_kind,
            "index_params": dict(row.index_params),
            "lane": row.lane,
            "dataset": row.dataset,
            "rows": row.rows,
            "experiment": row.experiment,
            "params": dict(row.params),
            "repeat": row.repeat,
            "key": row.key,
            "estimate_s": estimate_s,
            "reason": reason,
        }
