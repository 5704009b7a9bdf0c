"""The conformance suite's fast tier has every library, and no server."""

from __future__ import annotations

import pytest

from vectrial.model.store import Store
from vectrial.stores import registry
from vectrial.testing.conformance.plugin import _cases, _marks

STORES = [registry.load(name) for name in registry.names()]


@pytest.mark.parametrize("store", STORES, ids=lambda one: one.name)
def test_a_library_has_one_fast_case_and_a_server_none(store: type[Store]) -> None:
    fast = [case for case in _cases(store) if not _marks(case)]
    assert len(fast) == (1 if store.server is None else 0)
