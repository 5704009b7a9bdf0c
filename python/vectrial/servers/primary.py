"""Clusters of which one node takes writes, and the others follow it."""

from __future__ import annotations

from vectrial.model.store import Address
from vectrial.servers.base import ServerError


def is_first_node(name: str, address: Address, *, takes_writes: bool) -> bool:
    """True if an address is that of the first node, which is the one that takes writes.

    Args:
        name: the server's name. address: a node's address, with all `nodes` of its cluster.

    Raises:
        ServerError: another node takes writes.
    """
    first = address.nodes[0]
    here = (address.host, address.ports) == (first.host, first.ports)
    if here is not takes_writes:
        raise ServerError(
            f"{name} at {address.host} {'follows another node' if here else 'takes writes'}:"
            " give the node that takes writes first, and those that follow it after that"
        )
    return here
