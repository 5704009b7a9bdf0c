"""What decides whether machines of a cluster may measure one run, and data on their way to them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vectrial.datasets import library
from vectrial.model.dataset import Provenance
from vectrial.model.errors import DataError, UserError
from vectrial.model.metric import Metric
from vectrial.telemetry.environment import environment_facts
from vectrial_ray import transfer
from vectrial_ray.cluster import Joined, address_of, check_versions, of_one_kind
from vectrial_ray.executor import groups
from vectrial_ray.machine import MachineFacts, MachineKind, kind_of, own_folder

SMALL, BIG = MachineKind("epyc", 8, 32), MachineKind("epyc", 64, 256)


def machine(number: int, kind: MachineKind, vectrial: str = "1") -> Joined:
    about = MachineFacts(kind, {"vectrial": vectrial}, {})
    return Joined(f"machine-{number}", f"10.0.0.{number}", None, about)


def test_a_run_uses_machines_of_one_kind() -> None:
    machines = [machine(1, BIG), machine(2, SMALL), machine(3, SMALL)]
    assert of_one_kind(machines) == tuple(machines[1:])
    assert of_one_kind(machines, BIG) == (machines[0],)
    with pytest.raises(UserError, match="64 × epyc, 256 GiB; the cluster has 8 × epyc, 32 GiB"):
        of_one_kind(machines[1:], BIG)


def test_the_kind_of_this_machine_is_always_the_same() -> None:
    assert kind_of(environment_facts()) == kind_of(environment_facts())


def test_machines_are_grouped_by_their_clients() -> None:
    machines = [machine(number, BIG) for number in range(5)]
    assert groups(machines, 0) == [(one,) for one in machines]
    assert groups(machines, 1) == [tuple(machines[:2]), tuple(machines[2:4])]
    with pytest.raises(UserError, match="5 client machines and one for the store are 6"):
        groups(machines, 5)


def test_machines_have_the_same_versions() -> None:
    check_versions([machine(1, BIG), machine(2, SMALL)])
    with pytest.raises(UserError, match="vectrial: machine-1 1, machine-2 2"):
        check_versions([machine(1, BIG), machine(2, BIG, "2")])


def test_the_address_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert address_of("ray") == "auto"
    assert address_of("ray://10.0.0.1:6379") == "10.0.0.1:6379"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.2:6379")
    assert address_of("ray") == "10.0.0.2:6379"
    for wrong in ("raylet", "ray://10.0.0.1", "ray://:6379", "ray://a:b", "http://a:1"):
        with pytest.raises(UserError, match="is no place to run on"):
            address_of(wrong)


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The homes of two machines; the first has a dataset."""
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setenv("VECTRIAL_HOME", str(first))
    rng = np.random.default_rng(0)
    library.save(
        "some",
        metric=Metric.L2,
        vectors=rng.random((100, 4), dtype=np.float32),
        queries=rng.random((5, 4), dtype=np.float32),
        provenance=Provenance("a test", "none", ""),
    )
    return first, second


def test_a_dataset_arrives_whole(homes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    sent = library.load("some")
    monkeypatch.setattr(transfer, "_BLOCK_BYTES", 100)
    blocks = list(transfer.blocks_of("some"))
    assert len(blocks) > 10
    monkeypatch.setenv("VECTRIAL_HOME", str(homes[1]))
    assert not transfer.has("some", sent.fingerprint)
    for _ in range(2):  # the second takes the place of the first
        incoming = transfer.Incoming("some")
        for file, block in blocks:
            incoming.write(file, block)
        incoming.publish()
        assert transfer.has("some", sent.fingerprint)
        library.verify("some")
        assert (library.load("some").vectors == sent.vectors).all()
    assert [path.name for path in (homes[1] / "datasets").iterdir()] == ["some"]


def test_a_part_of_a_dataset_is_not_published(
    homes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VECTRIAL_HOME", str(homes[1]))
    incoming = transfer.Incoming("some")
    incoming.write("vectors.npy", b"half")
    with pytest.raises((DataError, UserError)):
        incoming.publish()
    assert not list((homes[1] / "datasets").iterdir())


def test_folders_of_ended_actors_are_removed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    host = socket.gethostname()
    left, mine = tmp_path / f"{host}-{ended.pid}-x", tmp_path / f"{host}-{os.getpid()}-x"
    elsewhere = tmp_path / f"other-{host}-{ended.pid}-x"
    for folder in (left, mine, elsewhere):
        folder.mkdir()
    assert own_folder(tmp_path).parent == tmp_path
    assert not left.exists()
    assert mine.exists()
    assert elsewhere.exists()
