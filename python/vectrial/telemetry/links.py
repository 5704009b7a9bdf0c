"""Traffic of a simulated host: what passed its one link to other hosts and to clients."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

#: The device of a host's link, see `vectrial.servers.hosts`.
_DEVICE = "eth0"
#: Fields of a line of /proc/net/dev: bytes and packets received, and sent.
_RECEIVED, _SENT = (0, 1), (8, 9)


@dataclass(frozen=True)
class Traffic:
    """Bytes and packets in both directions until now; None without a link of its own."""

    bytes: int | None = None
    packets: int | None = None


def traffic(pid: int) -> Traffic:
    """Traffic of the host that a process runs on. Loopback is not counted, nor is a process that
    shares our network."""
    process = Path(f"/proc/{pid}")
    try:
        if (process / "ns/net").readlink() == Path("/proc/self/ns/net").readlink():
            return Traffic()
        lines = (process / "net/dev").read_text().splitlines()
    except OSError:
        return Traffic()
    for line in lines:
        device, _, numbers = line.partition(":")
        if device.strip() == _DEVICE:
            fields = [int(number) for number in numbers.split()]
            received, sent = ([fields[at] for at in one] for one in (_RECEIVED, _SENT))
            return Traffic(received[0] + sent[0], received[1] + sent[1])
    return Traffic()
