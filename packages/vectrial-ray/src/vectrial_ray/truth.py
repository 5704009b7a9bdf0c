"""Exact neighbours by all machines of a Ray cluster: each scans blocks of rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from vectrial.datasets.exact import ExactSearch, Hits, RowBlock, Scanner, SearchedRows, merged
from vectrial.model.dataset import Dataset
from vectrial.model.errors import VectrialError
from vectrial.model.progress import LineProgress
from vectrial.util.formatting import plural
from vectrial_ray.cluster import connected, join, leave
from vectrial_ray.load import Peer

#: Blocks that a machine has at a time: while it scans one, the next is on its way.
_AHEAD = 2


@contextmanager
def cluster_scanner(address: str, dataset: Dataset, note: LineProgress) -> Iterator[Scanner]:
    """A scanner that uses the Ray cluster at an address for a dataset's rows, while the context
    lasts. Machines that have the dataset read its rows locally; others are sent them. Blocks of a
    lost machine go to the others. The scanner raises `VectrialError` if no machine is left.

    Raises:
        UserError: the cluster cannot be used; see `connected` and `join`.
    """
    with connected(address):
        everyone = join()
        note(f"searching on {plural(len(everyone), 'machine')}")
        machines: list[Peer] = list(everyone)

        def scanner(
            question: ExactSearch,
            rows: SearchedRows,
            blocks: Iterator[RowBlock],
            scanned: Callable[[int], None],
        ) -> Hits:
            work = _Pass(machines, dataset, question, rows, note)
            return work.run(blocks, scanned)

        try:
            yield scanner
        finally:
            leave([machine.actor for machine in everyone])


class _Pass:
    """One pass over the rows. machines: the machines in use; lost ones are removed."""

    def __init__(
        self,
        machines: list[Peer],
        dataset: Dataset,
        question: ExactSearch,
        rows: SearchedRows,
        note: LineProgress,
    ) -> None:
        self._machines, self._rows, self._note = machines, rows, note
        self._question = question
        #: Blocks by the machine that has scanned them, or is to.
        self._blocks: dict[str, list[RowBlock]] = {}
        self._in_flight: dict[Any, tuple[Peer, RowBlock]] = {}  #: by Ray's reference
        self._again: deque[RowBlock] = deque()
        self._begin(dataset)

    def _begin(self, dataset: Dataset) -> None:
        import ray

        shared = ray.put(self._question)
        begun = {
            machine.name: machine.actor.scan_begin.remote(shared, dataset.name, dataset.fingerprint)
            for machine in self._machines
        }
        answers = self._answers(begun)
        self._readers = {name for name, reads in answers.items() if reads}
        self._blocks = {name: [] for name in answers}

    def run(self, blocks: Iterator[RowBlock], scanned: Callable[[int], None]) -> Hits:
        """Scan all blocks; see `Scanner`."""
        import ray

        counted: set[int] = set()
        while True:
            self._give_out(blocks)
            if not self._in_flight:
                hits = self._hits()
                if not self._again:
                    return merged(self._question, hits)
                continue
            done, _ = ray.wait(list(self._in_flight))
            for reference in done:
                if reference not in self._in_flight:
                    continue  # of a machine that was found lost meanwhile
                machine, block = self._in_flight.pop(reference)
                if not self._answers({machine.name: reference}):
                    continue
                if id(block) not in counted:  # not when another machine scans it again
                    counted.add(id(block))
                    scanned(len(block))

    def _give_out(self, blocks: Iterator[RowBlock]) -> None:
        for _ in range(_AHEAD):
            for machine in self._machines:
                busy = sum(peer is machine for peer, _ in self._in_flight.values())
                if busy == _AHEAD:
                    continue
                block = self._again.popleft() if self._again else next(blocks, None)
                if block is None:
                    return
                rows = None if machine.name in self._readers else self._rows.part(block.which)
                self._blocks[machine.name].append(block)
                self._in_flight[machine.actor.scan.remote(block, rows)] = machine, block

    def _hits(self) -> Sequence[Hits]:
        asked = {machine.name: machine.actor.scan_hits.remote() for machine in self._machines}
        return list(self._answers(asked).values())

    def _answers(self, references: dict[str, Any]) -> dict[str, Any]:
        """Answers of the machines, by name, without lost machines."""
        import ray

        answers = {}
        for machine in [one for one in self._machines if one.name in references]:
            try:
                answers[machine.name] = ray.get(references[machine.name])
            except ray.exceptions.RayActorError:
                self._lose(machine)
            except ray.exceptions.RayTaskError as error:
                raise error.cause or error from error
        return answers

    def _lose(self, machine: Peer) -> None:
        self._note(f"! {machine.name} ({machine.address}) is lost")
        self._machines.remove(machine)
        self._again.extend(self._blocks.pop(machine.name, ()))
        self._in_flight = {
            reference: (peer, block)
            for reference, (peer, block) in self._in_flight.items()
            if peer is not machine
        }
        if not self._machines:
            raise VectrialError("no machine of the cluster is left")
