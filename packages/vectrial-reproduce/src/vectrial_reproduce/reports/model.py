"""The description of a published report, so that it can be measured again.

A report is data: its systems and datasets, the experiments that repeat it, the place of each
published metric in our results, and the differences between its method and ours.
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

    published: its name in the report. params: build parameters; a list is a grid. faithful: build
        parameters if the report's own method is repeated; None: the same.
    note: how the two differ, for all figures. of: published metric → how they differ in that metric
        alone; of_ours: if the report's own method is not repeated; of_filtered: for all figures
        except those of searches without a filter.
    grows: published metrics that are linear in the rows here, but not elsewhere; `of` says why.
        unlike: published metric → why there is no ratio if other numbers of rows were loaded;
        unlike_ours: if the report's own method is not repeated.
    here: short description of the store, if it is not that system as the report had it; it follows
        the system's name in every table and figure.
    lacks: what the report's system had and this one lacks, such as a network, so that its times are
        not compared with those of other systems.
    through: the client by which this arm calls the system, as the report did; if empty, it uses its
        own client or the wire. Both arms may exist for one system.
    nodes: nodes of the cluster that stands for it. given: published parameters of its figures, if
        the report has several systems under one name.
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
    """An experiment of ours with its settings.

    sizes: a setting that is a list of published numbers of rows, which are scaled.
    faithful: settings that replace these if the report's own method is repeated. faithful_of: store
        → settings that replace those for this store alone.
    once: only the first combination of a build grid is measured, since nothing depends on it.
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

    covers: parts of the report (`Figure.experiment`) and their metric that this applies to.
    given: published parameters that must hold.
    experiment, phase, metric: ours. minus: metrics of ours to subtract.
    faithful: our metric if the report's method is repeated; then nothing is subtracted.
    faithful_phase: our phase in that case, for stores that have it: there, the client reads every
        row. Stores with settings of that name use no other phase.
    where: parameters of ours that must hold; for a tuple, the first value that was measured.
    same_load: parameters of ours; among several points, select the one of a trial in which these
        were measured as well, and so on the same load.
    per_row: reason why the value is linear in the rows, so that the ratio is that of the values per
        row; a rate falls accordingly. of_graphs: reason why it is not if the index is a graph: then
        there is no ratio unless as many rows were loaded.
    scans: it is linear if the index compares with every row.
    unlike: reason why the two figures cannot be divided: there is no ratio.
    recall: show the same answers' recall next to it, or their agreement with an exact fusion.
    note: remark on the comparison. fewer: further remark if fewer rows were loaded. chosen: value
        that `where` found → remark on that value. In all of them "; " separates footnotes.
    absent: why a store may have nothing to compare; faithful_absent: or no `faithful_phase`.
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
    """All measurements on one dataset with one k: one suite.

    dataset: its name in the figures. only: other published parameters of this part's figures.
    sources: names of datasets here, best first; the last can be made without the network. `{rows}`
        becomes the number of rows.
    rows, queries: numbers at scale 1. least, least_queries: minimum for scaling; fewer queries say
        little about a tail.
    metadata: load the columns of the dataset, as the report did.
    instead_of: a store; the part is measured only if that store cannot run, in its place.
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
        """The size to use for a published number of rows if `rows` are loaded instead of all: the
        same if it fits; all loaded rows if only smaller ones fit; its share if none fits."""
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
    """A difference of method. faithful: what `--faithful` does about it: that it repeats the
    report's method, or why it does not."""

    about: str
    theirs: str
    ours: str
    faithful: str = ""


@dataclass(frozen=True)
class DrawnSeries:
    """Source of a drawing's measured series, if not the cells: points of a part's run.

    x, metric: metrics of ours, or "rows" for x; times: factor for the metric.
    moments: the phase whose metrics are moments along x, see `report.charts.moments.MOMENTS`; empty
        if there is none.
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

    source: which figure of the report it is, or what it is drawn from if the report has none.
    about: the part of the report (`published.Figure.experiment`) that it belongs to.
    kind: "line" over one number; "bar" for each value of x; "share" of each metric in their sum;
        "tradeoff" of the first metric (x) against the second, a line over one number.
    x: published parameters. x_title, y_title: titles of the axes, with units.
    metrics: published metrics; one, or all that have a share. given, stores: selection.
    split: a parameter that splits a system's figures into separate series, named by `names`.
    logs: logarithmic axes among "x", "y".
    unit: unit to which times are converted; empty leaves them as published.
    times: dataset → factor for its values. per_row: values are divided by the rows (after `times`,
        and then times 1000). rate: values are times, drawn as how many of them fit into a second.
        limit: value at which the report draws a line.
    names: names of parameter values. derived: how values follow from the published ones. note:
        remark for the reader. curve: source of the measured series, if not the cells.
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
    these published parameters, where a tuple allows any of its values. stores: only these systems;
    empty: the same system on both sides. metric: replaces the claim's metric."""

    part: str
    given: Mapping[str, Scalar | tuple[Scalar, ...]] = field(default_factory=dict)
    stores: tuple[str, ...] = ()
    metric: str = ""

    def has(self, params: Mapping[str, Scalar]) -> bool:
        """True if a figure's parameters belong to this side."""
        return all(
            params.get(name) in (value if isinstance(value, tuple) else (value,))
            for name, value in self.given.items()
        )


@dataclass(frozen=True)
class RunReading:
    """One value in a committed run, for a conclusion without a published figure.

    result: folder of its bundle below docs/results. where: parameters of ours that must hold.
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

    text: the conclusion. metric: the published metric that is larger on the first side of a pair
        than on the second, with all parameters equal except those of the sides. beside: two more
        sides; then the ratio of the first two sides is larger than the ratio of these. against: a
        number instead of the second side.
    least, most: how many times as large the first is, according to the report.
    readings: pairs of values in committed runs, or of a value and a number, if no figure was
        published; the first is the larger one.
    absent: why nothing decides it, if neither figures nor readings do, as a sentence.
    note: remark for the reader.
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

    experiment: the experiment that would, which is not written yet; empty if none is missing.
    """

    why: str
    experiment: str = ""


@dataclass(frozen=True)
class Reproduction:
    """A published report.

    document: where it was published. machine: the report's machine. scale: the default.
    server_memory: its systems' memory, like `Placement.server_memory`; empty if not stated.
    not_yet: part of the report, or "part.metric" → why nothing here measures it.
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
