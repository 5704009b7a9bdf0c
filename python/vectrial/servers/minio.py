"""MinIO, an object store that speaks S3, built from its Go module.

Each server gets a new root user and password, known only to those who get its address.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from vectrial.model.store import Address
from vectrial.servers.base import Command, NotReady, Recipe
from vectrial.servers.local import HOST, refused_error
from vectrial.servers.programs.base import GoProgram

#: The last version that was published as a module.
PROGRAM = GoProgram(
    module="github.com/minio/minio",
    package="",
    version="v0.0.0-20260212201848-7aac2a2c5b7c",
    sum="h1:/qdoYujxF5MBLDMVLeiYJ/7fBa1HikX39Dvzb9Ji8pA=",
    variable="VECTRIAL_MINIO_BIN",
)
_ASK_S = 5.0
#: Error codes of a server for an unknown user or a wrong password.
_REFUSALS = frozenset({"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"})


def drive_folders(data: Path, drives: int) -> list[Path]:
    """The folder of each drive; a single drive is the data folder itself."""
    return [data] if drives == 1 else [data / f"drive-{n}" for n in range(1, drives + 1)]


def certificates(folder: Path) -> Path:
    """The folder in which a TLS server with this folder looks for public.crt and private.key."""
    return folder / "certificates"


def connect(address: Address, timeout_s: float, *, tls: bool = False) -> Any:
    """The official client, without retries; it waits for an answer for `timeout_s`. With `tls` the
    certificate is not checked, because the server started here made it for itself."""
    import urllib3
    from minio import Minio

    checks: dict[str, Any] = {"cert_reqs": "CERT_NONE"} if tls else {}
    return Minio(
        f"{address.host}:{address.ports['s3']}",
        address.secrets.get("user"),
        address.secrets.get("password"),
        secure=tls,
        region="us-east-1",  # else it asks for each bucket's
        http_client=urllib3.PoolManager(timeout=timeout_s, retries=False, **checks),
    )


#: The bucket that a server started here has; a folder of this name on each drive is it.
BUCKET = "vectrial"
#: Drives of `minio_drives`.
DRIVES = 4
#: Counters of `S3Traffic`, as it calls them.
_COUNTERS = (
    "minio_s3_traffic_received_bytes",
    "minio_s3_traffic_sent_bytes",
    "minio_s3_requests_total",
)


def _command(
    host: str,
    program: Path,
    folder: Path,
    ports: Mapping[str, int],
    secrets: Mapping[str, str],
    *,
    drives: int = 1,
    tls: bool = False,
) -> Command:
    places = drive_folders(folder, drives)
    listens = (
        *("--address", f"{host}:{ports['s3']}"),
        *("--console-address", f"{host}:{ports['console']}"),
    )
    env = {
        "MINIO_BROWSER": "off",
        "MINIO_UPDATE": "off",
        "MINIO_CALLHOME_ENABLE": "off",
        "MINIO_PROMETHEUS_AUTH_TYPE": "public",  # counters of traffic, for whoever reaches it
        "MINIO_ROOT_USER": secrets["user"],
        "MINIO_ROOT_PASSWORD": secrets["password"],
    }
    if drives > 1:
        env["MINIO_CI_CD"] = "on"  # else it refuses drives that share a disk with the system
    secured = ("--certs-dir", str(certificates(folder.parent))) if tls else ()
    return Command((str(program), "server", "--quiet", *listens, *secured, *map(str, places)), env)


def _ready(address: Address, *, tls: bool = False) -> None:
    """Check that the server reports itself ready and answers a signed request."""
    import urllib3
    from minio.error import S3Error

    at = f"http{'s' * tls}://{address.host}:{address.ports['s3']}/minio/health/ready"
    checks: dict[str, Any] = {"cert_reqs": "CERT_NONE"} if tls else {}
    if tls:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    try:
        with urllib3.PoolManager(timeout=_ASK_S, retries=False, **checks) as pool:
            answer = pool.request("GET", at)
        if answer.status != 200:
            raise NotReady(f"/minio/health/ready answers {answer.status}")
        connect(address, _ASK_S, tls=tls).list_buckets()
    except S3Error as error:
        if error.code in _REFUSALS:
            raise refused_error(MINIO, address, f"{error.code}: {error.message}") from error
        raise NotReady(f"{error.code}: {error.message}") from error
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise NotReady(f"{type(error).__name__}: {error}") from error


MINIO = Recipe(
    name="minio",
    program=PROGRAM.fetch,
    availability=PROGRAM.availability,
    ports=("s3", "console"),
    public=("s3",),
    command=partial(_command, HOST),
    ready=_ready,
    secrets=("user", "password"),
    generated=("user", "password"),
)


@dataclass(frozen=True)
class S3Traffic:
    """Bytes received and sent, and requests, over S3 since a server was started."""

    received_bytes: float
    sent_bytes: float
    requests: float

    def traffic_since(self, before: S3Traffic) -> S3Traffic:
        """The traffic after `before`."""
        return S3Traffic(
            self.received_bytes - before.received_bytes,
            self.sent_bytes - before.sent_bytes,
            self.requests - before.requests,
        )


def traffic(address: Address) -> S3Traffic:
    """A server's traffic counters, which it updates every ten seconds.

    Raises:
        NotReady: the server does not report them.
    """
    import urllib3

    at = f"http://{address.host}:{address.ports['s3']}/minio/v2/metrics/cluster"
    with urllib3.PoolManager(timeout=_ASK_S, retries=False) as pool:
        answer = pool.request("GET", at)
    if answer.status != 200:
        raise NotReady(f"{at} answers {answer.status}")
    totals = dict.fromkeys(_COUNTERS, 0.0)
    for line in answer.data.decode().splitlines():
        name, _, value = line.partition(" ")
        counter = name.partition("{")[0]
        if counter in totals:
            totals[counter] += float(value or name.rpartition("} ")[2])
    return S3Traffic(*totals.values())


def minio(host: str) -> Recipe:
    """The recipe of a server that listens at this address."""
    return replace(MINIO, command=partial(_command, host))


def minio_tls(host: str) -> Recipe:
    """The recipe `minio` over TLS, with the certificate in `certificates` of its folder."""
    return replace(
        MINIO, command=partial(_command, host, tls=True), ready=partial(_ready, tls=True)
    )


def minio_drives(host: str) -> Recipe:
    """The recipe `minio` with erasure coding and four drives, which here are folders of one
    disk."""
    return replace(MINIO, command=partial(_command, host, drives=DRIVES))
