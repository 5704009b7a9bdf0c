"""Collections that somebody else made: they are only read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.errors import StoreError, UserError
from vectrial.model.metric import Metric
from vectrial.model.schema import FieldType

#: Ids that are looked at to tell integers from texts.
SAMPLE = 1_000
#: The greatest int64.
_MOST = 2**63 - 1
T = TypeVar("T")


@dataclass(frozen=True)
class Existing:
    """A collection that exists already, described by the user's names.

    collection: its name in the server.
    id, vector: fields with the id and the vector of a row; empty: the server's own id, and the only
        vector that a row has.
    columns: names of metadata columns → fields of the collection, if these differ.
    metric: the metric to search by if the collection has several; None: its only metric.
    where: condition that the application's searches have, in the store's own words: only the rows
        that it keeps count as the collection. Empty: all rows.
    """

    collection: str
    id: str = ""
    vector: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    metric: Metric | None = None
    where: str = ""


@dataclass(frozen=True)
class Description:
    """A collection as its server describes it.

    id, vector: as in `Existing`, filled in.
    rows: number of rows with a vector.
    metric: None if the server does not say how vectors are compared.
    index, params: kind of index, as the store declares it, and the build parameters that are known.
    text_ids: ids are texts or UUIDs, not integers.
    fields: other fields of a row, of the types that filters know.
    search: search parameters without which the server would not use the index.
    notes: remarks on how it is searched, for the reader.
    """

    id: str
    vector: str
    rows: int
    dim: int
    metric: Metric | None
    index: str
    params: Mapping[str, Any]
    text_ids: bool
    fields: Mapping[str, FieldType] = field(default_factory=dict)
    search: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Attaching:
    """A store's declaration of how it reads collections that somebody else made.

    settings: search parameters that are settings of the collection there: searches use the values
        that it has.
    defaults: a search parameter that is not given keeps the server's default.
    condition: an example of a condition in the store's own words, for `Existing.where`; empty: the
        store takes none.
    """

    settings: frozenset[str] = frozenset()
    defaults: bool = False
    condition: str = ""


class Keys(Protocol):
    """Maps the keys of a collection's rows to their int64 ids here, and back."""

    def ids(self, keys: Sequence[Any]) -> NDArray[np.int64]:
        """Ids (n,) of these keys; -1 for an unknown key."""
        ...

    def keys(self, ids: Sequence[int] | NDArray[np.int64]) -> list[Any]:
        """Keys of these ids; ids without a key are left out."""
        ...


class IntegerKeys:
    """Keys that are the ids themselves; a server may have them as digits."""

    def ids(self, keys: Sequence[Any]) -> NDArray[np.int64]:
        """See `Keys`. Raises `StoreError` for a key that is no int64."""
        try:
            return np.fromiter(map(int, keys), np.int64, len(keys))
        except (ValueError, OverflowError) as error:
            raise StoreError(f"the id of a row is no 64-bit integer: {error}") from error

    def keys(self, ids: Sequence[int] | NDArray[np.int64]) -> list[Any]:
        """See `Keys`."""
        return list(np.asarray(ids, np.int64).tolist())


class NumberedKeys:
    """Keys that are texts, with numbered rows."""

    def __init__(self, keys: pa.ChunkedArray[Any], ids: NDArray[np.int64]) -> None:
        """keys: texts or integers (n), distinct. ids: ids of the same rows (n,)."""
        texts = map(str, keys.to_pylist())
        self._id_of = dict(zip(texts, ids.tolist(), strict=True))
        self._key_of: dict[int, str] | None = None

    def ids(self, keys: Sequence[Any]) -> NDArray[np.int64]:
        """See `Keys`."""
        known = self._id_of.get
        return np.fromiter((known(str(key), -1) for key in keys), np.int64, len(keys))

    def keys(self, ids: Sequence[int] | NDArray[np.int64]) -> list[Any]:
        """See `Keys`."""
        if self._key_of is None:  # only reads by id need it
            self._key_of = {id_: key for key, id_ in self._id_of.items()}
        wanted = np.asarray(ids, np.int64).tolist()
        return [self._key_of[one] for one in wanted if one in self._key_of]


class NewKeys:
    """Keys that are texts, with rows numbered as they are read. texts: keys in the order of ids."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def ids(self, keys: Sequence[Any]) -> NDArray[np.int64]:
        """See `Keys`. Each call is for new rows."""
        first = len(self.texts)
        self.texts += map(str, keys)
        return np.arange(first, len(self.texts), dtype=np.int64)

    def keys(self, ids: Sequence[int] | NDArray[np.int64]) -> list[Any]:
        """See `Keys`."""
        return [self.texts[at] for at in np.asarray(ids, np.int64).tolist()]


def require_id(existing: Existing, id_: str, words: str) -> None:
    """Check that rows are identified by `id_`, the only way in which a server identifies them.
    words: phrase for it that follows "rows are known by".

    Raises:
        UserError: another field is named.
    """
    if existing.id not in ("", id_):
        raise UserError(f"rows are known by {words}", where="--id", remedy="leave it out")


def only_vector(names: Sequence[str], owner: str, kind: str) -> str:
    """Name of the only vector field. owner: its owner, for people. kind: field kind, e.g. "column".

    Raises:
        UserError: there is none, or there are several.
    """
    if len(names) != 1:
        raise UserError(
            f"{owner} has not one {kind} of vectors, but {', '.join(names) or 'none'}",
            remedy="name it: --vector NAME",
        )
    return names[0]


def named_vector(vectors: Mapping[str, T], requested_name: str, collection: str) -> tuple[str, T]:
    """The vector of this name, or the only vector if `requested_name` is empty, with what is known
    of it.

    Raises:
        UserError: there is none, or there are several.
    """
    found = {name: about for name, about in vectors.items() if requested_name in ("", name)}
    if len(found) != 1:
        raise UserError(
            f"collection '{collection}' has the vectors {', '.join(vectors)}",
            remedy="name one: --vector NAME",
        )
    return next(iter(found.items()))


def are_integers(keys: Sequence[Any]) -> bool:
    """True if these keys, integers or their digits, can be ids unchanged: 0 or more, in int64."""
    return all(
        text.isascii() and text.isdigit() and str(int(text)) == text and int(text) <= _MOST
        for text in map(str, keys)
    )
