"""What other users of this machine get of the servers that are started here."""

from __future__ import annotations

import other_user
import pytest
from readiness import ready

from vectrial.model.errors import VectrialError
from vectrial.model.store import Address
from vectrial.servers.provide import recipe_of
from vectrial.testing.conformance import serving
from vectrial.testing.conformance.world import Case, one_index


@one_index
def test_a_server_gives_nothing_away(case: Case) -> None:
    if case.store.server is None:
        pytest.skip("a library")
    server = serving.server(case.store)
    other_user.check(server)


@one_index
def test_a_server_lets_in_only_those_who_know_its_secret(case: Case) -> None:
    recipe = recipe_of(case.store)
    if recipe is None or not recipe.generated:
        pytest.skip("it has none")
    address = serving.server(case.store).address
    ready(recipe, address)
    for secrets in ({}, dict.fromkeys(recipe.generated, "wrong")):
        with pytest.raises(VectrialError, match=r"not let us in|API key"):
            ready(recipe, Address(address.host, address.ports, secrets))
