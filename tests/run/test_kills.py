"""Runs that are killed, or interrupted by a signal, at random moments, and gone on with until they
are whole: no finished trial is lost or measured twice, and nothing is left.

A few kills and signals by default. More of them, or on other stores:

    VECTRIAL_TEST_KILLS=100 VECTRIAL_TEST_SIGNALS=100 VECTRIAL_TEST_SEED=7 \\
    VECTRIAL_TEST_KILLED=pgvector,cluster .venv/bin/python -m pytest -s tests/run/test_kills.py

The seed is printed, so that the choices can be made again; moments are of the machine.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from busy_machine import only_late
from small_suite import EASY

from vectrial.datasets import catalog
from vectrial.results.reader import RunReader
from vectrial.servers.limits import remove_orphans
from vectrial.servers.provide import recipe_of
from vectrial.stores import registry
from vectrial.testing.server_programs import require_startable

#: Lines of a run before the moment at most, and seconds after the last of them.
_LINES, _LATER_S = 3, 1.2
#: Seconds that whatever a run started may take to end; the machine may be busy.
_ENDS_S = 40.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SUITE = """
name = "killed"
repeats = 1
k = 10
[[datasets]]
name = "clustered-16-2k"
queries = 20
{stores}
[[experiments]]
experiment = "ingest"
checkpoints = [1.0]
[[experiments]]
experiment = "storage"
[[experiments]]
experiment = "search"
rates = [200]
duration_s = 0.2
warmup_queries = 5
[[experiments]]
experiment = "mixed"
operations = 100
[[experiments]]
experiment = "crud"
samples = 10
"""
#: The command, which a busy machine may clean up for longer before it is ended by force. As in it,
#: a signal ends the imports without a word.
PATIENT = """
import signal
signal.signal(signal.SIGINT, signal.SIG_DFL)
from vectrial.cli.main import main
from vectrial.util import interrupts
interrupts.PATIENCE_S = 60.0
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""
INDEXES = {
    "memory": 'index = "flat"',
    "hnswlib": 'index = "hnsw"\nparams = { m = 8, ef_construction = 40 }',
    "pgvector": 'index = "hnsw"',
    "weaviate": 'index = "hnsw"',
    "cluster": 'index = "hnsw"\nnodes = 2',
}
#: Names above that are not those of stores, and what a suite with them needs.
STORES = {"cluster": "weaviate"}
HOSTS = """
[hosts]
link_mbit = 1000
[placement]
server_cpus = 1.5
"""


@dataclass
class Toll:
    """What became of the kills and signals: `seconds` that each signal took."""

    kills: int = 0
    signals: int = 0
    too_late: int = 0
    before_it_began: int = 0
    by_force: int = 0
    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)


class Chain:
    """One run that is ended again and again, and gone on with."""

    def __init__(self, base: Path, env: Mapping[str, str], stores: list[str], toll: Toll) -> None:
        base.mkdir(parents=True)
        (base / "tmp").mkdir()
        self._base, self._toll = base, toll
        self._env = {**env, "TMPDIR": str(base / "tmp")}
        self._before: dict[str, Any] = {}
        self._pids: list[int] = []
        tables = "\n".join(
            f'[[stores]]\nstore = "{STORES.get(s, s)}"\n{INDEXES[s]}' for s in stores
        )
        more = EASY + HOSTS * ("cluster" in stores)
        (base / "s.toml").write_text(SUITE.format(stores=tables) + more)

    def folder(self) -> Path | None:
        """The run's; None where none has begun."""
        found = [p for p in (self._base / "runs").glob("2*") if (p / "suite.toml").is_file()]
        assert len(found) <= 1
        return found[0] if found else None

    def end(self, number: signal.Signals, rng: random.Random) -> bool:
        """Start the run or go on with it, and end it at a random moment; False when it was over
        before."""
        process, said = self._start()
        wanted, later = rng.randrange(_LINES + 1), rng.random() * _LATER_S * (1 + 2 * rng.random())
        while len(said) < wanted and process.poll() is None:
            time.sleep(0.01)
        time.sleep(later)
        started = self._processes(process)
        over = process.poll() is not None
        sent = time.monotonic()
        if not over:
            process.send_signal(number)
        status = process.wait(120)
        took = time.monotonic() - sent
        if over or (status == 0 and number is not signal.SIGKILL):
            self._toll.too_late += 1
            self._check(started)
            return False
        if number is signal.SIGKILL:
            self._toll.kills += 1
        else:
            self._toll.signals += 1
            self._toll.seconds.append(took)
            self._check_signalled(number, status, said)
        self._toll.statuses[status] += 1
        self._check(started)
        return True

    def finish(self) -> None:
        """Go on to the end, and see that all is there, once, and nothing else."""
        process, said = self._start()
        assert process.wait(400) == 0, "".join(said)
        self._check([])
        folder = self.folder()
        assert folder is not None
        with RunReader(folder) as run:
            trials = run.rows("select key, status, reason from trial")
            assert [t for t in trials if not _measured(t)] == []
            assert len({t["key"] for t in trials}) == len(trials)
            counted = run.rows(
                "select trial_id, count(*) as n from phase where trial_id not in"
                " (select trial_id from trial) group by trial_id"
            )
            assert counted == [], "phases of no trial"
            assert run.run()["finished_at"] is not None
        names = {path.name for path in folder.iterdir()}
        assert names <= {"run.duckdb", "suite.toml", "environment.json", "progress.json", "logs"}
        assert [p.name for p in (self._base / "runs").glob(".*")] == []
        assert list((self._base / "tmp").iterdir()) == []
        # Others at work on this machine leave groups, too.
        mine = {f"vectrial-{pid}-" for pid in self._pids}
        swept = [group for group in remove_orphans() if group.name.startswith(tuple(mine))]
        assert swept == [], "control groups of servers that ended"

    def _start(self) -> tuple[subprocess.Popen[str], list[str]]:
        folder = self.folder()
        what = ["s.toml"] if folder is None else ["--resume", str(folder)]
        process = subprocess.Popen(
            [sys.executable, "-c", PATIENT, "run", *what, "--no-report"],
            cwd=self._base,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._pids.append(process.pid)
        said: list[str] = []
        assert process.stderr is not None
        self._reader = threading.Thread(target=said.extend, args=(process.stderr,), daemon=True)
        self._reader.start()
        return process, said

    def _processes(self, process: subprocess.Popen[str]) -> list[psutil.Process]:
        try:
            return psutil.Process(process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def _check_signalled(self, number: int, status: int, said: list[str]) -> None:
        self._reader.join(30)
        text = "".join(said)
        assert "Traceback" not in text
        if status == -number:  # while it imported
            self._toll.before_it_began += 1
            assert text == ""
            return
        assert status == 128 + number, text
        if (folder := self.folder()) is None:
            self._toll.before_it_began += 1
            assert "interrupted" in said[-1], text
            return
        go_on = f"interrupted; go on with: vectrial run --resume {folder}\n"
        complete = f"interrupted; the run is complete: vectrial report {folder}\n"
        again = f"interrupted; start again with: vectrial run --resume {folder} --no-report\n"
        assert said[-1] in (go_on, complete, again), text
        self._toll.by_force += (folder / "work").exists()

    def _check(self, started: list[psutil.Process]) -> None:
        """Nothing runs any more, and what had been measured is there."""
        assert not psutil.wait_procs(started, timeout=_ENDS_S)[1]
        ends = time.monotonic() + _ENDS_S
        while left := self._at_work():
            assert time.monotonic() < ends, left
            time.sleep(0.1)
        if (folder := self.folder()) is None or not (folder / "run.duckdb").exists():
            assert self._before == {}
            return
        with RunReader(folder) as run:
            now = {row["key"]: row["started_at"] for row in run.rows("select * from trial")}
        assert {key: now.get(key) for key in self._before} == self._before
        self._before = now

    def _at_work(self) -> list[str]:
        """Processes that run in a folder of the run's, or name one."""
        found = []
        for one in psutil.process_iter(["cmdline", "cwd", "status"]):
            place = [one.info["cwd"] or "", *(one.info["cmdline"] or ())]
            if one.info["status"] != psutil.STATUS_ZOMBIE and one.pid != os.getpid():
                found += [f"{one.pid}: {place}"] * any(str(self._base) in part for part in place)
        return found


def ended_again_and_again(
    base: Path, env: Mapping[str, str], stores: list[str], kills: int, signals: int
) -> Toll:
    """Kill and interrupt runs on these stores so often; see the head of this file."""
    seed = int(os.environ.get("VECTRIAL_TEST_SEED") or random.randrange(10**6))
    print(f"VECTRIAL_TEST_SEED={seed}")
    rng, toll, chains = random.Random(seed), Toll(), 0
    while toll.kills < kills or toll.signals < signals:
        chains += 1
        chain = Chain(base / f"c{chains}", env, stores, toll)
        goes_on = True
        while goes_on and (toll.kills < kills or toll.signals < signals):
            due = [signal.SIGKILL] * (toll.kills < kills)
            due += [rng.choice(_SIGNALS)] * (toll.signals < signals)
            goes_on = chain.end(rng.choice(due), rng)
            print(toll.kills, toll.signals, toll.too_late, flush=True)
        chain.finish()
    print(f"{chains} runs on {', '.join(stores)}: {toll}")
    return toll


def _measured(trial: Mapping[str, Any]) -> bool:
    """True of a trial that ended well, or whose short load a busy machine was too late for."""
    return trial["status"] == "ok" or (trial["status"] == "invalid" and only_late(trial["reason"]))


def _asked(name: str, few: int) -> int:
    return int(os.environ.get(name) or few)


@pytest.mark.slow
def test_embedded_stores(tmp_path: Path, variables: dict[str, str]) -> None:
    if os.environ.get("VECTRIAL_TEST_KILLED"):
        pytest.skip("other stores are asked for")
    kills, signals = _asked("VECTRIAL_TEST_KILLS", 2), _asked("VECTRIAL_TEST_SIGNALS", 3)
    toll = ended_again_and_again(tmp_path / "k", variables, ["memory", "hnswlib"], kills, signals)
    # Each may wait in a library for longer; of few signals that may be most.
    assert toll.by_force <= (signals // 4 if signals >= 12 else signals - 1), "they are heard"


@pytest.mark.slow
@pytest.mark.server("pgvector")
def test_servers(
    tmp_path: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = (os.environ.get("VECTRIAL_TEST_KILLED") or "pgvector").split(",")
    for store in stores:
        recipe = recipe_of(registry.load(STORES.get(store, store)))
        assert recipe is not None
        require_startable(recipe)
    # The programs are those of this machine's cache.
    env = {name: value for name, value in variables.items() if name != "VECTRIAL_HOME"}
    catalog.ensure("clustered-16-2k", lambda *_: None)
    kills, signals = _asked("VECTRIAL_TEST_KILLS", 1), _asked("VECTRIAL_TEST_SIGNALS", 2)
    ended_again_and_again(tmp_path / "k", env, stores, kills, signals)
