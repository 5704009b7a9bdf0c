"""The folder of a reproduction: its settings, and the runs of its parts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vectrial.analysis.run_data import load
from vectrial.model.errors import UserError
from vectrial.results.bundle import SUFFIX
from vectrial.results.database import DATABASE
from vectrial_reproduce.reports.matching import MeasuredPart
from vectrial_reproduce.reports.model import Reproduction
from vectrial_reproduce.reports.planning import PartPlan, Settings
from vectrial_reproduce.reports.registry import REPRODUCTIONS

#: File of the folder that holds the options.
MANIFEST = "reproduction.json"


@dataclass(frozen=True)
class ReproductionManifest:
    """The options that a reproduction was begun with. parts: name → "dataset" and "rows"."""

    report: Reproduction
    settings: Settings
    parts: Mapping[str, Mapping[str, Any]]


def read(folder: Path) -> ReproductionManifest:
    """The manifest of the reproduction in a folder.

    Raises:
        UserError: there is none.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise UserError(
            "there is no reproduction here",
            where=str(folder),
            remedy="give the folder that `vectrial reproduce` printed",
        )
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    settings = Settings(
        told["scale"],
        tuple(told["stores"]),
        told["faithful"],
        told["repeats"],
        tuple(told.get("only", ())),
        told.get("memory_limit", False),
        told.get("builds", {}),
    )
    return ReproductionManifest(REPRODUCTIONS.load(told["report"]), settings, told["parts"])


def begin(folder: Path, report: Reproduction, settings: Settings, parts: list[PartPlan]) -> None:
    """Write the manifest of a reproduction, unless it was begun before."""
    path = folder / MANIFEST
    if path.exists():
        return
    begun = {part.part.name: {"dataset": part.dataset, "rows": part.rows} for part in parts}
    told = {"report": report.name, **asdict(settings), "parts": begun}
    path.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def measured(folder: Path, manifest: ReproductionManifest) -> dict[str, MeasuredPart]:
    """The measured parts, each from a run folder of its name, or from a bundle in such a folder."""
    found = {}
    for name, about in manifest.parts.items():
        own = folder / name
        places = [own] if (own / DATABASE).is_file() else sorted(own.glob(f"*{SUFFIX}"))
        if places:
            found[name] = MeasuredPart(load(places[0]), about["dataset"], about["rows"])
    return found
