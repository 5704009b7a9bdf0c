"""What a run, its measuring process, a first line and the collection of the tests cost.

    python bench/pace.py [--against PATH] [--jsonl PATH]

--against: another built checkout with a `.venv` of its own. Both are measured in turn, five rounds
after one that does not count: processor time (user and system) of a command and of all that it
started, as a busy machine changes that least; resident memory as the process itself reads it.

The run: one trial of hnswlib on 2,000 rows, measured by a store of a package of this script's own,
which is hnswlib and notes the memory of its process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import harness

ROUNDS = 5
#: Seconds of processor time to the first line, and MiB before a store is opened: the goals.
FIRST_LINE_S, RESIDENT_MIB, COLLECTION_S = 1.0, 75.0, 8.0
SUITE = """
name = "pace"
repeats = 1
[[datasets]]
name = "clustered-16-2k"
queries = 50
[[stores]]
store = "paced"
index = "hnsw"
params = { m = 8, ef_construction = 40 }
[[experiments]]
experiment = "search"
search = { ef_search = 16 }
min_s = 0.3
"""
STORE = """
import json
from pathlib import Path
from vectrial.stores.hnswlib import HnswlibStore

def note(when):
    status = Path("/proc/self/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    with Path(__file__).with_name("notes.jsonl").open("a") as file:
        file.write(json.dumps([when, int(resident.split()[1]) / 1024]) + "\\n")

class Paced(HnswlibStore):
    name = "paced"

    def __init__(self, location):
        note("open")
        super().__init__(location)

    def insert(self, batch):
        super().insert(batch)
        note("batch")
"""


@dataclass(frozen=True)
class Checkout:
    """A built checkout, and a folder for what is measured with it."""

    root: Path
    work: Path

    def prepare(self) -> None:
        """Write the suite and the package with the store."""
        about = self.work / "package" / "paced-1.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: paced\nVersion: 1\n")
        (about / "entry_points.txt").write_text("[vectrial.stores]\npaced = paced_store:Paced\n")
        (about.parent / "paced_store.py").write_text(STORE)
        (self.work / "pace.toml").write_text(SUITE)

    def _popen(self, *argv: str, **more: object) -> subprocess.Popen[str]:
        kept = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
        own = {"VECTRIAL_HOME": str(self.work), "PYTHONPATH": str(self.work / "package")}
        options = {"stderr": subprocess.PIPE, "text": True, "cwd": self.work, "env": kept | own}
        return subprocess.Popen(argv, stdout=subprocess.PIPE, **options | more)  # type: ignore[call-overload,no-any-return]

    def _vectrial(self, *words: str) -> tuple[str, ...]:
        return str(self.root / ".venv" / "bin" / "vectrial"), *words

    def run_s(self, *options: str) -> float:
        """Processor time of the run, in seconds."""
        before = _children_s()
        process = self._popen(*self._vectrial("run", "pace.toml", *options))
        _, errors = process.communicate()
        if process.returncode:
            raise SystemExit(f"{self.root}: {errors}")
        return _children_s() - before

    def resident_mib(self, when: str) -> float:
        """Resident memory of the measuring process of a run: before the store is first opened
        ("open"), or after its first batch ("batch")."""
        notes = self.work / "package" / "notes.jsonl"
        notes.unlink(missing_ok=True)
        self.run_s("--no-report")
        found = [json.loads(line) for line in notes.read_text().splitlines()]
        return float(next(mib for moment, mib in found if moment == when))

    def first_line_s(self, *words: str) -> float:
        """Processor time until the command prints its first line; then it is ended."""
        options = {"stderr": subprocess.STDOUT, "start_new_session": True}
        process = self._popen(*self._vectrial(*words), **options)
        assert process.stdout is not None
        process.stdout.readline()
        with open(f"/proc/{process.pid}/stat") as file:  # noqa: PTH123
            fields = file.read().rpartition(")")[2].split()
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def collection_s(self) -> float:
        """Processor time of collecting the tests in one process."""
        before = _children_s()
        words = ("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")
        python = str(self.root / ".venv" / "bin" / "python")
        self._popen(python, *words, cwd=self.root).communicate()
        return _children_s() - before


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


#: Name, unit, what is measured, and the goal: as a ratio where the name of one says so.
Measure = tuple[str, str, Callable[[Checkout], float], float | None, float | None]
MEASURES: tuple[Measure, ...] = (
    ("a run of one trial", "s", Checkout.run_s, 0.5, None),
    ("the same with --no-report", "s", lambda one: one.run_s("--no-report"), 0.5, None),
    ("before the store is opened", "MiB", lambda o: o.resident_mib("open"), None, RESIDENT_MIB),
    ("after the first batch", "MiB", lambda one: one.resident_mib("batch"), None, None),
    ("run demo, first line", "s", lambda o: o.first_line_s("run", "demo"), None, FIRST_LINE_S),
    ("quick, first line", "s", lambda o: o.first_line_s("quick", "hnswlib"), None, FIRST_LINE_S),
    ("collection of the tests", "s", Checkout.collection_s, None, COLLECTION_S),
)


def main() -> int:
    """Measure both checkouts, or this one alone."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, help="another built checkout")
    own, rest = parser.parse_known_args()
    bench = harness.start(__doc__, rest)
    roots = [Path(__file__).resolve().parent.parent, *([own.against] if own.against else [])]
    with TemporaryDirectory(prefix="pace-") as folder:
        checkouts = [Checkout(root.resolve(), Path(folder, str(i))) for i, root in enumerate(roots)]
        for one in checkouts:
            one.prepare()
        for name, unit, measure, ratio, goal in MEASURES:
            values = harness.interleave([partial(measure, one) for one in checkouts], ROUNDS)
            bench.add(harness.figure(name, unit, values[0], goal))
            if len(values) == 2:
                beside = str(own.against)
                bench.add(
                    harness.compare(name, unit, *values, baseline=beside, goal=ratio),
                    harness.figure(f"{name}, {beside}", unit, values[1]),
                )
            print(name, file=sys.stderr)
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
