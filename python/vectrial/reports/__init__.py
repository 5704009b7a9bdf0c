"""The published reports, measured again: `vectrial reproduce NAME`."""

from __future__ import annotations

from vectrial.reports.registry import REPRODUCTIONS

__all__ = ["REPRODUCTIONS"]
