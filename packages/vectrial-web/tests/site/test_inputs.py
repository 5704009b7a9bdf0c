"""Which runs a site is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from vectrial.model.errors import UserError
from vectrial_web.site.build import _without_duplicates
from vectrial_web.site.run_pages import Input, RunResult, inputs_of


def bundle(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return path


def run(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "run.duckdb").touch()
    return folder


def test_runs_and_bundles_at_any_depth_have_names_and_folders_of_their_own(tmp_path: Path) -> None:
    bundle(tmp_path / "demo" / "run.vectrial.tar.gz")
    bundle(tmp_path / "a" / "b" / "run.vectrial.tar.gz")
    bundle(tmp_path / "a" / "other.vectrial.tar.gz")
    run(tmp_path / "20261123-demo")
    (tmp_path / "latest").symlink_to("20261123-demo", target_is_directory=True)
    run(tmp_path / "20261123-demo" / "work" / "inner")
    found = inputs_of([tmp_path])
    assert [one.name for one in found] == ["20261123-demo", "a/b", "a/other", "demo"]
    assert len({one.id for one in found}) == 4
    assert all("/" not in one.id for one in found)


def test_a_run_that_is_named_twice_is_one(tmp_path: Path) -> None:
    one = run(tmp_path / "runs" / "one")
    assert [found.name for found in inputs_of([tmp_path / "runs", one])] == ["one"]


def test_runs_of_one_name_have_folders_of_their_own(tmp_path: Path) -> None:
    first, second = run(tmp_path / "x" / "one"), run(tmp_path / "y" / "one")
    assert [found.id for found in inputs_of([first, second])] == ["one", "one-2"]


def test_nothing_to_show_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run here"):
        inputs_of([tmp_path])
    with pytest.raises(UserError, match="no such file or folder"):
        inputs_of([tmp_path / "missing"])


def test_a_run_beside_its_bundle_is_counted_once_as_the_folder(tmp_path: Path) -> None:
    def result(name: str, path: Path, run_id: str) -> RunResult:
        (tmp_path / "runs" / name).mkdir(parents=True)
        return RunResult(Input(name, path, name), run=(run_id, 1.0))

    one = result("a-bundle", bundle(tmp_path / "a-bundle.vectrial.tar.gz"), "one")
    same, other = (result(name, run(tmp_path / name), name) for name in ("one", "two"))
    torn = RunResult(Input("torn", tmp_path, "torn"), "it cannot be read")
    found = _without_duplicates([one, same, other, torn], tmp_path)
    assert found[1:] == [same, other, torn]
    assert found[0].why == "it is the run of one, which is shown"
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["one", "two"]
