"""A Ray cluster of hosts of our own on this machine: each a network with an address, joined by
links in a network that no packet leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from vectrial.servers.hosts import Host, RunningHosts
from vectrial.servers.namespaces import Network

PORT = 6379
BIN = Path(sys.executable).parent
_STARTS_S = 200.0
_OPTIONS = (
    "--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats", "--block",
    "--include-log-monitor=false",
)  # fmt: skip


class RayCluster:
    """Hosts with a node of Ray each; the first is the head. `run` executes commands on the head: a
    program that uses a cluster is on one of its machines, which the others reach."""

    def __init__(self, hosts: int, temporary: Path, apart: Path | None = None) -> None:
        """temporary: Ray's folder; the path of a socket in it is short. apart: the last host keeps
        its data there, and shares no folder with the others."""
        self.centre, self._hosts, self._temporary = Network(), RunningHosts(), temporary
        self._apart = apart
        self._hosts.make(self.centre, hosts)
        for host in self._hosts.all:
            self.start(host)

    @property
    def hosts(self) -> tuple[Host, ...]:
        """In the order of their addresses."""
        return self._hosts.all

    @property
    def address(self) -> str:
        """Of the head."""
        return f"{self.hosts[0].address}:{PORT}"

    def start(self, host: Host) -> None:
        """Start a host's node, and wait for it. One after the other: nodes that start at once on
        one disk choose the same socket."""
        head = host is self.hosts[0]
        where = ("--head", f"--port={PORT}", f"--temp-dir={self._temporary}") if head else (
            f"--address={self.address}",
        )  # fmt: skip
        dashboard = ("--include-dashboard=false",) if head else ()
        argv = (str(BIN / "ray"), "start", *where, *dashboard, *_OPTIONS)
        argv = (*argv, f"--node-ip-address={host.address}")
        log = self._temporary.parent / f"ray-{host.name}.log"
        before = log.stat().st_size if log.exists() else 0
        with log.open("ab") as stream:
            self._spawn(host, argv, stream)
        ends = time.monotonic() + _STARTS_S
        while b"--block" not in (said := log.read_bytes()[before:]):
            if time.monotonic() > ends:
                raise RuntimeError(f"{host.name} did not start: {said[-2000:].decode()}")
            time.sleep(0.1)

    def _spawn(self, host: Host, argv: Sequence[str], stream: object) -> None:
        env = {**os.environ, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
        if self._apart is not None and host is self.hosts[-1]:
            env["VECTRIAL_HOME"] = str(self._apart)
        subprocess.Popen(
            host.network.enter(argv),
            pass_fds=host.network.files,
            stdin=subprocess.DEVNULL,
            stdout=stream,  # type: ignore[call-overload]
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
        )

    def run(
        self, *arguments: str, env: dict[str, str] | None = None, timeout_s: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """`vectrial` with these arguments, on the head."""
        with self.running(*arguments, env=env) as process:
            out, err = process.communicate(timeout=timeout_s)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def run_python(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A Python script with these arguments, on the head."""
        argv = ("-c", script, *arguments)
        with self.running(*argv, program="python") as process:
            out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    @contextmanager
    def running(
        self, *arguments: str, env: dict[str, str] | None = None, program: str = "vectrial"
    ) -> Iterator[subprocess.Popen[str]]:
        """The same, while the block lasts."""
        process = subprocess.Popen(
            self.hosts[0].network.enter((str(BIN / program), *arguments)),
            pass_fds=self.hosts[0].network.files,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def processes(self, host: Host) -> list[int]:
        """Those on a host."""
        inode = os.fstat(host.network.files[0]).st_ino
        found = []
        for folder in Path("/proc").iterdir():
            with suppress(OSError):
                if folder.name.isdigit() and (folder / "ns/net").stat().st_ino == inode:
                    found.append(int(folder.name))
        return found

    def kill(self, host: Host) -> None:
        """End everything on a host at once."""
        ends = time.monotonic() + 20
        while (there := self.processes(host)) and time.monotonic() < ends:
            for pid in there:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def close(self) -> None:
        """End all of it."""
        for host in reversed(self.hosts):
            self.kill(host)
        self._hosts.close()
        self.centre.close()
        while True:  # what this process started
            try:
                if os.waitpid(-1, os.WNOHANG) == (0, 0):
                    return
            except ChildProcessError:
                return
