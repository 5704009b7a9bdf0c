"""What an experiment is.

An experiment is one file in this package with one frozen class: its fields are its parameters
(validated by pydantic when the plan is made), `points` expands it to operating points, and
`run` measures one of them on a store that is in the state `starts_from` names. It knows no
store by name, and writes nothing itself: it yields phases.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from vectrial.datasets.model import Dataset, Truth
from vectrial.filters import Filter
from vectrial.stores.base import Field, Index, Schema, Store


class State(StrEnum):
    """What an experiment finds when it starts."""

    EMPTY = "empty"  # no collection yet: the experiment creates and loads it
    LOADED = "loaded"  # every row of the dataset, in the final index


@dataclass
class Phase:
    """A timed part of a trial, as measured.

    metrics: name → value, or None with a reason in `missing`. Names are those of
        `vectrial.results.schema.METRICS`.
    histograms: name → HDR histogram in the V2 encoding, nanoseconds.
    windows: operation → columns second, count, errors, p50_us, p99_us, max_us, recall.
    errors: (kind, count, first messages).
    started_ns, ended_ns: `time.perf_counter_ns`.
    """

    name: str
    started_ns: int
    ended_ns: int
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: dict[str, float | None] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    histograms: dict[str, bytes] = field(default_factory=dict)
    windows: dict[str, Mapping[str, Sequence[float | int | None]]] = field(default_factory=dict)
    errors: list[tuple[str, int, list[str]]] = field(default_factory=list)
    valid: bool = True
    reason: str | None = None


@dataclass(frozen=True)
class Context:
    """Everything an experiment may use.

    store: the instance under test; `reopen` gives a new one on the same folder.
    progress: called with (done, of, what) outside timed samples.
    truth: exact neighbours for k under a filter, of the dataset's first `rows` rows.
    """

    store: Store
    dataset: Dataset
    schema: Schema
    index: Index
    k: int
    seed: int
    data_dir: Path
    batch_rows: int
    progress: Callable[[float, float, str], None]
    truth: Callable[[int, Filter | None], Truth]
    reopen: Callable[[], Store]


class Experiment(BaseModel, ABC):
    """Base of all experiments; see the module's text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ClassVar[str]
    title: ClassVar[str]
    starts_from: ClassVar[State] = State.LOADED
    leaves: ClassVar[State | None] = State.LOADED  # None: unusable for what follows

    @abstractmethod
    def points(self, store: type[Store], index: Index) -> list[dict[str, Any]]:
        """The operating points, each a flat dict of parameters that defines one trial.

        Raises:
            Unsupported: the store cannot do what is asked.
        """

    @abstractmethod
    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        """Measure one operating point."""

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """A rough guess of the seconds one point takes, for `--dry-run`."""
        return 5.0


def fields_of(dataset: Dataset) -> tuple[Field, ...]:
    """The metadata columns of a dataset as a store's schema fields."""
    from vectrial.stores.base import ARROW_TYPES

    if dataset.metadata is None:
        return ()
    kinds = {arrow: kind for kind, arrow in ARROW_TYPES.items()}
    return tuple(Field(c.name, kinds[c.type]) for c in dataset.metadata.schema)
