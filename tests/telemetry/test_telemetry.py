"""Telemetry against processes and files whose use is known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

import pytest

from vectrial.model.results_schema import DDL
from vectrial.telemetry import environment
from vectrial.telemetry.disk import allocated_bytes
from vectrial.telemetry.environment import environment_facts
from vectrial.telemetry.process import ProcessTree, Sampler

MIB = 1 << 20


def test_allocated_blocks_are_counted_not_lengths(tmp_path: Path) -> None:
    empty = allocated_bytes([tmp_path])
    (tmp_path / "full").write_bytes(os.urandom(MIB))
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(100 * MIB)
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "also").write_bytes(os.urandom(MIB))
    os.link(tmp_path / "full", inner / "second name")
    (inner / "outside").symlink_to("/usr")
    os.sync()
    assert 2 * MIB <= allocated_bytes([tmp_path]) - empty < 2.2 * MIB
    assert allocated_bytes([tmp_path, inner, tmp_path / "full"]) == allocated_bytes([tmp_path])
    assert allocated_bytes([tmp_path / "absent"]) == 0


def test_files_may_vanish_while_they_are_counted(tmp_path: Path) -> None:
    ended = threading.Event()

    def churn() -> None:
        while not ended.is_set():
            folder = tmp_path / "coming and going"
            folder.mkdir()
            for i in range(20):
                (folder / str(i)).write_bytes(b"x" * 5000)
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(300):
            assert allocated_bytes([tmp_path]) >= 0
    finally:
        ended.set()
        thread.join()


def conversation(*argv: str) -> tuple[subprocess.Popen[str], IO[str], IO[str]]:
    """A process of Python, the lines written to it, and those read from it."""
    process = subprocess.Popen(
        [sys.executable, "-c", *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    return process, process.stdin, process.stdout


#: More than 0.3 s of processor time: counters are told in steps of 10 ms, each rounded down.
WORK = "import time; t = time.process_time()\nwhile time.process_time() - t < 0.4: pass\n"
#: Starts a child when it is told to, and sees it end when it is told to.
PARENT = """
import subprocess, sys
print(flush=True); input()
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE)
input()
child.communicate(b"\\n")
print(flush=True); input()
"""


def test_a_tree_remembers_those_that_ended() -> None:
    """Not the tree of this process, which has the servers of other tests in it."""
    parent, to_parent, from_parent = conversation(PARENT, WORK + "input()")
    try:
        from_parent.readline()
        tree = ProcessTree(parent.pid)
        before = tree.usage()
        to_parent.write("\n")
        deadline = time.monotonic() + 60
        while True:
            during = tree.usage()
            assert before is not None
            assert during is not None
            if during.cpu_s - before.cpu_s >= 0.3:
                break
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert during.rss_bytes > before.rss_bytes
        to_parent.write("\n")
        from_parent.readline()
        after = tree.usage()
    finally:
        parent.communicate("\n\n\n")
    assert after is not None
    assert after.cpu_s >= during.cpu_s
    assert after.rss_bytes < during.rss_bytes


def test_a_tree_counts_those_that_nobody_saw() -> None:
    tree = ProcessTree(os.getpid())
    before = tree.usage()
    subprocess.run([sys.executable, "-c", WORK], check=True)
    after = tree.usage(find_children=False)
    assert before is not None
    assert after is not None
    assert after.cpu_s - before.cpu_s >= 0.3


WRITER = """
import os, sys
with open(sys.argv[1], "wb") as file:
    file.write(os.urandom(1 << 20))
    file.flush()
    os.fsync(file.fileno())
print(flush=True)
input()
"""
WRITERS_PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], stdin=subprocess.PIPE)
input()
child.communicate(b"\\n")
print(flush=True)
input()
"""


def test_bytes_of_a_process_that_was_waited_for_count_once(tmp_path: Path) -> None:
    """The kernel adds them to its parent's."""
    parent, to_parent, from_parent = conversation(WRITERS_PARENT, WRITER, str(tmp_path / "file"))
    try:
        from_parent.readline()  # of the child: it has written
        tree = ProcessTree(parent.pid)
        before = tree.usage()
        to_parent.write("\n")
        from_parent.readline()  # of the parent: it has waited for the child
        after = tree.usage()
    finally:
        parent.communicate("\n")
    assert before is not None
    assert after is not None
    if not before.write_bytes:
        pytest.skip("the folder is on no disk, or the system does not tell")
    assert after.write_bytes is not None
    assert before.write_bytes <= after.write_bytes < before.write_bytes + MIB
    assert after.major_faults is not None


def test_a_tree_whose_root_ended_has_no_usage() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    tree = ProcessTree(child.pid)
    assert tree.usage() is not None
    child.communicate(b"\n")
    assert tree.usage() is None


def test_samples_are_rows_of_the_table_and_know_their_phase(tmp_path: Path) -> None:
    started = time.perf_counter_ns()
    with Sampler({"client": os.getpid()}, [tmp_path], started, every_s=0.05) as sampler:
        time.sleep(0.12)
        began = time.perf_counter_ns()
        (tmp_path / "file").write_bytes(os.urandom(MIB))
        os.sync()
        time.sleep(0.12)
        sampler.mark(0, began)
        time.sleep(0.12)
        sampler.mark(1)
    rows = sampler.rows()
    columns = DDL.split("create table telemetry (")[1].split(");")[0].replace("\n", " ")
    named = {column.split()[0] for column in columns.split(",")} - {"trial_id", "phase_id"}
    of_phases = {"link_bytes", "link_packets", "major_faults"}  # metrics alone, and no columns
    assert all(row.keys() == named | of_phases | {"phase"} for row in rows)
    phases = [row["phase"] for row in rows]
    assert {None, 0, 1} == set(phases)
    # The thread may have sampled once more between the last mark and the end of the block.
    ends = max(i for i, phase in enumerate(phases) if phase is not None) + 1
    during, after = phases[:ends], phases[ends:]
    assert during == sorted(during, key=lambda p: -1 if p is None else p)
    assert after
    assert set(after) == {None}
    first = phases.index(0)
    assert rows[first - 1]["at_s"] < (began - started) / 1e9 <= rows[first]["at_s"]
    last = max(i for i, phase in enumerate(phases) if phase == 0)
    assert rows[last]["disk_bytes"] - rows[0]["disk_bytes"] >= MIB
    for name in ("at_s", "cpu_s", "voluntary_switches"):
        values = [row[name] for row in rows]
        assert values == sorted(values)
    assert all(row["process"] == "client" and row["rss_bytes"] > MIB for row in rows)


def test_environment_is_told_whole_and_as_json() -> None:
    facts = environment_facts()
    again = json.loads(json.dumps(facts))
    assert again["cpu"]["logical"] >= len(again["cpu"]["affinity"]) >= 1
    assert again["cpu"]["model"]
    assert again["memory"]["total_bytes"] > 100 * MIB
    assert again["clock"]["monotonic"] is True
    assert 0 < again["clock"]["resolution_ns"] < 1_000_000
    assert again["libraries"].keys() >= {"numpy", "pyarrow", "psutil"}
    assert again["python"]["version"] == sys.version.split()[0]
    assert again["os"]["kernel"] == os.uname().release


def test_git_tells_revision_and_changes(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(
            ["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    assert environment.git_facts(tmp_path) == {"revision": None, "dirty": None}
    git("init", "-q")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-qm", "first")
    revision = git("rev-parse", "HEAD")
    assert environment.git_facts(tmp_path) == {"revision": revision, "dirty": False}
    (tmp_path / "file").write_text("two")
    assert environment.git_facts(tmp_path) == {"revision": revision, "dirty": True}
    (tmp_path / "untracked").mkdir()
    assert environment.git_facts(tmp_path / "untracked")["revision"] is None


@pytest.mark.parametrize(
    ("files", "membership", "limits"),
    [
        (
            {
                "cgroup.controllers": "cpu memory",
                "a/cpu.max": "150000 100000",
                "a/memory.max": "1073741824",
                "a/b/cpu.max": "max 100000",
                "a/b/memory.max": "max",
            },
            "0::/a/b",
            (2, 1.5, 1 << 30),
        ),
        ({"cgroup.controllers": ""}, "0::/", (2, None, None)),
        (
            {
                "cpu/x/cpu.cfs_quota_us": "50000",
                "cpu/x/cpu.cfs_period_us": "100000",
                "cpu/cpu.cfs_quota_us": "-1",
                "memory/memory.limit_in_bytes": "9223372036854771712",
                "memory/y/memory.limit_in_bytes": "2048",
            },
            "3:cpu,cpuacct:/x\n2:memory:/y",
            (1, 0.5, 2048),
        ),
        ({}, "", (None, None, None)),
    ],
)
def test_container_limits_of_both_versions(
    tmp_path: Path,
    files: dict[str, str],
    membership: str,
    limits: tuple[int | None, float | None, int | None],
) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "cgroup").write_text(membership)
    assert environment._cgroup_limits(tmp_path, tmp_path) == limits
