"""The container image: built and run by a real engine, on a base that is made of this machine's
Python."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from built_wheel import ROOT, plugin_wheels, wheel
from python_image import base_image
from real_engine import real_engine

pytestmark = [pytest.mark.server("docker"), pytest.mark.slow]
_IMAGE = "vectrial-of-tests"
_USER = 1000
_SUITE = """
name = "tiny"
repeats = 1
[[datasets]]
name = "clustered-8-1k"
[[stores]]
store = "memory"
[[stores]]
store = "faiss"
index = "hnsw"
[[experiments]]
experiment = "storage"
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment that leads to an engine that has the image."""
    with real_engine(storage="") as (_, env):
        built, context = wheel(), tmp_path_factory.mktemp("context")
        (context / "dist").mkdir()
        for file in (ROOT / "Dockerfile", ROOT / ".dockerignore"):
            shutil.copy(file, context)
        for file in (built, *plugin_wheels()):
            shutil.copy(file, context / "dist")
        base = base_image(built, "quick", env)
        arguments = ("--network", "none", "--build-arg", f"BASE={base}", "--tag", _IMAGE)
        docker(env, "build", *arguments, str(context))
        yield env


def docker(env: dict[str, str], *words: str) -> str:
    done = subprocess.run(("docker", *words), env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_image_lists_stores_and_measures(engine: dict[str, str], tmp_path: Path) -> None:
    run = ("run", "--rm", "--network", "none")
    anybody = ("--user", "54321")
    listed = docker(engine, *run, *anybody, _IMAGE, "stores", "--format", "jsonl")
    works = {row["store"]: row["works"] for row in map(json.loads, listed.splitlines())}
    assert all(works[name] for name in ("memory", "faiss", "usearch", "qdrant-edge", "sqlite-vec"))
    assert works["lancedb"] is False

    (tmp_path / "tiny.toml").write_text(_SUITE)
    tmp_path.chmod(0o777)
    work = ("--volume", f"{tmp_path}:/work")
    done = docker(engine, *run, *work, _IMAGE, "run", "tiny.toml", "--format", "jsonl")
    last = json.loads(done.splitlines()[-1])
    assert set(last["trials"]) == {"ok"}
    folder = tmp_path / Path(last["folder"]).relative_to("/work")
    assert folder.stat().st_uid == _USER, "it does not run as root"
    assert (folder / "report" / "report.html").is_file()
