"""Signals end a command at any moment, also where the interruption is lost in a library."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vectrial.util import interrupts

START = """
import os, signal, sys, time
from vectrial.util import interrupts
begin = ["begun"]
def lost(seconds):
    ends = time.monotonic() + seconds
    while True:
        try:
            while begin:  # a signal that comes from now on is lost here
                print(begin.pop(), flush=True)
            while time.monotonic() < ends:
                time.sleep(0.05)
            return
        except KeyboardInterrupt:
            pass  # as DuckDB takes it for a library that is missing
with interrupts.handle_signals():
    interrupts.set_hint("go on with: it")
"""
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def command(body: str, **options: object) -> subprocess.Popen[str]:
    """A process that runs a body of commands under our handlers, and has begun."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    process = subprocess.Popen(
        [sys.executable, "-c", START + lines],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


@pytest.mark.parametrize("number", SIGNALS, ids=lambda one: one.name)
def test_one_that_is_lost_is_raised_where_somebody_asks(number: signal.Signals) -> None:
    process = command("""
interrupts.allow_cleanup(600)  # it is not the force that ends it
try:
    while True:
        lost(0.1)
        interrupts.check()
except KeyboardInterrupt:
    print("heard", interrupts.has_arrived())
    sys.exit(interrupts.exit_code())
""")
    process.send_signal(number)
    said, errors = process.communicate(timeout=60)
    assert (process.returncode, said, errors) == (128 + number, "heard True\n", "")


@pytest.mark.parametrize("number", SIGNALS, ids=lambda one: one.name)
def test_one_that_python_drops_is_raised_again(number: signal.Signals) -> None:
    """Raised in a callback of the garbage collector's, it goes no further."""
    process = command(f"""
class Last:
    def __del__(self):
        os.kill(os.getpid(), {number:d})
interrupts.allow_cleanup(600)
print(begin.pop(), flush=True)
try:
    one = Last()
    del one
    time.sleep(600)
except KeyboardInterrupt:
    print("heard")
    sys.exit(interrupts.exit_code())
""")
    said, errors = process.communicate(timeout=60)
    assert (process.returncode, said, errors) == (128 + number, "heard\n", "")


@pytest.mark.parametrize("number", SIGNALS, ids=lambda one: one.name)
def test_one_that_a_library_turns_into_an_error_is_raised(number: signal.Signals) -> None:
    """DuckDB raises RuntimeError from it when it comes during a query."""
    process = command("""
import duckdb
interrupts.allow_cleanup(600)
million = "range(1000000)"
try:
    with interrupts.unwrap_interruption():
        print(begin.pop(), flush=True)  # the signal may come before this returns
        duckdb.sql(f"select sum(hash(a.range + b.range)) from {million} a, {million} b").fetchall()
except KeyboardInterrupt:
    print("heard")
    sys.exit(interrupts.exit_code())
""")
    process.send_signal(number)
    said, errors = process.communicate(timeout=60)
    assert (process.returncode, said, errors) == (128 + number, "heard\n", "")


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(ValueError, match="other"), interrupts.unwrap_interruption():
        raise ValueError("other")


@pytest.mark.slow
def test_who_does_not_hear_is_ended_by_force() -> None:
    process = command(
        "interrupts._SignalState.patience_s = 0\ninterrupts.allow_cleanup(0.5)\nlost(600)"
    )
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60) == ("", "go on with: it\n")
    assert process.returncode == 143


@pytest.mark.slow
def test_signals_that_come_together_are_one_wish() -> None:
    """As of a terminal that is closed; how soon each of them is read is the machine's affair."""
    process = command("interrupts._SAME_WISH_S = 600\ninterrupts.allow_cleanup(600)\nlost(600)")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2)
    process.kill()
    process.wait()


@pytest.mark.slow
def test_who_asks_twice_does_not_wait() -> None:
    process = command("interrupts._SAME_WISH_S = 0.2\ninterrupts.allow_cleanup(600)\nlost(600)")
    process.send_signal(signal.SIGTERM)
    ends = time.monotonic() + 60
    while process.poll() is None:  # signals that are read at once are one wish
        assert time.monotonic() < ends, "it waits"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
    # Of two that come at once the system chooses which is heard first.
    assert process.wait() in (143, 130)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda one: one.name)
def test_where_nothing_is_to_be_cleaned_up_it_ends_at_once(number: signal.Signals) -> None:
    process = command("with interrupts.end_at_once():\n    lost(600)")
    process.send_signal(number)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == -number


@pytest.mark.slow
def test_after_that_signals_are_heard_again() -> None:
    patience = "interrupts._SignalState.patience_s = 0.5"
    process = command(f"{patience}\nwith interrupts.end_at_once():\n    pass\nlost(600)")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143


def test_what_the_caller_ignores_stays_ignored() -> None:
    def ignoring() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does

    process = command("lost(1)\nprint('done')", preexec_fn=ignoring)
    process.send_signal(signal.SIGHUP)
    assert process.communicate(timeout=60) == ("done\n", "")
    assert process.returncode == 0


def test_handlers_are_put_back(tmp_path: Path) -> None:
    body = """
before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
with interrupts.handle_signals():
    pass
assert before == [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
"""
    done = subprocess.run(
        [sys.executable, "-c", START.partition("with ")[0] + body], cwd=tmp_path, check=False
    )
    assert done.returncode == 0


# -- nobody looks on -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-"])
def test_a_stream_that_is_closed_is_none(closed: str, tmp_path: Path) -> None:
    line = f'"{sys.executable}" -m vectrial.cli.main experiments {closed}'
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (done.stdout == "") == (closed == ">&-")


def test_who_looks_on_may_go() -> None:
    """Progress of which the reader has gone ends nothing, nor does the last line."""
    reading, writing = os.pipe()
    os.close(reading)
    code = (
        "import sys\nfrom vectrial.cli import app\napp._encode()\n"
        "for n in range(3): print('progress', file=sys.stderr)\n"
        "print('last')\napp._flush()\n"
    )
    env = {**os.environ, "PYTHONUNBUFFERED": ""}
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, stdout=writing, stderr=writing, env=env, check=False)
    os.close(writing)
    assert done.returncode == 0


def test_nothing_is_imported_before_a_command_ends_by_a_signal_without_a_word() -> None:
    """What `vectrial.cli.main` imports of Python before it sees to signals is what takes none."""
    code = (
        "import sys, os, signal, contextlib, collections.abc; before = set(sys.modules)\n"
        "import vectrial.cli.main; print(sorted(set(sys.modules) - before - {'__future__'}))\n"
        "print(vectrial.__version__)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported, version = out.stdout.splitlines()
    assert imported == "['vectrial', 'vectrial.cli', 'vectrial.cli.main']"
    assert version.split(".")[0].isdecimal()


def test_how_to_go_on_is_said_as_it_is_then() -> None:
    begun: list[str] = []
    interrupts.set_hint(lambda: "go on" if begun else "start again")
    assert interrupts.hint() == "start again"
    begun.append("a run")
    assert interrupts.hint() == "go on"
    interrupts.set_hint("")
    assert interrupts.hint() == ""
