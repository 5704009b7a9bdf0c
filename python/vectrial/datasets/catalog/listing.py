"""Every entry that the catalogue lists: Vectrial's own, and those of other packages.

A package announces entries with an entry point in the group `vectrial.datasets`, which leads to an
`Entry` or to several: see `vectrial.util.plugins`.
"""

from __future__ import annotations

from collections.abc import Iterable

from vectrial.datasets.catalog.model import Entry
from vectrial.model.errors import PluginError
from vectrial.util.plugins import Plugins

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
