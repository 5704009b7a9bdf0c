"""A reproduction that is interrupted is gone on with as a whole, not by the part under way."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from vectrial.run import measuring
from vectrial.stores import registry
from vectrial_reproduce.commands import reproduce
from vectrial_reproduce.reports import REPRODUCTIONS
from vectrial_reproduce.reports.planning import Settings, plan_parts
from vectrial_reproduce.reports.selection import Selection


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
