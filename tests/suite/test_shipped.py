"""Suites that come with Vectrial: they are found by name, and files come first."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_calls import call

from vectrial.model.errors import UserError
from vectrial.suite import shipped
from vectrial.suite.model import read_suite

ROOT = Path(__file__).resolve().parents[2]


def test_every_suite_of_the_checkout_is_shipped_and_valid() -> None:
    files = (*ROOT.glob("suites/*.toml"), *ROOT.glob("packages/*/src/*/suites/*.toml"))
    there = {path.stem: path for path in files}
    assert shipped.names() == tuple(sorted(there))
    for name in shipped.names():
        file = shipped.file_of(Path(name))
        assert file.resolve() == there[name]
        assert read_suite(file).name


def test_a_file_comes_before_a_shipped_suite_and_a_folder_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("demo").mkdir()
    assert shipped.file_of(Path("demo")).name == "demo.toml"
    Path("demo").rmdir()
    Path("demo").touch()
    assert shipped.file_of(Path("demo")) == Path("demo")


@pytest.mark.parametrize("path", ["mine.toml", "folder/demo", "my.suite"])
def test_paths_are_no_names(path: str) -> None:
    assert shipped.file_of(Path(path)) == Path(path)


def test_a_package_of_plug_ins_brings_suites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "suites").mkdir()
    for name in ("demo", "theirs"):
        (tmp_path / "suites" / f"{name}.toml").touch()
    monkeypatch.setattr(shipped.plugins, "packages", lambda: {"theirs": tmp_path})
    assert shipped.file_of(Path("theirs")) == tmp_path / "suites" / "theirs.toml"
    assert shipped.file_of(Path("demo")).resolve() == ROOT / "suites" / "demo.toml"


def test_an_unknown_name_lists_the_shipped_ones() -> None:
    with pytest.raises(UserError) as caught:
        shipped.file_of(Path("dmeo"))
    assert "did you mean 'demo'?" in str(caught.value)
    assert all(name in str(caught.value) for name in shipped.names())
    with pytest.raises(UserError) as caught:
        shipped.file_of(Path("xxxxxxxx"))
    assert str(caught.value).count("demo") == 1, "listed once, where nothing is near"


@pytest.mark.parametrize("path", ["suites/demo.toml", "demo.toml"])
def test_the_path_of_a_checkout_elsewhere_leads_to_the_name(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="vectrial run demo"):
        shipped.file_of(Path(path))


def test_the_command_names_the_shipped_suites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["run"], ["run", "no-such-suite"]):
        done = call(*words)
        assert done.code == 2
        assert "demo" in done.err
        assert "tenants" in done.err
    assert "tenants" in " ".join(call("run", "--help").out.split())
