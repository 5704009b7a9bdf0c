"""The shipped conformance suite on every store, and what this project alone checks beside it."""

from __future__ import annotations

from collections.abc import Iterator

import other_user
import pytest
from quick_servers import quick_servers

from vectrial.testing.conformance import serving
from vectrial.testing.conformance.plugin import (  # noqa: F401
    empty,
    loaded,
    pytest_collection_modifyitems,
    pytest_generate_tests,
    pytest_runtest_teardown,
    world,
)


@pytest.fixture(scope="session", autouse=True)
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """As the suite's own, with secrets in the environment that are none of the servers'."""
    with quick_servers(), pytest.MonkeyPatch.context() as patch:
        for name, value in other_user.CANARIES.items():
            patch.setenv(name, value)
        with serving.in_folder(tmp_path_factory.mktemp("servers")):
            yield
