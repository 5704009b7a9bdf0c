"""Environments of a store's own: made once, whole or not at all, with only vectrial brought in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from environment_imports import check_imports

from vectrial.model.capabilities import Environment
from vectrial.model.errors import NotInstalled, UserError
from vectrial.util import environments, hardware

TINY = Environment("tiny", f"{sys.version_info.major}.{sys.version_info.minor}")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package folder whose only environment installs nothing, and a home of its own."""
    package = tmp_path / "site-packages" / "vectrial"
    (package / "locks").mkdir(parents=True)
    (package / "locks" / "tiny.lock").write_text("# nothing\n")
    monkeypatch.setattr(environments, "_PACKAGE", package)
    monkeypatch.setattr(environments.plugins, "packages", dict)
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    return package


def test_is_made_once_and_found_the_second_time(package: Path) -> None:
    lines: list[str] = []
    python = environments.ensure(TINY, lines.append)
    assert "installing tiny.lock" in lines[0]
    assert "ready" in lines[-1]
    where = subprocess.check_output([python, "-c", "import sys; print(sys.prefix)"], text=True)
    assert Path(where.strip()) == environments.environment_folder(TINY)
    again: list[str] = []
    assert environments.ensure(TINY, again.append) == python
    assert again == []


def test_a_changed_lock_is_another_environment(package: Path) -> None:
    before = environments.environment_folder(TINY)
    (package / "locks" / "tiny.lock").write_text("# nothing, but otherwise\n")
    assert environments.environment_folder(TINY) != before
    between = environments.environment_folder(TINY)
    (package / "locks" / "tiny.build").write_text("setuptools==1\n")
    assert environments.environment_folder(TINY) not in (before, between)


def test_an_unknown_environment_is_named_with_those_there_are(package: Path) -> None:
    with pytest.raises(UserError, match=r"no environment 'tinny'.*there is: tiny"):
        environments.ensure(Environment("tinny"))


def test_a_failed_build_shows_the_log_and_leaves_nothing_to_be_used(
    package: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken-1.0.tar.gz"
    broken.write_bytes(b"this is no archive")
    (package / "locks" / "tiny.lock").write_text(
        f"broken @ {broken.as_uri()} --hash=sha256:{'0' * 64}\n"
    )
    with pytest.raises(NotInstalled) as caught:
        environments.ensure(TINY)
    assert "'tiny' could not be made" in str(caught.value)
    assert "broken" in str(caught.value).partition("it ends:")[2]
    folder = environments.environment_folder(TINY)
    assert not folder.exists()
    assert not folder.with_name(f"{folder.name}.partial").exists()


def test_without_uv_the_message_says_how_to_get_it(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotInstalled, match="pip install uv"):
        environments.ensure(TINY)


def test_what_a_killed_process_left_is_never_used(package: Path) -> None:
    folder = environments.environment_folder(TINY)
    left = folder.with_name(f"{folder.name}.partial")
    (left / "bin").mkdir(parents=True)
    (left / "bin" / "python").write_text("half made")
    python = environments.ensure(TINY)
    subprocess.run([python, "-c", ""], check=True)
    assert not left.exists()


def test_a_progress_callback_that_raises_ends_the_build_and_cleans_up(package: Path) -> None:
    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        environments.ensure(TINY, interrupt)
    assert not environments.environment_folder(TINY).exists()
    assert environments.ensure(TINY).exists()


def test_two_that_ask_at_once_share_one_build(package: Path) -> None:
    lines: list[str] = []
    with ThreadPoolExecutor(4) as pool:
        pythons = list(pool.map(lambda _: environments.ensure(TINY, lines.append), range(4)))
    assert len(set(pythons)) == 1
    assert sum("ready" in line for line in lines) == 1


def test_a_killed_process_keeps_others_out_until_its_children_have_ended(
    package: Path, tmp_path: Path
) -> None:
    """Else an orphaned installer would write into the folder that the next one builds."""
    ended, may_end = tmp_path / "ended", tmp_path / "may-end"
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from vectrial.util import environments as e\n"
        "from vectrial.model.store import Environment\n"
        f"e._packages = lambda: (Path({str(package)!r}),)\n"
        "late = 'import pathlib, sys, time; until = time.monotonic() + 60\\n'\n"
        "late += 'while not pathlib.Path(sys.argv[2]).exists() and time.monotonic() < until:'\n"
        "late += ' time.sleep(0.05)\\n'\n"
        "late += 'pathlib.Path(sys.argv[1]).touch()'\n"
        f"step = (sys.executable, '-c', late, {str(ended)!r}, {str(may_end)!r})\n"
        "e._steps = lambda environment, folder: [step]\n"
        "say = lambda line: print(line, flush=True)\n"
        f"e.ensure(Environment('tiny', {TINY.python!r}), say)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        assert b"installing" in killed.stdout.readline()
        while not psutil.Process(killed.pid).children():  # from then on it has the lock, too
            assert killed.poll() is None
            time.sleep(0.01)
        killed.kill()
    assert not ended.exists()
    lines: list[str] = []

    def hear(line: str) -> None:
        lines.append(line)
        may_end.touch()

    environments.ensure(TINY, hear)
    assert "another process is making it" in lines[0]
    assert ended.exists()


def test_from_site_packages_only_what_is_asked_for_comes_along(
    package: Path, tmp_path: Path
) -> None:
    """As installed from a wheel: beside the packages lie libraries of other versions."""
    shutil.rmtree(package)
    source = Path(environments.__file__).parents[1]
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "locks").mkdir()
    (package / "locks" / "tiny.lock").write_text("# nothing\n")
    (package.parent / "neighbour.py").write_text("")
    (package.parent / "theirs").mkdir()
    (package.parent / "theirs" / "__init__.py").write_text("class Store: ...\n")
    (package.parent / "single.py").write_text("class Experiment: ...\n")
    (tmp_path / "here.py").write_text("")
    probe = package / "probe.py"
    probe.write_text(
        "import importlib.util as u, json, sys, vectrial\n"
        "names = ('vectrial._engine', 'theirs', 'single', 'neighbour', 'here')\n"
        "found = {name: u.find_spec(name) is not None for name in names}\n"
        "print(json.dumps({'file': vectrial.__file__, 'arguments': sys.argv[1:], **found}))\n"
    )
    script = (
        "import single, subprocess, theirs\n"
        "from vectrial.util import environments as e\n"
        "from vectrial.model.store import Environment\n"
        f"tiny, classes = Environment('tiny', {TINY.python!r}), (theirs.Store, single.Experiment)\n"
        "run = e.command(tiny, 'vectrial.probe', ['a b'], classes=classes)\n"
        "subprocess.run(run.argv, env=run.env, check=True)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(package.parent)}
    output = subprocess.check_output(
        [sys.executable, "-c", script], env=env, cwd=tmp_path, text=True
    )
    seen = json.loads(output.splitlines()[-1])
    assert Path(seen["file"]).resolve() == package / "__init__.py"
    assert seen["arguments"] == ["a b"]
    assert seen["vectrial._engine"]
    assert seen["theirs"]
    assert seen["single"]
    assert not seen["neighbour"]
    assert not seen["here"]


def test_the_command_line_makes_names_and_refuses(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert environments.names() == ("tiny",)
    assert environments.main(["nope"]) == 2
    assert "there is no environment 'nope'" in capsys.readouterr().err
    assert environments.main(["tiny"]) == 0
    assert capsys.readouterr().out.strip() == str(environments.ensure(Environment("tiny")))


@pytest.mark.skipif(
    not hardware.missing_hardware(["nvidia-gpu"]), reason="there is an NVIDIA GPU here"
)
def test_what_the_machine_lacks_hardware_for_is_skipped_or_refused(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (package / "locks" / "tiny.needs").write_text("nvidia-gpu\n")
    why = "needs an NVIDIA GPU: no /dev/nvidia0 here"
    assert environments.main([]) == 0
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", f"environment 'tiny': skipped: {why}\n")
    assert environments.main(["tiny"]) == 1
    assert capsys.readouterr().err == f"environment 'tiny' {why}\n"
    assert not environments.environment_folder(TINY).exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", environments.names())
def test_what_the_measuring_process_needs_imports_in_every_environment(name: str) -> None:
    """The real environments: numpy, pyarrow, pydantic and psutil are all that they share with
    the main one, so nothing that measures may import more."""
    packages = ["model", "worker", "stores", "workload", "telemetry", "experiments", "gate"]
    packages += ["datasets.library", "datasets.truth"]
    check_imports(name, [f"vectrial.{package}" for package in packages])
