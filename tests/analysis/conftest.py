"""One synthetic run, shared by the tests of this folder."""

from __future__ import annotations

from written_reports import recorded

__all__ = ["recorded"]
