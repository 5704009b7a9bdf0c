"""Stores that keep what they acknowledge, and those that do not, through real outages."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import liar_stores
import pytest
from experiment_worlds import dataset, index_of, target, world
from own_thread import in_own_thread

from vectrial.experiments.durability.experiment import DurabilityExperiment
from vectrial.experiments.durability.holders import Holder
from vectrial.experiments.durability.series import rate_at_most
from vectrial.model.context import Context
from vectrial.model.errors import Unsupported
from vectrial.model.phase import Phase, State
from vectrial.model.store import Store
from vectrial.stores.memory import MemoryStore
from vectrial.util.volume import Volume, why_no_volume

QUICK = {"count": 1, "rows": 100, "least_s": 0.1, "most_s": 0.2}
DISK_BYTES = 48 << 20
#: Before an outage so many changes are made, the fortieth of which `SyncedLate` syncs, and those
#: after it are lost; a busy machine has so long for them.
CHANGES, CHANGES_S = 45, 60.0


@pytest.fixture(autouse=True)
def found_by_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(liar_stores.__file__).parent), prepend=os.pathsep)


@pytest.fixture(autouse=True)
def outages_after_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage comes no sooner than after enough changes, however slow the machine is."""
    pause = Holder.pause

    def patient(self: Holder, seconds: float) -> None:
        pause(self, seconds)
        writer, until = self._writer, time.monotonic() + CHANGES_S
        assert writer is not None
        while len(writer.outcomes()) < CHANGES and time.monotonic() < until:
            if writer.wait(0.01):
                return

    monkeypatch.setattr(Holder, "pause", patient)


@contextmanager
def on_a_disk(kind: type[Store], folder: Path) -> Iterator[Context]:
    """The context of a store whose files are on a disk of their own."""
    if why := why_no_volume():
        pytest.skip(why)
    with (
        Volume(folder / "image", folder / "disk", DISK_BYTES) as disk,
        world(kind, "flat", folder / "disk", State.EMPTY, dataset(2000)) as context,
    ):

        def cut() -> None:
            disk.cut_power(lambda: None)

        def fill(full: bool) -> None:
            _ = disk.fill() if full else disk.release()

        yield replace(context, cut_power=cut, fill_disk=fill)


@in_own_thread
def suffered(kind: type[Store], outage: str, folder: Path, count: int = 1) -> Phase:
    experiment = DurabilityExperiment.model_validate({**QUICK, "outages": outage, "count": count})
    with on_a_disk(kind, folder) as context:
        (phase,) = experiment.run(context, {"outage": outage})
    return phase


@pytest.mark.slow
@pytest.mark.parametrize(("outage", "count"), [("kill", 2), ("power_cut", 1), ("disk_full", 1)])
def test_who_syncs_keeps_every_row(outage: str, count: int, tmp_path: Path) -> None:
    phase = suffered(liar_stores.Honest, outage, tmp_path, count)
    assert phase.params["verdict"] == "kept", phase.errors
    assert phase.metrics["outages"] == count
    assert (phase.metrics["acknowledged_rows"] or 0) > 100
    assert phase.metrics["miscounts"] == phase.metrics["not_found_rows"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "outage", "figure"),
    [
        (liar_stores.Unsynced, "power_cut", "unanswered"),
        (liar_stores.SyncedLate, "power_cut", "lost_rows"),
        (liar_stores.OutOfTheFolder, "power_cut", "unanswered"),
        (liar_stores.Forgetful, "kill", "lost_rows"),
        (liar_stores.Undeleting, "kill", "returned_rows"),
        (liar_stores.Stale, "kill", "old_rows"),
        (liar_stores.Torn, "kill", "torn_rows"),
    ],
    ids=lambda one: getattr(one, "name", one),
)
def test_who_does_not_is_caught(
    kind: type[Store], outage: str, figure: str, tmp_path: Path
) -> None:
    phase = suffered(kind, outage, tmp_path)
    assert phase.params["verdict"] == "broken"
    assert (phase.metrics[figure] or 0) > 0, phase.metrics
    (broken,) = phase.errors
    assert broken[2][0].startswith("outage ")


@pytest.mark.slow
def test_a_kill_leaves_what_was_not_synced(tmp_path: Path) -> None:
    """It is in the page cache: why a kill proves little."""
    assert suffered(liar_stores.Unsynced, "kill", tmp_path).params["verdict"] == "kept"


def test_without_a_disk_of_its_own_no_power_is_cut(tmp_path: Path) -> None:
    experiment = DurabilityExperiment.model_validate({**QUICK, "outages": "power_cut"})
    with (
        world(liar_stores.Honest, "flat", tmp_path, State.EMPTY) as context,
        pytest.raises(Unsupported, match="data_disk"),
    ):
        list(experiment.run(context, {"outage": "power_cut"}))


def test_what_keeps_nothing_is_not_asked() -> None:
    with pytest.raises(Unsupported, match="keeps nothing on disk"):
        DurabilityExperiment().points(target(MemoryStore, index_of(MemoryStore, "flat")))


@pytest.mark.parametrize(
    ("broken", "outages", "most"), [(0, 1, 0.95), (0, 30, 0.0950), (0, 59, 0.0495), (1, 30, 0.1486)]
)
def test_the_rate_that_is_excluded(broken: int, outages: int, most: float) -> None:
    """As in tables of Clopper and Pearson's one-sided interval."""
    assert rate_at_most(broken, outages) == pytest.approx(most, abs=1e-4)
