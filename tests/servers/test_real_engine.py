"""The provider `docker` with a real engine: Debian's, in a network of its own, with an image made
from the program that a package brings under the tag of the official one."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import containers_for_real
import pytest
from real_engine import libraries, real_engine

from vectrial.servers.namespaces import Network
from vectrial.stores.weaviate.server import IMAGE, WEAVIATE
from vectrial.testing.server_programs import program

pytestmark = [pytest.mark.server("weaviate"), pytest.mark.slow]


@pytest.fixture(scope="module")
def engine() -> Iterator[tuple[Network, dict[str, str]]]:
    """A running engine: the network it is in, and the environment that leads to it."""
    with real_engine() as (network, env):
        yield network, env


def packed(weaviate: Path, into: Path) -> Path:
    """The program and the libraries it needs as the files of an image."""
    archive = into / "image.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(weaviate, "bin/weaviate")
        for library in libraries(weaviate):
            tar.add(library.resolve(), str(library).lstrip("/"))
        for folder in ("tmp", "var/lib/weaviate", "etc"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(entry)
    return archive


def test_servers_and_clusters_in_containers(
    engine: tuple[Network, dict[str, str]], tmp_path: Path
) -> None:
    network, env = engine
    archive = packed(program(WEAVIATE), tmp_path)
    entry = 'ENTRYPOINT ["/bin/weaviate"]'
    imported = ("docker", "import", "--change", entry, str(archive), IMAGE.reference)
    subprocess.run(imported, env=env, check=True, capture_output=True)
    argv = (sys.executable, containers_for_real.__file__, str(tmp_path))
    done = subprocess.run(
        network.enter(argv), pass_fds=network.files, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)

    one = seen["alone"]
    assert one["facts"]["provider"] == "docker"
    assert one["facts"]["program"] == IMAGE.reference
    assert one["limits"] == f"{containers_for_real.LIMIT_BYTES} {10**9}"
    assert [status for _, status in one["nodes"]] == ["HEALTHY"]
    assert "127.0.0.1:" in one["published"]
    assert "0.0.0.0" not in one["published"], "nobody else reaches it"
    assert one["processes"] == ["server"]

    two = seen["together"]
    both = [["node-1", "HEALTHY"], ["node-2", "HEALTHY"]]
    assert [sorted(nodes) for nodes in two["nodes"]] == [both, both]
    assert two["facts"]["nodes"] == 2
    assert two["processes"] == ["node-1", "node-2"]
    assert any(name.startswith("vectrial-net-") for name in two["networks"])
    for fault in ("kill", "pause", "cut"):
        assert two[fault] == [True, 2], "it lives without the node, and the node comes back"

    assert seen["left"]["containers"] == ""
    assert not any(name.startswith("vectrial-") for name in seen["left"]["networks"])
