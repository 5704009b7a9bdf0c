"""Declarations of a store: its index kinds, filters, metrics, lanes and limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from annotated_types import Ge, Gt, Le, Lt
from pydantic import ConfigDict, Field

from vectrial.model.existing import Attaching
from vectrial.model.filters import OPERATORS
from vectrial.model.fusion import Fusion
from vectrial.model.inputs import ExactModel
from vectrial.model.metric import Metric, ScoreKind
from vectrial.model.schema import FieldType

#: All operators of the filter algebra, for stores that translate every one.
ALL_OPERATORS = frozenset(OPERATORS)


class Params(ExactModel):
    """Base of a store's build and search parameters: validated when the plan is made."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class NoParams(Params):
    """For an index that has nothing to set."""


class Spreading(Params):
    """Base of the build parameters of stores whose rows can be spread over nodes.

    shards: parts of the rows, each with a graph of its own; one for each node unless given.
    replication_factor: copies of each part, on different nodes; one unless given.
    """

    shards: int | None = Field(default=None, ge=1, le=1024)
    replication_factor: int | None = Field(default=None, ge=1, le=64)


class Returning(StrEnum):
    """Parts of a row that a search returns, beside its id and score."""

    IDS = "ids"  # nothing
    METADATA = "metadata"  # every metadata column
    VECTORS = "vectors"  # the vector


class Durability(StrEnum):
    """State of a write when it is acknowledged."""

    SYNCED = "synced"  # it is on the disk: it outlives a power cut
    BUFFERED = "buffered"  # it is in a log or a file that the system writes out within seconds
    MEMORY = "memory"  # it is in the process, and gone with it


@dataclass(frozen=True)
class IndexKind:
    """One kind of index that a store offers.

    build, search: the parameter models. Use the field's names: m, ef_construction, ef_search,
        nlist, nprobe. Defaults are the store's own, so that a suite may leave them out.
    exact: every search returns the true neighbours. Such an index is called "flat".
    recall_floor: the recall that the gate demands at `high_recall_params`, on data with structure;
        recall_floors: by metric, where it differs; filtered_floor and filtered_floors: the same of
        filtered searches, where these lose more.
    high_recall_params: search parameters at which a correct index is nearly exact; the first is
        the one that trades speed for recall.
    tuning_ranges: least and greatest values of build parameters worth tuning, where these differ
        from the ranges of `vectrial.tune.space`.
    strong_consistency_params: search parameters under which a search sees every change that was
        acknowledged before it, where the store's default does not promise that.
    not_native: search parameters, each with the values under which the native lane cannot ask.
    filters: operators a search under this index may use; None means the store's.
    unsupported: the store's operations that this index does not have, by their names in
        `Capabilities`: "get", "scan", "upsert", "delete", "inserts_after_build", ….
    candidates: the search parameter that an answer cannot have more rows than.
    most_dim: maximum dimension under this index, if it is lower than the store's.
    least_rows: rows without which it cannot be built with these build parameters; None: it can be.
    exact_scores: scores are those of the vectors; False: estimates from compressed vectors.
    """

    build: type[Params] = NoParams
    search: type[Params] = NoParams
    exact: bool = False
    recall_floor: float = 0.9
    recall_floors: Mapping[Metric, float] = field(default_factory=dict)
    filtered_floor: float | None = None
    filtered_floors: Mapping[Metric, float] = field(default_factory=dict)
    high_recall_params: Mapping[str, Any] = field(default_factory=dict)
    tuning_ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    strong_consistency_params: Mapping[str, Any] = field(default_factory=dict)
    not_native: Mapping[str, frozenset[Any]] = field(default_factory=dict)
    metrics: frozenset[Metric] | None = None
    filters: frozenset[str] | None = None
    unsupported: frozenset[str] = frozenset()
    candidates: str = "ef_search"
    most_dim: int | None = None
    least_rows: Callable[[Any], int] | None = None
    exact_scores: bool = True

    def __post_init__(self) -> None:
        """Raise if a parameter is in no model of this kind.

        Raises:
            ValueError: naming the parameters.
        """
        for field_name, names, model in (
            ("high_recall_params", self.high_recall_params, self.search),
            ("strong_consistency_params", self.strong_consistency_params, self.search),
            ("not_native", self.not_native, self.search),
            ("tuning_ranges", self.tuning_ranges, self.build),
        ):
            if unknown := sorted(set(names) - model.model_fields.keys()):
                raise ValueError(f"{field_name}: {model.__name__} has no {', '.join(unknown)}")

    @property
    def recall_parameter(self) -> str | None:
        """The search parameter that trades speed for recall, or None if there is none."""
        return next(iter(self.high_recall_params), None)

    def nearly_exact(self, k: int, **others: Any) -> Params:
        """Search parameters that make answers of k rows nearly exact, with `others` set too."""
        settings = {**self.high_recall_params, **others}
        if self.candidates in self.high_recall_params:
            _, most = bounds(self.search.model_fields[self.candidates].metadata)
            least = k if most is None else min(k, int(most))
            settings[self.candidates] = max(settings[self.candidates], least)
        return self.search.model_validate(settings)

    def floor(self, metric: Metric, *, filtered: bool = False) -> float:
        """The recall that the gate demands under a metric, with or without a filter."""
        unfiltered = self.recall_floors.get(metric, self.recall_floor)
        if not filtered:
            return unfiltered
        floor = self.filtered_floors.get(metric, self.filtered_floor)
        return unfiltered if floor is None else floor


def bounds(metadata: Sequence[object]) -> tuple[float | None, float | None]:
    """Lower and upper bound that a parameter model's field declares; None for no bound."""
    low: float | None = None
    high: float | None = None
    for one in metadata:
        match one:
            case Ge(ge=value) | Gt(gt=value) if isinstance(value, int | float):
                low = value
            case Le(le=value) | Lt(lt=value) if isinstance(value, int | float):
                high = value
    return low, high


@dataclass(frozen=True)
class Index:
    """An index as a suite asks for it: a kind of the store's, with validated parameters."""

    kind: str
    params: Params


@dataclass(frozen=True)
class Hybrid:
    """A store's search by a vector and a text at once.

    fusions: the default first, each with how the store does it and which rows take part.
    text: how words are tokenized and scored, for the reader.
    whole_text: every row with a word of the query takes part, not only the best rows.
    rows_per_k: rows that each ranking brings per row of the answer, if the store decides.
    equal_weights: any α between 0 and 1 weighs both rankings alike.
    """

    fusions: Mapping[Fusion, str]
    text: str
    whole_text: bool = False
    rows_per_k: int | None = None
    equal_weights: bool = False

    def candidates(self, wanted: int, k: int) -> int:
        """Rows that each ranking brings to an answer of k rows, given the search's `wanted`."""
        return max(wanted, k) if self.rows_per_k is None else self.rows_per_k * k

    def weighs(self, alpha: float) -> bool:
        """True if the store weighs the two rankings by this α."""
        return not self.equal_weights or alpha in (0.0, 0.5, 1.0)


@dataclass(frozen=True)
class BulkImport:
    """Import of files from an object store. service: name of the object store among the services of
    its cluster. bucket: the bucket in which the servers keep their own files."""

    service: str
    bucket: str


@dataclass(frozen=True)
class Capabilities:
    """The abilities that a store declares; no other code looks them up by the store's name.

    scores: the metrics, each with the meaning of the scores that its searches return.
    score_error: absolute error of scores that are derived from others near 1, such as 1 / (1 + d):
        float32 keeps equally much of them whatever the length of the vectors.
    indexes: kinds of index by the name used in suites.
    default_index: the kind used if a suite names none; unless given, the only kind there is.
    filters: operators of the filter algebra that `search` honours; empty: no filtered search.
    find: operators that `find` (no vector) honours; empty: no find.
    find_brings_rows: `find` asks the server for whole rows, not for their ids alone.
    field_types: metadata column types; empty: no metadata at all.
    nulls: metadata values may be missing. nul_in_text: texts may contain U+0000. spaces_in_text:
        filters distinguish texts that differ only by white space at an end.
    norms: least and greatest vector length between which cosine depends on directions alone.
    l2_of_products: a squared distance is computed as |q|² - 2q·x + |x|² in float32, whose rounding
        is relative to the lengths; the rounding of a squared difference is relative to the
        distance.
    text_bytes: greatest length of a text in a column; columns: greatest number of columns;
        most_dim: greatest dimension; most_k: most rows of an answer; kept_int and most_int:
        magnitudes up to which whole numbers are kept, and up to which filters distinguish them.
        None: no limit is known.
    partitions: how `Field.partitions` stores rows apart by a column of whole numbers, so that a
        search for one value looks at no other part; None: it does not.
    payload_index: `Field.indexed` makes a difference: an index can be left off.
    filters_need_index: a column without an index can be stored and read, but not filtered by.
    get, scan, upsert, delete: the operation exists; `upsert` gives an existing id a new vector and
        new metadata.
    persistent: flushed data survives `close` and `open`.
    concurrent_search: searchers may be called from several threads at once.
    inserts_after_build: rows may be added after `build` without rebuilding.
    refuses_duplicates: `insert` raises for an id that exists already or occurs twice in its batch;
        else the outcome is up to the library, and the caller must avoid duplicates.
    returns: parts of a row that a search can return by itself; for the others `searcher_returning`
        fetches the rows by a second request, as a user of the store would have to.
    durability: states that a write can have when it is acknowledged, the default first, each with
        the setting that ensures it; empty: nothing is promised.
    buffered_s: seconds after which a buffered write is on the disk: by the store's own setting, or
        else when Linux has written out its page (after 30 s, checked every 5 s).
    warm_up_s: seconds of searching before anything counts: a server that compiles its code while it
        runs is slow for longer than a few hundred searches.
    clusters: its server can be started as a cluster of several nodes.
    primary: only the first node takes writes; searches and reads of the native lane go to all
        nodes, clients of the sdk lane to the first.
    bulk_import: where a cluster of its servers imports files from that are already in an object
        store; None: it does not.
    hybrid: how it searches by vector and text at once, or why it does not, after its name.
    existing: how it reads collections that somebody else made; None: it does not.
    caveats: what this store forces and others do not, in short sentences for the reader.
    """

    scores: Mapping[Metric, ScoreKind]
    indexes: Mapping[str, IndexKind]
    default_index: str | None = None
    score_error: float = 0.0
    filters: frozenset[str] = frozenset()
    find: frozenset[str] = frozenset()
    find_brings_rows: bool = False
    field_types: frozenset[FieldType] = frozenset()
    nulls: bool = False
    nul_in_text: bool = True
    spaces_in_text: bool = True
    norms: tuple[float, float] = (0.0, math.inf)
    l2_of_products: bool = False
    text_bytes: int | None = None
    columns: int | None = None
    most_dim: int | None = None
    most_k: int | None = None
    kept_int: int | None = None
    most_int: int | None = None
    partitions: str | None = None
    payload_index: bool = False
    filters_need_index: bool = False
    get: bool = True
    scan: bool = True
    upsert: bool = True
    delete: bool = True
    persistent: bool = False
    concurrent_search: bool = False
    inserts_after_build: bool = True
    refuses_duplicates: bool = False
    returns: frozenset[Returning] = frozenset({Returning.IDS})
    durability: Mapping[Durability, str] = field(default_factory=dict)
    buffered_s: float = 36.0
    warm_up_s: float = 0.0
    clusters: bool = False
    primary: bool = False
    bulk_import: BulkImport | None = None
    hybrid: Hybrid | str = "has no search by the words of a text"
    existing: Attaching | None = None
    caveats: tuple[str, ...] = ()

    def index_or_default(self, name: str | None) -> str | None:
        """The kind of index of a suite that names this kind or none; None if the suite has to name
        one."""
        only = next(iter(self.indexes)) if len(self.indexes) == 1 else None
        return name or self.default_index or only

    def preferred_index(self, metric: Metric | None = None) -> str:
        """The first kind of index that trades recall for speed, or else the first kind; limited to
        kinds with this metric unless it is None."""
        kinds = {
            name: kind
            for name, kind in self.indexes.items()
            if metric is None or kind.metrics is None or metric in kind.metrics
        }
        return next(
            (name for name, kind in kinds.items() if kind.recall_parameter), next(iter(kinds))
        )

    def for_index(self, index: str) -> Capabilities:
        """The capabilities under one kind of index; KeyError if there is no such kind."""
        kind = self.indexes[index]
        lacking: dict[str, Any] = dict.fromkeys(kind.unsupported, False)
        metrics = self.scores if kind.metrics is None else kind.metrics
        return replace(
            self,
            scores={metric: score for metric, score in self.scores.items() if metric in metrics},
            filters=self.filters if kind.filters is None else kind.filters,
            **lacking,
        )


@dataclass(frozen=True)
class Environment:
    """A Python environment of a store's own, for pins that conflict with everyone else's.

    name: its lock file, `locks/<name>.lock` of a package (see `vectrial.util.environments`).
        Hardware that its libraries need is named beside it, in `<name>.needs`.
    python: the interpreter it needs ("3.11").
    objects: the lock has the client of object stores.
    """

    name: str
    python: str = "3.11"
    objects: bool = False
