"""What all tests share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from vectrial.util.arrow import load_without_pandas
from vectrial.util.program import fast_loading

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # the environment that a store has for itself
    pass
else:
    # How long an example takes, or making one up, says how busy the machine is. Examples are other
    # ones in every run, and one that fails is printed with what repeats it; where a change is
    # judged (`.ci/run`) they are the same in every run, so that luck has no part in it.
    settings.register_profile(
        "vectrial",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize="VECTRIAL_SAME_EXAMPLES" in os.environ,
        print_blob=True,
    )
    settings.load_profile("vectrial")

#: OpenMP's threads wait asleep: on a machine with fewer cores than processes, those that wait
#: awake keep others from working, and a test of faiss takes twenty times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
_HOME = os.environ.get("VECTRIAL_HOME")
# Servers are programs of this machine, whether a container engine answers or not: what is tested is
# the same everywhere. Tests of containers name an engine themselves.
os.environ["VECTRIAL_DOCKER"] = "no-engine-in-tests"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--changed", action="store_true", help="run the tests that the change can break"
    )
    parser.addoption(
        "--alone", action="store_true", help="name tests of --last-failed that pass now"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--changed") or config.getoption("--alone"):
        import changes
        from selection import Alone, Changed

        wanted = config.getoption("--changed")
        config.pluginmanager.register(Changed(changes.selection()) if wanted else Alone())
    if config.getoption("numprocesses", None):  # the environment of a store lacks xdist
        from groups import Groups

        config.pluginmanager.register(Groups())


def pytest_sessionstart(session: pytest.Session) -> None:
    """Signals reach the programs that tests start, also when this was started in a shell's
    background, where Ctrl-C is ignored: what is ignored stays so in every descendant."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as below nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # Processes that run tests side by side are given the terminal's: tables would be as wide.
    os.environ.pop("COLUMNS", None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collecting makes objects that stay: to look through them for garbage takes as long as a
    fifth of it, and later as long again in every test and before every trial that is measured in
    this process."""
    with fast_loading():
        load_without_pandas()
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """What a file's tests leave behind, as the modules that they loaded, stays too."""
    yield
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where tests run side by side, begin with those that take longest, so that no process is left
    with one of them at the end."""
    if hasattr(config, "workerinput"):
        from groups import write

        write(Path(config.workerinput["vectrial_groups"]), items)
        order = ("server", "browser", "slow")
        items.sort(
            key=lambda item: next(
                (at for at, name in enumerate(order) if item.get_closest_marker(name)), len(order)
            )
        )


@pytest.fixture(autouse=True)
def _home_of_all() -> None:
    """A test begins with the home that all began with, so that it does the same when run alone."""
    assert os.environ.get("VECTRIAL_HOME") == _HOME, "another test's home was left behind"
