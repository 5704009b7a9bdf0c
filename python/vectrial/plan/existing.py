"""Refusals and remarks of trials on collections that somebody else made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vectrial.experiments.base import Experiment
from vectrial.model.errors import Unsupported
from vectrial.model.existing import Existing
from vectrial.model.lane import Lane
from vectrial.model.store import Store
from vectrial.plan.model import DatasetShape


def refuse_existing(
    store: type[Store], existing: Existing, shape: DatasetShape, lane: Lane, nodes: int
) -> None:
    """Raise `Unsupported` if a store cannot read such collections, or not under this condition, or
    not through this lane."""
    if (support := store.capabilities.existing) is None:
        raise Unsupported(f"{store.name} measures no collection that is there already")
    if existing.where and not support.condition:
        raise Unsupported(
            f"{store.name} takes no condition in its own words", remedy="leave `where` out"
        )
    if nodes > 1:
        raise Unsupported("a collection that is there already has the nodes that it has")
    if shape.part:
        raise Unsupported(
            "a collection that is there already has all of its rows",
            remedy=f"leave `rows` of dataset '{shape.name}' out",
        )
    if shape.own_ids and lane is Lane.NATIVE:
        raise Unsupported(
            "the engine reads ids that are integers, and those of this collection are texts",
            remedy='lane = "sdk"',
        )


def refuse_point(store: type[Store], experiment: Experiment, point: Mapping[str, Any]) -> None:
    """Raise `Unsupported` for a point that changes rows, or a setting of the collection."""
    if not experiment.only_reads(point):
        raise Unsupported(
            f"{experiment.name} writes rows or makes a collection of its own, and one that is there"
            " already is only read"
        )
    existing = store.capabilities.existing
    assert existing is not None, "`refuse_existing` comes first"
    for name in sorted(existing.settings):
        if point.get(name) is not None:
            raise Unsupported(
                f"{store.name}: {name} is a setting of the collection, which is not changed",
                remedy="leave it out: searches use the one that the collection has",
            )


def caveats_of(existing: Existing, shape: DatasetShape) -> tuple[str, ...]:
    """Caveats on figures of an existing collection, for the reader."""
    caveats = [
        f"the collection {existing.collection} was there already and is only read: how it was"
        " loaded is not known, and checks that change rows are not made",
    ]
    if existing.where:
        caveats.append(f"searches have the condition {existing.where}, as the application's have")
    if shape.queries_are_rows:
        caveats.append(
            "queries are rows of the collection, and each finds itself first: recall@k is higher"
            " than that of other queries by up to 1/k"
        )
    return tuple(caveats)
