"""`vectrial up` and `vectrial down`: a server to play with."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from vectrial.cli.form import Form, FormOption, on_stderr, on_stdout, say
from vectrial.model.errors import UserError, VectrialError
from vectrial.model.placement import Placement
from vectrial.model.provider import Provider
from vectrial.servers.base import Recipe, ServerError
from vectrial.servers.local import variable
from vectrial.servers.provide import check_environment, recipe_of
from vectrial.servers.running import RunningServer, folder, run_foreground, running_servers, stop
from vectrial.stores import registry
from vectrial.suite.model import validated
from vectrial.util.children import python
from vectrial.util.suggest import suggestion

_POLL_S = 0.1


def up(
    store: Annotated[
        str | None,
        typer.Argument(metavar="[STORE]", help="Store to start; without it, list running servers."),
    ] = None,
    provider: Annotated[
        Provider | None,
        typer.Option(help="local or docker. Default: whichever works on this machine."),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when it is ready; leave it running.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder for the data, kept afterwards. Default: a temporary folder."),
    ] = None,
    cpus: Annotated[
        float | None, typer.Option(help="CPU limit, e.g. 1.5, where limits work.")
    ] = None,
    memory: Annotated[str | None, typer.Option(help="Memory limit with a unit, e.g. 2GiB.")] = None,
    allow_exposed: Annotated[
        bool,
        typer.Option(
            "--allow-exposed",
            help="Start the server even if other machines on the network can reach it.",
        ),
    ] = False,
    form: FormOption = Form.TABLE,
) -> None:
    """Start the server of a STORE, print how to connect, and run it until Ctrl-C.

    \b
    vectrial up                          list running servers
    vectrial up weaviate                 until Ctrl-C
    vectrial up weaviate --detach        until: vectrial down weaviate
    vectrial up weaviate --memory 2GiB   with limits

    The server listens on free ports of loopback. With the printed `export` line, a run in another
    terminal uses this server instead of starting its own. Progress goes to stderr.
    """
    if store is None:
        _list(form)
        return
    recipe = _recipe(store)
    limits = validated(Placement, {"server_cpus": cpus, "server_memory": memory}, "limits").limits
    check_environment(registry.load(store), provider)
    if detach:
        _show(_detached(store, provider, data, cpus, memory, allow_exposed), form, held=False)
        return
    console = on_stderr()
    try:
        run_foreground(
            store,
            recipe,
            provider,
            data=None if data is None else data.resolve(),
            limits=limits,
            progress=lambda line: say(console, line),
            ready=lambda one: _show(one, form, held=True),
            allow_exposed=allow_exposed,
        )
    except KeyboardInterrupt:
        console.print(f"{store}: ended")


def down(
    store: Annotated[
        str | None, typer.Argument(metavar="[STORE]", help="Store whose server to stop.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Stop all running servers.")] = False,
    form: FormOption = Form.TABLE,
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
        if form is Form.JSONL:
            print(json.dumps({"store": name, "ended": ended}))
        else:
            print(f"{name}: ended" if ended else f"{name} was not up")
    if not names and form is Form.TABLE:
        print("nothing was up")


def _recipe(name: str) -> Recipe:
    store = registry.load(name)
    recipe = recipe_of(store)
    if recipe is None:
        served = [n for n, one in registry.STORES.working()[0].items() if one.server is not None]
        raise UserError(f"'{name}' is a library: it has no server", remedy=suggestion("", served))
    return recipe


def _detached(
    store: str,
    provider: Provider | None,
    data: Path | None,
    cpus: float | None,
    memory: str | None,
    allow_exposed: bool,
) -> RunningServer:
    """Have another process hold the server; returns when that says it is ready."""
    argv = [*python("vectrial.cli.main"), "up", store, "--format", "jsonl"]
    given = {
        "--provider": provider,
        "--data": data and data.resolve(),
        "--cpus": cpus,
        "--memory": memory,
    }
    for option, value in given.items():
        argv += [] if value is None else [option, str(value)]
    argv += ["--allow-exposed"] if allow_exposed else []
    told = folder() / f"{store}.told"
    told.parent.mkdir(parents=True, exist_ok=True)
    with told.open("w") as sink:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=sink,
            cwd="/",
            start_new_session=True,
        )
    heard = ""
    try:
        with told.open() as source:
            while True:
                ended = child.poll() is not None
                said = source.read()
                heard += said
                if ended:
                    raise _failure(store, child.returncode, heard)
                sys.stderr.write("".join(_progress_lines(said)))
                for one in running_servers():
                    if one.pid == child.pid and one.ready:
                        return one
                time.sleep(_POLL_S)
    except BaseException:
        if child.poll() is None:  # Ctrl-C while it starts
            child.terminate()
            child.wait()
        raise


#: How the last line of a command that failed begins.
_ERROR = "vectrial: "


def _progress_lines(said: str) -> list[str]:
    return [line for line in said.splitlines(keepends=True) if not line.startswith(_ERROR)]


def _failure(store: str, code: int, heard: str) -> VectrialError:
    """Why the process that was to hold the server ended, from all that it said."""
    lines = [line for line in heard.splitlines() if line.strip()]
    last = lines[-1].removeprefix(_ERROR) if lines else f"ended with exit code {code}"
    return UserError(last) if code == UserError.exit_code else ServerError(f"{store}: {last}")


def _show(one: RunningServer, form: Form, *, held: bool) -> None:
    facts = _facts(one)
    if form is Form.JSONL:
        print(json.dumps(facts), flush=True)
        return
    lines = [f"{one.store} is up ({one.provider}), at {one.host}"]
    lines += [f"  {name:<12} {port}" for name, port in one.ports.items()]
    lines += [f"  {'log':<12} {one.log}", f"  {'data':<12} {one.data}"]
    lines += ["", "a run in another terminal uses it after"]
    lines += [f"  {line}" for line in facts["export"].splitlines()]
    if facts["snippet"]:
        lines += ["", "in Python"] + [f"  {line}" for line in facts["snippet"].splitlines()]
    lines += ["", "Ctrl-C ends it" if held else f"end it with: vectrial down {one.store}"]
    print("\n".join(lines), flush=True)


def _facts(one: RunningServer) -> dict[str, Any]:
    recipe = _recipe(one.store)
    name = variable(recipe, "address")
    reading = {key: f"open({file!r}).read()" for key, file in one.secrets.items()}
    told = {**dict.fromkeys(recipe.secrets, "None"), **reading}
    snippet = recipe.snippet.format(host=one.host, **one.ports, **told) if one.ready else ""
    exports = {name: one.listed()}
    exports |= {f"{variable(recipe, key)}_FILE": file for key, file in one.secrets.items()}
    return {
        "store": one.store,
        "provider": one.provider,
        "ready": one.ready,
        "host": one.host,
        "ports": dict(one.ports),
        "pid": one.pid,
        "log": one.log,
        "data": one.data,
        "export": "\n".join(f"export {key}={shlex.quote(value)}" for key, value in exports.items())
        if one.ready
        else "",
        "snippet": snippet,
    }


def _list(form: Form) -> None:
    there = running_servers()
    if form is Form.JSONL:
        for one in there:
            print(json.dumps(_facts(one)))
        return
    if not there:
        print("nothing is up; start a server with: vectrial up STORE", file=sys.stderr)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("store", "provider", "address", "process"):
        table.add_column(title, overflow="fold", no_wrap=title == "store")
    for one in there:
        address = one.listed() if one.ready else "starting"
        table.add_row(one.store, one.provider, escape(address), str(one.pid))
    on_stdout(markup=True).print(table)
