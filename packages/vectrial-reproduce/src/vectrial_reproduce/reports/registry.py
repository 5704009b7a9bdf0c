"""The registry of published reports.

A report registers its `Reproduction` with an entry point in the group `vectrial.reports`, in this
package or in other people's: see `vectrial.util.plugins`. The report's `published.csv` is in the
package of that module.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable

from vectrial.util.plugins import Plugins
from vectrial_reproduce.reports.model import Reproduction


def _check_report(name: str, found: object) -> Reproduction:
    if not isinstance(found, Reproduction):
        raise ValueError("is not a Reproduction of vectrial_reproduce.reports.model")
    if found.name != name:
        raise ValueError(f"is a report named '{found.name}'")
    return found


#: Every registered report, by name.
REPRODUCTIONS: Plugins[Reproduction] = Plugins("vectrial.reports", "report", _check_report)


def folder(name: str) -> Traversable:
    """The package of a report, with its `published.csv`."""
    return files(REPRODUCTIONS.module(name).rpartition(".")[0])
