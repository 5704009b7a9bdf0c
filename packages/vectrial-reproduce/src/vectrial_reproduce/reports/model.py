"""The description of a published report, so that it can be measured again.

A report is data: which systems it named, on which datasets, asking which of our experiments; where
in the results each of its published metrics is found; and what its method did that ours does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal

Scalar = bool | int | float | str


@dataclass(frozen=True)
class Arm:
    """A system of the report, and the store and index here that stand for it.

    published: its name in the report. params: build parameters; a list is a grid. faithful: those
        where the report's own method is repeated; None: the same.
    note: what differs between the two, for all figures. of: published metric → what differs in it
        alone; of_ours: where its own method is not repeated; of_filtered: of all figures but those
        of searches without a filter.
    grows: published metrics that are linear in the rows here, where they are not elsewhere; `of`
        says why. unlike: published metric → why there is no ratio where other numbers of rows were
        loaded; unlike_ours: where its own method is not repeated.
    here: what it is, in a few words, where the store is not that system as the report had it; it
        stands beside the system's name in every table and figure.
    lacks: what the report's system had and this one does without, such as a network, so that its
        times are not compared with those of other systems.
    through: the client by which this arm calls the system, as the report did; another arm is the
        same system by its own client or on the wire, where this is empty.
    nodes: of the cluster that stands for it. given: published parameters of its figures, where the
        report calls several systems by one name.
    """

    published: str
    store: str
    index: str
    params: Mapping[str, Scalar | list[Scalar]] = field(default_factory=dict)
    note: str = ""
    grows: tuple[str, ...] = ()
    of: Mapping[str, str] = field(default_factory=dict)
    of_ours: Mapping[str, str] = field(default_factory=dict)
    of_filtered: Mapping[str, str] = field(default_factory=dict)
    here: str = ""
    lacks: str = ""
    through: str = ""
    faithful: Mapping[str, Scalar | list[Scalar]] | None = None
    nodes: int = 1
    given: Mapping[str, Scalar] = field(default_factory=dict)
    unlike: Mapping[str, str] = field(default_factory=dict)
    unlike_ours: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ask:
    """One of our experiments with its settings.

    sizes: a setting that is a list of published numbers of rows, which are scaled.
    faithful: settings that replace these where the report's own method is repeated. faithful_of:
        store → settings that replace those for it alone.
    once: of a grid of build parameters only the first is asked, since nothing depends on them.
    """

    experiment: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    faithful: Mapping[str, Any] = field(default_factory=dict)
    faithful_of: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    once: bool = False

    def settings_for(self, store: str, *, faithful: bool) -> dict[str, Any]:
        """The settings of an experiment, without the sizes."""
        if not faithful:
            return dict(self.settings)
        return {**self.settings, **self.faithful, **self.faithful_of.get(store, {})}


@dataclass(frozen=True)
class Measure:
    """Mapping of a published metric to our results.

    covers: parts of the report (`Figure.experiment`) and their metric that this is for.
    given: published parameters that must hold.
    experiment, phase, metric: ours. minus: metrics of ours to subtract.
    faithful: our metric where the report's method is repeated; nothing is subtracted then.
    faithful_phase: our phase then, of stores that have it: where the client reads every row; of
        those that are asked for it by that name, no other.
    where: parameters of ours that must hold; of a tuple the first that was measured.
    same_load: parameters of ours; of several points that of the trial in which these were measured
        as well, and so on the same load.
    per_row: reason why the value is linear in the rows, so that the ratio is that of the values
        per row; a rate falls so. of_graphs: reason why it is not where the index is a graph: there
        is no ratio then unless as many rows were loaded.
    scans: it is linear where the index compares with every row.
    unlike: reason why the two figures cannot be divided: there is no ratio.
    recall: that of the same answers is shown beside it, or their agreement with an exact fusion.
    note: what to know about the comparison. fewer: and where fewer rows were loaded. chosen: value
        that `where` found → what to know of that one. In all of them "; " parts footnotes.
    absent: why a store may have nothing to compare; faithful_absent: why it may not have the
        `faithful_phase`.
    """

    covers: tuple[str, str]
    experiment: str
    phase: str
    metric: str
    given: Mapping[str, Scalar] = field(default_factory=dict)
    minus: tuple[str, ...] = ()
    faithful: str = ""
    faithful_phase: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    same_load: Mapping[str, Any] = field(default_factory=dict)
    per_row: str = ""
    of_graphs: str = ""
    scans: bool = False
    unlike: str = ""
    recall: bool = False
    note: str = ""
    fewer: str = ""
    chosen: Mapping[Scalar, str] = field(default_factory=dict)
    absent: str = ""
    faithful_absent: str = ""


@dataclass(frozen=True)
class Part:
    """Everything measured on one dataset with one k: one suite.

    dataset: as the figures call it. only: other published parameters of this part's figures.
    sources: names of datasets here, best first; the last can be made without the network.
        `{rows}` becomes the number of rows.
    rows, queries: at scale 1. least, least_queries: below which nothing is scaled; fewer queries
        say little of a tail.
    metadata: whether the columns of the dataset are loaded, as the report did.
    instead_of: a store; the part is measured only where that one cannot run, in its place.
    """

    name: str
    title: str
    dataset: str
    sources: tuple[str, ...]
    rows: int
    queries: int
    k: int
    arms: tuple[Arm, ...]
    asks: tuple[Ask, ...]
    measures: tuple[Measure, ...]
    only: Mapping[str, Scalar] = field(default_factory=dict)
    batch_rows: int = 1000
    least: int = 1000
    least_queries: int = 500
    metadata: bool = True
    instead_of: str = ""

    def size(self, published: int, rows: int) -> int:
        """A published number of rows where `rows` are loaded instead of all: itself where it fits,
        all that are loaded where only smaller ones do; its share where none of the part does."""
        sizes = [size for ask in self.asks for own in ask.sizes.values() for size in own]
        if min(sizes, default=published) <= rows:
            return min(published, rows)
        floor = min(rows, max(200, 2 * self.k))
        return max(floor, min(rows, round(published * rows / self.rows)))

    def substitute(self, store: str, arm: Arm, suffix: str, title: str) -> Part:
        """The same part measured by `arm` alone, only where `store` cannot run.

        suffix, title: added to the part's own name and title.
        """
        return replace(
            self,
            name=f"{self.name}-{suffix}",
            title=f"{self.title}: {title}",
            arms=(arm,),
            instead_of=store,
        )


@dataclass(frozen=True)
class Note:
    """A difference of method. faithful: what `--faithful` does about it: that it repeats theirs,
    or that it does not and why."""

    about: str
    theirs: str
    ours: str
    faithful: str = ""


@dataclass(frozen=True)
class DrawnSeries:
    """Source of a drawing's measured series, if not the cells: points of a part's run.

    x, metric: metrics of ours, or "rows" for x; times: what the metric is multiplied by.
    moments: the phase whose metrics are moments along x, of `report.charts.moments.MOMENTS`; empty
        where there is none.
    """

    part: str
    experiment: str
    phase: str
    x: str
    metric: str
    times: float = 1.0
    moments: str = ""


@dataclass(frozen=True)
class Drawing:
    """A figure of the report, drawn again.

    source: which figure of the report, or of what it is drawn where the report has none.
    about: the part of the report (`published.Figure.experiment`) that it belongs to.
    kind: "line" over one number; "bar" for each value of x; "share" of each metric in their sum;
        "tradeoff" of the first metric (x) against the second, a line over one number.
    x: published parameters. x_title, y_title: of the axes, with units.
    metrics: published ones; one, or all those that have a share. given, stores: which of them.
    split: a parameter that parts a system's figures into series of their own, named by `names`.
    logs: of "x", "y", those that are logarithmic.
    unit: that times are brought to; empty leaves them as published.
    times: dataset → what its values are multiplied by. per_row: values are divided by the rows
        (after `times`, and then times 1000). rate: values are times, and drawn as how many of them
        fit a second. limit: a value that the report draws a line at.
    names: how values of parameters are called. derived: how values follow from the published
        ones. note: what to know. curve: where the measured series is, if not in the cells.
    """

    name: str
    title: str
    source: str
    about: str
    kind: Literal["line", "bar", "share", "tradeoff"]
    x: tuple[str, ...]
    x_title: str
    y_title: str
    metrics: tuple[str, ...] = ()
    given: Mapping[str, Scalar] = field(default_factory=dict)
    stores: tuple[str, ...] = ()
    split: str = ""
    logs: str = ""
    unit: str = ""
    times: Mapping[str, float] = field(default_factory=dict)
    per_row: bool = False
    rate: bool = False
    limit: float | None = None
    names: Mapping[Scalar, str] = field(default_factory=dict)
    derived: str = ""
    note: str = ""
    curve: DrawnSeries | None = None


@dataclass(frozen=True)
class ClaimSide:
    """One side of a claim's pairs: the figures of a part of the report (`Figure.experiment`) with
    these published parameters, of which a tuple is any of its values. stores: of these systems
    alone; empty: of the same on both sides. metric: in place of the claim's."""

    part: str
    given: Mapping[str, Scalar | tuple[Scalar, ...]] = field(default_factory=dict)
    stores: tuple[str, ...] = ()
    metric: str = ""

    def has(self, params: Mapping[str, Scalar]) -> bool:
        """True if parameters of a figure are those of this side."""
        return all(
            params.get(name) in (value if isinstance(value, tuple) else (value,))
            for name, value in self.given.items()
        )


@dataclass(frozen=True)
class RunReading:
    """One value in a committed run, for a conclusion that no published figure has.

    result: the folder of its bundle below docs/results. where: parameters of ours that must hold.
    """

    result: str
    store: str
    experiment: str
    phase: str
    metric: str
    where: Mapping[str, Any] = field(default_factory=dict)
    rows: int | None = None
    nodes: int = 1


class Absence(Enum):
    """Why nothing in the committed results decides a conclusion."""

    NOT_YET = "not measured yet"
    CANNOT = "cannot be had here"
    NEVER = "never measured"


@dataclass(frozen=True)
class Claim:
    """A conclusion of a report.

    text: the conclusion. metric: the published one that is larger on the first side of a pair than
        on the second, where all parameters but those of the sides are equal. beside: two more
        sides; the ratio of the first two is then larger than that of these. against: a number in
        place of the second side.
    least, most: how many times as large the first is, as the report says.
    readings: pairs of values in committed runs, or of a value and a number, where no figure was
        published of it; the first is the larger one.
    absent: why nothing decides it, where neither figures nor readings do, as a sentence.
    note: what to know about it.
    """

    text: str
    metric: str = ""
    first: ClaimSide | None = None
    second: ClaimSide | None = None
    beside: tuple[ClaimSide, ClaimSide] | None = None
    against: float | None = None
    least: float = 1.0
    most: float = math.inf
    readings: tuple[tuple[RunReading | float, RunReading | float], ...] = ()
    absent: tuple[Absence, str] | None = None
    note: str = ""


@dataclass(frozen=True)
class NotYet:
    """Reason why nothing here measures a part of a report.

    experiment: the one that would, which is not written yet; empty where none is wanting.
    """

    why: str
    experiment: str = ""


@dataclass(frozen=True)
class Reproduction:
    """A published report.

    document: where it was published. machine: that it was measured on. scale: the default.
    server_memory: that its systems had, as `Placement.server_memory`; empty where it is not said.
    not_yet: part of the report, or "part.metric" → why nothing here measures it, for what no
        measure covers.
    claims: its conclusions that are judged here.
    """

    name: str
    title: str
    document: str
    machine: str
    scale: float
    parts: tuple[Part, ...]
    notes: tuple[Note, ...]
    not_yet: Mapping[str, NotYet] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    server_memory: str = ""
