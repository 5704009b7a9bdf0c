"""Which server a store gets, and where its program comes from."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_server
from silent_ports import silent_ports
from tiny_server import LITTLE

from vectrial.model.errors import StoreError, Unsupported, UserError
from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers import base
from vectrial.servers.base import External, NoProgram, ServerError
from vectrial.servers.local import Local
from vectrial.servers.programs import base as programs
from vectrial.servers.programs.base import GoProgram
from vectrial.servers.provide import (
    check_environment,
    external_address,
    make_server,
    recipe_of,
    server_address,
)
from vectrial.stores import registry
from vectrial.stores.__main__ import main as prepare_all
from vectrial.stores.__main__ import recipes
from vectrial.stores.memory import MemoryStore
from vectrial.stores.postgres.server import POSTGRES
from vectrial.stores.postgres.store import PgVector
from vectrial.stores.weaviate.server import WEAVIATE
from vectrial.stores.weaviate.store import Weaviate
from vectrial.testing.server_programs import MUST_RUN, program


def test_a_store_names_its_server() -> None:
    assert recipe_of(MemoryStore) is None
    assert recipe_of(Weaviate) is WEAVIATE

    class Wrong(MemoryStore):
        server = "vectrial.stores.weaviate.server:NOBODY"

    with pytest.raises(StoreError, match="NOBODY"):
        recipe_of(Wrong)
    Wrong.server = "vectrial.stores.weaviate.server:MAXIMUM_RESULTS"
    with pytest.raises(StoreError, match="not a"):
        recipe_of(Wrong)


def test_a_store_without_a_server_gets_no_address(tmp_path: Path) -> None:
    with server_address(MemoryStore, tmp_path) as address:
        assert address is None


def test_an_address_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(make_server(WEAVIATE, tmp_path), Local)
    monkeypatch.setenv("VECTRIAL_WEAVIATE_ADDRESS", "db.example:http=8080,grpc=50051")
    server = make_server(WEAVIATE, tmp_path)
    assert isinstance(server, External)
    assert server.address.host == "db.example"
    assert server.address.ports == {"http": 8080, "grpc": 50051}
    assert server.processes() == {}
    assert server.data_dirs() == ()
    server.start()
    server.stop()
    for ours_only in (server.kill, server.restart):
        with pytest.raises(Unsupported, match="not ours"):
            ours_only()


@pytest.mark.parametrize(
    "text", ["db.example", "http=1,grpc=2", "db:http=1", "db:http=1,grpc=x", "db:http=1,grpc=2,a=3"]
)
def test_an_address_that_makes_no_sense(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECTRIAL_WEAVIATE_ADDRESS", text)
    with pytest.raises(UserError, match=r"VECTRIAL_WEAVIATE_ADDRESS.*HOST:http=PORT,grpc=PORT"):
        external_address(WEAVIATE)


def test_one_port_needs_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `--address` says it, in the environment too."""
    for text in ("db.example:5432", "db.example:postgres=5432"):
        monkeypatch.setenv("VECTRIAL_POSTGRES_ADDRESS", text)
        assert external_address(POSTGRES) == Address("db.example", {"postgres": 5432})


def test_a_collection_is_in_a_server_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite of `--existing`, run again without the variable, was once skipped in silence."""
    monkeypatch.delenv("VECTRIAL_POSTGRES_ADDRESS", raising=False)
    with pytest.raises(UserError, match="set VECTRIAL_POSTGRES_ADDRESS to HOST:PORT"):
        check_environment(PgVector, existing=True)
    monkeypatch.setenv("VECTRIAL_POSTGRES_ADDRESS", "db.example:5432")
    check_environment(PgVector, existing=True)


def test_tls_and_ports_at_other_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "my.weaviate.cloud:http=443,grpc=grpc-my.weaviate.cloud:8443"
    monkeypatch.setenv("VECTRIAL_WEAVIATE_ADDRESS", text)
    monkeypatch.setenv("VECTRIAL_WEAVIATE_TLS", "on")
    address = external_address(WEAVIATE)
    assert address is not None
    assert (address.tls, address.ca) == (True, None)
    assert address.url("http") == "https://my.weaviate.cloud:443"
    assert address.url("grpc") == "https://grpc-my.weaviate.cloud:8443"
    monkeypatch.setenv("VECTRIAL_WEAVIATE_TLS", str(tmp_path / "ca.pem"))
    with pytest.raises(UserError, match=r"VECTRIAL_WEAVIATE_TLS.*is no file"):
        external_address(WEAVIATE)
    (tmp_path / "ca.pem").write_text("")
    address = external_address(WEAVIATE)
    assert address is not None
    assert (address.tls, address.ca) == (True, tmp_path / "ca.pem")
    monkeypatch.setenv("VECTRIAL_WEAVIATE_TLS", "off")
    address = external_address(WEAVIATE)
    assert address is not None
    assert not address.tls


def test_a_server_whose_clients_know_no_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECTRIAL_WEAVIATE_ADDRESS", "here:http=1,grpc=2")
    monkeypatch.setenv("VECTRIAL_WEAVIATE_TLS", "on")
    with pytest.raises(UserError, match=r"VECTRIAL_WEAVIATE_TLS.*not reached under TLS"):
        external_address(replace(WEAVIATE, tls=False))


def test_secrets_come_from_the_environment_or_a_file_and_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VECTRIAL_WEAVIATE_ADDRESS", "db:http=1,grpc=2")
    monkeypatch.setenv("VECTRIAL_WEAVIATE_API_KEY", "hush-hush")
    address = external_address(WEAVIATE)
    assert address is not None
    assert address.secrets == {"api_key": "hush-hush"}
    assert "hush" not in repr(address)
    monkeypatch.delenv("VECTRIAL_WEAVIATE_API_KEY")
    (tmp_path / "key").write_text("from a file\n")
    monkeypatch.setenv("VECTRIAL_WEAVIATE_API_KEY_FILE", str(tmp_path / "key"))
    address = external_address(WEAVIATE)
    assert address is not None
    assert address.secrets == {"api_key": "from a file"}
    monkeypatch.setenv("VECTRIAL_WEAVIATE_API_KEY_FILE", str(tmp_path / "absent"))
    with pytest.raises(UserError, match="API_KEY_FILE"):
        external_address(WEAVIATE)


def test_an_external_server_that_is_not_there_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with silent_ports(2) as (http, grpc):
        monkeypatch.setenv("VECTRIAL_WEAVIATE_ADDRESS", f"127.0.0.1:http={http},grpc={grpc}")
        server = make_server(WEAVIATE, tmp_path)
        with pytest.raises(ServerError, match=rf"weaviate at 127.0.0.1 \(http {http}"):
            server.wait_ready(0.2)


def test_an_external_server_is_used_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_server.recipe()
    with Local(recipe, tmp_path / "theirs") as theirs:
        port = theirs.address.ports["http"]
        monkeypatch.setenv("VECTRIAL_LITTLE_ADDRESS", f"127.0.0.1:http={port}")
        with make_server(recipe, tmp_path / "ours") as server:
            assert tiny_server.starts(server.address) == 1
        assert theirs.is_alive()
    assert not (tmp_path / "ours").exists()


# -- programs --------------------------------------------------------------------------------

PROGRAM = GoProgram("example.org/thing", "cmd/thing-server", "v1.2.3", "h1:right")

#: Stands for Go's own command: says the sum of the module, and "builds" a script.
GO = """#!/bin/sh
echo "$@" >> {log}
case "$1" in
  mod) echo '{told}' ;;
  install) [ -z "{fails}" ] || {{ echo "no such package"; exit 1; }}
     mkdir -p "$GOBIN"; echo "#!/bin/sh" > "$GOBIN/thing-server"; chmod +x "$GOBIN/thing-server" ;;
esac
"""


def fake_go(folder: Path, *, found: str = "h1:right", fails: str = "") -> Path:
    """A `go` on a PATH of its own; returns the file that it notes its calls in."""
    bin_, log = folder / "bin", folder / "calls"
    bin_.mkdir(exist_ok=True)
    log.write_text("")
    text = GO.format(log=log, told=json.dumps({"Sum": found}), fails=fails)
    (bin_ / "go").write_text(text)
    (bin_ / "go").chmod(0o755)
    return log


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    return tmp_path


def test_a_program_is_built_once(path: Path) -> None:
    log, told = fake_go(path), list[str]()
    assert PROGRAM.availability().works is None
    binary = PROGRAM.fetch(told.append)
    assert binary == path / "home" / "servers" / "thing-server-v1.2.3" / "thing-server"
    assert PROGRAM.fetch(told.append) == binary
    assert log.read_text().splitlines() == [
        "mod download -json example.org/thing@v1.2.3",
        "install example.org/thing/cmd/thing-server@v1.2.3",
    ]
    assert PROGRAM.availability().works is True
    assert any("minutes" in line for line in told)


def test_a_module_that_is_not_the_pinned_one_is_refused(path: Path) -> None:
    log = fake_go(path, found="h1:wrong")
    with pytest.raises(NoProgram, match="h1:wrong instead of h1:right"):
        PROGRAM.fetch(print)
    assert "install" not in log.read_text()


def test_a_program_that_was_changed_is_refused(path: Path) -> None:
    fake_go(path)
    binary = PROGRAM.fetch(print)
    binary.write_text("#!/bin/sh\necho surprise\n")
    with pytest.raises(NoProgram, match=r"checksum differs .*remove"):
        PROGRAM.fetch(print)


def test_a_killed_process_keeps_others_out_until_its_build_has_ended(path: Path) -> None:
    """Else what it left would write into the folder that the next one builds in."""
    fake_go(path)
    begun, may_end = path / "begun", path / "may-end"
    slow = (
        (path / "bin" / "go")
        .read_text()
        .replace(
            "install) ",
            f"install) touch {begun}; n=0; while [ ! -e {may_end} ] && [ $n -lt 1200 ]; do"
            " sleep 0.05; n=$((n+1)); done; ",
        )
    )
    (path / "bin" / "go").write_text(slow)
    script = (
        "from vectrial.servers.programs.base import GoProgram\n"
        f"GoProgram{(PROGRAM.module, PROGRAM.package, PROGRAM.version, PROGRAM.sum)}.fetch(print)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script]) as killed:
        while not begun.exists():
            assert killed.poll() is None
            time.sleep(0.01)
        killed.kill()
    lines: list[str] = []

    def hear(line: str) -> None:
        lines.append(line)
        may_end.touch()

    PROGRAM.fetch(hear)
    assert "another process is making it" in lines[0]


def test_a_build_that_fails_shows_its_log_and_leaves_nothing(path: Path) -> None:
    fake_go(path, fails="yes")
    with pytest.raises(NoProgram, match="no such package"):
        PROGRAM.fetch(print)
    assert not list((path / "home" / "servers").glob("thing-server-*/"))
    fake_go(path)
    assert PROGRAM.fetch(print).exists()


def test_without_go_the_remedy_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(path / "nothing"))
    with pytest.raises(NoProgram, match="install Go"):
        PROGRAM.fetch(print)
    assert PROGRAM.availability().works is False


def test_a_program_that_the_user_gives(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECTRIAL_THING_BIN", "/bin/sh")
    assert programs.program_override("VECTRIAL_THING_BIN") == Path("/bin/sh").resolve()
    monkeypatch.setenv("VECTRIAL_THING_BIN", str(path / "absent"))
    with pytest.raises(UserError, match="VECTRIAL_THING_BIN"):
        programs.program_override("VECTRIAL_THING_BIN")
    monkeypatch.delenv("VECTRIAL_THING_BIN")
    assert programs.program_override("VECTRIAL_THING_BIN") is None


def test_tests_of_a_server_that_must_run_fail_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(progress: LineProgress) -> Path:
        raise NoProgram("not here")

    recipe = replace(tiny_server.recipe(), program=absent)
    monkeypatch.setenv(MUST_RUN, "other,little")
    with pytest.raises(pytest.fail.Exception, match="little, which cannot be had: not here"):
        program(recipe)
    monkeypatch.setenv(MUST_RUN, "other")
    with pytest.raises(pytest.skip.Exception, match="little: not here"):
        program(recipe)


# -- all of them, before they are needed ---------------------------------------------------------


def test_every_server_that_a_store_names_is_known_by_name() -> None:
    known = recipes()
    for name in registry.names():
        recipe = recipe_of(registry.load(name))
        assert recipe is None or known[recipe.name] is recipe


def test_named_programs_are_made_or_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path))
    program = tmp_path / "anything"
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("VECTRIAL_WEAVIATE_BIN", str(program))
    assert prepare_all(["weaviate"]) == 0
    assert "weaviate: here, by provider 'local'" in capsys.readouterr().err
    assert prepare_all(["weaviat"]) == 2
    assert "did you mean 'weaviate'?" in capsys.readouterr().err
    monkeypatch.delenv("VECTRIAL_WEAVIATE_BIN")
    assert prepare_all(["weaviate"]) == 1
    assert "there is no Go here" in capsys.readouterr().err


def test_every_node_of_a_cluster_elsewhere_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the two does not."""
    with Local(LITTLE, tmp_path) as one, silent_ports(1) as (silent,):
        first, second = one.address, Address("127.0.0.1", {"http": silent})
        server = External(LITTLE, replace(first, nodes=(first, second)))
        with monkeypatch.context() as patch:
            patch.setattr(base, "_EXTERNAL_S", 0.5)
            with pytest.raises(ServerError, match=rf"little at 127.0.0.1 \(http {silent}\)"):
                server.wait_ready()
        External(LITTLE, replace(first, nodes=(first, first))).wait_ready()
