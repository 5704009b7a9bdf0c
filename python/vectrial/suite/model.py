"""Suite files, validated.

A suite is TOML. Lists among a store's `params` are grids: every combination is built.

    name = "mine"
    repeats = 3

    [[datasets]]
    name = "glove-words-50"
    rows = 50_000

    [[stores]]
    store = "hnswlib"
    index = "hnsw"
    params = { m = [16, 32], ef_construction = 128 }

    [[experiments]]
    experiment = "search"
    search = { ef_search = [16, 64, 256] }
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from vectrial.model.capabilities import Durability
from vectrial.model.errors import UserError
from vectrial.model.existing import Existing
from vectrial.model.inputs import ExactModel, Name, read_bytes
from vectrial.model.lane import Lane
from vectrial.model.placement import MOST_NODES, ClientLimits, Hosts, Placement, Provider
from vectrial.suite.validation import validate
from vectrial.util import variants

#: Maximum size of a suite file in bytes.
_MOST_BYTES = 4 << 20

Scalar = bool | int | float | str
Names = Annotated[list[Name], Field(min_length=1)]
Nodes = Annotated[int, Field(ge=1, le=MOST_NODES)]
VariantName = Annotated[str, Field(pattern=f"^{variants.PATTERN}$")]
Price = Annotated[float, Field(ge=0, le=1_000_000)]


class _Part(ExactModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DatasetRef(_Part):
    """A dataset by its name in the catalogue or the library.

    rows: number of first vectors to use. queries: number of first queries to use.
    metadata: false: the vectors alone, without metadata and filters.
    """

    name: Name
    rows: int | None = Field(default=None, gt=0)
    queries: int | None = Field(default=None, gt=0)
    metadata: bool = True


class ExistingRef(_Part):
    """A collection that is there already.

    collection: its name in the server. id, vector: fields with the id and the vector of a row; the
    server's own id, and the only vector there is, unless set. columns: names of the dataset's
    columns → fields of the collection, where these differ. where: condition that searches have, in
    the store's own words.
    """

    collection: Name
    id: str = ""
    vector: str = ""
    columns: dict[Name, Name] = Field(default_factory=dict)
    where: str = ""

    @property
    def existing(self) -> Existing:
        """The reference converted to what a store takes."""
        columns = dict(self.columns)
        return Existing(self.collection, self.id, self.vector, columns, where=self.where)


class StoreRef(_Part):
    """A store with the index to build.

    variant: a name for this entry, where a store stands in several that are compared: `redis@after`
        has variables of the environment of its own, such as VECTRIAL_REDIS_BIN__AFTER.
    index: its kind; the store's default unless set.
    params: build parameters; a list is a grid. datasets, experiments: restrict to these names.
    lane: how requests are issued; a list measures each lane, searches on the same loaded index.
    durability: as the suite's, for this store; "default" leaves it to the store.
    provider: source of the store's server; the first available unless set.
    nodes: number of nodes of the cluster that is started; a list measures each size.
    existing: a collection of a running server that is measured as it is: nothing is created,
        written or dropped. `index` and `params` then say which index it has.
    """

    store: Name
    variant: VariantName | None = None
    index: Name | None = None
    params: dict[str, Scalar | list[Scalar]] = Field(default_factory=dict)
    datasets: Names | None = None
    experiments: Names | None = None
    lane: Lane | Annotated[list[Lane], Field(min_length=1)] | None = None
    durability: Durability | Literal["default"] | None = None
    provider: Provider | None = None
    nodes: Nodes | Annotated[list[Nodes], Field(min_length=1)] = 1
    existing: ExistingRef | None = None

    @property
    def name(self) -> str:
        """The store's name in results, with its variant."""
        return variants.full_name(self.store, self.variant)

    def is_among(self, names: Collection[str]) -> bool:
        """True if one of the names is the store's, or this variant's."""
        return self.store in names or self.name in names

    @property
    def builds(self) -> int:
        """Number of indexes that are built of each dataset."""
        return math.prod(len(v) for v in self.params.values() if isinstance(v, list))

    @property
    def sizes(self) -> list[int]:
        """Number of nodes of each cluster."""
        return self.nodes if isinstance(self.nodes, list) else [self.nodes]


class ExperimentRef(ExactModel):
    """An experiment by name; every key but `stores` is a parameter of that experiment.

    stores: only these stores; all unless set.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    experiment: Name
    stores: Names | None = None

    def parameters(self) -> dict[str, Any]:
        """The parameters as written."""
        return dict(self.__pydantic_extra__ or {})


class Prices(_Part):
    """Prices of a machine, for the cost of a measured load.

    dated: the day these prices were read. source: where, for people. currency: "USD".
    vcpu_hour: per CPU and hour. gib_hour: per 2**30 bytes of memory and hour. gib_month: per
    2**30 bytes of disk and month of 730 hours.
    """

    dated: date
    source: Name
    currency: Annotated[Name, Field(max_length=8)]
    vcpu_hour: Price
    gib_hour: Price
    gib_month: Price

    @field_validator("dated")
    @classmethod
    def _check_dated(cls, dated: date) -> date:
        # It may be tomorrow already where the suite was written.
        if dated > date.today() + timedelta(days=1):
            raise ValueError("prices cannot have been read on a day that is yet to come")
        return dated


@dataclass(frozen=True)
class Rules:
    """The settings of a suite that apply to all its jobs; see `Suite`. providers: providers of
    stores' servers, by the name of store and variant, where the suite names one."""

    k: int
    seed: int
    batch_rows: int
    repeat_queries: bool
    trial_timeout_s: float
    placement: Placement
    hosts: Hosts | None
    client_limits: ClientLimits
    providers: Mapping[str, Provider]


#: See `Suite`.
Order = Literal["suite", "interleaved", "turns"]


def _usual_order(given: Mapping[str, Any]) -> Order:
    """The order if none is set, by the valid fields of a suite."""
    stores: list[StoreRef] = given.get("stores", [])
    is_one_machine = (
        given.get("hosts") is None
        and not given.get("placement", Placement()).client_machines
        and all(ref.sizes == [1] for ref in stores)
    )
    return "turns" if is_one_machine and sum(ref.builds for ref in stores) > 1 else "suite"


class Suite(_Part):
    """A whole suite file.

    k: neighbours per query. repeats: repeats of every trial; at least 3 for an interval.
    order: order of the stores within a repeat: as in the "suite"; "interleaved": every other repeat
        backwards, so that a drift of the machine affects all stores alike; or "turns": all stores
        are loaded, and their searches take turns of a moment, so that they meet the same machine.
        Turns if several builds on one machine are compared, unless set.
    batch_rows: rows per insert when loading. seed: seed of every random choice.
    durability: of acknowledged writes: "synced", "buffered" or "memory"; each store's default
        unless set.
    repeat_queries: timed searches repeat the dataset's queries exactly, which a store may cache;
        else each is changed a little every time.
    trial_timeout_s: a trial that takes longer is ended and fails; its finished phases are kept.
    warm_up_s: seconds for which each server is searched before anything counts; unless given, those
        that its store declares.
    placement: CPU cores of clients and servers.
    hosts: the simulated hosts on which nodes of clusters run; unless given they share one.
    client_limits: beyond these a trial of the native lane is client-bound.
    prices: for the cost of the measured load in the report.
    """

    name: Name
    description: str = ""
    seed: int = Field(default=42, ge=0, le=2**62)
    repeats: int = Field(default=3, ge=1, le=1000)
    k: int = Field(default=10, ge=1, le=10_000)
    batch_rows: int = Field(default=1000, ge=1, le=1_000_000)
    durability: Durability | None = None
    repeat_queries: bool = False
    trial_timeout_s: float = Field(default=3600, gt=0, le=30 * 86_400)
    warm_up_s: float | None = Field(default=None, ge=0, le=86_400)
    placement: Placement = Placement()
    hosts: Hosts | None = None
    client_limits: ClientLimits = ClientLimits()
    prices: Prices | None = None
    datasets: list[DatasetRef] = Field(min_length=1)
    stores: list[StoreRef] = Field(min_length=1)
    experiments: list[ExperimentRef] = Field(min_length=1)
    order: Order = Field(default_factory=_usual_order)

    @field_validator("stores")
    @classmethod
    def _check_providers(cls, stores: list[StoreRef]) -> list[StoreRef]:
        known: dict[str, Provider | None] = {}
        for ref in stores:
            if known.setdefault(ref.name, ref.provider) != ref.provider:
                raise ValueError(f"all entries of '{ref.name}' need the same provider")
        return stores

    @field_validator("stores")
    @classmethod
    def _check_variables(cls, stores: list[StoreRef]) -> list[StoreRef]:
        known: dict[tuple[str, str], str] = {}
        for ref in stores:
            if ref.variant is not None:
                ending = variants.suffix(ref.variant)
                other = known.setdefault((ref.store, ending), ref.variant)
                if other != ref.variant:
                    raise ValueError(
                        f"the variants '{other}' and '{ref.variant}' of {ref.store} would have the"
                        f" same variables of the environment, ending in {ending}"
                    )
        return stores

    @model_validator(mode="after")
    def _check_hosts(self) -> Suite:
        if self.hosts is not None and self.placement.client_machines:
            raise ValueError(
                "[hosts] are simulated on one machine, which client machines do not reach: give"
                " placement.client_machines or [hosts]"
            )
        return self

    def with_stores(self, stores: Collection[str]) -> Suite:
        """The suite with these stores and their experiments only."""
        experiments = []
        for ref in self.experiments:
            names = ref.stores
            if names is not None:
                names = [name for name in names if _is_one_of(name, stores)]
            if names != []:
                experiments.append(ref.model_copy(update={"stores": names}))
        own = [ref for ref in self.stores if ref.is_among(stores)]
        return self.model_copy(update={"stores": own, "experiments": experiments})

    def with_repeats(self, repeats: int, where: str) -> Suite:
        """The suite with another number of repeats. where: its source, for messages.

        Raises:
            UserError: it is out of range.
        """
        return validate(Suite, {**self.model_dump(), "repeats": repeats}, where)

    @property
    def rules(self) -> Rules:
        """The settings that apply to all jobs of the suite."""
        return Rules(
            self.k,
            self.seed,
            self.batch_rows,
            self.repeat_queries,
            self.trial_timeout_s,
            self.placement,
            self.hosts,
            self.client_limits,
            {ref.name: ref.provider for ref in self.stores if ref.provider is not None},
        )

    def provider(self, name: str) -> Provider | None:
        """The provider of the server of a store, or of a variant (`redis@before`); None: the first
        available."""
        return next((ref.provider for ref in self.stores if ref.name == name), None)


def _is_one_of(name: str, names: Collection[str]) -> bool:
    """True if one of the names is the same, one of its variants, or the store of this variant."""
    if name in names or variants.store_of(name) in names:
        return True
    return any(variants.store_of(other) == name for other in names)


def read_suite(path: Path) -> Suite:
    """The suite in a TOML file.

    Raises:
        UserError: no such file, a syntax error (with its line), or a key that is unknown,
            missing or of the wrong kind (with its name and what was expected).
    """
    return parse_suite(suite_text(path), str(path))


def suite_text(path: Path) -> str:
    """The text of a suite file, which may be a pipe: it is read once.

    Raises:
        UserError: it cannot be read.
    """
    try:
        return read_bytes(path, _MOST_BYTES, pipes=True).decode("utf-8")
    except (OSError, ValueError) as error:  # UnicodeDecodeError is a ValueError
        why = error.strerror if isinstance(error, OSError) else error
        raise UserError(
            f"the suite cannot be read: {why}",
            where=str(path),
            remedy="`vectrial run --help` names the suites that come with Vectrial",
        ) from error


def parse_suite(text: str, where: str) -> Suite:
    """The suite in the text of a file called `where`; see `read_suite`."""
    try:
        plain = tomllib.loads(text)
    except ValueError as error:  # of the syntax, or of a number with thousands of digits
        raise UserError(f"not valid TOML: {error}", where=where) from error
    except RecursionError as error:
        raise UserError("not valid TOML: it is nested too deeply", where=where) from error
    return validate(Suite, plain, where)
