"""How another process opens the store of a trial."""

from __future__ import annotations

from vectrial.model.context import Context
from vectrial.model.store import Store
from vectrial.stores.registry import reference
from vectrial.workload.python.sdk_process import Opening


def opening_of(context: Context, store: Store | None = None) -> Opening:
    """Opening by which another process opens the context's store, or a second store."""
    store = context.store if store is None else store
    return Opening(
        store=reference(type(store)),
        location=store.location,
        address=context.address,
        schema=context.schema,
        index=context.index,
        durability=store.durability,
        existing=context.existing,
        dataset=context.dataset.name,
    )
