"""Truth is kept in a home of each test's own."""

from __future__ import annotations

from own_home import home

__all__ = ["home"]
