"""Plug-ins of other packages: found beside Vectrial's own; of those that are broken, one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from vectrial.model.errors import PluginError, UserError
from vectrial.util import plugins
from vectrial.util.plugins import Plugins, import_reference, reference

GROUP = "vectrial.tests"


def _number(name: str, found: object) -> int:
    if not isinstance(found, int):
        raise ValueError("is not a number")
    return found


def install(site: Path, package: str, entries: dict[str, str], module: str = "") -> None:
    """A distribution with these entry points and one module of its name, as pip leaves it."""
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {value}\n" for name, value in entries.items())
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}")
    (site / f"{package}.py").write_text(module)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_what_works_is_found_beside_what_is_broken(site: Path) -> None:
    install(site, "good", {"one": "good:ONE"}, "ONE = 1")
    install(site, "raises", {"two": "raises:TWO"}, "raise OSError('no library')")
    install(site, "lacks", {"three": "lacks:THREE"})
    install(site, "other", {"four": "other:FOUR"}, "FOUR = 'four'")
    numbers = Plugins(GROUP, "number", _number)
    assert list(numbers) == ["four", "one", "three", "two"]
    found, broken = numbers.working()
    assert found == {"one": 1}
    told = sorted(map(str, broken))
    assert len(told) == 3
    for line, package, entry, what in zip(
        told,
        ("lacks", "other", "raises"),
        ("three", "four", "two"),
        ("lacks:THREE cannot be imported", "other:FOUR is not a number", "OSError: no library"),
        strict=True,
    ):
        assert line.startswith(f"package '{package}', entry point '{entry}' of {GROUP}: ")
        assert what in line
        assert "\n" not in line
    with pytest.raises(PluginError, match="no library") as raised:
        numbers.load("two")
    assert raised.value.exit_code == 2


def test_one_name_of_two_packages_is_neither(site: Path) -> None:
    install(site, "here", {"one": "here:ONE"}, "ONE = 1")
    install(site, "there", {"one": "there:ONE"}, "ONE = 2")
    with pytest.raises(PluginError, match=r"(here and there|there and here) register the same"):
        Plugins(GROUP, "number", _number).load("one")


def test_an_unknown_name_gets_the_nearest(site: Path) -> None:
    install(site, "good", {"eleven": "good:ONE"}, "ONE = 1")
    numbers = Plugins(GROUP, "number", _number)
    assert "elven" not in numbers
    with pytest.raises(UserError, match=r"there is no number 'elven' .did you mean 'eleven'"):
        numbers.load("elven")


def test_packages_of_a_source_tree_are_read_from_it_where_they_can_be_imported(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their metadata are those of the last build; a tree may hold one that is not installed."""
    tree = site / "tree"
    for name, where in (
        ("core", tree),
        ("here", tree / "packages/a"),
        ("away", tree / "packages/b"),
    ):
        where.mkdir(parents=True)
        (where / "pyproject.toml").write_text(
            f'[project]\nname = "{name if where != tree else "vectrial"}"\n'
            f'[project.entry-points."{GROUP}"]\n{name} = "{name}:ONE"\n'
            f'[project.entry-points."vectrial.packages"]\n{name} = "{name}"\n'
        )
    install(site, "here", {"here": "here:OLD", "gone": "here:GONE"}, "ONE = 1")
    (site / "core").mkdir()
    (site / "core" / "__init__.py").write_text("ONE = 0")
    monkeypatch.setattr(plugins, "_ROOT", tree)
    monkeypatch.syspath_prepend(str(tree))  # what was read depends on the path
    found = Plugins(GROUP, "number", _number)
    assert found.working() == ({"core": 0, "here": 1}, ())
    assert [found.package(name) for name in found] == ["vectrial", "here"]
    there = {
        name: at for name, at in plugins.packages().items() if name in ("core", "here", "away")
    }
    assert there == {"core": site / "core", "here": site / "here.py"}


def test_the_place_of_a_class_is_its_top_level_package(site: Path) -> None:
    assert plugins.folder_of(Plugins) == Path(plugins.__file__).parents[1]
    (site / "alone.py").write_text("class One: ...")
    assert plugins.folder_of(import_reference("alone:One")) == site / "alone.py"


def test_a_class_is_found_again_by_its_reference() -> None:
    assert reference(Plugins) == "vectrial.util.plugins:Plugins"
    assert import_reference(reference(Plugins)) is Plugins
