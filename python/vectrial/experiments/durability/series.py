"""A series of outages of one store, each after some changes, and what was there after each."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb
from statistics import median

import numpy as np
import pyarrow as pa

from vectrial.experiments.durability.changes import Planner, RowMaker, schema_of
from vectrial.experiments.durability.holders import Holder, LibraryHolder, Outage, ServerHolder
from vectrial.model.capabilities import Durability
from vectrial.model.context import Context
from vectrial.model.errors import StoreError
from vectrial.model.phase import Phase
from vectrial.model.store import Store
from vectrial.workload.crash import ChangeScript
from vectrial.workload.ledger import (
    BROKEN,
    BrokenRow,
    ChangeKind,
    ChangeOutcome,
    Ledger,
    RowLoss,
    count_losses,
)
from vectrial.workload.python.timed import describe

#: Rows of a read; rows looked for by their own vector after each outage; neighbours asked for.
_READ_ROWS, _LOOKED_FOR, _NEIGHBOURS = 1000, 100, 10
#: Seconds that a server that answers may take to have every promised row, and until it answers.
_FINDS_S, _ANSWERS_S, _POLL_S = 10.0, 120.0, 0.25
#: Seconds of changes before a flush, and of changes that are ready beyond the outage.
_BEFORE_FLUSH_S, _SPARE_S = 0.2, 2.0
#: Confidence of the bound of broken outages; and steps of its bisection, exact to 1e-15.
_CONFIDENCE, _HALVINGS = 0.95, 50
#: Most rows whose fate is reported.
_NAMED = 20
_SHARES = {ChangeKind.INSERT: 0.5, ChangeKind.UPDATE: 0.3, ChangeKind.DELETE: 0.2}


@dataclass(frozen=True)
class WritePace:
    """rows_per_s: changed, `batch_rows` in one request. least_s, most_s: from the first change to
    the outage. window_s: of buffered writes."""

    rows_per_s: float
    batch_rows: int
    least_s: float
    most_s: float
    window_s: float

    @property
    def interval_s(self) -> float:
        """Seconds between the starts of two requests."""
        return self.batch_rows / self.rows_per_s

    def requests(self, seconds: float) -> int:
        """Number of requests in this many seconds; at least one."""
        return max(1, round(seconds / self.interval_s))


@dataclass
class OutageRecord:
    """Results of all outages until now. broken: outages after which a promise was broken, or the
    store could not be read. answers_s, whole_s: after each, until something was read, and until
    all that was promised was."""

    outages: int = 0
    broken: int = 0
    acknowledged: int = 0
    not_found: int = 0
    miscounts: int = 0
    unanswered: int = 0
    losses: Counter[RowLoss] = field(default_factory=Counter)
    named: list[str] = field(default_factory=list)
    answers_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)

    def record_unreadable(self, why: str) -> None:
        """Record that the store is lost after the last outage."""
        self.unanswered += 1
        self.broken += 1
        self.named.append(f"outage {self.outages}: {why}")

    def fill(self, phase: Phase) -> None:
        """Put the figures into a phase."""
        phase.metrics |= {
            "outages": float(self.outages),
            "broken_outages": float(self.broken),
            "broken_rate_at_most": rate_at_most(self.broken, self.outages),
            "acknowledged_rows": float(self.acknowledged),
            "not_found_rows": float(self.not_found),
            "miscounts": float(self.miscounts),
            "unanswered": float(self.unanswered),
            **{f"{loss}_rows": float(self.losses[loss]) for loss in RowLoss},
        }
        for name, values in (("answer_s", self.answers_s), ("whole_s", self.whole_s)):
            phase.metrics[name] = median(values) if values else None
            if not values:
                phase.missing[name] = "it could not be read after the outage"
        phase.params = {**phase.params, "verdict": "broken" if self.broken else "kept"}
        if self.named:
            phase.errors.append(("broken promise", len(self.named), self.named[:_NAMED]))


@dataclass(frozen=True)
class _StoreReading:
    """The rows of a store after an outage. why: reason why they could not be read."""

    versions: Mapping[int, int]
    count: int = 0
    why: str = ""


class OutageSeries:
    """Outages of one kind of one store. As a context manager it leaves no process behind."""

    def __init__(self, context: Context, outage: Outage, pace: WritePace) -> None:
        self._context, self._outage, self._pace = context, outage, pace
        self.record = OutageRecord()
        can = context.store.capabilities
        works = {
            ChangeKind.INSERT: True,
            ChangeKind.UPDATE: can.upsert,
            ChangeKind.DELETE: can.delete,
        }
        held = {kind: share for kind, share in _SHARES.items() if works[kind]}
        shares = {kind: share / sum(held.values()) for kind, share in held.items()}
        self._rng = np.random.default_rng([context.seed, list(Outage).index(outage)])
        schema = schema_of(context.dataset, can, context.schema)
        self._maker = RowMaker(context.dataset, schema, can.indexes[context.index.kind])
        self._planner = Planner(self._rng, pace.batch_rows, shares)
        self._ledger = Ledger()
        of = ServerHolder if context.store.kind == "server" else LibraryHolder
        self._holder: Holder = of(context, schema)
        self._promise = context.store.durability

    def __enter__(self) -> OutageSeries:
        return self

    def __exit__(self, *exc: object) -> None:
        self._holder.__exit__(*exc)

    def load(self, rows: int) -> None:
        """Insert the rows that are present before the first outage, flush them, and let the window
        of buffered writes pass, so that they are promised.

        Raises:
            StoreError: it failed.
        """
        script = replace(self._planner.first_script(rows, self._maker), flush=True)
        self._ledger.record(script.changes, self._holder.load(script))
        if self._promise is Durability.BUFFERED:
            time.sleep(self._pace.window_s)
        self._ledger.settle(self._versions(self._holder.store()))

    def run_outage(self, *, late: bool) -> None:
        """Make changes, strike with an outage at a random moment, and check which rows are present.

        late: with buffered writes, strike when the window of the first write has passed.

        Raises:
            Unsupported: there is no such outage here.
        """
        pace, live = self._pace, sorted(self._ledger.live())
        lasts_s = float(self._rng.uniform(pace.least_s, pace.most_s))
        promised_ns: int | None = None
        if self._promise is Durability.BUFFERED:
            lasts_s += pace.window_s * late
        elif self._promise is not Durability.SYNCED:
            promised_ns, live = self._flush(live)
        count = pace.requests(lasts_s + _SPARE_S)
        script = self._planner.next_script(live, count, pace.interval_s, self._maker)
        self._holder.begin(script)
        self._holder.pause(lasts_s)
        fault_ns = time.monotonic_ns()
        self.record.outages += 1
        try:
            outcomes = self._holder.strike(self._outage)
        except StoreError as error:
            self.record.record_unreadable(str(error))
            return
        if self._promise is Durability.SYNCED:
            promised_ns = time.monotonic_ns()
        elif self._promise is Durability.BUFFERED:
            promised_ns = fault_ns - round(pace.window_s * 1e9)
        self._note(script, outcomes)
        self._check_rows(fault_ns, promised_ns)

    def _flush(self, live: list[int]) -> tuple[int, list[int]]:
        """Make changes, and flush; returns when the flush was done, and the rows not touched."""
        pace = self._pace
        script = self._planner.next_script(
            live, pace.requests(_BEFORE_FLUSH_S), pace.interval_s, self._maker
        )
        self._note(script, self._holder.load(replace(script, flush=True)))
        touched = {id_ for change in script.changes for id_ in change.ids}
        return time.monotonic_ns(), [id_ for id_ in live if id_ not in touched]

    def _note(self, script: ChangeScript, outcomes: Sequence[ChangeOutcome]) -> None:
        self._ledger.record(script.changes, outcomes)
        self.record.acknowledged += sum(
            len(script.changes[one.change].ids) for one in outcomes if not one.error
        )

    def _check_rows(self, fault_ns: int, promised_ns: int | None) -> None:
        """Read every row. A server is polled until every promised row is present, or until the time
        for that is over."""
        patient = isinstance(self._holder, ServerHolder)
        began, answered_ns = time.monotonic(), 0
        while True:
            reading = self._read()
            now_ns = time.monotonic_ns()
            answered_ns = answered_ns or (0 if reading.why else now_ns)
            found = self._ledger.judge(reading.versions, fault_ns, promised_ns)
            broken = [one for one in found if one.loss in BROKEN]
            limit_s = _ANSWERS_S if reading.why else _FINDS_S
            late = time.monotonic() - began > limit_s
            if not patient or late or not (broken or reading.why):
                break
            time.sleep(_POLL_S)
        record = self.record
        if reading.why:
            record.record_unreadable(f"it could not be read: {reading.why}")
            return
        record.answers_s.append((answered_ns - fault_ns) / 1e9)
        record.whole_s.append((now_ns - fault_ns) / 1e9)
        record.miscounts += reading.count != len(reading.versions)
        self._record_broken(found, broken)
        self._ledger.settle(reading.versions)
        record.not_found += self._count_unsearchable(self._holder.store())

    def _record_broken(self, found: Sequence[BrokenRow], broken: Sequence[BrokenRow]) -> None:
        self.record.losses.update(count_losses(found))
        self.record.broken += bool(broken)
        self.record.named += [f"outage {self.record.outages}, {one}" for one in broken]

    def _read(self) -> _StoreReading:
        """The rows that are present. A server that never answers is not waited for."""
        if not isinstance(self._holder, ServerHolder):
            return self._reading()
        found: list[_StoreReading] = []
        thread = threading.Thread(target=lambda: found.append(self._reading()), daemon=True)
        thread.start()
        thread.join(_ANSWERS_S)
        return found[0] if found else _StoreReading({}, why=f"no answer within {_ANSWERS_S:g} s")

    def _reading(self) -> _StoreReading:
        try:
            store = self._holder.store()
            return _StoreReading(self._versions(store), store.count())
        except Exception as error:  # noqa: BLE001 - whatever a store raises is its answer
            return _StoreReading({}, why=": ".join(describe(error)))

    def _versions(self, store: Store) -> dict[int, int]:
        """The version of each row of the ledger that is there."""
        ids = np.array(self._ledger.ids, np.int64)
        parts = [store.get(ids[at : at + _READ_ROWS]) for at in range(0, len(ids), _READ_ROWS)]
        return self._maker.versions(pa.concat_tables(parts)) if parts else {}

    def _count_unsearchable(self, store: Store) -> int:
        """Number of newest rows that are present but not among the neighbours of their own vector,
        with search parameters that make the index nearly exact. Rows are left out if more others
        share their vector than there are neighbours."""
        live, position = self._ledger.live(), self._maker.position
        alike = Counter(position(id_, version) for id_, version in live.items())
        distinct = [id_ for id_ in live if alike[position(id_, live[id_])] <= _NEIGHBOURS]
        newest = sorted(distinct, key=lambda id_: live[id_])[-_LOOKED_FOR:]
        kind = store.capabilities.indexes[self._context.index.kind]
        search = store.searcher(_NEIGHBOURS, kind.nearly_exact(_NEIGHBOURS))
        return sum(id_ not in search(self._maker.vector(id_, live[id_]))[0] for id_ in newest)


def rate_at_most(broken: int, outages: int) -> float:
    """Upper bound of the share of outages that break the promise, at 95 % confidence.

    The upper end of the one-sided interval of Clopper and Pearson (1934); if none of n outages
    broke it, the bound is 1 - 0.05^(1/n), about 3/n.
    """
    if broken >= outages:
        return 1.0
    low, high = broken / outages, 1.0
    for _ in range(_HALVINGS):
        rate = (low + high) / 2
        as_few = sum(
            comb(outages, few) * rate**few * (1 - rate) ** (outages - few)
            for few in range(broken + 1)
        )
        low, high = (rate, high) if as_few > 1 - _CONFIDENCE else (low, rate)
    return high
