"""A report and what it was made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from synthetic_runs import STORES, write_run

from vectrial.analysis.run_data import RunData, load
from vectrial.report.build import build
from vectrial.report.document import Report
from vectrial.report.render import write


@dataclass(frozen=True)
class Written:
    """A run folder, what was read from it, and the folder of its report."""

    folder: Path
    run: RunData
    report: Report
    out: Path


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Every kind of row a report must survive, written in every form."""
    folder = tmp_path_factory.mktemp("report") / "run"
    stores = {name: STORES[name] for name in STORES if name != "qdrant-edge"}
    write_run(folder, stores=stores, efs=(16, 64, 256))
    run = load(folder)
    report = build(run)
    out = write.made(folder / "report")
    write.write_html(report, out)
    write.write_markdown(report, out)
    write.write_figures(report, out)
    write.write_csv(report, folder, out)
    return Written(folder, run, report, out)
