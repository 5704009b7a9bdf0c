"""Notes on the cells of a reproduction, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vectrial.analysis.audit import phase_contradictions
from vectrial.analysis.run_data import Point, RunData
from vectrial.util import formatting
from vectrial_reproduce.reports.model import Measure
from vectrial_reproduce.reports.published import PublishedFigure

#: A figure of fewer answers has a note.
_FEW = 30


def point_notes(point: Point, metric: str, run: RunData) -> Iterator[str]:
    """Notes of the run on a point: the reason if it is invalid; then faults of valid repeats, and a
    small number of answers."""
    if point.state != "ok" or point.reason:
        yield point.reason or point.state
    for phase in point.phases:
        yield from phase_contradictions(phase, run.histograms.get(phase.phase_id))
    said = [phase.reason for phase in point.phases if phase.valid and phase.reason]
    yield from said
    of_answers = metric == "qps" or metric.startswith(("latency_", "recall_"))
    count = point.value("count") if of_answers and not said else None
    if count is not None and count < _FEW:
        yield formatting.plural(round(count), "sample")


def measure_notes(point: Point, measure: Measure, *, by_their_method: bool) -> Iterator[str]:
    """Notes on every use of a comparison. by_their_method: without the note on our method."""
    recall = point.value("recall_mean") if measure.recall else None
    if recall is not None:
        yield f"recall here: {formatting.recall(recall)}"
    agreement = point.value("fusion_agreement") if measure.recall else None
    if agreement is not None:
        yield f"agreement with an exact fusion here: {formatting.recall(agreement)}"
    if not by_their_method:
        yield from sentences(measure.note)
    for value, said in measure.chosen.items():
        if value in [point.params.get(name) for name in measure.where]:
            yield from sentences(said)


def other_load_notes(
    points: Sequence[Point], metric: str, factor: float, unit: str
) -> Iterator[str]:
    """Notes with the values of the same points on other loads of a run. factor: converts to
    `unit`."""
    for point in points:
        if spread := point.spread(metric):
            shown = formatting.number(spread.median * factor)
            yield f"on another load of the same run: {shown} {unit}"


def published_notes(figure: PublishedFigure) -> Iterator[str]:
    """Notes on a published figure."""
    return (f"as published: {said}" for said in sentences(figure.note))


def sentences(text: str) -> list[str]:
    """The footnotes in a note, which "; " separates."""
    return [part for part in text.split("; ") if part]


def distinct_notes(*notes: str) -> tuple[str, ...]:
    """The non-empty notes, each once."""
    return tuple(dict.fromkeys(part for part in notes if part))
