"""A run, and its report in every form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from synthetic_runs import STORES, write_run

from vectrial.analysis.run_data import RunData, load
from vectrial.document.blocks import Report
from vectrial.document.render import write
from vectrial.report.build import build


@dataclass(frozen=True)
class Recorded:
    """A run folder, and what was read from it."""

    folder: Path
    run: RunData


@dataclass(frozen=True)
class Written:
    """A run folder, what was read from it, and the folder of its report."""

    folder: Path
    run: RunData
    report: Report
    out: Path


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A run with every kind of row that a report must survive."""
    folder = tmp_path_factory.mktemp("report") / "run"
    stores = {name: STORES[name] for name in STORES if name != "qdrant-edge"}
    write_run(folder, stores=stores, efs=(16, 64, 256), builds=((16, 128),))
    return Recorded(folder, load(folder))


@pytest.fixture(scope="session")
def written(recorded: Recorded) -> Written:
    """That run, written in every form."""
    report = build(recorded.run)
    out = write.made(recorded.folder / "report")
    write.write_html(report, out)
    write.write_markdown(report, out)
    write.write_figures(report, out)
    write.write_csv(report, recorded.folder, out)
    return Written(recorded.folder, recorded.run, report, out)
