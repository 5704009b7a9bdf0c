"""Runs that are started from a page: the form, who may send it, one at a time, stop, continue."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from busy_machine import until
from command_calls import call
from served_pages import TOKEN, client_of
from start_forms import TINY, Forms, end, faults, hidden, sleeping_runs
from synthetic_runs import write_run

from vectrial.results.progress import Status, write_status
from vectrial.results.reader import RunReader
from vectrial.results.writer import RunWriter
from vectrial.run.plan_summary import summarize
from vectrial.run.prepare import plan_of
from vectrial.suite.model import parse_suite, read_suite
from vectrial_web.serve.launcher import Launcher, StartedProcess
from vectrial_web.serve.runs import Runs

SUITE = """
name = "local"
[[datasets]]
name = "clustered-16-2k"
[[stores]]
store = "memory"
[[experiments]]
experiment = "storage"
"""
#: A trial of a moment, and one of ten minutes.
LONG = """
name = "long"
repeats = 1
[[datasets]]
name = "clustered-16-2k"
queries = 20
[[stores]]
store = "memory"
[[experiments]]
experiment = "search"
duration_s = 0.1
[[experiments]]
experiment = "search"
clients = 2
duration_s = 600
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of runs, and a cache of its own."""
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("VECTRIAL_SERVE_TOKEN", raising=False)
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.fixture
def forms(root: Path) -> Forms:
    return Forms(root)


@pytest.fixture
def asleep(forms: Forms, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, ...]]]:
    """What is started sleeps, and is ended with the test."""
    with sleeping_runs(monkeypatch) as calls:
        yield calls
        end(forms)


# -- the form ----------------------------------------------------------------------------------


def test_what_there_is_to_choose(forms: Forms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECTRIAL_WEAVIATE_PROVIDER", "nonsense")
    (forms.root / "local.toml").write_text(SUITE)
    page = forms.client.get("/new").text
    for suite in ("local.toml", "suites/demo.toml"):
        assert f'<option value="{suite}">' in page
    assert 'name="store" value="memory"' in page
    assert 'name="store" value="weaviate"' not in page
    assert "is no provider" in page, "the reason why it does not work here"
    assert 'name="experiment" value="search"' in page
    assert "duration_s = null" in page
    assert '<option value="clustered-64-50k">' in page


def test_the_plan_is_that_of_a_suite_from_init(forms: Forms) -> None:
    form = {**TINY, "store": ["memory", "hnswlib"], "experiment": ["storage", "hybrid"]}
    page = forms.post(form).text
    words = "--dataset clustered-16-2k --rows 500 --repeats 1 --store memory --store hnswlib"
    asked = call("init", "-", *words.split(), "--experiment", "storage", "--experiment", "hybrid")
    suite = parse_suite(asked.out, "suite").model_copy(update={"name": "tiny"})
    summary = summarize(plan_of(suite, "suite"))
    assert len(summary.loads) == len(summary.skipped) == 2
    assert f"{summary.title}; {summary.estimate}." in page
    for load in summary.loads:
        assert f">{load.index}</td>" in page
    for what, reason in summary.skipped:
        assert f'<td class="txt">{what}</td><td class="txt">{reason}</td>' in page


@pytest.mark.parametrize(
    ("changed", "field", "message"),
    [
        ({"rows": "0"}, "rows", "Input should be greater than 0"),
        ({"rows": "many"}, "rows", "valid integer"),
        ({"rows": "99999"}, "rows", "has 2,000 rows"),
        ({"rows": "9" * 5000}, "rows", "integer"),
        ({"repeats": "0"}, "repeats", "greater than or equal to 1"),
        ({"name": "a\x07"}, "name", "no control characters"),
        ({"dataset": "clusterd-16-2k"}, "dataset", "there is no dataset named"),
        ({"dataset": ""}, "dataset", "needs a letter"),
        ({"store": []}, "store", "at least one store"),
        ({"index-memory": "hnsw"}, "store", "has no index 'hnsw'"),
        ({"store": ["weavate"]}, "store", "there is no store 'weavate'"),
        ({"experiment": []}, "experiment", "at least one experiment"),
        ({"experiment": ["serch"]}, "experiment", "did you mean 'search'"),
    ],
)
def test_a_fault_is_shown_at_its_field(
    forms: Forms, changed: dict[str, Any], field: str, message: str
) -> None:
    answer = forms.post({**TINY, **changed})
    assert answer.status_code == 422
    found = faults(answer.text)
    assert set(found) == {field}
    assert message in found[field]
    assert 'value="500"' in answer.text or "rows" in changed, "what was filled in stays"
    assert not hidden(answer.text, "seen"), "nothing can be started"


def test_what_no_store_can_do_is_not_started(forms: Forms, asleep: list[tuple[str, ...]]) -> None:
    form = {**TINY, "experiment": ["hybrid"], "start": "1"}
    page = forms.post(form).text
    assert "Every trial is skipped" in page
    assert not hidden(page, "seen")
    assert asleep == []


@pytest.mark.parametrize(
    "name",
    [
        "", "none.toml", "../outside.toml", "/etc/passwd", "suites/../README.md", "leads-out.toml",
        "suites/demo.toml\x00", "run/suite.toml",
    ],
)  # fmt: skip
def test_no_file_is_a_suite_but_those_of_the_list(
    forms: Forms, asleep: list[tuple[str, ...]], name: str
) -> None:
    outside = forms.root.parent / "outside.toml"
    outside.write_text(SUITE)
    (forms.root / "leads-out.toml").symlink_to(outside)
    (forms.root / "run").mkdir()
    (forms.root / "run" / "suite.toml").write_text(SUITE)
    answer = forms.post({"kind": "file", "suite": name, "start": "1", "seen": ""})
    assert answer.status_code == 422
    assert "there is no such suite file" in faults(answer.text)["suite"]
    assert asleep == []


@pytest.mark.parametrize(
    ("changed", "repeats", "field", "message"),
    [
        ('store = "memory"\nindx = "flat"', "", "suite", "unknown key 'stores[0].indx'"),
        ('store = "memry"', "", "suite", "memry"),
        ('store = "memory"', "0", "repeats", "greater than or equal to 1"),
    ],
)
def test_a_fault_of_a_suite_file(
    forms: Forms, changed: str, repeats: str, field: str, message: str
) -> None:
    (forms.root / "local.toml").write_text(SUITE.replace('store = "memory"', changed))
    answer = forms.post({"kind": "file", "suite": "local.toml", "repeats": repeats})
    assert answer.status_code == 422
    assert message in faults(answer.text)[field]


# -- the start ---------------------------------------------------------------------------------


def test_only_the_path_of_a_file_of_ours_is_on_the_command_line(
    forms: Forms, asleep: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VECTRIAL_SERVE_TOKEN", TOKEN)
    name = "--out /tmp; $(touch x)"
    answer = forms.start({**TINY, "name": name})
    assert (answer.status_code, answer.headers["location"]) == (303, "/started")
    ((module, command, path, out, folder),) = asleep
    assert (module, command, out, folder) == ("vectrial.cli.main", "run", "--out", str(forms.root))
    written = Path(path)
    assert written.parent == forms.root
    assert written.suffix == ".toml"
    assert "$" not in written.name
    suite = read_suite(written)
    assert (suite.name, suite.repeats, suite.datasets[0].rows) == (name, 1, 500)
    log = written.with_suffix(".log")
    for file in (written, log):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    started = Launcher(forms.runs).started()
    assert started is not None
    assert started.log == log
    process = psutil.Process(started.pid)
    # Between the old program and the new one it has no command line at all.
    until(lambda: "-c" in process.cmdline())
    assert "VECTRIAL_SERVE_TOKEN" not in process.environ()
    assert os.getsid(started.pid) == started.pid, "Ctrl-C in our terminal does not reach it"


def test_a_suite_file_is_started_as_it_is_written(
    forms: Forms, asleep: list[tuple[str, ...]]
) -> None:
    (forms.root / "local.toml").write_text(SUITE + "# a remark\n")
    forms.start({"kind": "file", "suite": "local.toml"})
    assert Path(asleep[0][2]).read_text() == SUITE + "# a remark\n"


def test_repeats_replace_those_of_a_suite_file(forms: Forms, asleep: list[tuple[str, ...]]) -> None:
    (forms.root / "local.toml").write_text(SUITE)
    forms.start({"kind": "file", "suite": "local.toml", "repeats": "7"})
    suite = read_suite(Path(asleep[0][2]))
    assert suite == parse_suite(SUITE, "local.toml").with_repeats(7, "")


def test_a_suite_that_changed_since_its_plan_is_shown_again(
    forms: Forms, asleep: list[tuple[str, ...]]
) -> None:
    (forms.root / "local.toml").write_text(SUITE)
    form = {"kind": "file", "suite": "local.toml"}
    seen = hidden(forms.post(form).text, "seen")
    (forms.root / "local.toml").write_text(SUITE.replace("storage", "ingest"))
    answer = forms.post({**form, "start": "1", "seen": seen})
    assert answer.status_code == 409
    assert "has changed" in answer.text
    assert hidden(answer.text, "seen") != seen
    assert asleep == []


def test_a_run_that_does_not_begin_says_why(forms: Forms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "vectrial_web.serve.launcher.python",
        lambda *_: (sys.executable, "-c", "import sys; sys.exit('no room <on> the disk')"),
    )
    assert forms.client.get("/started").headers["location"] == "/new", "nothing was started yet"
    forms.start(TINY)

    def ended() -> str:
        page = forms.client.get("/started").text
        return page if "has ended" in page else ""

    page = until(ended)
    assert "no room &lt;on&gt; the disk" in page
    assert "exit code 1" in page
    assert "refresh" not in forms.client.get("/started").headers
    assert forms.client.get("/new").status_code == 200, "another one may be started"
    assert "fieldset" in forms.client.get("/new").text


# -- one at a time -----------------------------------------------------------------------------


def test_a_second_run_is_refused(forms: Forms, asleep: list[tuple[str, ...]]) -> None:
    token = forms.token()
    forms.start(TINY)
    assert forms.client.get("/started").headers["refresh"]
    for answer in (
        forms.client.get("/new"),
        forms.client.post("/new", data={**TINY, "form": token}),
        Forms(forms.root).client.get("/new"),
    ):
        assert "One run at a time" in answer.text
        assert 'href="/started"' in answer.text
    other = forms.root.parent / "other"
    other.mkdir()
    elsewhere = Forms(other).client.get("/new").text
    assert f"under way in {forms.root}" in elsewhere
    assert len(asleep) == 1


def test_two_starts_at_once_are_one_run(forms: Forms, asleep: list[tuple[str, ...]]) -> None:
    """Both were shown the plan while nothing was under way."""
    sent = {**TINY, "form": forms.token()}
    start = {**sent, "start": "1", "seen": hidden(forms.post(TINY).text, "seen")}
    answers = [one.client.post("/new", data=start) for one in (forms, forms)]
    assert [one.status_code for one in answers] == [303, 409]
    assert len(asleep) == 1


def test_a_run_of_the_command_line_is_not_disturbed(
    forms: Forms, asleep: list[tuple[str, ...]]
) -> None:
    now = psutil.Process().create_time() + 1
    status = Status(pid=os.getpid(), began=now, updated=now, trials=9)
    with RunWriter(forms.root / "theirs"):
        write_status(forms.root / "theirs", status)
        page = forms.client.get("/new").text
        (run,) = forms.runs.listing()
        assert 'href="/new"' in forms.client.get("/").text
        assert "One run at a time" in page
        assert f'href="/runs/{run.id}"' in page
        assert 'action="/stop"' not in forms.client.get(f"/runs/{run.id}").text, "not ours to stop"


# -- stop --------------------------------------------------------------------------------------


def stop(forms: Forms, process: str, **more: Any) -> Any:
    token = forms.token("/started") or forms.token()
    return forms.client.post("/stop", data={"form": token, "process": process}, **more)


def test_stop_interrupts_the_process_that_was_started(
    forms: Forms, asleep: list[tuple[str, ...]]
) -> None:
    forms.start(TINY)
    started = Launcher(forms.runs).started()
    assert started is not None
    page = forms.client.get("/started").text
    assert hidden(page, "process") == started.name
    assert stop(forms, "1-0.0").status_code == 409
    assert Launcher(forms.runs).is_alive(started)
    process = psutil.Process(started.pid)
    assert stop(forms, started.name).status_code == 303
    until(lambda: not Launcher(forms.runs).is_alive(started))
    with pytest.raises(psutil.NoSuchProcess):
        until(lambda: forms.client.get("/new") and not process.status())
    assert stop(forms, started.name).status_code == 409, "it has ended"


def test_another_process_of_the_same_number_is_left_alone(forms: Forms) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        launcher = Launcher(forms.runs)
        created = psutil.Process(bystander.pid).create_time()
        then = StartedProcess(
            pid=bystander.pid, created=created - 60, root=forms.root, log=forms.root, says=""
        )
        note = forms.root.parent / "home" / "serve" / "started.json"
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(then.model_dump_json())
        assert launcher.started() == then
        assert not launcher.is_alive(then)
        assert stop(forms, then.name).status_code == 409
        with pytest.raises(subprocess.TimeoutExpired):
            bystander.wait(0.3)
        assert "fieldset" in forms.client.get("/new").text, "nor is it taken for a run under way"
    finally:
        bystander.kill()
        bystander.wait()


# -- who may -----------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["/new", "/stop", "/runs/x/continue"])
def test_a_form_of_another_site_does_nothing(
    forms: Forms, asleep: list[tuple[str, ...]], address: str
) -> None:
    token = forms.token()
    for sent, headers in (
        ({}, {}),
        ({"form": "wrong"}, {}),
        ({"form": token}, {"origin": "http://evil.example"}),
        ({"form": token}, {"origin": "null"}),
        ({"form": Forms(forms.root).token()}, {}),  # of an earlier process
    ):
        answer = forms.client.post(address, data={**TINY, **sent}, headers=headers)
        assert answer.status_code == 403, (sent, headers)
    rebound = forms.client.post(address, data={"form": token}, headers={"host": "evil.example"})
    assert rebound.status_code == 421
    assert asleep == []


def test_a_form_is_of_its_session(root: Path) -> None:
    forms = Forms(root, token=TOKEN)
    assert forms.client.get("/new").status_code == 401
    tokens = []
    for _ in range(2):
        forms.client.post("/login", data={"token": TOKEN, "next": "/new"})
        tokens.append(forms.token())
    assert tokens[0] != tokens[1]
    answers = [forms.client.post("/new", data={**TINY, "form": token}) for token in tokens]
    assert [one.status_code for one in answers] == [403, 200]
    forms.client.post("/logout")
    assert forms.client.post("/new", data={**TINY, "form": tokens[1]}).status_code == 401


@pytest.mark.parametrize(
    ("host", "access"),
    [
        ("10.0.0.7:8877", {"local": False, "token": TOKEN}),
        ("localhost:8877", {"local": False, "token": TOKEN}),
        ("bench.example", {"names": ("bench.example",)}),
    ],
)
def test_only_this_machine_starts_runs(
    root: Path, asleep: list[tuple[str, ...]], host: str, access: dict[str, Any]
) -> None:
    client = client_of(Runs(root), host, **access)
    client.headers["authorization"] = f"Bearer {TOKEN}"
    page = client.get("/new")
    assert page.status_code == 200
    assert "only by a browser on this machine" in page.text
    assert "<form" not in page.text
    for address in ("/new", "/stop", "/runs/x/continue"):
        assert client.post(address, data=TINY).status_code == 403
    assert asleep == []


def test_nothing_is_started_inside_a_run(root: Path) -> None:
    run = write_run(
        root / "run", stores={"faiss": (1.0, "hnsw", True)}, efs=(16,), builds=((16, 128),),
        only_sweep=True,
    )  # fmt: skip
    forms = Forms(run)
    assert "The folder served is one run" in forms.client.get("/new").text


def test_a_form_that_is_too_long_is_none(forms: Forms) -> None:
    token = forms.token()
    sent = {"form": token, "kind": "file", "suite": "x" * 100_000}
    assert forms.client.post("/new", data=sent).status_code == 403


# -- real runs ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_outlives_the_server_that_started_it(root: Path) -> None:
    command = [sys.executable, "-m", "vectrial.cli.main", "serve", str(root), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip().rstrip("/")

            def page(fields: dict[str, Any] | None = None) -> str:
                sent = None if fields is None else urllib.parse.urlencode(fields, doseq=True)
                body = None if sent is None else sent.encode()
                with urllib.request.urlopen(f"{address}/new", body, timeout=120) as answer:
                    return str(answer.read().decode())

            form = {**TINY, "form": hidden(page(), "form")}
            seen = hidden(page(form), "seen")
            page({**form, "start": "1", "seen": seen})
            forms = Forms(root)
            launcher = Launcher(forms.runs)
            started = launcher.started()
            assert started is not None
            # It would end by itself while a busy machine takes its time to end the server.
            os.kill(started.pid, signal.SIGSTOP)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(120)
    assert launcher.is_alive(started)
    os.kill(started.pid, signal.SIGCONT)
    run_page = forms.run_page()
    until(lambda: not launcher.is_alive(started), 300)
    (run,) = forms.runs.listing()
    assert run_page == f"/runs/{run.id}"
    with RunReader(run.folder) as reader:
        assert reader.rows("select status from trial") == [{"status": "ok"}]
        assert reader.run()["finished_at"]
    assert stat.S_IMODE(run.folder.stat().st_mode) == 0o700
    assert "memory storage" in started.log.read_text()
    page = forms.client.get(run_page).text
    assert "All trials" in page
    assert "Continue" not in page


@pytest.mark.parametrize(
    ("command", "finished", "status", "says"),
    [
        ("vectrial run x.toml --on ray", False, 400, "measured on a cluster"),
        ("vectrial run x.toml", True, 409, "was not interrupted"),
    ],
)
def test_what_is_not_continued(
    forms: Forms,
    asleep: list[tuple[str, ...]],
    command: str,
    finished: bool,
    status: int,
    says: str,
) -> None:
    with RunWriter(forms.root / "run") as writer:
        writer.begin(suite_name="local", command=command, version="0", environment={})
        if finished:
            writer.finish()
    (forms.root / "run" / "suite.toml").write_text(SUITE)
    (run,) = forms.runs.listing()
    for answer in (
        forms.client.get(f"/runs/{run.id}/continue"),
        forms.client.post(f"/runs/{run.id}/continue", data={"form": forms.token()}),
    ):
        assert answer.status_code == status
        assert says in answer.text
    assert asleep == []


@pytest.mark.slow
def test_a_run_is_stopped_and_continued(forms: Forms) -> None:
    (forms.root / "long.toml").write_text(LONG)
    try:
        forms.start({"kind": "file", "suite": "long.toml"})
        run_page = forms.run_page()

        def measured_one() -> Status | None:
            (run,) = forms.runs.listing()
            return run.status if run.status and run.status.done == 1 else None

        status = until(measured_one, 300)
        assert status is not None
        page = forms.client.get(run_page).text
        process = hidden(page, "process")
        assert process.startswith(f"{status.pid}-")
        sent = {"form": hidden(page, "form"), "process": process}
        assert forms.client.post("/stop", data=sent).status_code == 303
        until(lambda: "fieldset" in forms.client.get("/new").text)
        link = f'href="{run_page}/continue"'
        until(lambda: link in forms.client.get(run_page).text)  # its database is read meanwhile
        left = forms.client.get(f"{run_page}/continue").text
        assert "1 trial measured before" in left
        assert "long: 1 trial in 1 job" in left
        sent = {"form": hidden(left, "form")}
        again = forms.client.post(f"{run_page}/continue", data=sent)
        assert (again.status_code, again.headers["location"]) == (303, "/started")
        assert forms.run_page() == run_page
        refused = forms.client.post(f"{run_page}/continue", data=sent)
        assert refused.status_code == 409
    finally:
        end(forms)
    (run,) = forms.runs.listing()
    assert run.folder.with_name(f"{run.folder.name}.log").is_file()
