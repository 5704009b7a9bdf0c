"""Finding rows by a condition on metadata alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from time import perf_counter_ns
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from vectrial.document.sheet import LATENCY, VERIFIED, Sheet
from vectrial.experiments.base import Experiment, Target
from vectrial.experiments.common import generated_columns
from vectrial.model import filters
from vectrial.model.context import Context
from vectrial.model.dataset import Dataset
from vectrial.model.errors import Unsupported
from vectrial.model.filters import Filter
from vectrial.model.inputs import Count, PositiveSeconds, Samples
from vectrial.model.phase import Phase
from vectrial.model.refusals import refuse_unindexed
from vectrial.model.store import Store
from vectrial.workload.python.operations import timed_operations

#: Seconds after which no further scan by the client is begun: of a million rows each takes longer.
_SCANS_S = 1.0
#: Conditions of each kind that warm a store up and are not timed; and their largest share if there
#: are few conditions.
_WARM_UP, _WARM_UP_SHARE = 20, 0.2
#: Descriptions of the kinds of conditions.
_TOLD = ("latency_p50", "latency_p99", "count", "errors", "ineffective")


_SHEET = Sheet(
    "Finding rows by a condition",
    "On metadata alone, by the store and with or without indexes on the columns; by reading "
    "everything and choosing in the client where it says so. Every answer was checked.",
    ("find", "client_scan"),
    (("condition", "Keeps"), ("payload_index", "Index"), ("by", "By")),
    (*LATENCY, *VERIFIED),
)


class Condition(Experiment):
    """Find rows by conditions on generated columns, by the store itself, with indexes on the
    columns and without; by reading everything and choosing in the client where a store has
    nothing else. The stores with and without take turns to be asked first, and are asked others
    like them before the clock starts. A store that finds nothing by a column without an index is
    asked with indexes alone, and the results say so.

    samples: conditions of each kind, no two alike: fewer where there are not so many.
    limit: most rows asked for. max_s: a kind ends after so long.
    client_scan: read everything in the client also where the store finds by itself; of a store
        that does not read out its rows the results say so.
    indexed: whether the columns are indexed, where a store lets one choose; both are measured.
    only: names of the conditions that are asked; none: all.
    """

    name: ClassVar[str] = "condition"
    title: ClassVar[str] = "Find by condition"
    place: ClassVar[int] = 55
    terms: ClassVar[Mapping[str, str]] = {
        "column": "column",
        "condition": "condition",
        "by": "found by",
        "payload_index": "payload index",
        "limit": "limit",
    }
    sheet: ClassVar[Sheet | None] = _SHEET
    uses_find: ClassVar[bool] = True

    samples: Samples = 200
    limit: Count = 10
    max_s: PositiveSeconds = 10.0
    client_scan: bool = False
    indexed: tuple[bool, ...] = Field(default=(True, False), min_length=1)
    only: tuple[str, ...] = ()

    def points(self, target: Target) -> list[dict[str, Any]]:
        can = target.capabilities
        if not can.field_types:
            raise Unsupported(f"{target.name} keeps no metadata")
        if not can.find and not can.scan:
            raise Unsupported(f"{target.name} neither finds by condition nor reads out its rows")
        if True not in self.indexed:
            refuse_unindexed(target.store)
        return [{}]

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        can = context.store.capabilities.for_index(context.index.kind)
        table = generated_columns.columns(context.dataset.rows, types=can.field_types)
        dataset = generated_columns.with_columns(context.dataset, table)
        every = generated_columns.conditions(
            dataset.rows,
            _WARM_UP + self.samples,
            can.find or filters.OPERATORS,
            table.column_names,
            context.seed,
        )
        wanted = {n: made for n, made in every.items() if not self.only or n in self.only}
        arms = {"on" if indexed else "off": indexed for indexed in self.indexed}
        if not can.payload_index:
            arms = {"fixed": True}
        if can.filters_need_index and arms.pop("off", None) is not None:
            for name in wanted:
                about = {"condition": name, "payload_index": "off", "limit": self.limit}
                yield _missing_phase("find", "store", about, "finds by no column without an index")
        with ExitStack() as held:
            stores = {}
            for label, indexed in arms.items():
                store = held.enter_context(context.second_store(f"condition-{label}"))
                schema = generated_columns.schema_of(context, table, indexed=indexed)
                generated_columns.load_collection(context, store, dataset, schema)
                stores[label] = store
            scans = can.scan and (self.client_scan or not can.find)
            context.progress(0, 1, "condition: warming up")
            first = [one for made in wanted.values() for one in made[: _warm_up_count(made)]]
            warm = {
                label: self._warm_up(store, first if can.find else [], scans)
                for label, store in stores.items()
            }
            for turn, (name, made) in enumerate(wanted.items()):
                wheres = made[_warm_up_count(made) :][: self.samples]
                for label in list(stores) if (context.seed + turn) % 2 else list(reversed(stores)):
                    about = {"condition": name, "payload_index": label, "limit": self.limit}
                    if self.client_scan and not scans:
                        yield _missing_phase(
                            "client_scan", "client", about, "the store does not read out its rows"
                        )
                    asked = (context, stores[label], dataset, wheres, about)
                    for phase in self._measure(*asked, finds=bool(can.find), scans=scans):
                        phase.metrics |= warm[label]
                        yield phase

    def _warm_up(
        self, store: Store, first: Sequence[Filter], scans: bool
    ) -> dict[str, float | None]:
        """Send untimed requests, so that connections are open and code paths have run; returns how
        many were sent and how many failed."""
        calls: list[Callable[[], object]] = [partial(store.find, w, self.limit) for w in first]
        if scans:
            calls.append(lambda: deque(store.scan(), maxlen=0))
        errors = 0
        for call in calls:
            try:
                call()
            except Exception:  # noqa: BLE001 - counted
                errors += 1
        return {"warmup_count": float(len(calls)), "warmup_errors": float(errors)}

    def _measure(
        self,
        context: Context,
        store: Store,
        dataset: Dataset,
        wheres: Sequence[Filter],
        about: Mapping[str, Any],
        *,
        finds: bool,
        scans: bool,
    ) -> Iterator[Phase]:
        """Measure the conditions in the store and in the client, as requested."""
        ways: list[tuple[str, str, Callable[[Filter], NDArray[np.int64]]]] = []
        if finds:
            ways.append(("find", "store", lambda where: store.find(where, self.limit)))
        if scans:
            assert dataset.metadata is not None
            names = generated_columns.schema_of(context, dataset.metadata, indexed=False).columns
            chosen_here = partial(_filter_in_client, store, names, limit=self.limit)
            ways.append(("client_scan", "client", chosen_here))
        for name, by, call in ways:
            phase, answers = timed_operations(
                name,
                lambda at, call=call: call(wheres[at]),  # type: ignore[misc]
                len(wheres),
                max_s=self.max_s if by == "store" else min(self.max_s, _SCANS_S),
                progress=context.progress,
            )
            phase.params = {**phase.params, **about, "by": by}
            yield phase
            self._judge(phase, dataset, wheres, answers)

    def _judge(
        self,
        phase: Phase,
        dataset: Dataset,
        wheres: Sequence[Filter],
        answers: Sequence[NDArray[np.int64] | None],
    ) -> None:
        assert dataset.metadata is not None
        done = int(phase.metrics["count"] or 0)
        right = generated_columns.count_right_answers(
            dataset.ids, dataset.metadata, wheres, answers, self.limit
        )
        phase.metrics |= {"verified": float(done), "ineffective": float(done - right)}
        if right < done and phase.valid:
            phase.valid, phase.reason = False, f"{done - right} of {done} answers are wrong"

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of the phases of each arm, at about a millisecond per answer."""
        phases = (len(self.only) or 4) * min(self.max_s, self.samples * 1e-3)
        return 1.0 + len(self.indexed) * phases

    def loads_at(self, point: Mapping[str, Any]) -> float:
        """One load for each arm."""
        return float(len(self.indexed))


def _missing_phase(name: str, finder: str, about: Mapping[str, Any], why: str) -> Phase:
    """Phase recorded for a way of finding rows that a store lacks."""
    now = perf_counter_ns()
    phase = Phase(name, now, now, {**about, "by": finder})
    phase.missing |= dict.fromkeys(_TOLD, f"unsupported: {why}")
    return phase


def _warm_up_count(conditions: Sequence[Filter]) -> int:
    """Number of conditions of a kind that run before the clock starts."""
    return min(_WARM_UP, int(_WARM_UP_SHARE * len(conditions)))


def _filter_in_client(
    store: Store, names: Mapping[str, str], where: Filter, limit: int
) -> NDArray[np.int64]:
    """Read every row with its vector, as a client must if the store does not help.

    names: names of fields → columns of batches.
    """
    where = filters.renamed(where, names)
    found: list[NDArray[np.int64]] = []
    for batch in store.scan():
        mask = filters.evaluate(where, pa.Table.from_batches([batch]))
        found.append(batch.column("id").to_numpy()[mask])
    return np.concatenate(found)[:limit] if found else np.zeros(0, np.int64)
