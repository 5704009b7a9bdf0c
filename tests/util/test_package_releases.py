"""Other releases of packages, really installed: wheels made here, which need no network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile, ZipInfo

import pytest

from vectrial.model.errors import NotInstalled, UserError
from vectrial.util import package_releases
from vectrial.util.package_releases import Packages, ensure, importable, packages_of

VARIABLE = "VECTRIAL_FAISS_PACKAGES"


def wheel(folder: Path, release: str, needs: str = "", text: str = "") -> Path:
    """The wheel of a package `pebble`, whose module says its release."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"pebble-{release}-py3-none-any.whl"
    about = f"pebble-{release}.dist-info"
    with ZipFile(path, "w") as archive:

        def write(name: str, content: str) -> None:
            archive.writestr(ZipInfo(name), content)  # whose date is the same each time

        write("pebble.py", f"RELEASE = '{release}'\n{text}")
        requires = f"Requires-Dist: {needs}\n" if needs else ""
        write(
            f"{about}/METADATA",
            f"Metadata-Version: 2.1\nName: pebble\nVersion: {release}\n{requires}",
        )
        write(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        write(f"{about}/RECORD", "")
    return path


def installed(path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]) -> Path:
    monkeypatch.setenv(VARIABLE, str(path))
    wanted = packages_of("faiss")
    assert wanted is not None
    return ensure(wanted, sys.executable, said.append)


def seen(folder: Path) -> str:
    """The release that a Python with this folder imports, as the module and its metadata say."""
    code = "import pebble, importlib.metadata as m; print(pebble.RELEASE, m.version('pebble'))"
    environment = importable(folder, {"PATH": "/usr/bin:/bin"})
    return subprocess.check_output([sys.executable, "-c", code], env=environment, text=True).strip()


def test_two_releases_stand_side_by_side(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    said: list[str] = []
    old = installed(wheel(tmp_path, "1.0"), monkeypatch, said)
    new = installed(wheel(tmp_path, "2.0"), monkeypatch, said)
    assert (seen(old), seen(new)) == ("1.0 1.0", "2.0 2.0")
    assert len(said) == 2
    assert "pebble-1.0-py3-none-any.whl" in said[0]
    assert VARIABLE in said[0]
    assert installed(wheel(tmp_path, "1.0"), monkeypatch, said) == old
    assert len(said) == 2, "what is there is not installed again"
    changed = installed(wheel(tmp_path, "1.0", text="BUILD = 2\n"), monkeypatch, said)
    assert changed != old, "a wheel that was built again is another one"


def test_everything_else_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A release that needs another numpy than the one that is installed is refused."""
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    needy = wheel(tmp_path, "3.0", needs="numpy<1")
    with pytest.raises(NotInstalled, match="numpy"):
        installed(needy, monkeypatch, [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("missing.whl", "there is no file missing.whl"),
        ("'unclosed", "not a list of packages"),
        ("faiss-cpu@https://user:word@example.org/faiss.tar.gz", "is no package"),
        ("--index-url", "is no package"),
        (".", "is no package"),
    ],
)
def test_what_is_no_package_is_refused(
    monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(UserError, match=why) as caught:
        packages_of("faiss")
    assert VARIABLE in str(caught.value)


def test_no_variable_means_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert packages_of("faiss") is None
    monkeypatch.setenv(VARIABLE, "faiss-cpu==1.11.0 numpy==2.2.0")
    found = packages_of("faiss")
    assert found == Packages(("faiss-cpu==1.11.0", "numpy==2.2.0"), VARIABLE)


@pytest.mark.parametrize("spelling", ["Faiss_CPU", "faiss-cpu", "faiss.cpu==1.0", "faiss_cpu>=1"])
def test_a_package_is_not_held_to_what_is_installed_of_it(
    spelling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Freeze:
        returncode = 0
        stdout = "faiss-cpu==1.14.0\nnumpy==2.3.0\n-e file:///here\n"

    monkeypatch.setattr(package_releases.subprocess, "run", lambda *args, **kwargs: Freeze())
    assert package_releases._other_packages(Packages((spelling,), VARIABLE), "uv", "python") == [
        "numpy==2.3.0"
    ]
