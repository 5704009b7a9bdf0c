"""What other users of this machine get of the servers that are started here."""

from __future__ import annotations

import other_user
import pytest
from readiness import ready

from vectrial.model.errors import VectrialError
from vectrial.model.store import Address
from vectrial.servers.provide import recipe_of
from vectrial.testing.conformance import serving
from vectrial.testing.conformance.cases import a_server, needs
from vectrial.testing.conformance.world import Case


@needs(a_server)
def test_a_server_gives_nothing_away(case: Case) -> None:
    server = serving.server(case.store)
    other_user.check(server)


def a_secret(case: Case) -> str | None:
    recipe = recipe_of(case.store)
    return None if recipe and recipe.generated else f"{case.store.name}'s server has no secret"


@needs(a_secret)
def test_a_server_lets_in_only_those_who_know_its_secret(case: Case) -> None:
    recipe = recipe_of(case.store)
    assert recipe is not None
    address = serving.server(case.store).address
    ready(recipe, address)
    for secrets in ({}, dict.fromkeys(recipe.generated, "wrong")):
        with pytest.raises(VectrialError, match=r"not let us in|API key"):
            ready(recipe, Address(address.host, address.ports, secrets))
