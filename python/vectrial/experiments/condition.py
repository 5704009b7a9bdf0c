"""Finding rows by a condition on metadata alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from vectrial import filters
from vectrial.datasets.model import Dataset
from vectrial.errors import Unsupported
from vectrial.experiments import generated
from vectrial.experiments.base import Context, Experiment, Phase
from vectrial.filters import Filter
from vectrial.load.operations import timed_operations
from vectrial.stores.base import Index, Store

#: Scans by the client take long and hardly vary.
_SCANS = 3


class Condition(Experiment):
    """Find rows by conditions on generated columns, by the store itself, with indexes on the
    columns and without; by reading everything and choosing in the client where a store has
    nothing else.

    samples: conditions of each kind. limit: most rows asked for. max_s: a kind ends after so long.
    client_scan: read everything in the client also where the store finds by itself.
    indexed: whether the columns are indexed, where a store lets one choose; both are measured.
    only: names of the conditions that are asked; none: all.
    """

    name: ClassVar[str] = "condition"
    title: ClassVar[str] = "Find by condition"
    uses_find: ClassVar[bool] = True

    samples: int = Field(default=200, ge=1)
    limit: int = Field(default=10, ge=1)
    max_s: float = Field(default=10.0, gt=0)
    client_scan: bool = False
    indexed: tuple[bool, ...] = Field(default=(True, False), min_length=1)
    only: tuple[str, ...] = ()

    def points(self, store: type[Store], index: Index, rows: int) -> list[dict[str, Any]]:
        can = store.capabilities.under(index.kind)
        if not can.field_types:
            raise Unsupported(f"{store.name} keeps no metadata")
        if not can.find and not can.scan:
            raise Unsupported(f"{store.name} neither finds by condition nor reads out its rows")
        return [{}]

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        can = context.store.capabilities.under(context.index.kind)
        table = generated.columns(context.dataset.rows, types=can.field_types)
        dataset = generated.with_columns(context.dataset, table)
        asked = generated.conditions(
            dataset.rows, self.samples, can.find or filters.OPERATORS, table.column_names,
            context.seed,
        )  # fmt: skip
        arms = {"on" if indexed else "off": indexed for indexed in self.indexed}
        if not can.payload_index:
            arms = {"fixed": True}
        with ExitStack() as held:
            stores = {}
            for label, indexed in arms.items():
                store = held.enter_context(context.beside(f"condition-{label}"))
                schema = generated.schema_of(context, table, indexed=indexed)
                generated.fill(context, store, dataset, schema)
                stores[label] = store
            for name, wheres in asked.items():
                if self.only and name not in self.only:
                    continue
                for label, store in stores.items():
                    about = {"condition": name, "payload_index": label, "limit": self.limit}
                    if can.find:
                        yield self._find(context, store, dataset, wheres, about)
                    if can.scan and (self.client_scan or not can.find):
                        yield self._scan(context, store, dataset, wheres, about)

    def _find(
        self,
        context: Context,
        store: Store,
        dataset: Dataset,
        wheres: Sequence[Filter],
        about: Mapping[str, Any],
    ) -> Phase:
        phase, answers = timed_operations(
            "find",
            lambda i: store.find(wheres[i], self.limit),
            len(wheres),
            max_s=self.max_s,
            progress=context.progress,
        )
        return self._judged(phase, dataset, wheres, answers, {**about, "by": "store"})

    def _scan(
        self,
        context: Context,
        store: Store,
        dataset: Dataset,
        wheres: Sequence[Filter],
        about: Mapping[str, Any],
    ) -> Phase:
        phase, answers = timed_operations(
            "client_scan",
            lambda i: _chosen_here(store, wheres[i], self.limit),
            min(_SCANS, len(wheres)),
            max_s=self.max_s,
            progress=context.progress,
        )
        return self._judged(phase, dataset, wheres, answers, {**about, "by": "client"})

    def _judged(
        self,
        phase: Phase,
        dataset: Dataset,
        wheres: Sequence[Filter],
        answers: Sequence[NDArray[np.int64] | None],
        about: Mapping[str, Any],
    ) -> Phase:
        assert dataset.metadata is not None
        phase.params = {**phase.params, **about}
        done = int(phase.metrics["count"] or 0)
        right = generated.right_answers(dataset.ids, dataset.metadata, wheres, answers, self.limit)
        phase.metrics |= {"verified": float(done), "ineffective": float(done - right)}
        if right < done and phase.valid:
            phase.valid, phase.reason = False, f"{done - right} of {done} answers are wrong"
        return phase

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """A load for each arm, and its phases at about a millisecond an answer."""
        phases = (len(self.only) or 4) * min(self.max_s, self.samples * 1e-3)
        return 1.0 + len(self.indexed) * (rows * (20e-6 + dim * 0.6e-6) + phases)


def _chosen_here(store: Store, where: Filter, limit: int) -> NDArray[np.int64]:
    """Read every row with its vector, as a client must that the store does not help."""
    found: list[NDArray[np.int64]] = []
    for batch in store.scan():
        mask = filters.evaluate(where, pa.Table.from_batches([batch]))
        found.append(batch.column("id").to_numpy()[mask])
    return np.concatenate(found)[:limit] if found else np.zeros(0, np.int64)
