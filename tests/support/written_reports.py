"""A run, and its report in every form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from run_contents import RunContents
from synthetic_runs import STORES, synthetic_run

from vectrial.analysis.run_data import RunData
from vectrial.document.blocks import Report
from vectrial.document.render import export
from vectrial.report.build import build


@dataclass(frozen=True)
class Written:
    """A run folder, the same run in memory, its report, and the folder of that."""

    folder: Path
    run: RunData
    report: Report
    out: Path


def varied_run() -> RunContents:
    """A run with every kind of row that a report must survive."""
    stores = {name: STORES[name] for name in STORES if name != "qdrant-edge"}
    return synthetic_run(stores=stores, efs=(16, 64, 256), builds=((16, 128),))


@pytest.fixture(scope="session")
def recorded() -> RunData:
    """That run in memory."""
    return varied_run().data()


@pytest.fixture(scope="session")
def written(recorded: RunData, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """That run as a folder, and its report in every form."""
    folder = varied_run().write(tmp_path_factory.mktemp("report") / "run")
    report = build(recorded)
    out = export.make_folder(folder / "report")
    export.write_html(report, out)
    export.write_markdown(report, out)
    export.write_figures(report, out)
    export.write_csv(report, folder, out)
    return Written(folder, recorded, report, out)
