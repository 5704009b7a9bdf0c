"""Servers that fail in the midst of a run: a clear reason in the trial, and the run goes on."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import faulty_store
import numpy as np
import pytest
from faulty_store import HOW, LITTLE, MOMENT, NOTE, Frail
from silent_ports import silent_ports
from small_suite import Vectrial

from vectrial.analysis.run_data import load
from vectrial.datasets import catalog
from vectrial.document.render import export
from vectrial.model.capabilities import Index
from vectrial.model.errors import VectrialError
from vectrial.model.metric import Metric
from vectrial.model.refusals import untested_note
from vectrial.model.schema import Schema
from vectrial.model.store import Address, Store
from vectrial.plan.model import DatasetShape
from vectrial.plan.plan import make_plan
from vectrial.report.build import build
from vectrial.results.reader import RunReader
from vectrial.results.writer import RunWriter
from vectrial.run import heartbeat, process
from vectrial.run.redact import HIDDEN, Secrecy
from vectrial.run.runner import run_plan
from vectrial.servers import reaction
from vectrial.servers.base import AccessRefused, Recipe, ServerError
from vectrial.servers.local import Local, variable_name
from vectrial.servers.managed_process import free_ports
from vectrial.servers.provide import make_server
from vectrial.stores import registry
from vectrial.stores.common.arrow import batch_of
from vectrial.stores.lucene.server import ELASTICSEARCH, OPENSEARCH
from vectrial.stores.milvus.store import credentials
from vectrial.stores.qdrant.server import QDRANT
from vectrial.stores.weaviate.server import WEAVIATE
from vectrial.stores.weaviate.store import Weaviate
from vectrial.suite.model import parse_suite
from vectrial.testing.server_programs import program

SECRET = "hush-hush/&0"
DATASET = "clustered-16-2k"
FRAIL = f"""
name = "faults"
repeats = 1
k = 10
[[datasets]]
name = "{DATASET}"
queries = 20
[[stores]]
store = "frail"
index = "flat"
"""
SUITE = f"""
{FRAIL}
[[experiments]]
experiment = "ingest"
checkpoints = [1.0]
[[experiments]]
experiment = "storage"
"""


class Noting:
    """Looks on, and keeps what is worth a line."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


@pytest.fixture
def frail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder, and an environment in which the store is found."""
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(Path(faulty_store.__file__).parent))
    monkeypatch.setenv(NOTE, str(tmp_path / "note"))
    monkeypatch.setenv("VECTRIAL_PASS", f"{MOMENT},{HOW},{NOTE}")
    catalog.ensure(DATASET, lambda *_: None)
    return tmp_path / "run"


def measured(folder: Path, suite: str = SUITE) -> tuple[list[dict[str, object]], list[str]]:
    """The trials of a run of the frail store, and what was worth a line."""

    def load_store(name: str) -> type[Store]:
        return Frail if name == "frail" else registry.load(name)

    entry, watcher = catalog.entry(DATASET), Noting()
    plan = make_plan(
        parse_suite(suite, "t.toml"),
        where="t.toml",
        load_store=load_store,
        shape_of=lambda ref: DatasetShape(ref.name, 2000, entry.dim, entry.metric, entry.fields),
        known_stores=("memory",),
    )
    with RunWriter(folder) as writer:
        writer.begin(suite_name="faults", command="", version="0", environment={})
        run_plan(plan, writer, watcher)
        writer.finish()
    with RunReader(folder) as run:
        order = "select experiment, status, reason, server, notes from trial order by trial_id"
        return run.rows(order), watcher.notes


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["load", "build"])
def test_a_server_that_dies_fails_its_trial_and_the_run_goes_on(
    moment: str, frail: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MOMENT, moment)
    trials, notes = measured(frail)
    assert Path(os.environ[NOTE]).read_text() == moment
    assert [t["status"] for t in trials] == ["failed", "ok"], trials
    assert str(trials[0]["reason"]).startswith("the server ended: StoreError: cannot be reached")
    for trial in trials:
        server = json.loads(str(trial["server"]))
        assert (server["provider"], server["limits"]) == ("local", "none")
        assert str(server["why"]).startswith("a program of this machine")
    # Its version is numpy's, and not one that the driver names.
    said = json.loads(str(trials[1]["notes"]))
    assert len(said) == 1
    assert "not a version that its driver was tested with: 0.1*" in said[0]
    assert notes.count(said[0]) == 1, "once, however many trials"


LIMIT_S = 600


class Jumping:
    """The clock of the parent: it jumps by the time limit at the moment of the test."""

    sleep = staticmethod(time.sleep)

    def __init__(self, moment: str) -> None:
        self._note, self._moment = Path(os.environ[NOTE]), moment

    def monotonic(self) -> float:
        has_come = self._note.exists() and self._note.read_text() == self._moment
        return time.monotonic() + LIMIT_S * has_come


LIMITED = f"""
{FRAIL}
[[experiments]]
experiment = "crud"
samples = 20
[[experiments]]
experiment = "storage"
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["wait", "cling"])
def test_a_trial_at_its_time_limit_keeps_the_phases_that_it_finished(
    how: str, frail: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it cannot be interrupted; and the run goes on either way."""
    monkeypatch.setattr(process, "time", Jumping("delete"))
    if how == "wait":
        monkeypatch.setattr(process, "_UNWINDING_S", 120.0)
    monkeypatch.setenv(MOMENT, "delete")
    monkeypatch.setenv(HOW, how)
    trials, _ = measured(frail, f"trial_timeout_s = {LIMIT_S}\n{LIMITED}")
    assert Path(os.environ[NOTE]).read_text() == "delete"
    of = {trial["experiment"]: trial for trial in trials}
    assert (of["storage"]["status"], of["crud"]["status"]) == ("ok", "failed"), trials
    assert of["crud"]["reason"] == f"took longer than trial_timeout_s = {LIMIT_S}"
    with RunReader(frail) as run:
        phases = run.rows(
            "select name, valid from phase join trial using (trial_id) where experiment = 'crud'"
        )
    names = [phase["name"] for phase in phases]
    if how == "wait":
        assert names[-1] == "update"
        assert "read" in names
        assert build(load(frail)).sections, "they stop no report"
    else:
        assert names == []


#: What is measured of each experiment.
ASKED = {"storage": "", "mixed": "operations = 200", "crud": "samples = 20"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "how", "experiment", "others"),
    [
        ("gate", "kill", "mixed", ("storage",)),  # it has waited for the gate, if it is told of
        ("read", "kill", "crud", ()),
        ("upsert", "kill", "mixed", ()),
        ("gate", "stop", "mixed", ("storage",)),
        ("delete", "stop", "mixed", ()),
        ("load", "hang", "storage", ()),
    ],
)
def test_a_server_that_is_gone_is_no_wrong_answer(
    moment: str,
    how: str,
    experiment: str,
    others: tuple[str, ...],
    frail: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever its store made of that; and whoever goes on with the run measures it."""
    if how != "kill":
        # Silence counts in short steps, so that a pause of the machine's is none of the server's.
        monkeypatch.setattr(heartbeat, "EVERY_S", 0.2)
        monkeypatch.setattr(heartbeat, "SILENCE_S", 12.0)
        monkeypatch.setattr(heartbeat, "_STEP_S", 0.5)
        monkeypatch.setattr(reaction, "REACTS_S", 1.0)
    monkeypatch.setenv(MOMENT, moment)
    monkeypatch.setenv(HOW, how)
    asked = [
        f'[[experiments]]\nexperiment = "{name}"\n{ASKED[name]}' for name in (*others, experiment)
    ]
    suite = "\n".join([FRAIL, *asked])
    trials, _ = measured(frail, suite)
    gone = {t["experiment"]: t for t in trials if t["status"] != "ok"}
    failed = gone[experiment]
    assert Path(os.environ[NOTE]).read_text() == moment
    assert {trial["status"] for trial in gone.values()} == {"failed"}, trials
    said = "the server ended" if how == "kill" else "the server does not answer"
    assert str(failed["reason"]).startswith(said)
    assert "server.log ends: little: hello" in str(failed["reason"])
    with RunReader(frail) as run:
        wrong = run.rows("select name, detail from gate where passed = false")
    assert wrong == [], "nothing was judged that was not answered"
    if (moment, how) == ("gate", "kill"):
        again, _ = measured(frail, suite)
        assert [trial["status"] for trial in again] == ["ok"] * 2, again


def test_versions() -> None:
    assert untested_note(Weaviate, "1.35.2") is None
    told = untested_note(Weaviate, "2.0.0")
    assert told == "weaviate 2.0.0 is not a version that its driver was tested with: 1.35.*"


# -- secrets ---------------------------------------------------------------------------------


def everything_in(folder: Path) -> str:
    """Every file of a run folder as text, and every row of its database."""
    parts = [
        path.read_bytes().decode(errors="replace")
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    ]
    with duckdb.connect(str(folder / "run.duckdb"), read_only=True) as db:
        for (table,) in db.execute("select table_name from duckdb_tables()").fetchall():
            copy = folder.parent / "copy.csv"
            db.execute(f"copy \"{table}\" to '{copy}' (format csv)")
            parts.append(copy.read_text())
    return "\n".join(parts)


@pytest.mark.slow
@pytest.mark.parametrize("given", ["by a variable", "by a file"])
def test_a_secret_is_nowhere_in_the_run(
    given: str, frail: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MOMENT, "leak")
    if given == "by a variable":
        monkeypatch.setenv("VECTRIAL_LITTLE_API_KEY", SECRET)
    else:
        (tmp_path / "key").write_text(f"{SECRET}\n")
        monkeypatch.setenv("VECTRIAL_LITTLE_API_KEY_FILE", str(tmp_path / "key"))
    with Local(LITTLE, tmp_path / "theirs") as theirs:
        port = theirs.address.ports["http"]
        monkeypatch.setenv("VECTRIAL_LITTLE_ADDRESS", f"127.0.0.1:http={port}")
        trials, _ = measured(frail)
    assert {t["status"] for t in trials} == {"failed"}
    assert f"http://admin:{HIDDEN}@127.0.0.1/ answers 500" in str(trials[0]["reason"])
    assert json.loads(str(trials[0]["server"]))["provider"] == "external"
    export.write_html(build(load(frail)), export.make_folder(frail / "report"))
    text = everything_in(frail)
    assert f"connecting to http://admin:{HIDDEN}@" in text, "the log is kept, without it"
    assert SECRET not in text
    assert "hush" not in text


def test_a_token_is_hidden_in_its_header_too_and_the_name_of_a_database_is_not() -> None:
    token = Secrecy([{"token": SECRET}])
    header = credentials(Address("there", {"grpc": 1}, {"token": SECRET}))
    assert token.text(f"authorization: {header}") == f"authorization: {HIDDEN}"
    named = Secrecy([{"user": "admin", "password": SECRET, "database": "postgres"}])
    assert named.text(f"postgres of admin, {SECRET}") == f"postgres of admin, {HIDDEN}"


@pytest.mark.slow
def test_a_run_with_a_key_keeps_it_nowhere(
    vectrial: Vectrial, tmp_path: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command as it is used, on a server that is not there: suite, environment, report."""
    monkeypatch.setitem(variables, "VECTRIAL_WEAVIATE_API_KEY", SECRET)
    suite = SUITE.replace('"frail"', '"weaviate"')
    (tmp_path / "s.toml").write_text(suite)
    with silent_ports(2) as (http_, grpc):
        address = f"127.0.0.1:http={http_},grpc={grpc}"
        monkeypatch.setitem(variables, "VECTRIAL_WEAVIATE_ADDRESS", address)
        done = vectrial("run", "s.toml")
    assert done.returncode == 1, "nothing was measured"
    folder = Path(done.stdout.strip())
    assert (folder / "environment.json").is_file()
    text = everything_in(folder)
    assert "is it weaviate that listens there?" in text
    assert "hush" not in text + done.stdout + done.stderr


# -- what answers is not what it should be ---------------------------------------------------


@contextmanager
def answering(status: int, body: bytes) -> Iterator[int]:
    """A server of somebody else's; gives its port."""

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    "recipe", [WEAVIATE, QDRANT, ELASTICSEARCH, OPENSEARCH], ids=lambda one: one.name
)
@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_key_names_where_it_is_given(
    recipe: Recipe, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(status, b"") as port:
        ports = ",".join(f"{name}={port}" for name in recipe.public)
        monkeypatch.setenv(variable_name(recipe, "address"), f"127.0.0.1:{ports}")
        for secret in recipe.secrets:
            monkeypatch.setenv(variable_name(recipe, secret), SECRET)
        named = f"{status}; see VECTRIAL_{recipe.name.upper()}_"
        with pytest.raises(AccessRefused, match=named) as raised:
            make_server(recipe, tmp_path).wait_ready()
    assert all(variable_name(recipe, secret) in str(raised.value) for secret in recipe.secrets)
    assert "hush" not in str(raised.value)


def test_an_address_of_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(200, b"<html>welcome</html>") as port:
        monkeypatch.setenv("VECTRIAL_WEAVIATE_ADDRESS", f"127.0.0.1:http={port},grpc={port}")
        with pytest.raises(ServerError, match="is it weaviate that listens"):
            make_server(WEAVIATE, tmp_path).wait_ready(0.1)


def test_a_port_that_was_taken_is_left_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    with answering(200, b"7") as port:
        first = [port]

        def ports(count: int) -> list[int]:
            return [first.pop(), *free_ports(count - 1)] if first else free_ports(count)

        monkeypatch.setattr("vectrial.servers.managed_process.free_ports", ports)
        with Local(LITTLE, tmp_path, progress=told.append) as server:
            assert server.address.ports["http"] != port
            assert server.is_alive()
    assert any(f"port {port} is taken" in line for line in told)


# -- a full disk -----------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no 'mount' here to make a small disk with")
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.slow
@pytest.mark.server("weaviate")
def test_a_full_disk_is_said(small_disk: Path, tmp_path: Path) -> None:
    program(WEAVIATE)
    location = tmp_path / "full"
    location.mkdir()
    schema = Schema(768, Metric.L2)
    rows = np.random.default_rng(0).normal(size=(500, 768)).astype(np.float32)
    with Local(WEAVIATE, small_disk / "server", log=tmp_path / "log") as server:
        store = Weaviate(location, server.address)
        try:
            store.create(schema, Index("flat", Weaviate.capabilities.indexes["flat"].build()))

            def fill() -> None:
                for start in range(0, 50_000, 500):
                    store.insert(batch_of(schema, np.arange(start, start + 500), rows, {}))

            with pytest.raises(Exception, match=r"(?i)space|disk|read.?only") as raised:
                fill()
            assert isinstance(raised.value, VectrialError) or str(raised.value)
        finally:
            store.close()
