"""A real container engine: Debian's, in a network of its own, with no image in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vectrial.servers.namespaces import Network
from vectrial.testing.server_programs import skip_or_fail

_STARTS_S = 180.0


@contextmanager
def real_engine(storage: str = "vfs") -> Iterator[tuple[Network, dict[str, str]]]:
    """A running engine: the network it is in, and the environment that leads to it. Ends the test
    where none can run: see `skip_or_fail`.

    storage: its storage driver; "" leaves the choice to it. "vfs" works everywhere and copies an
        image for every container.
    """
    dockerd = shutil.which("dockerd")
    if dockerd is None or os.geteuid() != 0:
        skip_or_fail("docker", "there is no dockerd here, or no root to run it")
    folder = Path(tempfile.mkdtemp(prefix="engine-"))  # a socket's path is short
    env = {
        **os.environ,
        "DOCKER_HOST": f"unix://{folder}/docker.sock",
        "VECTRIAL_DOCKER": "docker",
    }
    options = (
        *("--iptables=false", "--ip6tables=false", f"--storage-driver={storage}"),
        *("--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"),
        *("--pidfile", f"{folder}/pid", "-H", env["DOCKER_HOST"]),
    )
    with Network() as network, (folder / "log").open("w") as log:
        process = subprocess.Popen(
            network.enter((dockerd, *options)), pass_fds=network.files, stdout=log, stderr=log
        )
        try:
            ends = time.monotonic() + _STARTS_S
            while subprocess.run(("docker", "version"), env=env, capture_output=True).returncode:
                if process.poll() is not None or time.monotonic() > ends:
                    skip_or_fail("docker", (folder / "log").read_text()[-2000:])
                time.sleep(0.2)
            yield network, env
        finally:
            process.terminate()
            process.wait(30)
            shutil.rmtree(folder, ignore_errors=True)


def libraries(program: Path) -> list[Path]:
    """The shared libraries that a program or a library of this machine is linked with."""
    linked = subprocess.run(("ldd", str(program)), capture_output=True, text=True, check=True)
    return [Path(found) for found in re.findall(r"(/\S+) \(0x", linked.stdout)]
