"""Lanes: who issues the requests of a store's searches."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from vectrial.errors import Unsupported
from vectrial.stores.base import Store


class Lane(StrEnum):
    """How requests are issued."""

    NATIVE = "native"  # by the engine, over the wire
    SDK = "sdk"  # by the store's official Python client, in processes and threads of its own
    EMBEDDED = "embedded"  # as calls of a library in the measuring process


def lanes_of(store: type[Store]) -> tuple[Lane, ...]:
    """The lanes a store can be measured through, its default first."""
    if store.kind == "embedded":
        return (Lane.EMBEDDED,)
    return (Lane.SDK,) if store.protocol is None else (Lane.NATIVE, Lane.SDK)


def python_lane(store: type[Store]) -> Lane:
    """The lane of what goes through the store's own methods, as loading does."""
    return Lane.EMBEDDED if store.kind == "embedded" else Lane.SDK


def refuse_lane(store: type[Store], lane: Lane) -> None:
    """Raise `Unsupported`, with the reason, when the store has no such lane."""
    have = lanes_of(store)
    if lane in have:
        return
    if store.kind == "embedded":
        why = "it is a library, called in the process that holds its data"
    elif lane is Lane.EMBEDDED:
        why = "it is a server, which no call reaches inside the measuring process"
    else:
        why = "the engine does not speak its wire protocol"
    raise Unsupported(
        f"{store.name} has no lane '{lane}': {why}", remedy=f"lane = {_written(have)}"
    )


def _written(lanes: Sequence[Lane]) -> str:
    return " or ".join(f'"{lane}"' for lane in lanes)
