"""The packages of the repository: one version, and a core that knows no plug-in."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import click
import pytest

from vectrial.cli import commands
from vectrial.datasets import catalog
from vectrial.datasets.catalog.model import CATALOGUES
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.errors import SourceUnavailable, UserError
from vectrial.run import place
from vectrial.stores.registry import STORES
from vectrial.suite.model import read_suite
from vectrial.util import plugins
from vectrial.util.plugins import Plugins

ROOT = Path(__file__).resolve().parents[1]
CORE = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PLUGINS: dict[Path, dict[str, Any]] = {
    path.parent: tomllib.loads(path.read_text("utf-8"))["project"]
    for path in sorted(ROOT.glob("packages/*/pyproject.toml"))
}
MODULES = [project["name"].replace("-", "_") for project in PLUGINS.values()]


def brought_to(group: str) -> dict[str, str]:
    """The names in a group of entry points, and the packages that bring them."""
    return {
        name: project["name"]
        for project in PLUGINS.values()
        for name in project["entry-points"].get(f"vectrial.{group}", {})
    }


@pytest.mark.parametrize("folder", PLUGINS, ids=MODULES)
def test_a_plug_in_has_the_version_of_the_core_and_asks_for_it(folder: Path) -> None:
    project = PLUGINS[folder]
    assert (project["name"], project["version"]) == (folder.name, CORE["version"])
    asked = {one for one in project["dependencies"] if one.startswith("vectrial")}
    assert f"vectrial=={CORE['version']}" in asked
    known = {"vectrial", *(one["name"] for one in PLUGINS.values())}
    assert asked <= {f"{name}=={CORE['version']}" for name in known}
    text = (folder / "pyproject.toml").read_text("utf-8")
    assert set(re.findall(r"vectrial[\w\[\],-]*==([\d.]+)", text)) == {CORE["version"]}
    for name in ("requires-python", "license", "license-files"):
        assert project[name] == CORE[name]
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("folder", PLUGINS, ids=MODULES)
def test_what_a_plug_in_registers_is_its_own_and_is_found(folder: Path) -> None:
    project = PLUGINS[folder]
    for group, entries in project["entry-points"].items():
        found: Plugins[object] = Plugins(group, "plug-in", lambda _, found: found)
        for name, target in entries.items():
            assert re.split(r"[.:]", target)[0] == project["name"].replace("-", "_")
            assert (found.package(name), found.target(name)) == (project["name"], target)
            found.load(name)


def test_a_command_that_a_plug_in_brings_is_named_with_it_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brought = {_named(entry): package for entry, package in brought_to("commands").items()}
    assert brought == commands._BROUGHT_BY
    monkeypatch.setattr(commands, "COMMANDS", {})
    groups = {"": commands.Commands(name="vectrial"), "data": commands.DataCommands(name="data")}
    for entry, package in brought.items():
        within, _, name = entry.rpartition(".")
        words = entry.replace(".", " ")
        with pytest.raises(
            UserError, match=f"'{words}' is a command of the package {package}"
        ) as one:
            groups[within].resolve_command(click.Context(groups[within]), [name])
        assert one.value.remedy == f"pip install {package}"


def _named(entry: str) -> str:
    """What is missing with a command: itself, in a group that others have, or else its group."""
    group = entry.rpartition(".")[0]
    return entry if group in ("", commands.DataCommands.group) else group


def test_a_dataset_that_a_plug_in_brings_is_named_with_it_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path))
    brought = {
        entry.name: CATALOGUES.package(group)
        for group, entries in CATALOGUES.working()[0].items()
        for entry in entries
        if CATALOGUES.package(group) != "vectrial"
    }
    assert brought == catalog._BROUGHT_BY
    monkeypatch.setattr(plugins, "_entry_points_of", _of_the_core(plugins._entry_points_of))
    for name, package in brought.items():
        for asked in (name, f"{name}-1k"):
            with pytest.raises(UserError, match=f"'{asked}' is a dataset of the package") as one:
                catalog.entry(asked)
            assert one.value.remedy == f"pip install {package}"
            assert not catalog.makes(asked)
            assert catalog.is_made_here(asked), "its name is not free"
    listed = {entry.name for entry in catalog.entries()}
    assert {"glove-words-50", "sift-128-euclidean"} <= listed
    assert not listed & brought.keys()
    base = replace(catalog.entry("sift-images-128-100k"), packages=(), build=_gone)
    with pytest.raises(SourceUnavailable, match="or use 'clustered-128-50k-l2', which needs no"):
        catalog.fetch(base)


def _gone(*_: object) -> NoReturn:
    raise SourceUnavailable("the package vanished")


def _of_the_core(registered: Callable[..., Any]) -> Callable[..., Any]:
    """The entry points of Vectrial itself."""

    def own(*given: Any) -> dict[str, Any]:
        found = registered(*given)
        return {name: some for name, some in found.items() if some[0].package == "vectrial"}

    return own


def test_a_place_that_a_plug_in_brings_is_named_with_it_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brought = brought_to("places")
    assert brought == place._BROUGHT_BY
    monkeypatch.setattr(place, "PLACES", Plugins("vectrial.none", "place", place._made))
    for name, package in brought.items():
        for on in (name, f"{name}://10.0.0.1:1"):
            with pytest.raises(UserError) as one:
                place.machines_at(on)
            assert str(one.value) == (
                f"--on: '{name}' is a place of the package {package}, which is not installed"
                f" (pip install {package})"
            )
        assert f"{name} with the package {package}" in place.no_place("elsewhere").remedy


def test_a_suite_of_the_core_asks_for_what_the_core_has() -> None:
    for path in sorted((ROOT / "suites").glob("*.toml")):
        suite = read_suite(path)
        asked = {EXPERIMENTS.package(one.experiment) for one in suite.experiments}
        assert asked | {STORES.package(one.store) for one in suite.stores} == {"vectrial"}, path
        data = [catalog.entry(one.name) for one in suite.datasets]
        assert not {one.cut_from or one.name for one in data} & catalog._BROUGHT_BY.keys(), path


def test_nothing_of_the_core_knows_a_plug_in() -> None:
    """Its tests neither: they import none."""
    words = re.compile(rf"\b({'|'.join(MODULES)})\b")
    files = (path for folder in ("python", "tests") for path in (ROOT / folder).rglob("*.py"))
    here = (Path(__file__), ROOT / "tests/test_budget.py", ROOT / "tests/test_clocks.py")
    found = [path for path in files if words.search(path.read_text("utf-8")) and path not in here]
    assert found == []
