"""A server in a container: the official image, on loopback and free ports, for as long as it is
needed. The engine is Docker, or the one that `VECTRIAL_DOCKER` names (`podman`)."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from vectrial.model.availability import Availability
from vectrial.model.placement import Limits
from vectrial.model.progress import LineProgress
from vectrial.servers.base import Command, Image, NoProgram, Recipe
from vectrial.servers.managed_process import HOST, StartedServer
from vectrial.util.child_environment import for_engine
from vectrial.util.process import wait_for

ENGINE = "VECTRIAL_DOCKER"
#: A label on every container that is started here; its value is the process that did.
LABEL = "org.vectrial.owner"
_ASK_S = 20.0


@dataclass(frozen=True)
class ContainerPlace:
    """A container's place in a cluster: its network and address there, and the variables and
    arguments that replace the image's."""

    network: str
    address: str
    command: Command


class Docker(StartedServer):
    """The recipe's image in its own container, which is removed when it ends; its data is in the
    folder. It does not outlive this process: the supervisor removes it
    (`vectrial.servers.supervisor`).

    Args:
        recipe: the kind of server, with an image.
        folder, log, cores, limits, progress: see `vectrial.servers.local.Local`.
        place: the place of a cluster's node.
    """

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        *,
        log: Path | None = None,
        cores: Sequence[int] = (),
        limits: Limits = Limits(),  # noqa: B008 - frozen
        progress: LineProgress = lambda line: None,
        place: ContainerPlace | None = None,
    ) -> None:
        super().__init__(recipe, folder, log, cores, limits, progress)
        self._image, self.place = image_of(recipe), place
        if place is not None:
            told = place.command
            self._image = replace(self._image, env=told.env, argv=told.argv)
        self._container = unique_name(recipe.name)

    @property
    def container(self) -> str:
        """Name of the container."""
        return self._container

    def start(self) -> None:
        self._check_not_started()
        pull(self._recipe, self._progress)
        made = self._make_folders(tuple(self._image.generated))
        if os.geteuid() == 0:
            # The image's own user writes there; the folder above belongs to us.
            self._data.chmod(0o777)
        self._choose_ports(self._recipe.public, made)
        argv = run_command(
            self._image,
            name=self._container,
            ports=self._ports,
            data=self._data,
            cores=self._cores,
            limits=self._limits,
            place=self.place,
        )
        env = {name: made[secret] for secret, name in self._image.generated.items()}
        after: tuple[str, ...] = (engine(), "rm", "--force", self._container)
        if self.place is not None:  # the network goes with the last of its containers
            script = '"$0" rm --force "$1"; "$0" network rm "$2" 2>/dev/null; true'
            after = ("/bin/sh", "-c", script, engine(), self._container, self.place.network)
        self._process.start(argv, {**for_engine(), **env}, after=after)

    def processes(self) -> Mapping[str, int]:
        """The container's first process; empty if the engine runs on another machine, virtual or
        real."""
        first = self._first_process()
        return {"server": first[0]} if first is not None and first[1] else {}

    def is_remote(self) -> bool:
        first = self._first_process()
        return first is not None and not first[1]

    def _first_process(self) -> tuple[int, bool] | None:
        """Process id of the first process, and whether it is on this machine; or None."""
        if not self.is_alive():
            return None
        answer = ask_engine(
            "inspect", "--format", "{{.State.Pid}} {{.Id}}", self._container
        ).split()
        if len(answer) != 2 or not answer[0].isdigit() or answer[0] == "0":
            return None
        pid, container = int(answer[0]), answer[1]
        try:
            groups = Path(f"/proc/{pid}/cgroup").read_text()
        except OSError:
            return pid, False
        # A process of that number here may be another's where the engine is elsewhere.
        return pid, container in groups

    def facts(self) -> Mapping[str, Any]:
        limited = f"{self._limits}: applied by the engine" if self._limits else "none"
        cpus = {} if self._limits.cpus is None else {"cpus": self._limits.cpus}
        return {"provider": "docker", "program": self._image.reference, "limits": limited, **cpus}

    def kill(self) -> None:
        if self.is_alive():
            ask_engine("kill", self._container)
        self._process.wait()

    def stop(self) -> None:
        if self.is_alive():
            patience = str(max(1, int(self._recipe.stop_s)))
            ask_engine("stop", "--time", patience, self._container, longer_s=self._recipe.stop_s)
        self._process.wait()


def run_command(
    image: Image,
    *,
    name: str,
    ports: Mapping[str, int],
    data: Path,
    cores: Sequence[int] = (),
    limits: Limits = Limits(),  # noqa: B008 - frozen
    place: ContainerPlace | None = None,
) -> tuple[str, ...]:
    """The command that runs a container in the foreground and removes it when it ends.

    ports: ports of loopback, by the names that the image knows. data: the folder that the container
        writes to. place: its place in a cluster.
    """
    argv = [engine(), "run", "--rm", "--pull", "never", "--name", name]
    argv += ["--label", f"{LABEL}={os.getpid()}"]
    for port, number in ports.items():
        argv += ["--publish", f"{HOST}:{number}:{image.ports[port]}"]
    argv += ["--volume", f"{data}:{image.data}"]
    if os.geteuid() != 0:
        # We may then remove what it writes.
        argv += ["--user", f"{os.geteuid()}:{os.getegid()}", "--group-add", "0"]
    if place is not None:
        argv += ["--network", place.network, "--ip", place.address]
    if cores:
        argv += ["--cpuset-cpus", ",".join(map(str, cores))]
    if limits.cpus is not None:
        argv += ["--cpus", f"{limits.cpus:g}"]
    if limits.memory_bytes is not None:
        memory = str(limits.memory_bytes)
        argv += ["--memory", memory, "--memory-swap", memory]
    for key, value in image.env.items():
        argv += ["--env", f"{key}={value}"]
    for key in image.generated.values():
        argv += ["--env", key]  # the value is in the engine's environment: others see this line
    return (*argv, *image.options, image.reference, *image.argv)


def unique_name(name: str) -> str:
    """A name, unique to this process, for something that the engine makes."""
    return f"vectrial-{name}-{os.getpid()}-{secrets.token_hex(4)}"


def image_of(recipe: Recipe) -> Image:
    """The recipe's image.

    Raises:
        NoProgram: the recipe has no image, or one without a port that clients use.
    """
    if recipe.image is None:
        raise NoProgram(f"no container image of {recipe.name} is known here")
    lacking = set(recipe.public) - set(recipe.image.ports)
    if lacking:
        raise NoProgram(f"{recipe.name}: its image does not say where '{min(lacking)}' listens")
    return recipe.image


def engine() -> str:
    """The command of the container engine."""
    return os.environ.get(ENGINE) or "docker"


def image_availability(recipe: Recipe) -> Availability:
    """The availability of the image; it is pulled on first use."""
    try:
        image = image_of(recipe)
        _check_engine()
        there = _has_image(image)
    except NoProgram as error:
        return Availability(False, str(error))
    return Availability(True) if there else Availability(None, f"{image.reference} is pulled first")


def pull(recipe: Recipe, progress: LineProgress) -> None:
    """Pull the recipe's image unless it is here.

    Raises:
        NoProgram: there is no image or no engine, or it cannot be pulled.
    """
    image = image_of(recipe)
    _check_engine()
    if _has_image(image):
        return
    progress(f"{image.reference}: pulling it (once)")
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            (engine(), "pull", "--quiet", image.reference),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=output,
        )
        if wait_for(
            process, lambda passed: progress(f"{image.reference}: pulling for {passed:.0f} s")
        ):
            output.seek(0)
            raise NoProgram(f"{image.reference} cannot be pulled: {output.read().strip()}")


def _check_engine() -> None:
    if lacks := _why_no_engine(engine()):
        raise NoProgram(lacks)


@lru_cache
def _why_no_engine(command: str) -> str:
    """The reason why no engine answers a command; empty where one does."""
    if shutil.which(command) is None:
        return f"there is no '{command}' here; install a container engine, or name one in {ENGINE}"
    try:
        done = _run("version", "--format", "{{.Server.Version}}")
    except subprocess.TimeoutExpired:
        return f"'{command}' does not answer within {_ASK_S:g} s"
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return f"'{command}' has no engine to talk to: {reason}"
    return ""


def _has_image(image: Image) -> bool:
    return bool(ask_engine("image", "inspect", "--format", "{{.Id}}", image.reference))


def ask_engine(*arguments: str, longer_s: float = 0.0) -> str:
    """The engine's answer. Empty if it refuses (for example, the container is gone) or is too slow;
    the supervisor then ends what has to end."""
    try:
        done = _run(*arguments, longer_s=longer_s)
    except subprocess.TimeoutExpired:
        return ""
    return "" if done.returncode else done.stdout


def _run(*arguments: str, longer_s: float = 0.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (engine(), *arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_ASK_S + longer_s,
        check=False,
    )
