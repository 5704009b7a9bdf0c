"""What a store of ours is called in a server that it shares with others."""

from __future__ import annotations

import hashlib
from pathlib import Path


def collection_name(location: Path) -> str:
    """The name of the collection of a store at `location`: the same for the same folder. Letters,
    digits and one underscore, the first a capital letter."""
    return f"Vectrial_{hashlib.sha256(str(location.resolve()).encode()).hexdigest()[:20]}"
