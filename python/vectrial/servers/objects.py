"""Object stores for experiments: a folder, MinIO, or any S3 service whose address is given.

VECTRIAL_S3_ADDRESS=https://s3.example:443    and VECTRIAL_S3_BUCKET, VECTRIAL_S3_REGION
VECTRIAL_S3_USER, VECTRIAL_S3_PASSWORD        or …_FILE, a file that holds the secret alone
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from vectrial.model.errors import Unsupported, UserError
from vectrial.model.objects import ObjectsAccess, ObjectsKind, ObjectsRequest, ObjectTransport
from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers.base import Recipe
from vectrial.servers.hosts import RunningHosts, why_no_hosts
from vectrial.servers.local import HOST, Local
from vectrial.servers.minio import BUCKET, DRIVES, certificates, drive_folders
from vectrial.servers.namespaces import Network
from vectrial.servers.provide import secret_value
from vectrial.servers.server_network import ServerNetwork
from vectrial.servers.services import service_recipe

_RECIPES = {
    ObjectsKind.MINIO: "vectrial.servers.minio:minio",
    ObjectsKind.MINIO_DRIVES: "vectrial.servers.minio:minio_drives",
}
_URL = re.compile(r"https?://[^/@\s]+")


class ObjectServer:
    """The object store of one request, from its start until it is stopped. Its objects stay in
    `folder` until they are removed.

    Args:
        key: the trial's key; in an external service, the objects lie under this key.
        folder: for its data. network: the experiment's network, if not this process's.
        cores: processors of a server started here. log: file for its output.
    """

    def __init__(
        self,
        request: ObjectsRequest,
        key: str,
        folder: Path,
        network: Network | None,
        cores: Sequence[int],
        log: Path,
        progress: LineProgress,
    ) -> None:
        self._request, self._key = request, key
        self._folder, self._network = folder, network
        self._cores, self._log, self._progress = cores, log, progress
        self._hosts = RunningHosts()
        self._server: Local | None = None

    def start(self) -> ObjectsAccess:
        """Start the object store and wait until it answers.

        Raises:
            Unsupported: it is not available here, or not over this transport.
            ServerError: it does not start.
        """
        kind = self._request.kind
        if kind is ObjectsKind.FOLDER:
            return ObjectsAccess(folder=self._folder / "objects")
        if kind is ObjectsKind.S3:
            return _external_service(self._key)
        tls = self._request.transport is ObjectTransport.TLS
        reference = f"{_RECIPES[kind]}_tls" if tls else _RECIPES[kind]
        host, shared = HOST, None
        if self._request.transport is ObjectTransport.LINK:
            host, shared = self._host()
        recipe = service_recipe(reference, host)
        _make_bucket(kind, self._folder / "server" / "data")
        if tls:
            _make_certificate(certificates(self._folder / "server"), host)
        inside = None if self._network is None else ServerNetwork(self._network, reference)
        self._server = Local(
            recipe, self._folder / "server", log=self._log, cores=self._cores,
            progress=self._progress, server_network=inside, shared=shared, host=host,
        )  # fmt: skip
        self._server.start()
        self._server.wait_ready()
        return self._access(recipe, self._server.address, tls=tls)

    def _host(self) -> tuple[str, Network]:
        why = why_no_hosts() or ("" if self._network is not None else "no network can be made here")
        if why:
            raise Unsupported(f"no link of a set rate: {why}")
        self._hosts.make(self._network, 1, self._request.link_mbit)
        (host,) = self._hosts.all
        return host.address, host.network

    def _access(self, recipe: Recipe, address: Address, *, tls: bool) -> ObjectsAccess:
        assert self._server is not None
        return ObjectsAccess(
            endpoint=f"http{'s' * tls}://{address.host}:{address.ports['s3']}",
            bucket=BUCKET,
            self_signed=tls,
            user=address.secrets["user"],
            password=address.secrets["password"],
            processes={recipe.name: next(iter(self._server.processes().values()))},
            data_dirs=self._server.data_dirs(),
        )

    def stop(self) -> None:
        """Stop the object store; its objects stay."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        self._hosts.close()

    def remove(self) -> None:
        """Remove the objects. Those in an external service are the experiment's to remove."""
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):  # another trial's objects are beside them
            self._folder.parent.rmdir()


def _make_bucket(kind: ObjectsKind, data: Path) -> None:
    """Create the bucket as a folder on each drive, so that no client is needed."""
    for drive in drive_folders(data, 1 if kind is ObjectsKind.MINIO else DRIVES):
        (drive / BUCKET).mkdir(parents=True, exist_ok=True)


def _make_certificate(folder: Path, host: str) -> None:
    """Make a certificate for an address, valid for a week, and its key, unless they exist.

    Raises:
        Unsupported: no program here can make a certificate.
    """
    if (folder / "public.crt").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 7"
    names = ["-subj", "/CN=vectrial", "-addext", f"subjectAltName=IP:{host}"]
    files = ["-keyout", str(folder / "private.key"), "-out", str(folder / "public.crt")]
    try:
        subprocess.run([*command.split(), *names, *files], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(folder)
        raise Unsupported("no TLS: there is no program 'openssl' to make a certificate") from error


def _external_service(key: str) -> ObjectsAccess:
    """The service that the environment names.

    Raises:
        Unsupported: it names none. UserError: the variables are invalid.
    """
    address = os.environ.get("VECTRIAL_S3_ADDRESS")
    if not address:
        raise Unsupported("no S3 service is given: set VECTRIAL_S3_ADDRESS and VECTRIAL_S3_BUCKET")
    if not _URL.fullmatch(address.rstrip("/")):
        raise UserError(
            "it is not the URL of a service, or holds a user or a path",
            where="VECTRIAL_S3_ADDRESS",
            remedy="as in https://s3.example:443; the bucket goes into VECTRIAL_S3_BUCKET",
        )
    bucket = os.environ.get("VECTRIAL_S3_BUCKET", "")
    if not bucket:
        raise UserError("it is not set", where="VECTRIAL_S3_BUCKET", remedy="name a bucket")
    return ObjectsAccess(
        endpoint=address.rstrip("/"),
        bucket=bucket,
        region=os.environ.get("VECTRIAL_S3_REGION", "us-east-1"),
        user=_secret("VECTRIAL_S3_USER"),
        password=_secret("VECTRIAL_S3_PASSWORD"),
        prefix=f"vectrial/{key}",
    )


def _secret(name: str) -> str:
    if (value := secret_value(name)) is None:
        raise UserError("it is not set", where=name, remedy=f"set it, or {name}_FILE")
    return value
