"""Each test of this package has a home of its own."""

from __future__ import annotations

from own_home import home

__all__ = ["home"]
