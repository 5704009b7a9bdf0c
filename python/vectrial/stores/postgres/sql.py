"""The SQL of a collection in PostgreSQL, and the parameters that it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field as Bound
from pydantic import model_validator

from vectrial.model.capabilities import Params
from vectrial.model.metric import Metric
from vectrial.model.schema import FieldType, Schema
from vectrial.stores.common.sql import quoted

TYPES: Mapping[FieldType, str] = {
    FieldType.INT: "int8",
    FieldType.FLOAT: "float8",
    FieldType.STRING: "text",
    FieldType.BOOL: "bool",
}
#: Longer texts may not fit into a page of a B-tree, which refuses the row; a hash index takes any,
#: and filters of texts ask for equality alone.
_BTREE_BYTES = 2_600
#: Types of ids that are read as they are.
INTEGERS = frozenset({"smallint", "integer", "bigint"})
OPERATORS = {Metric.L2: "<->", Metric.COSINE: "<=>", Metric.IP: "<#>"}
_CLASSES = {
    Metric.L2: "vector_l2_ops",
    Metric.COSINE: "vector_cosine_ops",
    Metric.IP: "vector_ip_ops",
}


class HnswScan(StrEnum):
    """Continuation of a search when the candidates it held are used up."""

    OFF = "off"
    STRICT = "strict_order"
    RELAXED = "relaxed_order"


class IvfScan(StrEnum):
    """Continuation of a search in further lists."""

    OFF = "off"
    RELAXED = "relaxed_order"


class _Build(Params):
    """memory_mb: maintenance_work_mem; a graph that does not fit is built much more slowly.
    workers: processes that help to build (max_parallel_maintenance_workers)."""

    memory_mb: int = Bound(default=1024, ge=64, le=2_097_151)
    workers: int = Bound(default=2, ge=0, le=1024)

    def session(self) -> dict[str, str]:
        """Settings under which the index is built."""
        return {
            "maintenance_work_mem": f"{self.memory_mb}MB",
            "max_parallel_maintenance_workers": str(self.workers),
        }


class PgHnswBuild(_Build):
    """m, ef_construction: parameters of the graph (the lowest layer has up to 2m links); the latter
    is at least 2m. memory_mb, workers: of building it."""

    m: int = Bound(default=16, ge=2, le=100)
    ef_construction: int = Bound(default=64, ge=4, le=1000)

    @model_validator(mode="after")
    def _check_ef_construction(self) -> PgHnswBuild:
        if self.ef_construction < 2 * self.m:
            raise ValueError("ef_construction is at least 2 m")
        return self


class _Search(Params):
    """seqscan: the planner may read the whole table instead (enable_seqscan); None: it may not.

    On a table that somebody else made, what is not given is as the server and the role have it.
    """

    seqscan: bool | None = None


class PgHnswSearch(_Search):
    """ef_search: candidates held during the search. iterative_scan: whether the
    search continues for more; None: strict_order under a filter, else off. It ends after
    max_scan_tuples candidates, or when these take scan_mem_multiplier times work_mem."""

    ef_search: int = Bound(default=40, ge=1, le=1000)
    iterative_scan: HnswScan | None = None
    max_scan_tuples: int = Bound(default=20_000, ge=1, le=2**31 - 1)
    scan_mem_multiplier: float = Bound(default=1.0, ge=1.0, le=1000.0)


class PgIvfBuild(_Build):
    """nlist: lists that the vectors are divided among. memory_mb, workers: of building them."""

    nlist: int = Bound(default=100, ge=1, le=32_768)


class PgIvfSearch(_Search):
    """nprobe: lists that are looked at. iterative_scan: whether further ones are for more; None:
    relaxed_order under a filter, and sorted afterwards, else off."""

    nprobe: int = Bound(default=1, ge=1, le=32_768)
    iterative_scan: IvfScan | None = None


def index_name(table: str) -> str:
    """Name of the index on a table's vectors."""
    return f"{table}_vector"


def create(table: str, schema: Schema, further: Iterable[str] = ()) -> str:
    """The statement that creates an empty table. further: columns beyond those of the schema."""
    columns = ["id int8 PRIMARY KEY", f"vector vector({schema.dim}) NOT NULL"]
    columns += [f"{schema.columns[field.name]} {TYPES[field.type]}" for field in schema.fields]
    columns += further
    return f"CREATE TABLE {table} ({', '.join(columns)})"


def build(table: str, schema: Schema, params: Params) -> Iterator[str]:
    """The statements that index a loaded table: its vectors, and the fields that ask for it."""
    name = index_name(table)
    yield f"DROP INDEX IF EXISTS {name}"
    on = f"CREATE INDEX {name} ON {table} USING"
    kind = f"(vector {_CLASSES[schema.metric]})"
    if isinstance(params, PgHnswBuild):
        yield f"{on} hnsw {kind} WITH (m = {params.m}, ef_construction = {params.ef_construction})"
    if isinstance(params, PgIvfBuild):
        yield f"{on} ivfflat {kind} WITH (lists = {params.nlist})"
    for field in schema.fields:
        if field.indexed:
            column = schema.columns[field.name]
            using = "USING hash " if field.longest > _BTREE_BYTES else ""
            yield f"CREATE INDEX IF NOT EXISTS {table}_{column} ON {table} {using}({column})"


def upsert(table: str, schema: Schema) -> str:
    """The statement that writes a row, whether or not its id exists."""
    columns = ["vector", *schema.columns.values()]
    places = ", ".join(f"${at}" for at in range(1, len(columns) + 2))
    change = ", ".join(f"{column} = EXCLUDED.{column}" for column in columns)
    return (
        f"INSERT INTO {table} (id, {', '.join(columns)}) VALUES ({places}) "
        f"ON CONFLICT (id) DO UPDATE SET {change}"
    )


@dataclass(frozen=True)
class TableNames:
    """A table and its columns with ids and vectors, by their names.

    namespace: the schema it is in; empty: the one that is found first. id_type: as PostgreSQL calls
    it; ids of other types than integers are read as text.
    expression: what is searched, where an index is over more than the column; operand: its type.
    predicate: the condition under which an index has a row; empty: it has all.
    own: it was made by Vectrial, whose searches choose their settings.
    """

    table: str
    id: str = "id"
    vector: str = "vector"
    namespace: str = ""
    id_type: str = "bigint"
    expression: str = ""
    operand: str = "vector"
    predicate: str = ""
    own: bool = True

    @property
    def path(self) -> str:
        """The table's path in SQL."""
        return ".".join(quoted(part) for part in (self.namespace, self.table) if part)

    @property
    def id_column(self) -> str:
        """The id in SQL, as it is read."""
        return quoted(self.id) + ("" if self.id_type in INTEGERS else "::text")

    @property
    def searched(self) -> str:
        """The SQL expression with which a query is compared."""
        return self.expression or quoted(self.vector)

    @property
    def query(self) -> str:
        """The query $1 in SQL, in the form in which it is compared."""
        return "$1" if self.operand == "vector" else f"$1::vector::{self.operand}"

    @property
    def vector_output(self) -> str:
        """The vector in SQL, as it is read: the searched expression, as float32."""
        return self.searched if self.operand == "vector" else f"({self.searched})::vector"

    @property
    def with_vector(self) -> str:
        """The condition for rows that searches can find."""
        return self.within(f"{quoted(self.vector)} IS NOT NULL")

    def within(self, condition: str | None) -> str:
        """A condition combined with the index's predicate; empty if there is neither."""
        parts = [f"({one})" for one in (self.predicate, condition) if one]
        return " AND ".join(parts) if len(parts) > 1 else "".join(parts)[1:-1]

    @property
    def of_ids(self) -> str:
        """The condition for rows whose ids are in the array $1."""
        kind = "int8" if self.id_type in INTEGERS else self.id_type
        return f"{quoted(self.id)} = ANY ($1::{kind}[])"


@dataclass(frozen=True)
class TableSearch:
    """A search of a table with everything but the vector, as SQL and as the native lane says it.

    condition: SQL with its values written out. further: columns that come back too, by name.
    """

    place: TableNames
    schema: Schema
    k: int
    params: Params
    condition: str | None
    further: tuple[str, ...]

    def settings(self) -> dict[str, str]:
        """The connection's settings for this search."""
        params = self.params
        if not isinstance(params, _Search):
            return {}
        if not self.place.own:
            return self._explicit_settings()
        filtered = self.condition is not None
        settings = {"enable_seqscan": "on" if params.seqscan else "off"}
        if isinstance(params, PgHnswSearch):
            scan = params.iterative_scan or (HnswScan.STRICT if filtered else HnswScan.OFF)
            return settings | {
                "hnsw.ef_search": str(params.ef_search),
                "hnsw.iterative_scan": scan.value,
                "hnsw.max_scan_tuples": str(params.max_scan_tuples),
                "hnsw.scan_mem_multiplier": f"{params.scan_mem_multiplier:g}",
            }
        assert isinstance(params, PgIvfSearch)
        own = {"ivfflat.probes": str(params.nprobe), "ivfflat.iterative_scan": self._ivf().value}
        return settings | own

    def _explicit_settings(self) -> dict[str, str]:
        """The settings that the suite names, without defaults."""
        given = self.params.model_dump(mode="json", exclude_unset=True, exclude_none=True)
        settings = {}
        if "seqscan" in given:
            settings["enable_seqscan"] = "on" if given.pop("seqscan") else "off"
        prefix = "hnsw" if isinstance(self.params, PgHnswSearch) else "ivfflat"
        names = {"nprobe": "probes"}
        return settings | {f"{prefix}.{names.get(n, n)}": str(v) for n, v in given.items()}

    def _ivf(self) -> IvfScan:
        assert isinstance(self.params, PgIvfSearch)
        filtered = self.condition is not None and self.place.own
        return self.params.iterative_scan or (IvfScan.RELAXED if filtered else IvfScan.OFF)

    def _is_relaxed(self) -> bool:
        """True if rows may arrive out of distance order."""
        if isinstance(self.params, PgIvfSearch):
            return self._ivf() is IvfScan.RELAXED
        return self.settings().get("hnsw.iterative_scan") == HnswScan.RELAXED

    def text(self) -> str:
        """The SQL of the search; $1 is the vector. Rows are id, score, and further columns.
        `engine/src/protocols/postgres` writes the same SQL."""
        place = self.place
        near = f"{place.searched} {OPERATORS[self.schema.metric]} {place.query}"
        what = ", ".join([place.id_column, f"{near} AS score", *map(quoted, self.further)])
        where = f" WHERE {self.condition}" if self.condition is not None else ""
        search = f"SELECT {what} FROM {place.path}{where} ORDER BY {near} LIMIT {self.k}"
        if self._is_relaxed():
            # Added to zero, a score is not taken for sorted already.
            return f"WITH found AS MATERIALIZED ({search}) SELECT * FROM found ORDER BY score + 0"
        return search

    def options(self) -> dict[str, str]:
        """Options of the native lane's request class."""
        options = {"table": self.place.table, "operator": OPERATORS[self.schema.metric]}
        options |= {"id": self.place.id, "vector": self.place.vector}
        if self.place.namespace:
            options["schema"] = self.place.namespace
        if self.place.expression or self.place.operand != "vector":
            options |= {"searched": self.place.searched, "query": self.place.query}
        if self.further:
            options["fields"] = ",".join(self.further)
        return options | ({"sort": "true"} if self._is_relaxed() else {})
