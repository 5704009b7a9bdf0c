"""`vectrial conformance`: what it counts, how it ends, and what it says without pytest."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from vectrial.cli import conformance as command
from vectrial.cli.main import main
from vectrial.model.errors import UserError
from vectrial.stores.memory import MemoryStore
from vectrial.testing import run
from vectrial.testing.run import CheckOutcome, conformance


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", main.__module__, "conformance", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_store_that_does_what_it_declares() -> None:
    done = call("memory")
    assert done.returncode == 0, done.stderr
    title, *rows = [line.split() for line in done.stdout.splitlines() if line.strip(" ─")]
    assert title == ["checks", "of", "memory", "passed", "failed", "not", "declared"]
    counts = {name: tuple(map(int, numbers)) for name, *numbers in rows}
    assert set(counts) == {
        *("hybrid", "innocence", "limits", "names", "parameters", "reads", "returns", "wire"),
        *("writes", "all"),
    }
    total = counts.pop("all")
    assert total == tuple(map(sum, zip(*counts.values(), strict=True)))
    assert total[1] == 0
    assert counts["reads"][0] > 20
    assert counts["wire"] == (0, 0, counts["wire"][2]), "a library has no protocol"
    assert f"{total[0]} passed, {total[2]} skipped" in done.stderr


@pytest.mark.slow
def test_one_that_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "forgetful.py").write_text(
        "from vectrial.stores.memory import MemoryStore\n"
        "class Forgetful(MemoryStore):\n"
        "    name = 'forgetful'\n"
        "    def delete(self, ids):\n"
        "        pass\n"
    )
    info = tmp_path / "forgetful-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: forgetful\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[vectrial.stores]\nforgetful = forgetful:Forgetful\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = call("forgetful", "--format", "jsonl")
    assert done.returncode == 1, done.stderr
    checks = [json.loads(line) for line in done.stdout.splitlines()]
    failed = {check["check"] for check in checks if check["outcome"] == "failed"}
    assert "test_deleted_rows_are_gone" in failed
    counts = Counter(check["outcome"] for check in checks)
    assert counts["passed"] > counts["failed"] > 0
    assert all(check["reason"] for check in checks if check["outcome"] == "failed")


def test_each_reason_of_failures_is_named_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = [
        CheckOutcome("writes", f"test_{n}", "case", outcome, reason)
        for n, (outcome, reason) in enumerate(
            [("failed", "no such row"), ("failed", "gone"), ("passed", ""), ("failed", "gone")]
        )
    ]
    monkeypatch.setattr(command, "run_suite", lambda *_, **__: checks)
    with pytest.raises(SystemExit):
        command.conformance("memory")
    *_, many, one = capsys.readouterr().out.splitlines()
    assert many == "2 checks failed, test_1 among them: gone"
    assert one == "test_0 failed: no such row"


def test_an_unknown_store_is_one_line() -> None:
    done = call("memry")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "vectrial: there is no store 'memry' (did you mean 'memory'?)\n"


def test_without_pytest_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    find = run.importlib.util.find_spec
    monkeypatch.setattr(
        run.importlib.util, "find_spec", lambda name: None if name == "pytest" else find(name)
    )
    with pytest.raises(UserError, match=r"pip install 'vectrial\[testing\]'"):
        conformance(MemoryStore)
