"""Altair, imported when a chart is made: that takes a second, and a summary shows no charts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["alt"]

if TYPE_CHECKING:
    import altair as alt
else:

    class _Altair:
        def __getattr__(self, name: str) -> Any:
            import altair

            return getattr(altair, name)

    alt = _Altair()
