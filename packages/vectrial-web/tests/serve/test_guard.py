"""Who is shown what: hosts, the token, headers, addresses that try to leave the folder."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
from served_pages import TOKEN, Client, client_of
from starlette.requests import Request
from starlette.testclient import TestClient
from synthetic_runs import SCRIPT, write_run

from vectrial.document.blocks import Report
from vectrial.document.render import html
from vectrial.model.errors import UserError
from vectrial.results.reader import RunReader
from vectrial_web.commands.serve import listen, token_of
from vectrial_web.serve import live
from vectrial_web.serve.app import make_app
from vectrial_web.serve.auth import (
    COOKIE,
    HEADERS,
    Access,
    form_fields,
    is_loopback,
    safe_path,
)
from vectrial_web.serve.runs import ListedRun, Runs

HTML = {"accept": "text/html"}


def first(runs: Runs) -> str:
    (run,) = (run for run in runs.listing() if run.name == "first")
    return f"/runs/{run.id}"


@pytest.mark.slow
def test_every_answer_has_a_policy(client: Client, runs: Runs) -> None:
    asked = client()
    run = first(runs)
    addresses = (
        "/", "/icon.svg", "/nothing", run, f"{run}/trials", f"{run}/trials/1",
        f"{run}/trials/99999", f"{run}/data/suite.toml", f"{run}/data/nothing",
        f"{run}/logs/nothing", "/login",
        f"{run}/table/glance.csv", f"{run}/figure/nothing.svg",
    )  # fmt: skip
    for address in addresses:
        answer = asked.get(address)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'"), address
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        for name in HEADERS:
            assert name in answer.headers, (address, name)
    refused = client(host="evil.example").get("/")
    assert "default-src 'none'" in refused.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("host", "local", "served"),
    [
        ("localhost:8877", True, True),
        ("127.0.0.1:8877", True, True),
        ("127.0.0.2", True, True),
        ("[::1]:8877", True, True),
        ("LOCALHOST", True, True),
        ("evil.example:8877", True, False),
        ("localhost.evil.example", True, False),
        ("127.0.0.1.evil.example", True, False),
        ("10.0.0.7:8877", True, False),
        ("10.0.0.7:8877", False, True),
        ("evil.example", False, False),
        ("ours.example:8877", False, True),
        ("", True, False),
        ("[evil", False, False),
    ],
)
def test_a_foreign_name_that_leads_here_is_refused(host: str, local: bool, served: bool) -> None:
    assert Access(local, ("Ours.example",)).is_own_host(host) is served


def test_host_of_a_request(client: Client) -> None:
    assert client().get("/", headers={"host": "rebound.example"}).status_code == 421
    assert client().get("/").status_code == 200


def test_nothing_without_the_token(client: Client, runs: Runs) -> None:
    asked = client(token=TOKEN)
    run = first(runs)
    for address in ("/", run, f"{run}/data/measurements.csv", "/events", "/nothing"):
        assert asked.get(address).status_code == 401, address
        sent = asked.get(address, headers=HTML)
        assert sent.status_code == 303
        assert sent.headers["location"].startswith("/login?next=%2F")
    for wrong in ("Bearer wrong", "Bearer", f"Basic {TOKEN}", "Bearer \xe9".encode("latin-1")):
        assert asked.get("/", headers={"authorization": wrong}).status_code == 401
    assert asked.get("/", headers={"cookie": f"{COOKIE}={TOKEN}"}).status_code == 401
    assert asked.get(f"/?token={TOKEN}").status_code == 401, "an address is kept in histories"
    assert asked.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_a_session_begins_with_the_token_and_ends(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    asked = client(token=TOKEN)
    assert "password" in asked.get("/login?next=%2Fruns%2Fx").text
    refused = asked.post("/login", data={"token": "wrong", "next": "/"})
    assert refused.status_code == 403
    assert "not the token" in refused.text
    assert COOKIE not in refused.cookies
    entered = asked.post("/login", data={"token": TOKEN, "next": "/runs/x?y=1"})
    assert entered.status_code == 303
    assert entered.headers["location"] == "/runs/x?y=1"
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in cookie
    assert asked.get("/").status_code == 200
    assert asked.post("/logout", headers={"origin": "http://evil.example"}).status_code == 403
    assert asked.get("/").status_code == 200
    kept = asked.cookies[COOKIE]
    asked.post("/logout")
    assert asked.get("/", headers={"cookie": f"{COOKIE}={kept}"}).status_code == 401
    assert TOKEN not in caplog.text


def test_guessing_is_slowed(client: Client) -> None:
    asked = client(token=TOKEN)
    for _ in range(10):
        assert asked.post("/login", data={"token": "wrong"}).status_code == 403
    assert asked.post("/login", data={"token": TOKEN}).status_code == 429


def test_login_is_sent_by_our_own_page(client: Client) -> None:
    sent = {"token": TOKEN, "next": "/"}
    for strange in ("http://evil.example", "null"):
        answer = client(token=TOKEN).post("/login", data=sent, headers={"origin": strange})
        assert answer.status_code == 403
    own = {"origin": "http://localhost:8877"}
    assert client(token=TOKEN).post("/login", data=sent, headers=own).status_code == 303


def test_a_browser_says_that_our_own_forms_are_ours(client: Client) -> None:
    """Under no-referrer it sends "Origin: null" with them; see also the test in a browser."""
    page = client(token=TOKEN).get("/login")
    assert page.headers["referrer-policy"] == "same-origin"
    assert 'name="referrer"' not in page.text, "it would stand above the header"
    alone = html.render(Report("A file", "", (), (), (), ()))
    assert '<meta name="referrer" content="no-referrer">' in alone


@pytest.mark.parametrize(
    "asked", ["//evil.example", "https://evil.example", "/\\evil", "x", "/\r\nx"]
)
def test_login_leads_to_no_other_site(asked: str) -> None:
    assert safe_path(asked) == "/"


@pytest.mark.parametrize(
    "path",
    [
        "/runs/%2e%2e", "/runs/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/runs/first", "/runs//etc",
        "{run}/logs/..%2fsuite.toml", "{run}/logs/%2e%2e%2frun.duckdb", "{run}/logs/suite.toml",
        "{run}/data/run.duckdb", "{run}/data/..%2frun.duckdb", "{run}/data/%2fetc%2fpasswd",
        "{run}/logs/leads-out.log", "{run}/table/..%2f..%2fx.csv", "{run}/figure/..%2fx.svg",
        "{run}/table/glance.exe",
    ],
)  # fmt: skip
def test_no_address_leads_out_of_the_folder(client: Client, runs: Runs, path: str) -> None:
    logs = runs.root / "first" / "logs"
    logs.mkdir(exist_ok=True)
    leads_out = logs / "leads-out.log"
    if not leads_out.is_symlink():
        leads_out.symlink_to("/etc/hostname")
    assert client().get(path.format(run=first(runs))).status_code == 404


def test_a_linked_folder_outside_is_not_listed(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "run.duckdb").write_bytes(b"")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "way-out").symlink_to(tmp_path / "outside", target_is_directory=True)
    assert Runs(tmp_path / "root").listing() == []
    assert [run.name for run in runs.listing()].count("first") == 1, "latest is the same run"


def test_a_linked_file_outside_is_not_shown(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("a word of another file")
    folder = write_run(
        tmp_path / "runs" / "sent", stores={"faiss": (1.0, "hnsw", True)}, efs=(16,),
        builds=((16, 128),), only_sweep=True,
    )  # fmt: skip
    for name in ("suite.toml", "environment.json"):
        (folder / name).symlink_to(outside)
    (folder / "logs").mkdir()
    (folder / "logs" / "x.log").symlink_to(outside)
    (tmp_path / "runs" / "way-out").mkdir()
    (tmp_path / "runs" / "way-out" / "run.duckdb").symlink_to(folder / "run.duckdb")
    runs = Runs(tmp_path / "runs" / "sent")
    runs.read_all()
    (run,) = runs.listing()
    asked = client_of(runs)
    for place in ("data/suite.toml", "data/environment.json", "logs/x.log"):
        assert asked.get(f"/runs/{run.id}/{place}").status_code == 404, place
    assert "a word of another file" not in asked.get(f"/runs/{run.id}").text
    with RunReader(folder) as reader:
        assert reader.suite() == ""
    assert Runs(tmp_path / "runs" / "way-out").listing() == []


def test_what_cannot_be_looked_at_is_passed_by(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    (root / "run").mkdir(parents=True)
    (root / "run" / "run.duckdb").write_bytes(b"")
    (root / "loop").symlink_to("loop")
    (root / "closed").mkdir(mode=0)
    (root / "half").mkdir()
    (root / "half" / "run.duckdb").symlink_to("run.duckdb")
    runs = Runs(root)
    try:
        runs.read_all()
        assert [run.name for run in runs.listing()] == ["run"]
        assert client_of(runs).get("/").status_code == 200
    finally:
        (root / "closed").chmod(0o700)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
def test_a_run_that_was_closed_since_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "run"
    folder.mkdir(parents=True)
    (folder / "run.duckdb").write_bytes(b"")
    runs = Runs(tmp_path / "runs")
    (run,) = runs.listing()
    folder.chmod(0)
    try:
        assert runs.listing() == []
        assert runs.get(run.id) is None
    finally:
        folder.chmod(0o700)


@pytest.mark.parametrize("by", ["session", "leaving"])
def test_news_end_with_the_session(runs: Runs, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    monkeypatch.setattr(live, "_ALL_S", 0.25)
    access, ending = Access(token=TOKEN), threading.Event()
    session = access.begin()
    asked = TestClient(make_app(runs, access, ending), base_url="http://localhost")
    ends = access.end if by == "session" else lambda _: ending.set()
    version_of = live.version_of

    def version(listing: Iterable[ListedRun]) -> str:
        ends(session)  # while the page is told its first news
        return version_of(listing)

    monkeypatch.setattr(live, "version_of", version)
    fallback = threading.Timer(20, ending.set)
    fallback.start()
    try:
        answer = asked.get("/events", headers={"cookie": f"{COOKIE}={session}"})
    finally:
        fallback.cancel()
    assert answer.status_code == 200
    assert answer.text.startswith("retry:")
    assert ending.is_set() is (by == "leaving"), "it went on without the session"


def test_a_page_too_many_is_told_so(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """And asks again: a refusal it would take for good."""
    monkeypatch.setattr(live, "_MOST", 0)
    answer = client().get("/events")
    assert answer.status_code == 200
    assert "event: full" in answer.text
    assert "retry: 30000" in answer.text


@pytest.mark.slow
def test_what_stores_say_is_text(client: Client, runs: Runs) -> None:
    asked = client()
    run = first(runs)
    for address in ("/", run, f"{run}/trials", f"/?q={SCRIPT}", f"{run}/trials?store={SCRIPT}"):
        page = asked.get(address).text
        assert SCRIPT not in page, address
        assert "&lt;script&gt;alert" in page, address
    assert "<script>" not in asked.get(f"{run}/<script>").text.replace('<script>"use', "")


def test_other_methods_do_nothing(client: Client, runs: Runs) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert client().request(method, first(runs)).status_code == 405


@pytest.mark.parametrize(
    ("host", "ours"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("10.1.2.3", False), ("somewhere", False)],
)  # fmt: skip
def test_what_is_this_machine_alone(host: str, ours: bool) -> None:
    assert is_loopback(host) is ours


def test_token_from_file_or_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VECTRIAL_SERVE_TOKEN", raising=False)
    assert token_of(None) is None
    monkeypatch.setenv("VECTRIAL_SERVE_TOKEN", TOKEN)
    assert token_of(None) == TOKEN
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}-of-a-file\n")
    assert token_of(file) == f"{TOKEN}-of-a-file"
    file.write_text("short")
    with pytest.raises(UserError, match="could be guessed"):
        token_of(file)
    for short in ("short", "\t."):
        monkeypatch.setenv("VECTRIAL_SERVE_TOKEN", short)
        with pytest.raises(UserError, match="could be guessed"):
            token_of(None)
    monkeypatch.setenv("VECTRIAL_SERVE_TOKEN", " ")
    assert token_of(None) is None, "as if it were not there"
    with pytest.raises(UserError, match="cannot be read"):
        token_of(tmp_path / "none")


def test_a_taken_port_is_said() -> None:
    with listen("127.0.0.1", 0) as taken:
        with pytest.raises(UserError, match=r"port \d+ is taken") as told:
            listen("127.0.0.1", taken.getsockname()[1])
        assert told.value.exit_code == 2
    with pytest.raises(UserError, match="cannot be listened on"):
        listen("192.0.2.1", 0)


def test_a_form_that_does_not_come_whole_is_none() -> None:
    async def gone() -> dict[str, str]:
        return {"type": "http.disconnect"}

    request = Request({"type": "http", "method": "POST", "headers": []}, gone)
    assert asyncio.run(form_fields(request)) == {}
