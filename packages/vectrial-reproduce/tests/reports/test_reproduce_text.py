"""What `vectrial reproduce` prints for a program."""

from __future__ import annotations

import json
import shutil
from io import StringIO
from pathlib import Path

import pytest
from command_calls import call
from rich.console import Console

from vectrial.run import measuring
from vectrial.stores import registry
from vectrial_reproduce.commands import reproduce
from vectrial_reproduce.reports import REPRODUCTIONS
from vectrial_reproduce.reports.planning import PartPlan, Settings, plan_parts
from vectrial_reproduce.reports.published import figures
from vectrial_reproduce.reports.selection import Selection


def printed(*arguments: str) -> str:
    done = call(*arguments)
    assert done.code == 0, done.err
    return done.out


def test_reports_and_what_would_be_measured_of_them_can_be_piped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path))
    reports = [json.loads(line) for line in printed("reproduce", "-f", "jsonl").splitlines()]
    assert {one["report"] for one in reports} == set(REPRODUCTIONS)
    assert all(one["figures"] > 0 for one in reports)
    dry = ("reproduce", "docarray-sift1m", "--dry-run", "-f", "jsonl")
    plan = [json.loads(line) for line in printed(*dry).splitlines()]
    assert {one["kind"] for one in plan} <= {"trial", "skipped"}
    parts = {part.name for part in REPRODUCTIONS["docarray-sift1m"].parts}
    assert {one["part"] for one in plan} == parts
    assert {"docarray-memory", "qdrant", "weaviate"} & {one.get("store") for one in plan}
    report = REPRODUCTIONS["docarray-sift1m"]
    part = PartPlan(report.parts[0], "sift", 5, None)
    (told,) = reproduce._part_objects(report, part, None)
    assert (told["kind"], told["part"], told["rows"]) == ("skipped", report.parts[0].name, 5)
    assert "none of its stores" in told["reason"]


# -- a folder that is shown stays as it is, in every format ---------------------------------------


COMMITTED = Path(__file__).resolve().parents[4] / "docs" / "results" / "aistor-index"


def contents(folder: Path) -> dict[Path, tuple[int, bytes]]:
    """The files in and below a folder, with the times of their last changes."""
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("form", ["table", "md", "jsonl", "html"])
def test_showing_a_committed_reproduction_writes_nothing(tmp_path: Path, form: str) -> None:
    folder = shutil.copytree(COMMITTED, tmp_path / "shown")
    before = contents(tmp_path)
    done = call("reproduce", "--show", folder, "-f", form)
    assert done.code == 0, done.err
    assert contents(tmp_path) == before
    begins = {"md": "# Benchmarking", "html": "<!doctype html>", "jsonl": "{"}
    assert done.out.lstrip().lower().startswith(begins.get(form, "").lower())
    if form == "jsonl":
        shown = [json.loads(line) for line in done.out.splitlines()]
        assert [cell["published"] for cell in shown] == [f.value for f in figures("aistor-index")]


# -- a reproduction that is interrupted is gone on with as a whole, not by the part under way -----


def test_who_interrupts_is_told_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(measuring, "run_plan", interrupted)
    report, settings = REPRODUCTIONS["longbow"], Settings(0.02)
    parts = plan_parts(report, settings, {name: registry.load(name) for name in registry.names()})
    plans = [(part, reproduce._plan_part(part, report, Selection())) for part in parts]
    console = Console(file=StringIO(), width=1000)
    folder = tmp_path / "kept"
    with pytest.raises(SystemExit) as ended:
        reproduce._measure(report, settings, plans, folder, console, allow_exposed=False)
    assert ended.value.code == 130
    assert isinstance(console.file, StringIO)
    assert f"vectrial reproduce --resume {folder}\n" in console.file.getvalue()
