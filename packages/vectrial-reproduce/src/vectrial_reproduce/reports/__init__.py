"""The published reports, measured again: `vectrial reproduce NAME`."""

from __future__ import annotations

from vectrial_reproduce.reports.registry import REPRODUCTIONS

__all__ = ["REPRODUCTIONS"]
