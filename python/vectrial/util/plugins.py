"""Plug-ins: objects that packages, Vectrial's own among them, register through entry points.

A group of entry points is a `Plugins`, a mapping from names to what they lead to. Names are read
from installed metadata, and a plug-in is imported when it is asked for: one that is broken raises a
`PluginError` then, and stands in nobody's way before. Vectrial's own entry points are read from
`pyproject.toml` where it runs from a source tree, whose metadata are those of the last build.

A store's own environment has no such metadata. Processes there get a `reference` ("module:Name")
and call `import_reference`.
"""

from __future__ import annotations

import functools
import importlib
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar

from vectrial.model.errors import PluginError, UserError
from vectrial.util.distributions import name_and_version
from vectrial.util.suggest import suggestion

T = TypeVar("T")

#: The distribution whose plug-ins come first where several packages bring something by one name.
_OWN = "vectrial"


def import_reference(where: str) -> Any:
    """The object at "module:Name".

    Raises:
        Exception: whatever importing the module raises; AttributeError where it lacks the name.
    """
    module, _, attribute = where.partition(":")
    return functools.reduce(getattr, attribute.split("."), importlib.import_module(module))


def reference(found: type) -> str:
    """The reference "module:Class" of a class: enough for another process to import it."""
    return f"{found.__module__}:{found.__qualname__}"


class Plugins(Mapping[str, T]):
    """The plug-ins of one group, by name. Iteration goes by name and imports nothing.

    Args:
        group: of entry points ("vectrial.stores").
        noun: for one of them, in messages ("store").
        check: name, object → the plug-in; raises ValueError, saying what is wrong with the object.
    """

    def __init__(self, group: str, noun: str, check: Callable[[str, object], T]) -> None:
        self.group, self._noun, self._check = group, noun, check

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries()))

    def __len__(self) -> int:
        return len(self._entries())

    def __contains__(self, name: object) -> bool:
        return name in self._entries()

    def __getitem__(self, name: str) -> T:
        """The plug-in of that name; KeyError where there is none, else as `load`."""
        entry, *others = self._entries()[name]
        if others:
            packages = " and ".join(_package(one) for one in (entry, *others))
            raise PluginError(
                f"the packages {packages} register the same {self._noun}",
                where=f"entry point '{name}' of {self.group}",
                remedy="uninstall all but one of them",
            )
        try:
            found = entry.load()
        except Exception as error:
            raise self._broken(
                entry, f"{entry.value} cannot be imported: {type(error).__name__}: {error}"
            ) from error
        try:
            return self._check(name, found)
        except ValueError as error:
            raise self._broken(entry, f"{entry.value} {error}") from error

    def load(self, name: str) -> T:
        """The plug-in of that name.

        Raises:
            UserError: there is none; the remedy is the nearest name.
            PluginError: it cannot be imported, is something else, or two packages register it.
        """
        if name not in self:
            raise UserError(
                f"there is no {self._noun} '{name}'", remedy=suggestion(name, self._entries())
            )
        return self[name]

    def working(self) -> tuple[dict[str, T], tuple[PluginError, ...]]:
        """The plug-ins that can be loaded, by name, Vectrial's own first; and the errors of the
        others."""
        found, broken = {}, []
        entries = self._entries()
        for name in sorted(entries, key=lambda name: (_package(entries[name][0]) != _OWN, name)):
            try:
                found[name] = self[name]
            except PluginError as error:
                broken.append(error)
        return found, tuple(broken)

    def where(self, name: str) -> str:
        """The package and the entry point of a plug-in, for messages."""
        return self._where(self._entries()[name][0])

    def module(self, name: str) -> str:
        """The module that the entry point of that name leads to, which is not imported."""
        return self._entries()[name][0].module

    def target(self, name: str) -> str:
        """What the entry point of that name leads to, "module:name", which is not imported."""
        return self._entries()[name][0].value

    def _entries(self) -> Mapping[str, tuple[EntryPoint, ...]]:
        return _registered(self.group, tuple(sys.path))

    def _broken(self, entry: EntryPoint, what: str) -> PluginError:
        return PluginError(what, where=self._where(entry), remedy="repair or uninstall the package")

    def _where(self, entry: EntryPoint) -> str:
        return f"package '{_package(entry)}', entry point '{entry.name}' of {self.group}"


@functools.cache
def _registered(group: str, path: tuple[str, ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """The entry points of a group by name. path: `sys.path`, on which they depend."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    own = _of_source_tree(group)
    installed = (e for e in _every(path).select(group=group) if not own or _package(e) != _OWN)
    for entry in (*own, *installed):
        others = found.get(entry.name, ())
        if all((entry.value, _package(entry)) != (one.value, _package(one)) for one in others):
            found[entry.name] = (*others, entry)
    return found


@functools.cache
def _every(path: tuple[str, ...]) -> Any:
    """The entry points of all packages, which one look at their files finds."""
    return entry_points()


def _of_source_tree(group: str) -> list[EntryPoint]:
    """Vectrial's own entry points, where it runs from a source tree; else none."""
    entries = _source_tree().get(group, {})
    return [EntryPoint(name, value, group) for name, value in entries.items()]


@functools.cache
def _source_tree() -> Mapping[str, Mapping[str, str]]:
    """The entry points that the source tree declares, by group; none outside of one."""
    project = Path(__file__).parents[3] / "pyproject.toml"
    if not project.is_file():
        return {}
    declared = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
    groups: Mapping[str, Mapping[str, str]] = declared.get("entry-points", {})
    return groups if declared.get("name") == _OWN else {}


def _package(entry: EntryPoint) -> str:
    return _OWN if entry.dist is None else name_and_version(entry.dist)[0]
