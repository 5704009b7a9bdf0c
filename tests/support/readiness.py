"""Whether a server is ready, asked for as long as that takes on a busy machine."""

from __future__ import annotations

from vectrial.model.store import Address
from vectrial.servers.base import Recipe, wait_until


def ready(recipe: Recipe, address: Address) -> None:
    """Ask until the server answers, for a minute: once, `Recipe.ready` waits for seconds alone.
    Raises what `Recipe.ready` does where the server answers that it does not let us in."""
    wait_until(recipe, address, 60.0, check_alive=lambda: None)
