"""Opening collections that somebody else made, in any process."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from vectrial.model.capabilities import Index
from vectrial.model.dataset import OWN_IDS, Dataset
from vectrial.model.errors import StoreError, UserError
from vectrial.model.existing import Description, Existing, IntegerKeys, Keys, NumberedKeys
from vectrial.model.schema import Schema
from vectrial.model.store import Address, Store


def keys_of(dataset: Dataset) -> Keys:
    """Ids of a dataset's rows in the collection: the user's own ids if the dataset has them, else
    the dataset's."""
    if (own := dataset.own_ids) is None:
        return IntegerKeys()
    return NumberedKeys(own, dataset.ids)


def without_own_ids(dataset: Dataset) -> Dataset:
    """A dataset without the column of the user's own ids, which are the collection's ids."""
    column = dataset.facts.get(OWN_IDS)
    if dataset.metadata is None or column not in dataset.metadata.column_names:
        return dataset
    left = dataset.metadata.drop_columns([column])
    return replace(dataset, metadata=left if left.num_columns else None)


def open_existing(
    kind: type[Store],
    location: Path,
    address: Address,
    existing: Existing,
    schema: Schema,
    index: Index,
    keys: Keys,
) -> Store:
    """A store opened read-only on a collection that somebody else made.

    Args:
        location: the store's folder; nothing is written there.
        existing, schema, index, keys: see `Store.attach`.

    Raises:
        UserError: the server has no such collection, or it does not match `schema` and `index`.
    """
    store = kind(location, replace(address, read_only=True))
    try:
        found = store.describe(replace(existing, metric=schema.metric))
        check(found, schema, index)
        named = replace(existing, id=found.id, vector=found.vector)
        store.attach(named, schema, index, keys)
    except BaseException:
        with suppress(StoreError):
            store.close()
        raise
    return store


def check(description: Description, schema: Schema, index: Index) -> None:
    """Check a collection against the suite's description of it.

    Raises:
        UserError: they differ; the message says where.
    """
    if description.dim != schema.dim:
        raise UserError(
            f"the collection has vectors of {description.dim} components,"
            f" the dataset of {schema.dim}",
            remedy="name the dataset that has the collection's rows",
        )
    if description.metric not in (None, schema.metric):
        raise UserError(
            f"the collection's index is for {description.metric}, the dataset for {schema.metric}",
            remedy="vectors are compared as the index does",
        )
    built = index.params.model_dump(mode="json")
    asked = {name: built.get(name) for name in description.params}
    if description.index != index.kind or asked != dict(description.params):
        params = ", ".join(f"{name} = {value}" for name, value in description.params.items())
        raise UserError(
            f"the collection's index is {description.index} ({params}), not {index.kind} ({asked})",
            remedy=f'in the suite: index = "{description.index}", params = {{ {params} }}',
        )
