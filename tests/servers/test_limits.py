"""What servers may use, by control groups."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import tiny_server

from vectrial.model.errors import Unsupported
from vectrial.model.placement import Limits, Placement
from vectrial.servers import limits
from vectrial.servers.limits import (
    NoControlGroup,
    change_memory,
    command_in_groups,
    group_name,
    make_groups,
)
from vectrial.servers.local import Local
from vectrial.servers.supervisor import memory_use, remove
from vectrial.telemetry.groups import ControlGroups
from vectrial.util.cgroups import is_unified, membership

ROOT = Path("/sys/fs/cgroup")


@pytest.fixture
def possible() -> None:
    try:
        groups = make_groups(Limits(0.5, 2**28), group_name())
    except NoControlGroup as error:
        pytest.skip(f"this machine sets no limits: {error}")
    for group in groups:
        group.rmdir()


def left_over() -> list[Path]:
    """Groups that this process made; others may be at work on this machine."""
    mine = f"vectrial-{os.getpid()}-"
    # Not `rglob`, which fails where another process removes a group meanwhile.
    groups = (Path(top, one) for top, within, _ in os.walk(ROOT) for one in within)
    return [group for group in groups if group.name.startswith(mine)]


@pytest.mark.slow
@pytest.mark.usefixtures("possible")
def test_a_server_is_held_to_its_limits(tmp_path: Path) -> None:
    with Local(tiny_server.recipe(), tmp_path, limits=Limits(0.5, 2**28)) as server:
        pid = server.processes()["server"]
        child = int((tmp_path / "data" / "child").read_text())
        assert server.facts()["limits"] == "0.5 processors, 256 MiB: applied by control groups"
        assert server.facts()["cpus"] == 0.5
        for one in (pid, child):
            assert "vectrial-" in Path(f"/proc/{one}/cgroup").read_text()
        used = ControlGroups(pid).usage()
        assert used.peak_bytes is None or 0 < used.peak_bytes <= 2**28
        assert 0 < server.facts()["memory_peak_bytes"] <= 2**28
        assert server.facts()["oom_kills"] == 0
        server.restart()
    assert not left_over()
    assert server.facts()["memory_peak_bytes"] > 0, "the supervisor told it at the end"


def test_the_use_of_memory_is_read_in_both_versions(tmp_path: Path) -> None:
    one, two, none = (tmp_path / name for name in ("one", "two", "none"))
    one.mkdir()
    (one / "memory.max_usage_in_bytes").write_text("4096\n")
    (one / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    two.mkdir()
    (two / "memory.peak").write_text("8192\n")
    (two / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 3\noom_kill 1\n")
    assert memory_use([none, one]) == {"memory_peak_bytes": 4096, "oom_kills": 2}
    assert memory_use([two]) == {"memory_peak_bytes": 8192, "oom_kills": 1}
    assert memory_use([none]) == {}


@pytest.mark.usefixtures("possible")
def test_a_command_runs_in_the_groups_from_its_start(tmp_path: Path) -> None:
    name = group_name()
    groups = make_groups(Limits(memory_bytes=2**26), name)
    report = "import sys; print(open('/proc/self/cgroup').read(), sys.argv)"
    try:
        argv = command_in_groups(groups, [sys.executable, "-c", report, "a b", "$c"])
        said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        hungry = command_in_groups(groups, [sys.executable, "-c", "b = bytearray(2**27)"])
        killed = subprocess.run(hungry, capture_output=True, check=False)
        use = memory_use(groups)
    finally:
        remove(groups)
    assert name in said
    assert "['-c', 'a b', '$c']" in said
    assert killed.returncode == -signal.SIGKILL
    assert use["oom_kills"] == 1


@pytest.mark.usefixtures("possible")
def test_a_group_of_that_name_is_left_alone() -> None:
    name, limited = group_name(), Limits(memory_bytes=2**26)
    groups = make_groups(limited, name)
    try:
        with pytest.raises(NoControlGroup, match="File exists"):
            make_groups(limited, name)
        assert all(group.is_dir() for group in groups)
    finally:
        remove(groups)


@pytest.mark.slow
@pytest.mark.usefixtures("possible")
def test_the_memory_of_a_running_server_changes(tmp_path: Path) -> None:
    with Local(tiny_server.recipe(), tmp_path, limits=Limits(memory_bytes=2**28)) as server:
        server.limit_memory(2**27)
        assert limit_of(server) == 2**27
        server.limit_memory(None)
        assert limit_of(server) == 2**28
        assert server.is_alive()


def limit_of(server: Local) -> int:
    """Memory that the kernel lets a server have."""
    group = membership(Path(f"/proc/{server.processes()['server']}"))
    if is_unified():
        return int((ROOT / group[""].strip("/") / "memory.max").read_text())
    folder = ROOT / "memory" / group["memory"].strip("/")
    return int((folder / "memory.limit_in_bytes").read_text())


@pytest.mark.usefixtures("possible")
def test_a_group_is_not_told_to_have_less_than_it_holds(tmp_path: Path) -> None:
    """Version 1 refuses; version 2 ends what holds it."""
    if is_unified():
        pytest.skip("version 2 refuses nothing")
    groups = make_groups(Limits(memory_bytes=2**28), group_name())
    code = (
        f"import os\nfor g in {[str(g) for g in groups]!r}:\n"
        " open(g + '/cgroup.procs', 'w').write(str(os.getpid()))\n"
        "b = os.urandom(2**26)\nprint(flush=True)\ninput()"
    )
    command = [sys.executable, "-c", code]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    try:
        with subprocess.Popen(command, text=True, **pipes) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            with pytest.raises(NoControlGroup, match="16 MiB of memory: refused"):
                change_memory(groups, 2**24)
            holder.communicate("\n")
    finally:
        for group in groups:
            group.rmdir()


def test_a_server_without_a_limit_gets_none_later(tmp_path: Path) -> None:
    server = Local(tiny_server.recipe(), tmp_path)
    with server, pytest.raises(Unsupported, match="set server_memory"):
        server.limit_memory(2**28)
    with pytest.raises(NoControlGroup, match="no control group"):
        change_memory((), 2**28)


@pytest.mark.slow
@pytest.mark.usefixtures("possible")
def test_groups_go_when_the_guard_is_killed(tmp_path: Path) -> None:
    with Local(tiny_server.recipe(), tmp_path, limits=Limits(1.0, 2**28)) as server:
        guard = psutil.Process(server.processes()["server"]).parent()
        assert guard is not None
        guard.kill()
        guard.wait()
        server.stop()
        for group in left_over():  # what the guard could not end keeps it until the next sweep
            assert (group / "cgroup.procs").read_text().split()
        psutil.Process(int((tmp_path / "data" / "child").read_text())).kill()


@pytest.mark.usefixtures("possible")
def test_groups_of_a_process_that_has_ended_are_swept_with_what_is_in_them() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    groups = make_groups(Limits(1.0, 2**28), f"vectrial-{gone.pid}-0123abcd")
    mine = make_groups(Limits(1.0, 2**28), limits.group_name())
    orphan = subprocess.Popen(["sleep", "1000"])
    for group in groups:
        (group / "cgroup.procs").write_text(str(orphan.pid))
    try:
        ends = time.monotonic() + 60
        while any(group.exists() for group in groups):  # another process may sweep them, too
            assert time.monotonic() < ends, "they are left"
            limits.remove_orphans()
        assert orphan.wait(60) == -signal.SIGKILL
        assert all(group.exists() for group in mine), "this process lives"
    finally:
        orphan.kill()
        for group in mine:
            group.rmdir()


@pytest.mark.usefixtures("possible")
def test_no_more_than_its_memory(tmp_path: Path) -> None:
    """The limit is the kernel's to enforce: what asks for more is ended."""
    groups = make_groups(Limits(memory_bytes=2**26), group_name())
    code = (
        f"import os\nfor g in {[str(g) for g in groups]!r}:\n"
        " open(g + '/cgroup.procs', 'w').write(str(os.getpid()))\n"
        "b = bytearray(2**28)\nfor i in range(0, len(b), 4096): b[i] = 1\nprint('had it all')"
    )
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        assert done.stdout == b""
        assert done.returncode != 0
    finally:
        for group in groups:
            group.rmdir()


def test_where_no_limits_can_be_set_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def impossible(*_: object) -> tuple[Path, ...]:
        raise NoControlGroup("nobody may")

    monkeypatch.setattr("vectrial.servers.local.make_groups", impossible)
    told: list[str] = []
    with Local(tiny_server.recipe(), tmp_path, limits=Limits(1.0), progress=told.append) as server:
        assert server.facts()["limits"] == "1 processors: not applied: nobody may"
        assert "cpus" not in server.facts(), "what is not held to is no limit"
    assert any("not applied" in line for line in told)


def test_version_2_shares_its_controllers_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree as the kernel shows it, but for what only the kernel does."""
    own = tmp_path / "user" / "session"
    own.mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "user", own):
        (folder / "cgroup.controllers").write_text("cpu memory")
        (folder / "cgroup.subtree_control").write_text("")
    monkeypatch.setattr(limits, "membership", lambda: {"": "/user/session"})
    (group,) = make_groups(Limits(1.5, 2**30), "ours", tmp_path)
    assert group == own / "ours"
    assert (own / "cgroup.subtree_control").read_text() == "+cpu +memory"
    assert (group / "cpu.max").read_text() == "150000 100000"
    assert (group / "memory.max").read_text() == str(2**30)


def test_sizes_have_units() -> None:
    assert Placement(server_memory="2GiB").limits.memory_bytes == 2 * 2**30
    assert Placement(server_memory="1.5 GB", server_cpus=2).limits == Limits(2.0, 1_500_000_000)
    assert not Placement().limits
    for wrong in ("2", "2 apples", "0GiB", "-1GiB"):
        with pytest.raises(ValueError, match="as in 2GiB"):
            Placement(server_memory=wrong)
    with pytest.raises(ValueError, match="greater than 0"):
        Placement(server_cpus=0)


def test_our_own_group_is_not_the_servers() -> None:
    used = ControlGroups(psutil.Process().pid).usage()
    assert used.cpu_s is None
    assert used.peak_bytes is None
