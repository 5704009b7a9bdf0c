"""Object stores: where the objects of an experiment lie, and how they are reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class ObjectsKind(StrEnum):
    """Kinds of object stores."""

    FOLDER = "folder"  # files of this machine: the floor
    MINIO = "minio"  # one node, one drive
    MINIO_DRIVES = "minio-4-drives"  # one node, four drives, erasure coding
    S3 = "s3"  # any, given by VECTRIAL_S3_ADDRESS


class ObjectTransport(StrEnum):
    """Ways to reach an object store."""

    LOCAL = "local"  # a folder
    LOOPBACK = "loopback"  # TCP within this machine
    LINK = "link"  # TCP over a simulated link of a set rate
    TLS = "tls"  # TLS over loopback
    NETWORK = "network"  # TCP or TLS to another machine, as the address says


@dataclass(frozen=True)
class ObjectsRequest:
    """The object store wanted. link_mbit: rate of `ObjectTransport.LINK`, in 10^6 bit/s."""

    kind: ObjectsKind
    transport: ObjectTransport
    link_mbit: float | None = None


@dataclass(frozen=True)
class ObjectsAccess:
    """A place for objects.

    folder: path for `ObjectsKind.FOLDER`. endpoint: URL of an S3 service; bucket, region, user and
        password for it. self_signed: the server was started here with a self-signed certificate,
        which is not checked.
    prefix: start of every key. processes: a server's started here, by name, for telemetry.
    data_dirs: its folders.
    """

    folder: Path | None = None
    endpoint: str = ""
    bucket: str = ""
    region: str = "us-east-1"
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    self_signed: bool = False
    prefix: str = ""
    processes: Mapping[str, int] = field(default_factory=dict)
    data_dirs: tuple[Path, ...] = ()
