"""Simulated hosts on one machine: networks joined by links that can be slowed and cut.

The hosts are on a bridge in the network of the processes that measure, so no packet can leave the
machine, even when a host is gone. Their addresses are in 127/8, since servers that other machines
can reach make demands of the system (Elasticsearch requires more open files and mappings); links
carry these addresses nevertheless (route_localnet).

All of this vanishes with its networks, however the processes end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from vectrial.model.errors import UserError
from vectrial.servers.base import ServerError
from vectrial.servers.namespaces import Network
from vectrial.util.child_environment import for_server

#: Note on everything that is measured on such hosts.
LABEL = "simulated hosts on one machine"
_NET = "127.18"
#: The address at which hosts reach what is in the network that joins them.
CENTRE = f"{_NET}.0.1"
_TIMEOUT_S = 30.0
#: Of a slowed link: bytes that pass at once, at least a jiffy's worth (250 Hz), and how long the
#: others wait at most.
_BURST_BYTES, _JIFFIES, _WAITS = 64 << 10, 250, "100ms"
#: Of 127/8 loopback keeps 127.0.0.1, and links may carry the rest.
_CARRY = """
ip addr del 127.0.0.1/8 dev lo 2>/dev/null && ip addr add 127.0.0.1/32 dev lo
echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet && exec ip -batch -"""


def why_no_hosts() -> str:
    """The reason why hosts cannot be made here; empty if they can."""
    if os.geteuid() != 0:
        return "links between networks can be made by root alone"
    if lacking := [one for one in ("ip", "tc") if shutil.which(one) is None]:
        return f"there is no program '{lacking[0]}' here; it comes with iproute2"
    return ""


@dataclass(frozen=True)
class Host:
    """A host: its address, and the network that represents it."""

    name: str
    address: str
    network: Network


class RunningHosts:
    """Hosts and their links, from creation until they are closed."""

    def __init__(self) -> None:
        self._centre: Network | None = None
        self.all: tuple[Host, ...] = ()

    def make(self, centre: Network | None, count: int, link_mbit: float | None = None) -> None:
        """Make the hosts.

        Args:
            centre: the network in which they are joined; a process in it reaches all of them.
            count: number of hosts. link_mbit: rate of each link, in 10^6 bits per second.

        Raises:
            UserError: hosts cannot be made on this machine.
            ServerError: making them failed.
        """
        why = why_no_hosts()
        if why or centre is None:
            why = why or "the processes that measure have no network of their own"
            raise UserError(
                f"no hosts can be made: {why}",
                where="hosts",
                remedy="leave [hosts] out: the nodes then share a network",
            )
        self._centre = centre
        with ExitStack() as undone:
            undone.callback(self.close)
            _ip(centre, ["link add br0 type bridge", *_link_up_lines(f"{CENTRE}/16", "br0")])
            for number in range(1, count + 1):
                self._add(number)
            if link_mbit is not None:
                self._limit_links(link_mbit)
            undone.pop_all()

    def _add(self, number: int) -> None:
        host = Host(f"host-{number}", f"{_NET}.1.{number}", Network())
        self.all += (host,)
        (inside,) = host.network.files
        plug = _device_name(host)
        assert self._centre is not None
        joined = f"link add {plug} type veth peer name eth0 netns /proc/self/fd/{inside}"
        _ip(self._centre, [joined, f"link set {plug} master br0 up"], [inside])
        _ip(host.network, _link_up_lines(f"{host.address}/16", "eth0"))

    def _limit_links(self, link_mbit: float) -> None:
        assert self._centre is not None
        burst = max(_BURST_BYTES, int(link_mbit * 1e6 / 8 / _JIFFIES))
        rate = f"tbf rate {link_mbit * 1e6:.0f}bit burst {burst} latency {_WAITS}"
        for host in self.all:
            for network, device in ((self._centre, _device_name(host)), (host.network, "eth0")):
                _run(network, ["tc", "qdisc", "add", "dev", device, "root", *rate.split()])

    def cut(self, host: Host) -> None:
        """Unplug a host: nothing reaches it or leaves it."""
        assert self._centre is not None
        _ip(self._centre, [f"link set {_device_name(host)} down"])

    def join(self, host: Host) -> None:
        """Plug a host in again."""
        assert self._centre is not None
        _ip(self._centre, [f"link set {_device_name(host)} up"])

    def close(self) -> None:
        """Release the networks, which end with their last process. Calling it twice is harmless."""
        for host in self.all:
            host.network.close()
        self.all = ()
        if self._centre is not None and self._centre.files:
            _run(self._centre, ["sh", "-c", "ip link del br0 2>/dev/null; true"])
        self._centre = None


def _device_name(host: Host) -> str:
    return f"to-{host.name}"


def _link_up_lines(address: str, device: str) -> list[str]:
    return [
        f"addr add {address} dev {device}",
        f"link set {device} up",
    ]


def _ip(network: Network, lines: Sequence[str], files: Sequence[int] = ()) -> None:
    _run(network, ["sh", "-c", _CARRY], "\n".join(lines), files)


def _run(
    network: Network, argv: Sequence[str], stdin_text: str = "", files: Sequence[int] = ()
) -> None:
    done = subprocess.run(
        network.enter(argv),
        input=stdin_text,
        pass_fds=(*network.files, *files),
        env=for_server(),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["it did not say why"])[0]
        raise ServerError(f"hosts could not be made ({argv[0]}): {why}")
