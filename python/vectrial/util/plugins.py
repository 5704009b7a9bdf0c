"""Plug-ins: objects that packages, Vectrial's own among them, register through entry points.

A group of entry points is a `Plugins`, a mapping from names to the registered objects. Names are
read from installed metadata, and a plug-in is imported on request: a broken one raises a
`PluginError` then, and disturbs nothing before. If Vectrial runs from its source tree, the entry
points of the packages of that tree are read from their `pyproject.toml`: their metadata are those
of the last build.

A store's own environment has no such metadata. Processes there get a `reference` ("module:Name")
and call `import_reference`.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from vectrial.model.errors import PluginError, UserError
from vectrial.util.distributions import name_and_version
from vectrial.util.suggest import suggestion

T = TypeVar("T")

#: The distribution whose plug-ins come first where several packages bring something by one name.
_OWN = "vectrial"
#: The root of the source tree, where Vectrial runs from one; not that of a link to the package, as
#: a store's own environment has it.
_ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class _Entry:
    """An entry point, and the package that registers it."""

    point: EntryPoint
    package: str

    @property
    def key(self) -> tuple[str, str]:
        return self.point.value, self.package


def import_reference(where: str) -> Any:
    """Import the object at "module:Name".

    Raises:
        Exception: whatever importing the module raises; AttributeError if it lacks the name.
    """
    module, _, attribute = where.partition(":")
    return functools.reduce(getattr, attribute.split("."), importlib.import_module(module))


def reference(found: type) -> str:
    """The reference "module:Class" of a class: enough for another process to import it."""
    return f"{found.__module__}:{found.__qualname__}"


class Plugins(Mapping[str, T]):
    """The plug-ins of one group, by name. Iteration goes by name and imports nothing.

    Args:
        group: group of entry points ("vectrial.stores").
        noun: word for one plug-in in messages ("store").
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
        """The plug-in of that name. Raises KeyError if there is none; else see `load`."""
        entry, *others = self._entries()[name]
        if others:
            packages = " and ".join(one.package for one in (entry, *others))
            raise PluginError(
                f"the packages {packages} register the same {self._noun}",
                where=f"entry point '{name}' of {self.group}",
                remedy="uninstall all but one of them",
            )
        try:
            found = entry.point.load()
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise self._plugin_error(
                entry, f"{entry.point.value} cannot be imported: {why}"
            ) from error
        try:
            return self._check(name, found)
        except ValueError as error:
            raise self._plugin_error(entry, f"{entry.point.value} {error}") from error

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
        for name in sorted(entries, key=lambda name: (entries[name][0].package != _OWN, name)):
            try:
                found[name] = self[name]
            except PluginError as error:
                broken.append(error)
        return found, tuple(broken)

    def where(self, name: str) -> str:
        """The package and the entry point of a plug-in, for messages."""
        return self._origin(self._entries()[name][0])

    def module(self, name: str) -> str:
        """The module that the entry point of that name refers to, without importing it."""
        return self._entries()[name][0].point.module

    def target(self, name: str) -> str:
        """The target of the entry point of that name, "module:name", without importing it."""
        return self._entries()[name][0].point.value

    def package(self, name: str) -> str:
        """The package that registers the plug-in of that name, without importing it."""
        return self._entries()[name][0].package

    def _entries(self) -> Mapping[str, tuple[_Entry, ...]]:
        return _entry_points_of(self.group, tuple(sys.path))

    def _plugin_error(self, entry: _Entry, what: str) -> PluginError:
        return PluginError(
            what, where=self._origin(entry), remedy="repair or uninstall the package"
        )

    def _origin(self, entry: _Entry) -> str:
        return f"package '{entry.package}', entry point '{entry.point.name}' of {self.group}"


def not_installed(name: str, noun: str, package: str, *, where: str = "") -> UserError:
    """The error of a plug-in whose package is not installed. noun: see `Plugins`. where: where the
    plug-in was named, for the message."""
    return UserError(
        f"'{name}' is a {noun} of the package {package}, which is not installed",
        where=where,
        remedy=f"pip install {package}",
    )


def packages() -> Mapping[str, Path]:
    """The packages of plug-ins with files of their own, such as locks of environments (`locks/`)
    and suites (`suites/`): module names and folders. Each is an entry point in the group
    `vectrial.packages` that refers to a top-level package. Nothing is imported."""
    return _packages(tuple(sys.path))


def folder_of(kind: type) -> Path:
    """The folder of the top-level package that defines `kind`, or the module's file if it lies in
    no package."""
    found = _module_place(_top_module(kind.__module__))
    if found is None:
        raise UserError(
            f"{reference(kind)} cannot be imported by another process",
            remedy="put it into a module or a package",
        )
    return found


@functools.cache
def _packages(path: tuple[str, ...]) -> Mapping[str, Path]:
    registered = _entry_points_of("vectrial.packages", path)
    entries = (entry for several in registered.values() for entry in several)
    modules = sorted({_top_module(entry.point.value) for entry in entries})
    places = {module: _module_place(module) for module in modules}
    return MappingProxyType({module: place for module, place in places.items() if place})


def _top_module(target: str) -> str:
    """The top-level module of "package.module:Name"."""
    return re.split("[.:]", target, maxsplit=1)[0]


def _module_place(module: str) -> Path | None:
    """The folder of a top-level package, or the file of a top-level module; None if it cannot be
    found on the disk."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):  # ValueError: `__main__` of a script
        return None
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin).absolute()  # not resolved: a link has the name that is imported
    return file.parent if spec.submodule_search_locations else file


@functools.cache
def _entry_points_of(group: str, path: tuple[str, ...]) -> Mapping[str, tuple[_Entry, ...]]:
    """The entry points of a group by name. path: `sys.path`, on which they depend."""
    members = _source_tree_entry_points(path)
    entries = [
        _Entry(EntryPoint(name, value, group), package)
        for package, groups in members.items()
        for name, value in groups.get(group, {}).items()
    ]
    for point in _all_entry_points(path).select(group=group):
        package = _OWN if point.dist is None else name_and_version(point.dist)[0]
        if package not in members:
            entries.append(_Entry(point, package))
    found: dict[str, tuple[_Entry, ...]] = {}
    for entry in entries:
        others = found.get(entry.point.name, ())
        if entry.key not in [one.key for one in others]:
            found[entry.point.name] = (*others, entry)
    return found


@functools.cache
def _all_entry_points(path: tuple[str, ...]) -> Any:
    """The entry points of all packages, found in one pass over their files."""
    return entry_points()


@functools.cache
def _source_tree_entry_points(
    path: tuple[str, ...],
) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """The entry points by group of each importable package of the source tree; empty outside a
    source tree."""
    own, groups = _declared_entry_points(_ROOT / "pyproject.toml")
    if own != _OWN:
        return {}
    plugins = map(_declared_entry_points, sorted((_ROOT / "packages").glob("*/pyproject.toml")))
    return {own: groups} | {name: groups for name, groups in plugins if _is_installed(groups)}


def _declared_entry_points(project: Path) -> tuple[str, Mapping[str, Mapping[str, str]]]:
    """The name of a project and its entry points by group; "" if there is no such file."""
    if not project.is_file():
        return "", {}
    declared = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
    return declared.get("name", ""), declared.get("entry-points", {})


def _is_installed(groups: Mapping[str, Mapping[str, str]]) -> bool:
    """True if the package that declares these entry points can be imported: a source tree may hold
    a package that was not installed."""
    targets = [target for group in groups.values() for target in group.values()]
    return bool(targets) and _module_place(_top_module(targets[0])) is not None
