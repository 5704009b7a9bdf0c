"""Runs a server's program and ends it when the process that asked for it ends.

    python supervisor.py '{"parent": …, "cores": […], "cgroups": […], "after": […], "argv": […]}'

parent: the process id of whoever starts this. files: descriptors to pass on. cores: the processors
the program may use; all when empty. cgroups: control groups (folders) that the program is put into,
which are removed at the end. after: a command that is executed at the end, in whichever way it
comes; none when empty. argv: the program and its arguments; "{supervisor}" in one is this process'
id. The program's process id is the first line on standard output, and `memory_use` of the groups,
as JSON, the last; the program's own output goes to standard error. When the program ends, or the
parent does, or this process gets SIGTERM, everything that the program started is ended too, and so
is this process, with the program's exit status.

This stands between the two since a signal at the parent's death reaches only a direct child,
and is sent when the thread ends that made it. Here it is a reason to look whether the parent
is still there. Imports nothing of Vectrial's, so that it starts quickly.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

import psutil

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_PARENT_MAY_BE_GONE = signal.SIGUSR1
_SIGNALS = {signal.SIGCHLD, _PARENT_MAY_BE_GONE, signal.SIGTERM, signal.SIGINT}
#: Seconds that the command at the end may take.
_AFTER_S = 60.0


def main(
    parent: int,
    files: Sequence[int],
    cores: Sequence[int],
    cgroups: Sequence[str],
    after: Sequence[str],
    argv: Sequence[str],
) -> int:
    """Run `argv`; returns its exit status, or 128 plus the number of the signal that ended it."""
    libc = ctypes.CDLL(None)
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    # Processes that the program starts and abandons become children of this process.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    libc.prctl(PR_SET_PDEATHSIG, _PARENT_MAY_BE_GONE)
    if os.getppid() != parent:  # it died before the request
        remove(cgroups)
        return 1

    def before_program() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        for group in cgroups:
            with open(os.path.join(group, "cgroup.procs"), "w") as members:  # noqa: PTH118, PTH123
                members.write(str(os.getpid()))
        if cores:
            os.sched_setaffinity(0, cores)

    try:
        try:
            # This process has one thread, so that Python may run between fork and exec.
            program = subprocess.Popen(
                [one.replace("{supervisor}", str(os.getpid())) for one in argv],
                stdout=sys.stderr,
                pass_fds=files,
                preexec_fn=before_program,
            )
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{argv[0]} cannot be executed: {error}", file=sys.stderr)
            return 127
        for number in files:  # else they would be there as long as this process is
            os.close(number)
        print(program.pid, flush=True)
        while program.poll() is None:
            received = signal.sigwait(_SIGNALS)
            if received == _PARENT_MAY_BE_GONE and os.getppid() == parent:
                continue  # only the thread that started this has ended
            if received != signal.SIGCHLD:
                break
    finally:
        end_descendants()
        if after:
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(after, stdout=sys.stderr, timeout=_AFTER_S, check=False)
        with contextlib.suppress(OSError):  # nobody reads it any more
            print(json.dumps(memory_use(cgroups)), flush=True)
        remove(cgroups)
    status = program.wait()
    return status if status >= 0 else 128 - status


def end_descendants() -> None:
    """Kill every descendant of this process, until there is none."""
    me = psutil.Process()
    while found := [one for one in me.children(recursive=True) if _is_running(one)]:
        for one in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(found, timeout=1.0)


def _is_running(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # ended, and waited for by its own parent
        return False


def memory_use(cgroups: Sequence[str | os.PathLike[str]]) -> dict[str, int]:
    """Memory use of control groups, of either version: `memory_peak_bytes`, including the page
    cache, and `oom_kills`, the number of processes that the kernel killed because the limit was
    reached. Values that the kernel does not report are left out."""
    found: dict[str, int] = {}
    for group in cgroups:
        for file in ("memory.peak", "memory.max_usage_in_bytes"):
            if (text := _read_file(group, file)) is not None:
                found["memory_peak_bytes"] = int(text)
        for file in ("memory.events", "memory.oom_control"):
            counts = dict(
                line.split(" ", 1) for line in (_read_file(group, file) or "").splitlines()
            )
            if "oom_kill" in counts:
                found["oom_kills"] = int(counts["oom_kill"])
    return found


def _read_file(group: str | os.PathLike[str], file: str) -> str | None:
    try:
        with open(os.path.join(group, file)) as opened:  # noqa: PTH118, PTH123
            return opened.read().strip()
    except OSError:
        return None


def remove(cgroups: Sequence[str | os.PathLike[str]]) -> None:
    """Remove groups whose last process has just ended; the kernel needs a moment for it."""
    for group in cgroups:
        for _ in range(100):
            try:
                os.rmdir(group)  # noqa: PTH106
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.02)
            else:
                break


if __name__ == "__main__":
    sys.exit(main(**json.loads(sys.argv[1])))
