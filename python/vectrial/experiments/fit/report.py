"""The section of `fit`: the least machine of each store, and every step of the search for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vectrial.analysis import fit as fitting
from vectrial.analysis.cost_basis import prices_of
from vectrial.analysis.fit import FitResult, FitStep, phase_of
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import (
    Block,
    Cell,
    Column,
    Row,
    Section,
    Source,
    Table,
    Text,
    absent_cell,
    plain_cell,
    times_cell,
    value_cell,
)
from vectrial.document.charts.theme import Looks
from vectrial.experiments.fit.metrics import OWN
from vectrial.model.lane import Lane
from vectrial.stats.intervals import LEAST_REPEATS
from vectrial.suite.model import Prices
from vectrial.util import formatting

_ANSWERS = (
    Column("store", "Store", numeric=False),
    Column("memory_bytes", "Memory", "B", "Least"),
    Column("process_bytes", "as a process", "B", "Least"),
    Column("store_bytes", "store alone", "B", "Least"),
    Column("of_raw", "of the vectors", "1", "Least"),
    Column("processors", "Processors", "1", "Least"),
    Column.for_metric("qps", group="There"),
    Column.for_metric("latency_p99", group="There"),
    Column("recall", "Recall", "1", "There", spread=True),
    Column.for_metric("errors", group="There", spread=False),
    Column.for_metric("ready_s", "Loaded in", group="There"),
    Column("setting", "Setting", group="There", numeric=False),
    Column.for_metric(OWN["empty_rss_bytes"], group="There"),
    Column.for_metric(OWN["client_bytes"], group="There"),
    Column("repeats", "Confirmed by", "1"),
)
_BELOW = (
    Column("store", "Store", numeric=False),
    Column("memory", "With less memory", numeric=False),
    Column("processors", "With fewer processors", numeric=False),
)
_STEPS = (
    Column("store", "Store", numeric=False),
    Column("step", "Step"),
    Column("purpose", "Purpose", numeric=False),
    Column("memory_bytes", "Memory", "B"),
    Column("processors", "Processors", "1"),
    Column("outcome", "Outcome", numeric=False),
    Column("why", "Why", numeric=False),
    Column.for_metric("ready_s", "Loaded in", spread=False),
    Column.for_metric("qps", spread=False),
    Column.for_metric("latency_p99", spread=False),
    Column("recall", "Recall", "1"),
    Column.for_metric("errors", spread=False),
    Column("peak_bytes", "Peak of the group", "B"),
)
_LEAD = (
    "The least memory, and at that memory the least processor time, at which a store loads every "
    "row, passes the gate, and answers within its limits. Both are limits of a control group: of "
    "the server; of a library, of the process that measures, with its client in it. Of the latter, "
    "*store alone* is what rows, index, load and searches take, and *as a process* what an "
    "application takes that holds nothing else. The memory counts the page cache of its files. "
    "Every step has a new server and a new load. The figures are those of the steps that confirmed "
    "the answer."
)
_APART = "a server's group holds nothing else"


def sections(run: RunData, points: Sequence[Point], looks: Looks | None) -> list[Section]:
    """Sections on the least machine of each store, what happens just below it, and every step."""
    return sections_of(run, fitting.fits(run), prices_of(run))


def sections_of(run: RunData, fits: Sequence[FitResult], prices: Prices | None) -> list[Section]:
    """The section of these stores; empty if there are none."""
    blocks: list[Block] = []
    for (dataset, rows, limits), members in _group_fits(fits).items():
        data = f"{dataset}, {formatting.rows(rows)}"
        slug = f"{dataset}-{rows}" + (f"-{len(blocks)}" if blocks else "")
        answers = [one for one in members if any(step.purpose for step in one.steps)]
        if answers:
            notes = tuple(_notes(run, answers, prices))
            table = tuple(_answer_row(run, one, prices) for one in answers)
            title = f"The least machine: {data}; {limits}"
            blocks.append(Table(f"fit-{slug}", title, _columns(prices), table, notes))
            below = tuple(_lower_row(run, one) for one in answers if one.confirmed)
            if below:
                blocks.append(Table(f"fit-below-{slug}", "Just below it", _BELOW, below))
        steps = tuple(_step_row(run, one, step) for one in members for step in one.steps)
        title = f"Every step: {data}; {limits}"
        blocks.append(Table(f"fit-steps-{slug}", title, _STEPS, steps, grouped_by=0))
    said = [f"{run.labels[one.series]}: {text}." for one in fits for text in one.contradictions]
    if said:
        blocks.append(Text(tuple(said), "Limits that held once and did not once", bullets=True))
    return [Section("fit", "The least machine", _LEAD, tuple(blocks))] if blocks else []


def _group_fits(fits: Sequence[FitResult]) -> dict[tuple[str, int, str], list[FitResult]]:
    """Results by data and requirements."""
    found: dict[tuple[str, int, str], list[FitResult]] = {}
    for one in fits:
        found.setdefault((one.dataset, one.rows, one.limits), []).append(one)
    return found


def _columns(prices: Prices | None) -> tuple[Column, ...]:
    if prices is None:
        return _ANSWERS
    return (*_ANSWERS, Column("month", f"Per month, {prices.currency}", prices.currency))


def _notes(run: RunData, fits: Sequence[FitResult], prices: Prices | None) -> Iterator[str]:
    few = [one for one in fits if 0 < len(one.confirmed) < LEAST_REPEATS]
    if few:
        who = formatting.list_in_words([run.labels[one.series] for one in few])
        yield f"Fewer than {LEAST_REPEATS} steps confirmed {who}: no interval."
    if prices is not None:
        yield (
            f"Prices of {prices.dated} ({prices.source}): {prices.vcpu_hour:g} per CPU and hour,"
            f" {prices.gib_hour:g} per GiB of memory and hour. The disk is not in them."
        )


def _answer_row(run: RunData, fit: FitResult, prices: Prices | None) -> Row:
    if fit.memory_bytes is None or fit.cpus is None:
        columns = len(_columns(prices))
        cells = [plain_cell(run.labels[fit.series]), *[absent_cell(fit.reason)] * (columns - 1)]
        return Row(tuple(cells), "invalid", fit.series)
    store = fit.memory_bytes if fit.store_bytes is None else fit.store_bytes
    cells = [
        plain_cell(run.labels[fit.series]),
        plain_cell(
            fit.memory_bytes, formatting.size(fit.memory_bytes), _bound_note(fit.below_memory)
        ),
        _part(fit, fit.process_bytes),
        _part(fit, fit.store_bytes),
        times_cell(store / fit.raw_bytes),
        plain_cell(fit.cpus, f"{fit.cpus:g}", _bound_note(fit.below_cpus)),
        _spread(fit, "qps", "1/s"),
        _spread(fit, "latency_p99", "us"),
        _spread(fit, "recall_mean", "1"),
        _errors(fit),
        _spread(fit, "ready_s", "s"),
        plain_cell(formatting.params(fit.setting) if fit.setting else formatting.NOTHING),
        _spread(fit, "empty_rss_bytes", "B"),
        _client(fit),
        plain_cell(len(fit.confirmed)),
    ]
    if prices is not None:
        month = fit.per_month(prices)
        cells.append(plain_cell(month, formatting.NOTHING if month is None else f"{month:,.2f}"))
    return Row(tuple(cells), series=fit.series)


def _bound_note(below: FitStep | None) -> str:
    """A footnote if no lower limit failed, otherwise empty."""
    return "" if below is not None else "at most: no lower limit failed"


def _spread(fit: FitResult, metric: str, unit: str) -> Cell:
    spread = fit.spread(metric)
    if spread is None:
        return absent_cell("not known in every step that confirmed")
    show = formatting.recall if formatting.is_recall(metric) else None
    return value_cell(spread, unit, show=show)


def _part(one: FitResult, value: float | None) -> Cell:
    """A part of the least memory of a library."""
    if value is not None:
        return plain_cell(value, formatting.size(int(value)))
    embedded = one.series.lane == Lane.EMBEDDED
    return absent_cell("not measured in this run" if embedded else _APART)


def _client(one: FitResult) -> Cell:
    spread = one.spread("client_bytes")
    return _part(one, None) if spread is None else value_cell(spread, "B")


def _errors(fit: FitResult) -> Cell:
    total = int(sum(step.figure("errors") or 0.0 for step in fit.confirmed))
    return plain_cell(total, f"{total:,}")


def _lower_row(run: RunData, fit: FitResult) -> Row:
    memory, cpus = fit.below_memory, fit.below_cpus
    cells = (
        plain_cell(run.labels[fit.series]),
        _failure_cell(memory, "" if memory is None else formatting.size(memory.memory_bytes)),
        _failure_cell(cpus, "" if cpus is None else fitting.processors(cpus.cpus)),
    )
    return Row(cells, series=fit.series)


def _failure_cell(step: FitStep | None, limit: str) -> Cell:
    if step is None:
        return absent_cell("no lower limit failed")
    return plain_cell(f"{limit}: {step.verdict}")


def _step_row(run: RunData, fit: FitResult, step: FitStep) -> Row:
    peak = step.peak_bytes
    cells = (
        plain_cell(run.labels[fit.series]),
        plain_cell(step.number),
        plain_cell(step.purpose or formatting.NOTHING),
        plain_cell(step.memory_bytes, formatting.size(step.memory_bytes)),
        plain_cell(step.cpus, f"{step.cpus:g}"),
        plain_cell(str(step.verdict.outcome)),
        plain_cell(step.verdict.why or formatting.NOTHING),
        _figure(step, "ready_s", "s"),
        _figure(step, "qps", "1/s"),
        _figure(step, "latency_p99", "us"),
        _figure(step, "recall_mean", "1"),
        _figure(step, "errors", "1"),
        plain_cell(peak, formatting.NOTHING if peak is None else formatting.size(peak)),
    )
    return Row(cells, series=fit.series)


def _figure(step: FitStep, metric: str, unit: str) -> Cell:
    for name in ("search", "load"):
        phase = phase_of(step.trial, name)
        value = None if phase is None else phase.value(metric)
        if phase is not None and value is not None:
            shown = formatting.figure(metric, value, unit)
            source = Source((phase.phase_id,), metric)
            return Cell(shown, value, source=source)
    return Cell(formatting.NOTHING)
