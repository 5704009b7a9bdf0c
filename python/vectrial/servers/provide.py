"""The choice of a store's server: one that the user runs, or one that is started here.

A server's address and secrets belong to a machine, not to a suite, which is published. So they are
read from the environment.

    VECTRIAL_WEAVIATE_ADDRESS=db.example:http=8080,grpc=50051
    VECTRIAL_WEAVIATE_PROVIDER=docker      external, docker or local; else the first available
    VECTRIAL_WEAVIATE_API_KEY=…            or VECTRIAL_WEAVIATE_API_KEY_FILE=/run/secrets/key
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from vectrial.model.availability import Availability
from vectrial.model.errors import StoreError, UserError
from vectrial.model.placement import Hosts, Limits, Provider
from vectrial.model.progress import LineProgress
from vectrial.model.store import Address, Store
from vectrial.servers import docker
from vectrial.servers.base import External, NoProgram, Recipe, Server
from vectrial.servers.cluster import LocalCluster
from vectrial.servers.docker import Docker
from vectrial.servers.docker_cluster import DockerCluster
from vectrial.servers.local import HOST, Local, variable_name
from vectrial.servers.server_network import ServerNetwork
from vectrial.servers.services import service_recipe
from vectrial.util.suggest import suggestion


@dataclass(frozen=True)
class ProviderChoice:
    """A provider, the reason for choosing it, and its availability.

    by_default: neither the environment nor the suite asked for it.
    """

    provider: Provider
    why: str
    available: Availability
    by_default: bool = False


def recipe_of(store: type[Store]) -> Recipe | None:
    """The recipe of the store's server; None for a store that needs none.

    Raises:
        StoreError: what the store declares does not exist or is not a recipe.
    """
    if store.server is None:
        return None
    module, _, attribute = store.server.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise StoreError(f"{store.name}: no server at {store.server}: {error}") from error
    if not isinstance(found, Recipe):
        raise StoreError(f"{store.name}: {store.server} is not a vectrial.servers.base.Recipe")
    return found


def choose_provider(recipe: Recipe, requested: Provider | None = None) -> ProviderChoice:
    """The provider of a server of this kind: the one that the environment names, else `requested`.
    Else the first available of: an address or a program in the environment, the official image if a
    container engine answers, and a program of this machine.

    Raises:
        UserError: the environment names no known provider, or an invalid address; or the provider
            is `external` and there is no address.
    """
    name = variable_name(recipe, "provider")
    if named := os.environ.get(name):
        if named not in list(Provider):
            raise UserError(
                f"'{named}' is no provider", where=name, remedy=suggestion(named, list(Provider))
            )
        return _choice(recipe, Provider(named), f"set by {name}")
    if requested is not None:
        return _choice(recipe, requested, "requested")
    if external_address(recipe) is not None:
        return _choice(recipe, Provider.EXTERNAL, f"{variable_name(recipe, 'address')} is set")
    if os.environ.get(variable_name(recipe, "bin")):
        return _choice(recipe, Provider.LOCAL, f"{variable_name(recipe, 'bin')} is set")
    if recipe.image is None:
        why = "a program of this machine, since no container image of it is known"
        return replace(_choice(recipe, Provider.LOCAL, why), by_default=True)
    why = f"the official image, since '{docker.engine()}' answers"
    container = replace(_choice(recipe, Provider.DOCKER, why), by_default=True)
    if container.available.works is not False:
        return container
    return _program_choice(recipe, container.available.reason)


def _program_choice(recipe: Recipe, reason: str) -> ProviderChoice:
    """The program of this machine as the choice, if `reason` rules out a container."""
    program = recipe.availability()
    if program.works is False:
        program = replace(program, reason=f"{program.reason}; nor in a container: {reason}")
    why = f"a program of this machine, since {reason}"
    return ProviderChoice(Provider.LOCAL, why, program, by_default=True)


def check_environment(
    store: type[Store], requested: Provider | None = None, *, existing: bool = False
) -> None:
    """Check, before anything is done, what the environment says of a store's server: the provider,
    the address, the secrets' files, the program and its version.

    Args:
        existing: the measured collection is in the server already.

    Raises:
        UserError: a variable is invalid, or a server would have to be started that is empty; the
            message names the variable.
    """
    recipe = recipe_of(store)
    if recipe is None:
        return
    secrets_of(recipe)
    external_address(recipe)
    choice = choose_provider(recipe, requested)
    if existing and choice.provider is not Provider.EXTERNAL:
        raise UserError(
            f"the collection of {store.name} is in a server that is not named",
            remedy=f"set {variable_name(recipe, 'address')} to {_address_format(recipe)}",
        )


def _choice(recipe: Recipe, provider: Provider, why: str) -> ProviderChoice:
    match provider:
        case Provider.EXTERNAL:
            _required_address(recipe)
            return ProviderChoice(provider, why, Availability(True))
        case Provider.LOCAL:
            return ProviderChoice(provider, why, recipe.availability())
        case Provider.DOCKER:
            return ProviderChoice(provider, why, docker.image_availability(recipe))


def make_server(
    recipe: Recipe,
    folder: Path,
    *,
    provider: Provider | None = None,
    log: Path | None = None,
    cores: Sequence[int] = (),
    limits: Limits = Limits(),  # noqa: B008 - frozen
    progress: LineProgress = lambda line: None,
    server_network: ServerNetwork | None = None,
    allow_exposed: bool = False,
    nodes: int = 1,
    hosts: Hosts | None = None,
    at: str | None = None,
) -> Server:
    """A server of this kind, not started yet.

    Args:
        provider: the choice of `prepare`; by default that of `choose_provider`.
        folder, log, cores, limits, progress, inside, allow_exposed: see `Local`.
        nodes: number of nodes; 1 is a single server. hosts: see `LocalCluster`; ignored by a server
            that forms no clusters. at: see `LocalCluster`; for programs of this machine.

    Raises:
        UserError: it cannot listen `at` an address; see `choose_provider`; or there is no cluster
            of this kind, size and provider.
        NoProgram: there is no image of it.
    """
    chosen = provider or choose_provider(recipe).provider
    starts_at_address = chosen is Provider.LOCAL and recipe.cluster is not None
    if at is not None and not (chosen is Provider.EXTERNAL or starts_at_address):
        raise UserError(
            f"{recipe.name} listens on loopback alone when it is started here: other machines do"
            " not reach it",
            where="placement.client_machines",
            remedy=f"start it yourself and give {variable_name(recipe, 'address')}"
            + ("" if chosen is Provider.LOCAL else ', or provider = "local"'),
        )
    match chosen:
        case Provider.EXTERNAL:
            return External(recipe, _required_address(recipe))
        case Provider.LOCAL:
            alone = nodes == 1 and (hosts is None or recipe.cluster is None) and at is None
            one_or_many = Local if alone else partial(LocalCluster, nodes=nodes, hosts=hosts, at=at)
            return one_or_many(
                recipe,
                folder=folder,
                log=log,
                cores=cores,
                limits=limits,
                progress=progress,
                server_network=server_network,
                allow_exposed=allow_exposed,
            )
        case Provider.DOCKER:
            if hosts is not None and recipe.cluster is not None:
                raise UserError(
                    "hosts are for programs of this machine: containers have a network of theirs",
                    where="hosts",
                    remedy=f'provider = "local" for {recipe.name}, or leave [hosts] out',
                )
            contained = Docker if nodes == 1 else partial(DockerCluster, nodes=nodes)
            return contained(
                recipe, folder=folder, log=log, cores=cores, limits=limits, progress=progress
            )


def prepare(
    recipe: Recipe, progress: LineProgress, requested: Provider | None = None, *, nodes: int = 1
) -> ProviderChoice:
    """Fetch what a server, or a cluster of several nodes, needs. Afterwards the server of
    `make_server` can start at once.

    If nobody asked for a container and the image cannot be pulled, the program of this machine is
    chosen instead; `progress` gets a line that says so.

    Raises:
        NoProgram: its program or image is not available here. UserError: see `choose_provider`.
    """
    choice = choose_provider(recipe, requested)
    if choice.provider is Provider.DOCKER:
        try:
            docker.pull(recipe, progress)
        except NoProgram as error:
            if not choice.by_default:
                raise NoProgram(
                    f"{error}; use a program of this machine: --provider local, or "
                    f"{variable_name(recipe, 'provider')}=local"
                ) from error
            choice = _program_choice(recipe, str(error))
            progress(f"{recipe.name}: {error}; a program of this machine is used instead")
    if choice.provider is Provider.LOCAL:
        if choice.available.works is False:
            raise NoProgram(choice.available.text)
        recipe.program(progress)
        if nodes > 1 and recipe.cluster is not None:
            for service in recipe.cluster.services:
                service_recipe(service, HOST).program(progress)
    return choice


@contextmanager
def server_address(store: type[Store], folder: Path) -> Iterator[Address | None]:
    """The address of a server for `store` that runs while the block lasts; None if it needs
    none."""
    recipe = recipe_of(store)
    if recipe is None:
        yield None
        return
    with make_server(recipe, folder) as server:
        yield server.address


def external_address(recipe: Recipe) -> Address | None:
    """The address, with its secrets, that the environment gives; None if it gives none. A cluster's
    address lists its nodes, separated by semicolons.

    Raises:
        UserError: the address is invalid, or a secret's file cannot be read.
    """
    name = variable_name(recipe, "address")
    text = os.environ.get(name)
    if not text:
        return None
    listed = _address_format(recipe)
    if "@" in text or "://" in text:  # not repeated, since messages are stored
        secret = variable_name(recipe, recipe.secrets[-1]) if recipe.secrets else ""
        own = f"; secrets go into variables of their own, such as {secret} or {secret}_FILE"
        raise UserError(
            "an address is neither a URL, nor holds a user or a password",
            where=name,
            remedy=f"give {listed}" + own * bool(secret),
        )
    nodes = tuple(_parse_address(recipe, one.strip(), name, listed) for one in text.split(";"))
    return nodes[0] if len(nodes) == 1 else replace(nodes[0], nodes=nodes)


def _parse_address(recipe: Recipe, text: str, name: str, listed: str) -> Address:
    host, _, pairs = text.partition(":") if not text.startswith("[") else text.rpartition(":")
    if pairs.isdigit() and len(recipe.public) == 1:
        pairs = f"{recipe.public[0]}={pairs}"
    hosts, ports = dict[str, str](), dict[str, int]()
    try:
        for name_of, place in (one.split("=") for one in pairs.split(",")):
            other, _, number = place.rpartition(":")
            ports[name_of] = int(number)
            hosts |= {name_of: other} if other else {}
    except ValueError:
        ports = {}
    for key, port in ports.items():
        if not 0 < port < 2**16:
            raise UserError(
                f"{key} = {port} is no port", where=name, remedy="a port is between 1 and 65535"
            )
    if not host or set(ports) != set(recipe.public):
        raise UserError(f"'{text}' is no address", where=name, remedy=f"as in {listed}")
    tls, ca = _tls(recipe)
    return Address(host, ports, secrets_of(recipe), hosts=hosts, tls=tls, ca=ca)


def _tls(recipe: Recipe) -> tuple[bool, Path | None]:
    """True if connections are encrypted; and the file of certificates to trust.

    Raises:
        UserError: the variable names neither, or the server's clients here do not support TLS.
    """
    name = variable_name(recipe, "tls")
    text = os.environ.get(name, "off")
    if text == "off":
        return False, None
    if not recipe.tls:
        raise UserError(f"{recipe.name} is not reached under TLS here", where=name)
    if text == "on":
        return True, None
    if not Path(text).is_file():
        raise UserError(
            f"'{text}' is no file",
            where=name,
            remedy="on: trust the certificates of this machine; a PEM file: those in it; off",
        )
    return True, Path(text).resolve()


def _required_address(recipe: Recipe) -> Address:
    if (address := external_address(recipe)) is not None:
        return address
    raise UserError(
        f"{recipe.name} is to be external, and its address is not set",
        remedy=f"set {variable_name(recipe, 'address')} to {_address_format(recipe)}",
    )


def _address_format(recipe: Recipe) -> str:
    """The form of an address, for messages."""
    if len(recipe.public) == 1:
        return "HOST:PORT"
    return f"HOST:{','.join(f'{port}=PORT' for port in recipe.public)}"


def secrets_of(recipe: Recipe) -> dict[str, str]:
    """The server's secrets in the environment, by name.

    Raises:
        UserError: a secret's file cannot be read.
    """
    found = {secret: secret_value(variable_name(recipe, secret)) for secret in recipe.secrets}
    return {name: value for name, value in found.items() if value is not None}


def secret_value(name: str) -> str | None:
    """The secret in the variable `name`, or else in the file that `name`_FILE names; None if
    neither is set.

    Raises:
        UserError: the file cannot be read.
    """
    if value := os.environ.get(name):
        return value
    if not (path := os.environ.get(f"{name}_FILE")):
        return None
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        what = f"cannot be read: {error}"
        if isinstance(error, UnicodeDecodeError):  # which holds bytes of the file
            what = f"{path} is no text in UTF-8, at byte {error.start}"
        remedy = "give a file that holds the secret alone"
        raise UserError(what, where=f"{name}_FILE", remedy=remedy) from error
