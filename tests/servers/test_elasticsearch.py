"""How Elasticsearch's server is chosen and configured; what it does is in `test_lucene`."""

from __future__ import annotations

from pathlib import Path

import pytest

from vectrial.model.errors import UserError
from vectrial.stores.lucene.server import ELASTICSEARCH, VERSIONS, chosen_program, heap

PORTS = {"http": 1, "transport": 2}


def distribution(folder: Path) -> Path:
    """What is looked at of a distribution, with a Java of its own."""
    for needed in ("bin", "config", "jdk"):
        (folder / needed).mkdir(parents=True)
    options = "-XX:+UseG1GC\n-Xlog:gc*:file=gc.log\n-XX:HeapDumpPath=data\n"
    (folder / "config" / "jvm.options").write_text(options)
    return folder / "bin" / "elasticsearch"


def test_the_version_is_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VECTRIAL_ELASTICSEARCH_VERSION", raising=False)
    assert chosen_program().version == next(iter(VERSIONS))
    monkeypatch.setenv("VECTRIAL_ELASTICSEARCH_VERSION", "9.2.4")
    assert chosen_program().version == "9.2.4"
    monkeypatch.setenv("VECTRIAL_ELASTICSEARCH_VERSION", "1.0")
    with pytest.raises(UserError, match=r"VECTRIAL_ELASTICSEARCH_VERSION.*8\.19\.21, 9\.2\.4"):
        chosen_program()


def test_each_server_has_a_configuration_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VECTRIAL_ELASTICSEARCH_HEAP", "300m")
    program = distribution(tmp_path / "thing")
    folder = tmp_path / "data"
    folder.mkdir()
    command = ELASTICSEARCH.command(program, folder, PORTS, {})
    assert command.argv == (str(program),)
    assert command.env["ES_JAVA_OPTS"] == "-Xms300m -Xmx300m"
    config = Path(command.env["ES_PATH_CONF"])
    assert config.is_relative_to(folder)
    assert (config / "jvm.options").read_text() == "-XX:+UseG1GC\n"
    lines = (config / "elasticsearch.yml").read_text().splitlines()
    assert 'network.host: "127.0.0.1"' in lines
    assert 'http.port: "1"' in lines
    assert f'path.data: "{folder}/data"' in lines


def test_a_heap_is_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_HEAP", raising=False)
    assert heap("MY_HEAP") == "1g"
    monkeypatch.setenv("MY_HEAP", "1g -XX:OnError=reboot")
    with pytest.raises(UserError, match="MY_HEAP"):
        heap("MY_HEAP")
