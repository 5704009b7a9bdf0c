"""Exposure of a run's servers to other users and machines, checked before measuring."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from vectrial.model.errors import UserError, VectrialError
from vectrial.model.placement import Provider
from vectrial.model.progress import LineProgress
from vectrial.model.store import Store
from vectrial.servers.base import Recipe
from vectrial.servers.namespaces import why_no_network
from vectrial.servers.provide import ProviderChoice, choose_provider, recipe_of
from vectrial.util.variants import set_variables


def check(
    servers: Mapping[tuple[type[Store], str], Provider | None],
    say: LineProgress,
    *,
    allow_exposed: bool,
) -> None:
    """Report the servers of a plan (`Plan.servers`) that other users of this machine can reach, on
    one line.

    Raises:
        UserError: others on the network could reach a server, and that is not allowed.
    """
    found: list[tuple[Recipe, ProviderChoice]] = []
    for (store, variant), provider in servers.items():
        # What goes wrong is reported in the store's job.
        with suppress(VectrialError), set_variables(variant):
            if (recipe := recipe_of(store)) is not None:
                choice = choose_provider(recipe, provider)
                if choice.available.works is not False:
                    found.append((recipe, choice))
    local = [recipe for recipe, choice in found if choice.provider is Provider.LOCAL]
    why = why_no_network() if local else ""
    if why:
        check_exposed([one for one in local if one.exposed], why, allow_exposed=allow_exposed)
    open_ones = [one.name for one in local if why and not one.generated]
    open_ones += [
        recipe.name
        for recipe, choice in found
        if choice.provider is Provider.DOCKER and recipe.image and not recipe.image.generated
    ]
    if open_ones:
        names = ", ".join(dict.fromkeys(open_ones))
        because = f": no network of its own can be made here ({why})" if why else ""
        say(f"other users of this machine can use the server of {names} while it runs{because}")


def check_exposed(recipes: list[Recipe], why: str, *, allow_exposed: bool) -> None:
    """Raise `UserError` if there are servers that listen on every interface, unless that is
    allowed. why: the reason why there is no private network."""
    if recipes and not allow_exposed:
        names = " and ".join(dict.fromkeys(one.name for one in recipes))
        raise UserError(
            f"{names}: listens on every interface of this machine, whatever it is told, and no "
            f"network of its own can be made here ({why})",
            remedy="run as root, or where users may make namespaces; or --allow-exposed",
        )
