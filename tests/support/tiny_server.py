"""A small server of our own, quick to start, to try what is true of every server started here.

As a program: `python tiny_server.py PORT FOLDER [--deaf] [--never] [--breaks] [--everywhere]
[--at ADDRESS]`. It
answers every request with how often it was started in its folder. It starts a process of its own
that leaves its session, as databases do.
"""

from __future__ import annotations

import http.client
import http.server
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from vectrial.model.availability import Availability
from vectrial.model.store import Address
from vectrial.servers.base import Command, NotReady, Recipe


def recipe(*options: str, stop_s: float = 5.0, first: str = "", exposed: bool = False) -> Recipe:
    """How to run it. Options: `--deaf` to SIGTERM, `--never` listens, `--breaks` at its start,
    listens `--everywhere`, or `--at` an address.
    first: a shell command to be executed in its data folder once, before."""

    def command(
        program: Path, folder: Path, ports: Mapping[str, int], secrets: Mapping[str, str]
    ) -> Command:
        argv = (sys.executable, str(program), str(ports["http"]), str(folder), *options)
        before = ("/bin/sh", "-c", f"cd {folder} && {first}") if first else ()
        python = (Path(sys.executable), Path(sys.prefix), Path(sys.base_prefix))
        return Command(argv, {"LITTLE": "yes"}, before, python)

    return Recipe(
        name="little",
        program=lambda progress: Path(__file__),
        availability=lambda: Availability(True),
        ports=("http", "other"),
        public=("http",),
        command=command,
        ready=lambda address: _ask(address, lambda answer: None),
        secrets=("api_key",),
        exposed=exposed,
        stop_s=stop_s,
    )


#: For processes that find a recipe by its name.
LITTLE = recipe()


def service(host: str) -> Recipe:
    """A tiny server that others need, at this address."""
    return replace(recipe("--at", host), name="service")


def starts(address: Address) -> int:
    """How often the server was started on its data, as it says."""
    told: list[int] = []
    _ask(address, lambda answer: told.append(int(answer)), timeout_s=60)
    return told[0]


def _ask(address: Address, use: Callable[[str], None], timeout_s: float = 5) -> None:
    connection = http.client.HTTPConnection(address.host, address.ports["http"], timeout=timeout_s)
    try:
        connection.request("GET", "/")
        use(connection.getresponse().read().decode())
    except OSError as error:
        raise NotReady(str(error)) from error
    finally:
        connection.close()


def main(port: int, folder: Path, options: list[str]) -> None:
    """Serve until ended."""
    print("little: hello", flush=True)
    if "--breaks" in options:
        sys.exit("little: the configuration is wrong")
    count = folder / "starts"
    started = int(count.read_text()) + 1 if count.exists() else 1
    count.write_text(str(started))
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    (folder / "child").write_text(str(child.pid))
    if "--deaf" in options:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "--never" in options:
        time.sleep(1000)

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(str(started).encode())

        def log_message(self, *args: object) -> None:
            pass

    host = "0.0.0.0" if "--everywhere" in options else "127.0.0.1"
    if "--at" in options:
        host = options[options.index("--at") + 1]
    http.server.HTTPServer((host, port), Answers).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
