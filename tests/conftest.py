"""What all tests share."""

from __future__ import annotations

import os
import signal

import pytest

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # the environment that a store has for itself
    pass
else:
    # How long an example takes, or making one up, says how busy the machine is. Examples are other
    # ones in every run, also where `CI` is set; one that fails is printed with what repeats it.
    settings.register_profile(
        "vectrial",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=False,
        print_blob=True,
    )
    settings.load_profile("vectrial")

_HOME = os.environ.get("VECTRIAL_HOME")
# Servers are programs of this machine, whether a container engine answers or not: what is tested is
# the same everywhere. Tests of containers name an engine themselves.
os.environ["VECTRIAL_DOCKER"] = "no-engine-in-tests"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Signals reach the programs that tests start, also when this was started in a shell's
    background, where Ctrl-C is ignored: what is ignored stays so in every descendant."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as below nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # Processes that run tests side by side are given the terminal's: tables would be as wide.
    os.environ.pop("COLUMNS", None)


@pytest.hookimpl(tryfirst=True)  # before the plugin looks at the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of one file share servers and loads, as do the conformance tests of one store: where
    tests run side by side, these stay together in one process."""
    if not config.pluginmanager.hasplugin("xdist"):  # the environment of a store lacks it
        return
    for item in items:
        callspec = getattr(item, "callspec", None)
        case = None if callspec is None else callspec.params.get("case")
        store = getattr(case, "store", None)
        group = item.nodeid.partition("::")[0] if store is None else store.name
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(autouse=True)
def _home_of_all() -> None:
    """A test begins with the home that all began with, so that it does the same when run alone."""
    assert os.environ.get("VECTRIAL_HOME") == _HOME, "another test's home was left behind"
