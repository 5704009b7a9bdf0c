"""A report and what it was made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vectrial.analysis.run_data import RunData
from vectrial.report.document import Report


@dataclass(frozen=True)
class Written:
    """A run folder, what was read from it, and the folder of its report."""

    folder: Path
    run: RunData
    report: Report
    out: Path
