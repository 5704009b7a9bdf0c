"""A run sealed, checked and repeated elsewhere, through the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import duckdb
import numpy as np
import pytest
from small_suite import TINY, Inside, Vectrial

from vectrial.cli import run as run_command
from vectrial.cli.run_suite import find_suite
from vectrial.model.errors import UserError
from vectrial.results import bundle
from vectrial.results.writer import RunWriter
from vectrial.run.runner import Outcome


@pytest.mark.slow
def test_a_bundle_is_repeated_on_the_same_data_only(vectrial: Vectrial, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    first = vectrial("run", "tiny.toml", "--no-report")
    assert first.returncode == 0, first.stderr
    folder = Path(first.stdout.splitlines()[-1])

    sealed = vectrial("bundle", "runs/latest", "--out", "tiny.vectrial.tar.gz")
    assert sealed.returncode == 0, sealed.stderr
    checked = vectrial("bundle", "tiny.vectrial.tar.gz", "--format", "jsonl")
    told = json.loads(checked.stdout)
    assert told["seal"] in sealed.stderr
    assert told["suite_name"] == "tiny"
    laid = vectrial("bundle", "tiny.vectrial.tar.gz", "--unpack", "laid", "--format", "jsonl")
    assert json.loads(laid.stdout) == {**told, "folder": "laid"}
    refused = vectrial("bundle", "tiny.vectrial.tar.gz", "--out", "elsewhere.vectrial.tar.gz")
    assert refused.returncode == 2
    assert "--out is where a bundle is written" in refused.stderr
    assert not (tmp_path / "elsewhere.vectrial.tar.gz").exists()

    again = vectrial("run", "--from", "tiny.vectrial.tar.gz", "--no-report", "--out", "again")
    assert again.returncode == 0, again.stderr
    assert f"seal {told['seal']}" in again.stderr
    there = Path(again.stdout.splitlines()[-1])
    assert "not comparable" in again.stderr, "one repeat on each side"
    compared = vectrial("compare", "tiny.vectrial.tar.gz", str(there), "--format", "jsonl")
    assert compared.returncode == 0, compared.stderr
    assert json.loads(compared.stdout.splitlines()[0])["subject"].startswith("memory")
    written = vectrial("report", "tiny.vectrial.tar.gz", "--format", "md")
    assert written.returncode == 0, written.stderr
    assert (tmp_path / "tiny-report" / "report.md").is_file()
    assert (there / "suite.toml").read_text() == (folder / "suite.toml").read_text()

    with duckdb.connect(str(folder / "run.duckdb")) as db:
        db.execute("update dataset set fingerprint = 'other'")
    vectrial("bundle", str(folder), "--out", "other.vectrial.tar.gz")
    refused = vectrial("run", "--from", "other.vectrial.tar.gz", "--no-report")
    assert refused.returncode == 2
    assert "is not the one that the bundle's run measured" in refused.stderr


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


@pytest.mark.slow
def test_data_of_ones_own_are_asked_for(
    vectrial: Vectrial, variables: dict[str, str], tmp_path: Path
) -> None:
    """A bundle does not hold them: who repeats it is told what to import, and as what."""
    rng = np.random.default_rng(1)
    np.save(tmp_path / "vectors.npy", rng.normal(size=(300, 8)).astype(np.float32))
    (tmp_path / "own.toml").write_text(TINY.replace("clustered-16-2k", "own-of-bundle"))
    how = ("data", "import", "vectors.npy", "--metric", "cosine", "--queries", "20")
    imported = vectrial(*how, "--name", "own-of-bundle")
    assert imported.returncode == 0, imported.stderr
    assert vectrial("run", "own.toml", "--no-report").returncode == 0
    vectrial("bundle", "--out", "own.vectrial.tar.gz")

    shutil.rmtree(Path(variables["VECTRIAL_HOME"]) / "datasets" / "own-of-bundle")
    refused = vectrial("run", "--from", "own.vectrial.tar.gz", "--no-report")
    assert refused.returncode == 2, refused.stderr
    assert "measured dataset 'own-of-bundle' (made of" in refused.stderr
    assert "vectors.npy" in refused.stderr
    assert "vectrial data import FILE --name own-of-bundle --metric cosine" in refused.stderr

    again = vectrial(*how, "--name", "own-of-bundle")
    assert again.returncode == 0, again.stderr
    repeated = vectrial("run", "--from", "own.vectrial.tar.gz", "--no-report", "--out", "again")
    assert repeated.returncode == 0, repeated.stderr

    shutil.rmtree(Path(variables["VECTRIAL_HOME"]) / "datasets" / "own-of-bundle")
    other = vectrial(*how[:-1], "25", "--name", "own-of-bundle")
    assert other.returncode == 0, other.stderr
    before = set((tmp_path / "runs").iterdir())
    refused = vectrial("run", "--from", "own.vectrial.tar.gz", "--no-report")
    assert refused.returncode == 2, "other rows are other data"
    assert "275 rows of it would be loaded, there it was 280" in refused.stderr
    assert set((tmp_path / "runs").iterdir()) == before, "what cannot begin leaves no folder"


@pytest.mark.slow
def test_wrong_uses_are_explained(vectrial: Vectrial, tmp_path: Path) -> None:
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
        result = vectrial(*arguments)
        assert result.returncode == 2, result.stderr
        assert said in result.stderr, (arguments, result.stderr)


@pytest.mark.slow
def test_as_lines_the_comparison_stands_before_the_run(vectrial: Vectrial, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    assert vectrial("run", "tiny.toml", "--no-report").returncode == 0
    seal = json.loads(vectrial("bundle", "--out", "t.tar.gz", "--format", "jsonl").stdout)["seal"]
    asked = ("run", "--from", "t.tar.gz", "--seal", seal, "--no-report", "--format", "jsonl")
    again = vectrial(*asked)
    assert again.returncode == 0, again.stderr
    *judged, last = map(json.loads, again.stdout.splitlines())
    assert (last["bundle"], last["seal"], last["trials"]) == ("t.tar.gz", seal, {"ok": 1})
    compared = vectrial("compare", "t.tar.gz", last["folder"], "--format", "jsonl")
    assert judged == list(map(json.loads, compared.stdout.splitlines()))
    assert {one["verdict"] for one in judged if one["kind"] == "verdict"} == {"not comparable"}
    assert "not comparable" not in again.stderr, "it is said once"


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

    monkeypatch.setattr(run_command, "run_plan", interrupted)
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
