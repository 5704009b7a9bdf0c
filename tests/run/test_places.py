"""Places where a run is measured, beside this machine: a package brings them."""

from __future__ import annotations

from pathlib import Path

import pytest
from installed_package import install

from vectrial.datasets.exact import scan_here
from vectrial.model.errors import PluginError, UserError
from vectrial.run.place import PLACES, Machines, machines_at, no_place, scanner_at

HALL = """
from contextlib import contextmanager, nullcontext
from vectrial.datasets.exact import scan_here
from vectrial.run.place import Machines, Place

class Hall(Place):
    forms = "hall, or hall://ROOM"

    @contextmanager
    def machines(self, on, folder):
        yield Machines(environment={"on": on, "folder": folder})

    def scanner(self, on, dataset, note):
        note(on)
        return nullcontext(scan_here)
"""


@pytest.fixture
def hall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that brings a place, and one that is none."""
    entries = "[vectrial.places]\nhall = hall:Hall\ncellar = hall:nullcontext\n"
    monkeypatch.syspath_prepend(install(tmp_path, "hall", entries, hall=HALL))


@pytest.mark.usefixtures("hall")
def test_a_package_brings_a_place(tmp_path: Path) -> None:
    notes: list[str] = []
    for on in ("hall", "hall://3"):
        with machines_at(on, tmp_path) as machines:
            assert machines.environment == {"on": on, "folder": tmp_path}
        with scanner_at(on, None, notes.append) as scanner:  # type: ignore[arg-type]
            assert scanner is scan_here
    assert notes == ["hall", "hall://3"]


def test_this_machine_is_a_place() -> None:
    with machines_at("here") as machines:
        assert machines == Machines()
    with scanner_at("here", None, print) as scanner:  # type: ignore[arg-type]
        assert scanner is scan_here


@pytest.mark.usefixtures("hall")
def test_what_is_no_place_is_refused_with_those_that_there_are() -> None:
    for on in ("nowhere", "http://hall", "hall:3", ""):
        with pytest.raises(UserError) as one:
            machines_at(on)
        assert str(one.value) == str(no_place(on))
        assert one.value.what == f"'{on}' is no place to run on"
        assert one.value.remedy.startswith("here, ")
        assert "hall, or hall://ROOM" in one.value.remedy
    with pytest.raises(PluginError, match="hall:nullcontext is not a subclass"):
        machines_at("cellar")
    assert "cellar" in PLACES, "it stands in nobody's way before"
