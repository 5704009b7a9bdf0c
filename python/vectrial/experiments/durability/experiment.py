"""Durability under outages that come while rows are inserted, updated and deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from vectrial.document.sheet import Sheet, metric
from vectrial.experiments.base import Experiment, Target, as_list
from vectrial.experiments.durability.holders import NO_SERVER, OF_SERVERS, Outage
from vectrial.experiments.durability.series import OutageSeries, WritePace
from vectrial.model.capabilities import Durability
from vectrial.model.context import Context
from vectrial.model.errors import Unsupported
from vectrial.model.inputs import PositiveSeconds, Seconds
from vectrial.model.phase import Phase, State
from vectrial.model.results_schema import MetricName

#: One in this many outages comes after the window of buffered writes has passed.
_LATE = 5
METRICS = (
    MetricName("outages", "1", None, "outages that came while rows were written", "Outages"),
    MetricName(
        "broken_outages", "1", "lower", "of these, with a row that breaks the promise", "Broken"
    ),
    MetricName(
        "broken_rate_at_most",
        "1",
        "lower",
        "share of outages that break the promise: more is excluded at 95 %",
        "Excluded above",
    ),
    MetricName(
        "lost_rows", "1", "lower", "acknowledged and promised rows that were not there", "Lost"
    ),
    MetricName("old_rows", "1", "lower", "rows there as before a promised update", "Old"),
    MetricName("returned_rows", "1", "lower", "promised deletes whose rows were back", "Back"),
    MetricName(
        "torn_rows", "1", "lower", "rows with the vector of one version and the columns of another",
        "Torn",
    ),
    MetricName(
        "foreign_rows", "1", "lower", "rows with a vector that was never written", "Foreign"
    ),
    MetricName(
        "unpromised_rows", "1", None, "acknowledged changes that were undone, as they may be",
        "Undone, allowed",
    ),
    MetricName(
        "unacknowledged_rows", "1", None, "changes that were never acknowledged, and are there",
        "Unacknowledged",
    ),
    MetricName(
        "not_found_rows", "1", "lower",
        "rows that are read by id and not found by their own vector", "Not found",
    ),
    MetricName(
        "miscounts", "1", "lower", "outages after which the store's count was not that of its rows",
        "Miscounts",
    ),
    MetricName(
        "unanswered", "1", "lower", "outages after which the store could not be read", "Unreadable"
    ),
    MetricName("answer_s", "s", "lower", "from the outage to the first answer", "First answer"),
    MetricName(
        "whole_s", "s", "lower", "from the outage until all promised rows are there", "Whole"
    ),
)  # fmt: skip
_OWN = {one.name: one for one in METRICS}

_SHEET = Sheet(
    "What is kept through outages",
    "Rows are inserted, updated and deleted at a set rate, and an outage comes at a random "
    "moment: kill (SIGKILL; of a cluster all nodes at once), power_cut (what the block device "
    "holds at that moment is all there is afterwards), disk_full, out_of_memory, pause (30 s), "
    "node_kill (one node, which comes back). Afterwards every row is read. Synced writes promise "
    "every acknowledged change, buffered ones those older than the window, others those that were"
    " flushed. Broken: lost, old, returned, torn or foreign rows.",
    ("outages",),
    (("outage", "Outage"), ("durability", "Writes are"), ("verdict", "The promise is")),
    (
        metric(_OWN["outages"], "outages", "Times"),
        metric(_OWN["broken_outages"], "broken", "Times"),
        metric(_OWN["broken_rate_at_most"], "excluded above", "Times"),
        metric("acknowledged_rows", "acknowledged", "Rows"),
        metric(_OWN["lost_rows"], "lost", "Rows"),
        metric(_OWN["old_rows"], "old", "Rows"),
        metric(_OWN["returned_rows"], "back", "Rows"),
        metric(_OWN["torn_rows"], "torn", "Rows"),
        metric(_OWN["foreign_rows"], "foreign", "Rows"),
        metric(_OWN["unpromised_rows"], "undone, allowed", "Rows"),
        metric(_OWN["unacknowledged_rows"], "unacknowledged", "Rows"),
        metric(_OWN["not_found_rows"], "not found", "Rows"),
        metric(_OWN["miscounts"], "miscounts", "Times"),
        metric(_OWN["unanswered"], "unreadable", "Times"),
        metric(_OWN["answer_s"], "answers", "Back after"),
        metric(_OWN["whole_s"], "whole", "Back after"),
    ),
    sparse=True,
)


class DurabilityExperiment(Experiment):
    """Write, change and delete rows, have an outage come at a random moment, and read every row
    back; again and again.

    A process of its own writes, and what is acknowledged is noted outside of it. Of a server the
    outage is the server's, of a library that process'. What the store promises of a write says
    which changes must have outlived the outage:

    - `synced`: every acknowledged one;
    - `buffered`: those acknowledged `window_s` before it; one outage in five comes later than that
      after the first change;
    - where nothing is declared: those before the last flush, of which there is one in each round;
    - `memory`: nothing, and it is not measured.

    A kill leaves what the system has not yet written to the disk; a power cut does not, and needs a
    disk of the store's own: `data_disk` in [placement]. So does `disk_full`; `out_of_memory` needs
    `server_memory` there, `node_kill` a cluster.

    outages: kinds of outages, measured separately. count: outages of each kind. rows: rows that
    exist before the first.
    rows_per_s: changed, `batch_rows` in one request. least_s, most_s: from the first change of a
    round to the outage. window_s: of buffered writes; unless given, what the store declares.
    """

    name: ClassVar[str] = "durability"
    title: ClassVar[str] = "What is kept through outages"
    place: ClassVar[int] = 70
    metrics: ClassVar[tuple[MetricName, ...]] = METRICS
    terms: ClassVar[Mapping[str, str]] = {
        "outage": "outage",
        "rows_per_s": "rows changed per second",
        "window_s": "window of buffered writes",
    }
    sheet: ClassVar[Sheet | None] = _SHEET
    starts_from: ClassVar[State] = State.EMPTY
    mutates: ClassVar[bool] = True
    ends_server: ClassVar[bool] = True
    axes: ClassVar[frozenset[str]] = frozenset({"outages"})

    outages: Annotated[tuple[Outage, ...], BeforeValidator(as_list), Field(min_length=1)] = (
        Outage.KILL,
    )
    count: int = Field(default=3, ge=1, le=10_000)
    rows: int = Field(default=1000, ge=20)
    rows_per_s: float = Field(default=500.0, gt=0, le=1e6)
    batch_rows: int = Field(default=5, ge=1, le=1000)
    least_s: Seconds = 0.3
    most_s: PositiveSeconds = 2.0
    window_s: Seconds | None = None

    def points(self, target: Target) -> list[dict[str, Any]]:
        can = target.capabilities
        if not (can.persistent or can.durability):
            raise Unsupported(f"{target.name} keeps nothing on disk")
        if not can.get:
            raise Unsupported(f"{target.name} cannot be read by id")
        return [{"outage": str(outage)} for outage in self.outages]

    def check_point(self, target: Target, point: Mapping[str, Any]) -> None:
        """Apply the common checks, and refuse outages that only a server can suffer."""
        super().check_point(target, point)
        if point["outage"] in OF_SERVERS and target.store.kind != "server":
            raise Unsupported(NO_SERVER)
        if point["outage"] == Outage.NODE_KILL and target.nodes < 2:
            raise Unsupported("one node has no others that could go on: set nodes of the store")

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        if context.store.durability is Durability.MEMORY:
            raise Unsupported("writes that are in memory alone promise nothing after an outage")
        outage, declared = Outage(point["outage"]), context.store.capabilities.buffered_s
        window_s = declared if self.window_s is None else self.window_s
        pace = WritePace(self.rows_per_s, self.batch_rows, self.least_s, self.most_s, window_s)
        phase = Phase("outages", perf_counter_ns(), 0, params={"batch_rows": self.batch_rows})
        phase.unsampled = "the process that is measured ends in it"
        with OutageSeries(context, outage, pace) as series:
            series.load(min(self.rows, context.dataset.rows // 2))
            for number in range(self.count):
                context.progress(number, self.count, f"{outage}: {series.record.broken} broken")
                series.run_outage(late=number % _LATE == _LATE - 1)
                if series.record.unanswered:
                    break
        phase.ended_ns = perf_counter_ns()
        series.record.fill(phase)
        yield phase

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of the outages, each with a start; the durability is not known here."""
        return 5.0 + self.count * ((self.least_s + self.most_s) / 2 + 4.0)
