"""One synthetic run and its written report, shared by the tests of this folder."""

from __future__ import annotations

from written_reports import recorded, written

__all__ = ["recorded", "written"]
