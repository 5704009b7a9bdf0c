"""Lanes: who issues the requests of a store's searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from vectrial.model.capabilities import Index, Returning
from vectrial.model.errors import Unsupported
from vectrial.model.schema import Schema
from vectrial.model.store import Store


class Lane(StrEnum):
    """Method of issuing requests."""

    NATIVE = "native"  # by the engine, over the wire
    SDK = "sdk"  # by the store's official Python client, in its own processes and threads
    EMBEDDED = "embedded"  # as calls of a library in the measuring process


def lanes_of(store: type[Store]) -> tuple[Lane, ...]:
    """The lanes a store can be measured through, its default first."""
    if store.kind == "embedded":
        return (Lane.EMBEDDED,)
    return (Lane.SDK,) if store.protocol is None else (Lane.NATIVE, Lane.SDK)


def python_lane(store: type[Store]) -> Lane:
    """The lane of operations that go through the store's own methods, such as loading."""
    return Lane.EMBEDDED if store.kind == "embedded" else Lane.SDK


def writes_natively(store: type[Store]) -> bool:
    """True if the native lane writes, reads and deletes the store's rows."""
    return store.native_rows is not Store.native_rows


def refuse_lane(store: type[Store], lane: Lane) -> None:
    """Raise `Unsupported`, with the reason, if the store has no such lane."""
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
        f"{store.name} has no lane '{lane}': {why}", remedy=f"lane = {_list_lanes(have)}"
    )


def refuse_search_params(
    store: type[Store], index: Index, lane: Lane, point: Mapping[str, Any]
) -> None:
    """Raise `Unsupported`, with the reason, if a lane cannot search with these parameters."""
    if lane is not Lane.NATIVE:
        return
    for name, values in store.capabilities.indexes[index.kind].not_native.items():
        if point.get(name) in values:
            raise Unsupported(
                f"{store.name}: the engine does not ask with {name} = {point[name]}",
                remedy='lane = "sdk"',
            )


def refuse_returning(
    store: type[Store],
    index: Index,
    schema: Schema,
    lane: Lane,
    returning: Returning,
    clients: int,
) -> None:
    """Raise `Unsupported`, with the reason, if searches through a lane cannot return this."""
    if returning is Returning.METADATA and not schema.fields:
        raise Unsupported("the dataset has no metadata that a search could return")
    can = store.capabilities.for_index(index.kind)
    if returning is Returning.IDS or returning in can.returns:
        return
    if lane is Lane.NATIVE:
        raise Unsupported(
            f"{store.name}: a search over the wire returns no {returning}",
            remedy="through another lane they are fetched by a second request",
        )
    if not can.get:
        raise Unsupported(f"{store.name} has neither searches that return {returning} nor a get")
    if lane is Lane.EMBEDDED and clients > 1:
        raise Unsupported(
            f"{store.name}: its searches return no {returning}, and rows are not read by several"
            " threads at once"
        )


def _list_lanes(lanes: Sequence[Lane]) -> str:
    return " or ".join(f'"{lane}"' for lane in lanes)
