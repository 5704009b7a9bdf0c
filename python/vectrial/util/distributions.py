"""Installed distributions: what a module needs, and how large it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import metadata

#: The distribution that every module here is imported beside.
_OWN = "vectrial"


def installed_bytes(modules: Iterable[str]) -> Mapping[str, int]:
    """Size of each top-level module's distribution with its dependencies, except those that this
    package requires anyway; 0 for a module that is not installed."""
    provided, own = metadata.packages_distributions(), _closure([_OWN])
    sizes = {}
    for module in modules:
        top = {_normal(name) for name in provided.get(module, [])}
        sizes[module] = sum(map(_size, top | (_closure(top) - own)))
    return sizes


def name_and_version(distribution: metadata.Distribution) -> tuple[str, str]:
    """Name and version of a distribution from its metadata; empty if the metadata lack them.

    Read from the first lines: parsing all of them, as `Distribution.name` does, takes a hundred
    times as long.
    """
    text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    head = text.partition("\n\n")[0]
    name, version = (
        re.search(rf"^{field}:[ \t]*(.*?)[ \t\r]*$", head, re.MULTILINE | re.IGNORECASE)
        for field in ("Name", "Version")
    )
    return name[1] if name else "", version[1] if version else ""


def _closure(names: Iterable[str]) -> set[str]:
    """These distributions and all that they require, if installed."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = _normal(left.pop())
        if name in found:
            continue
        try:
            required = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        found.add(name)
        plain = (one for one in required if "extra ==" not in one)
        left += [match[0] for one in plain if (match := re.match(r"[\w.-]+", one))]
    return found


def _size(name: str) -> int:
    return sum(file.size or 0 for file in metadata.files(name) or ())


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
