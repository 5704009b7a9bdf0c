"""The package of a third party, installed."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "third_party"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the module path of processes, in which the package lies as pip installs it."""
    folder = tmp_path / "site-packages"
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, version = project["name"], project["version"]
    package = name.replace("-", "_")
    shutil.copytree(HERE / package, folder / package)
    info = folder / f"{package}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    return folder
