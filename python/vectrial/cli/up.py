"""`vectrial up` and `vectrial down`: a server for interactive use."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from vectrial.cli import options
from vectrial.cli.output import (
    Format,
    plain_table,
    print_json,
    say,
    stderr_console,
    stdout_console,
)
from vectrial.model.errors import UserError, VectrialError
from vectrial.model.placement import Placement, Provider
from vectrial.servers.base import Recipe, ServerError
from vectrial.servers.local import variable_name
from vectrial.servers.provide import check_environment, recipe_of
from vectrial.servers.running import RunningServer, folder, run_foreground, running_servers, stop
from vectrial.stores import registry
from vectrial.suite.validation import validate
from vectrial.util.children import python
from vectrial.util.suggest import suggestion

_POLL_S = 0.1


def up(
    store: Annotated[
        str | None,
        typer.Argument(metavar="STORE", help="Store to start; without it, list running servers."),
    ] = None,
    provider: Annotated[
        Provider | None,
        typer.Option(
            help="Source of the server's program.", show_default="whichever works on this machine"
        ),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when it is ready, and leave it running.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the data, kept afterwards.",
            show_default="a temporary folder",
        ),
    ] = None,
    cpus: Annotated[
        float | None,
        typer.Option(metavar="N", help="CPU limit, e.g. 1.5 (by control groups or a container)."),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Limit on memory with its unit, e.g. 2GiB.")
    ] = None,
    nodes: Annotated[int, typer.Option(metavar="N", min=1, help="Start a cluster of N nodes.")] = 1,
    allow_exposed: options.ExposedOption = False,
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Start the server of a STORE, print how to connect, and run it until Ctrl-C.

    \b
    vectrial up                          list running servers
    vectrial up weaviate                 until Ctrl-C
    vectrial up weaviate --detach        until: vectrial down weaviate
    vectrial up weaviate --memory 2GiB   with limits
    vectrial up weaviate --nodes 3       a cluster

    The server listens on free ports of loopback. With the printed `export` line, a run in another
    terminal uses this server instead of starting its own. The nodes of a cluster all run on this
    machine, and limits are those of all nodes together. Progress goes to stderr.
    """
    if store is None:
        _list(form)
        return
    recipe = _recipe(store)
    limits = validate(Placement, {"server_cpus": cpus, "server_memory": memory}, "limits").limits
    check_environment(registry.load(store), provider)
    if detach:
        arguments: dict[str, Any] = {
            "--provider": provider,
            "--data": data and data.resolve(),
            "--cpus": cpus,
            "--memory": memory,
            "--nodes": nodes,
        }
        words = [str(x) for pair in arguments.items() if pair[1] is not None for x in pair]
        words += ["--allow-exposed"] if allow_exposed else []
        _show(_start_detached(store, words), form, foreground=False)
        return
    console = stderr_console()
    try:
        run_foreground(
            store,
            recipe,
            provider,
            data=None if data is None else data.resolve(),
            limits=limits,
            progress=lambda line: say(console, line),
            ready=lambda one: _show(one, form, foreground=True),
            allow_exposed=allow_exposed,
            nodes=nodes,
        )
    except KeyboardInterrupt:
        console.print(f"{store}: ended")


def down(
    store: Annotated[
        str | None, typer.Argument(metavar="STORE", help="Store whose server to stop.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Stop all running servers.")] = False,
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Stop the server of a STORE that `vectrial up` started, and wait until it has ended.

    \b
    vectrial down weaviate
    vectrial down --all
    """
    there = {one.store: one for one in running_servers()}
    if (store is None) != everything:
        up_now = ", ".join(there) or "nothing"
        raise UserError("give a STORE, or --all", remedy=f"up now: {up_now}")
    if store is not None:
        _recipe(store)
    names = list(there) if store is None else [store]
    for name in names:
        ended = name in there and stop(there[name], _recipe(name).stop_s)
        if form is Format.JSONL:
            print_json([{"store": name, "ended": ended}])
        else:
            print(f"{name}: ended" if ended else f"{name} was not up")
    if not names and form is Format.TABLE:
        print("nothing was up")


def _recipe(name: str) -> Recipe:
    store = registry.load(name)
    recipe = recipe_of(store)
    if recipe is None:
        served = [n for n, one in registry.STORES.working()[0].items() if one.server is not None]
        raise UserError(f"'{name}' is a library: it has no server", remedy=suggestion("", served))
    return recipe


def _start_detached(store: str, words: list[str]) -> RunningServer:
    """Start another process that runs the server; returns when the server is ready.

    words: further arguments of `vectrial up`.
    """
    messages = folder() / f"{store}.messages"
    messages.parent.mkdir(parents=True, exist_ok=True)
    with messages.open("w") as sink:
        child = subprocess.Popen(
            [*python("vectrial.cli.main"), "up", store, "--format", "jsonl", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=sink,
            cwd="/",
            start_new_session=True,
        )
    text = ""
    try:
        with messages.open() as source:
            while True:
                ended = child.poll() is not None
                new = source.read()
                text += new
                if ended:
                    raise _failure(store, child.returncode, text)
                lines = new.splitlines(keepends=True)
                sys.stderr.write("".join(line for line in lines if not line.startswith(_ERROR)))
                for one in running_servers():
                    if one.pid == child.pid and one.ready:
                        return one
                time.sleep(_POLL_S)
    except BaseException:
        if child.poll() is None:  # Ctrl-C while it starts
            child.terminate()
            child.wait()
        raise


#: Prefix of the last line of a command that failed.
_ERROR = "vectrial: "


def _failure(store: str, code: int, text: str) -> VectrialError:
    """The error of the process that should have run the server, from its messages."""
    lines = [line for line in text.splitlines() if line.strip()]
    last = lines[-1].removeprefix(_ERROR) if lines else f"ended with exit code {code}"
    return UserError(last) if code == UserError.exit_code else ServerError(f"{store}: {last}")


def _show(server: RunningServer, form: Format, *, foreground: bool) -> None:
    facts = _facts(server)
    if form is Format.JSONL:
        print_json([facts])
        return
    lines = [f"{server.store} is up ({server.provider}), at {server.host}"]
    if server.nodes:
        lines += _table_of(server.nodes)
    else:
        lines += [f"  {name:<12} {port}" for name, port in server.ports.items()]
        lines += [f"  {'log':<12} {server.log}", f"  {'data':<12} {server.data}"]
    lines += ["", "a run in another terminal uses it after"]
    lines += [f"  {line}" for line in facts["export"].splitlines()]
    if facts["snippet"]:
        lines += ["", "in Python"] + [f"  {line}" for line in facts["snippet"].splitlines()]
    lines += ["", "Ctrl-C ends it" if foreground else f"end it with: vectrial down {server.store}"]
    print("\n".join(lines), flush=True)


def _table_of(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each node of a cluster."""
    roles = any(node.get("role") for node in nodes)
    rows = [("node", *(["role"] if roles else []), *nodes[0]["ports"], "log")]
    for node in nodes:
        role = [node["role"]] if roles else []
        rows.append((node["name"], *role, *map(str, node["ports"].values()), node["log"]))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = ([cell.ljust(w) for cell, w in zip(row, widths, strict=True)] for row in rows)
    return ["  " + "  ".join(row).rstrip() for row in padded]


def _facts(server: RunningServer) -> dict[str, Any]:
    recipe = _recipe(server.store)
    name = variable_name(recipe, "address")
    reading = {key: f"open({file!r}).read()" for key, file in server.secrets.items()}
    secrets = {**dict.fromkeys(recipe.secrets, "None"), **reading}
    snippet = (
        recipe.snippet.format(host=server.host, **server.ports, **secrets) if server.ready else ""
    )
    exports = {name: server.address_text()}
    exports |= {f"{variable_name(recipe, key)}_FILE": file for key, file in server.secrets.items()}
    return {
        "store": server.store,
        "provider": server.provider,
        "ready": server.ready,
        "host": server.host,
        "ports": dict(server.ports),
        "nodes": list(server.nodes),
        "pid": server.pid,
        "log": server.log,
        "data": server.data,
        "export": "\n".join(f"export {key}={shlex.quote(value)}" for key, value in exports.items())
        if server.ready
        else "",
        "snippet": snippet,
    }


def _list(form: Format) -> None:
    there = running_servers()
    if form is Format.JSONL:
        print_json(map(_facts, there))
        return
    if not there:
        print("nothing is up; start a server with: vectrial up STORE", file=sys.stderr)
        return
    table = plain_table("store", "provider", "address", "process", whole=("store",))
    for one in there:
        address = one.address_text() if one.ready else "starting"
        table.add_row(one.store, one.provider, escape(address), str(one.pid))
    stdout_console(markup=True).print(table)
