"""The packages of the repository: one version, and a core that knows no plug-in."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest

from vectrial.cli import commands
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.errors import UserError
from vectrial.run import place
from vectrial.stores.registry import STORES
from vectrial.suite.model import read_suite
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
    (asked,) = (one for one in project["dependencies"] if one.startswith("vectrial"))
    assert asked == f"vectrial=={CORE['version']}"
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
    brought = {name.partition(".")[0]: package for name, package in brought_to("commands").items()}
    assert brought == commands._BROUGHT_BY
    monkeypatch.setattr(commands, "COMMANDS", {})
    group = commands.Commands(name="vectrial")
    for name, package in brought.items():
        with pytest.raises(
            UserError, match=f"'{name}' is a command of the package {package}"
        ) as one:
            group.resolve_command(click.Context(group), [name])
        assert one.value.remedy == f"pip install {package}"


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


def test_nothing_of_the_core_knows_a_plug_in() -> None:
    """Its tests neither: they import none."""
    words = re.compile(rf"\b({'|'.join(MODULES)})\b")
    files = (path for folder in ("python", "tests") for path in (ROOT / folder).rglob("*.py"))
    here = (Path(__file__), ROOT / "tests/test_budget.py", ROOT / "tests/test_clocks.py")
    found = [path for path in files if words.search(path.read_text("utf-8")) and path not in here]
    assert found == []
