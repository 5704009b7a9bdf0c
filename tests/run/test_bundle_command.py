"""A run sealed, checked and repeated elsewhere, through the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import duckdb
import numpy as np
import pytest
from small_suite import TINY, Inside

from vectrial.cli import run as run_command
from vectrial.cli.run_suite import find_suite
from vectrial.model.errors import UserError
from vectrial.results import bundle
from vectrial.results.writer import RunWriter
from vectrial.run import measuring
from vectrial.run.runner import Outcome


@pytest.mark.usefixtures("recorded")
def test_a_bundle_is_repeated_on_the_same_data_only(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    first = inside("run", "tiny.toml", "--no-report")
    assert first.code == 0, first.err
    folder = Path(first.out.splitlines()[-1])

    sealed = inside("bundle", "runs/latest", "--out", "tiny.vectrial.tar.gz")
    assert sealed.code == 0, sealed.err
    checked = inside("bundle", "tiny.vectrial.tar.gz", "--format", "jsonl")
    told = json.loads(checked.out)
    assert told["seal"] in sealed.err
    assert told["suite_name"] == "tiny"
    laid = inside("bundle", "tiny.vectrial.tar.gz", "--unpack", "laid", "--format", "jsonl")
    assert json.loads(laid.out) == {**told, "folder": "laid"}
    refused = inside("bundle", "tiny.vectrial.tar.gz", "--out", "elsewhere.vectrial.tar.gz")
    assert refused.code == 2
    assert "--out is where a bundle is written" in refused.err
    assert not (tmp_path / "elsewhere.vectrial.tar.gz").exists()

    again = inside("run", "--from", "tiny.vectrial.tar.gz", "--no-report", "--out", "again")
    assert again.code == 0, again.err
    assert f"seal {told['seal']}" in again.err
    there = Path(again.out.splitlines()[-1])
    assert "not comparable" in again.err, "one repeat on each side"
    compared = inside("compare", "tiny.vectrial.tar.gz", str(there), "--format", "jsonl")
    assert compared.code == 0, compared.err
    assert json.loads(compared.out.splitlines()[0])["subject"].startswith("memory")
    written = inside("report", "tiny.vectrial.tar.gz", "--format", "csv")
    assert written.code == 0, written.err
    assert list((tmp_path / "tiny-report").rglob("*.csv"))
    assert (there / "suite.toml").read_text() == (folder / "suite.toml").read_text()

    with duckdb.connect(str(folder / "run.duckdb")) as db:
        db.execute("update dataset set fingerprint = 'other'")
    inside("bundle", str(folder), "--out", "other.vectrial.tar.gz")
    refused = inside("run", "--from", "other.vectrial.tar.gz", "--no-report")
    assert refused.code == 2
    assert "is not the one that the bundle's run measured" in refused.err


def test_another_seal_than_the_expected_one_is_refused(inside: Inside, tmp_path: Path) -> None:
    """Files and manifest written anew make a bundle that is whole."""
    seals = []
    for name in ("honest", "forged"):
        with RunWriter(tmp_path / name) as writer:
            writer.begin(suite_name="tiny", command="c", version="0", environment={})
        (tmp_path / name / "suite.toml").write_text(TINY)
        seals.append(bundle.seal(tmp_path / name).seal)
    honest, forged = seals
    file = "forged.vectrial.tar.gz"
    assert inside("bundle", file).code == 0
    assert inside("bundle", file, "--seal", forged.upper()).code == 0
    checks = ("bundle", file), ("bundle", file, "--unpack", "laid"), ("run", "--from", file)
    for command in checks:
        refused = inside(*command, "--seal", honest)
        assert (refused.code, refused.out) == (2, ""), refused.err
        (said,) = refused.err.splitlines()
        assert f"{file}: its seal is {forged}, and not {honest}, which is expected" in said
    assert not (tmp_path / "laid").exists()
    assert not (tmp_path / "runs").exists()
    planned = inside("run", "--from", file, "--seal", forged, "--dry-run")
    assert (planned.code, f"{file}: seal {forged}" in planned.err) == (0, True), planned.err


@pytest.mark.usefixtures("recorded")
def test_data_of_ones_own_are_asked_for(inside: Inside, tmp_path: Path) -> None:
    """A bundle does not hold them: who repeats it is told what to import, and as what."""
    rng = np.random.default_rng(1)
    np.save(tmp_path / "vectors.npy", rng.normal(size=(300, 8)).astype(np.float32))
    (tmp_path / "own.toml").write_text(TINY.replace("clustered-16-2k", "own-of-bundle"))
    how = ("data", "import", "vectors.npy", "--metric", "cosine", "--queries", "20")
    imported = inside(*how, "--name", "own-of-bundle")
    assert imported.code == 0, imported.err
    assert inside("run", "own.toml", "--no-report").code == 0
    inside("bundle", "--out", "own.vectrial.tar.gz")

    shutil.rmtree(tmp_path / "home" / "datasets" / "own-of-bundle")
    refused = inside("run", "--from", "own.vectrial.tar.gz", "--no-report")
    assert refused.code == 2, refused.err
    assert "measured dataset 'own-of-bundle' (made of" in refused.err
    assert "vectors.npy" in refused.err
    assert "vectrial data import FILE --name own-of-bundle --metric cosine" in refused.err

    again = inside(*how, "--name", "own-of-bundle")
    assert again.code == 0, again.err
    repeated = inside("run", "--from", "own.vectrial.tar.gz", "--no-report", "--out", "again")
    assert repeated.code == 0, repeated.err

    shutil.rmtree(tmp_path / "home" / "datasets" / "own-of-bundle")
    other = inside(*how[:-1], "25", "--name", "own-of-bundle")
    assert other.code == 0, other.err
    before = set((tmp_path / "runs").iterdir())
    refused = inside("run", "--from", "own.vectrial.tar.gz", "--no-report")
    assert refused.code == 2, "other rows are other data"
    assert "275 rows of it would be loaded, there it was 280" in refused.err
    assert set((tmp_path / "runs").iterdir()) == before, "what cannot begin leaves no folder"


def test_wrong_uses_are_explained(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    for arguments, said in (
        (("bundle",), "there is no run here"),
        (("bundle", "none.vectrial.tar.gz"), "there is no run here"),
        (("bundle", "tiny.toml"), "no tar or zip archive"),
        (("run", "--from", "none.vectrial.tar.gz"), "no such bundle"),
        (("run", "--from", "tiny.toml", "tiny.toml"), "exclude each other"),
        (("run", "--from", "."), "a folder, and no bundle (`vectrial bundle FOLDER`"),
        (("run", "--from", "tiny.toml", "--seal", "5d1f"), "'5d1f' is no seal"),
        (("run", "tiny.toml", "--seal", "5d1f"), "only a bundle has a seal"),
        (("bundle", ".", "--seal", "5d1f"), "only a bundle can be held against a seal"),
    ):
        result = inside(*arguments)
        assert result.code == 2, result.err
        assert said in result.err, (arguments, result.err)


@pytest.mark.usefixtures("recorded")
def test_as_lines_the_comparison_stands_before_the_run(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    assert inside("run", "tiny.toml", "--no-report").code == 0
    seal = json.loads(inside("bundle", "--out", "t.tar.gz", "--format", "jsonl").out)["seal"]
    asked = ("run", "--from", "t.tar.gz", "--seal", seal, "--no-report", "--format", "jsonl")
    again = inside(*asked)
    assert again.code == 0, again.err
    *judged, last = map(json.loads, again.out.splitlines())
    assert (last["bundle"], last["seal"], last["trials"]) == ("t.tar.gz", seal, {"ok": 1})
    compared = inside("compare", "t.tar.gz", last["folder"], "--format", "jsonl")
    assert judged == list(map(json.loads, compared.out.splitlines()))
    assert {one["verdict"] for one in judged if one["kind"] == "verdict"} == {"not comparable"}
    assert "not comparable" not in again.err, "it is said once"


def test_a_bundle_without_a_suite_cannot_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """We seal none; others may."""
    with RunWriter(tmp_path / "r") as writer:
        writer.begin(suite_name="s", command="c", version="0", environment={})
    monkeypatch.setattr(bundle, "_NEEDED", ())
    path = bundle.seal(tmp_path / "r").path
    with pytest.raises(UserError, match=r"holds no suite\.toml") as told:
        find_suite(None, None, path)
    assert told.value.where == str(path), "and not a folder that is gone by now"


def test_who_is_interrupted_in_repeating_a_bundle_is_told_how_to_compare(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that is gone on with does not know what it repeats."""
    with RunWriter(tmp_path / "r") as writer:
        writer.begin(suite_name="s", command="c", version="0", environment={})
    (tmp_path / "r" / "suite.toml").write_text(TINY)
    bundle.seal(tmp_path / "r")

    def interrupted(*given: object) -> Outcome:
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring, "run_plan", interrupted)
    done = inside("run", "--from", "r.vectrial.tar.gz")
    assert done.code == 130
    (folder,) = (path for path in (tmp_path / "runs").iterdir() if not path.is_symlink())
    compare = f"vectrial compare r.vectrial.tar.gz {folder}"
    assert f"go on with: vectrial run --resume {folder}, then: {compare}\n" in done.err


def test_the_run_is_named_though_nothing_can_be_shown_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    monkeypatch.setattr(run_command, "measure", lambda *_, **__: Outcome({"ok": 1}))
    with pytest.raises(UserError, match="there is no run here"):
        run_command.run(tmp_path / "tiny.toml", out=tmp_path)
    (folder,) = capsys.readouterr().out.splitlines()
    assert Path(folder).parent == tmp_path
