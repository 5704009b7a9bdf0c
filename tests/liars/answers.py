"""Stores that lie in what they answer, and one that does not."""

from __future__ import annotations

from typing import ClassVar

from vectrial.stores.memory import MemoryStore


class Honest(MemoryStore):
    """As it is."""

    name: ClassVar[str] = "honest"
