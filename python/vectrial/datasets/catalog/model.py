"""An entry of the catalogue, and every entry that is listed: Vectrial's own, and those of others.

A package announces entries with an entry point in the group `vectrial.datasets`, which leads to an
`Entry` or to several: see `vectrial.util.plugins`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from vectrial.datasets.sources.material import Material
from vectrial.datasets.sources.published import Published
from vectrial.model.errors import PluginError
from vectrial.model.metric import Metric
from vectrial.model.progress import Progress
from vectrial.model.schema import Field, FieldType
from vectrial.util.packages import Package
from vectrial.util.plugins import Plugins

#: Rows wanted (None: all), queries, progress → what to save.
Build = Callable[[int | None, int, Progress], Material]


class Kind(StrEnum):
    """The kind of source of an entry."""

    OFFLINE = "offline"  # packages, through their registry's client
    PUBLIC = "public"  # files by URL
    SYNTHETIC = "synthetic"  # nothing to fetch


@dataclass(frozen=True)
class Cost:
    """Rough cost of fetching and making: 10^6 bytes to fetch and to store, CPU seconds."""

    download_mb: float
    disk_mb: float
    cpu_s: float


@dataclass(frozen=True)
class Entry:
    """A dataset that can be had.

    rows, dim, metric, queries, fields: shape of the result; if the source changes (Debian's lists),
        the rows found when the catalogue was written.
    packages, build: an offline entry's sources and how it is made from them.
    published: a public entry's files.
    can_be_cut: whether variants such as `NAME-10k` exist, which cost accordingly less.
    cut_from: the entry that this is a variant of.
    fingerprint: fingerprint of the dataset, if it is the same on every machine.
    filtered: it has a filter for each query; operators: the operators that these use, all unless
        given.
    query_fields: columns of the query metadata.
    fallback: another entry to use when this one cannot be had.
    """

    name: str
    kind: Kind
    title: str
    source: str
    licence: str
    rows: int
    dim: int
    metric: Metric
    queries: int
    cost: Cost
    fields: tuple[Field, ...] = ()
    filtered: bool = False
    operators: frozenset[str] = frozenset()
    query_fields: tuple[Field, ...] = ()
    stand_in_for: str | None = None
    packages: tuple[Package, ...] = ()
    build: Build | None = None
    published: Published | None = None
    can_be_cut: bool = False
    fingerprint: str | None = None
    fallback: str = "uniform-128-100k"
    cut_from: str | None = None


def entry_of(
    kind: Kind, name: str, title: str, *, shape: tuple[int, int, Metric, int], **more: Any
) -> Entry:
    """An entry of `shape` (rows, dim, metric, queries); its source is its packages by default."""
    rows, dim, metric, queries = shape
    more.setdefault("source", ", ".join(map(str, more.get("packages", ()))))
    return Entry(
        name=name,
        kind=kind,
        title=title,
        rows=rows,
        dim=dim,
        metric=metric,
        queries=queries,
        **more,
    )


def columns(
    *, integers: str = "", floats: str = "", strings: str = "", bools: str = ""
) -> tuple[Field, ...]:
    """Metadata columns by type, their names separated by spaces."""
    groups = (
        (integers, FieldType.INT),
        (floats, FieldType.FLOAT),
        (strings, FieldType.STRING),
        (bools, FieldType.BOOL),
    )
    return tuple(Field(name, kind) for names, kind in groups for name in names.split())


#: Names shown as examples of variants and of synthetic datasets.
EXAMPLES = (
    "glove-words-50-50k",
    "wordnet-minilm-384-10k",
    "uniform-128-100k",
    "clustered-64-50k",
    "clustered-64-50k-filtered",
)


def _entries(name: str, found: object) -> tuple[Entry, ...]:
    several = (found,) if isinstance(found, Entry) else found
    if not isinstance(several, Iterable):
        raise ValueError("is not an Entry of vectrial.datasets.catalog, nor several of them")
    entries = tuple(several)
    for entry in entries:
        if not isinstance(entry, Entry):
            raise ValueError(f"holds a {type(entry).__name__}, not an Entry of the catalogue")
    return entries


#: The groups of entries, by the name of their entry point.
CATALOGUES: Plugins[tuple[Entry, ...]] = Plugins("vectrial.datasets", "catalogue", _entries)


def listed() -> dict[str, Entry]:
    """The listed entries by name, Vectrial's own first; without variants and synthetic datasets."""
    return _read()[0]


def broken() -> tuple[PluginError, ...]:
    """The faults of packages whose entries cannot be listed."""
    return _read()[1]


def _read() -> tuple[dict[str, Entry], tuple[PluginError, ...]]:
    groups, faults = CATALOGUES.working()
    entries: dict[str, Entry] = {}
    for name, group in groups.items():
        for entry in group:
            if entry.name in entries:
                twice = f"there is another dataset named '{entry.name}'"
                remedy = "give it a name of its own"
                faults += (PluginError(twice, where=CATALOGUES.where(name), remedy=remedy),)
            else:
                entries[entry.name] = entry
    return entries, faults
