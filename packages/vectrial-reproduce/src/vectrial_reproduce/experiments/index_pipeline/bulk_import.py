"""The pipeline of a server that imports from its own object store: segments are put into its
bucket, the server reads them and writes files of its own, and its nodes fetch those and write
indexes back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from typing import Any

from vectrial.model.context import Context
from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.objects import ObjectsAccess
from vectrial.model.phase import Phase
from vectrial.model.store import Address
from vectrial.servers.minio import S3Traffic, traffic
from vectrial.workload import ingest
from vectrial_reproduce.experiments.index_pipeline.phases import span_phases, write_totals
from vectrial_reproduce.segments.objects import Objects
from vectrial_reproduce.segments.spans import Spans, Stage

#: Seconds after which the object store's counters hold what was moved before.
_COUNTED_S = 11.0
_FOLDER = "import"


def run(
    context: Context, point: Mapping[str, Any], part_bytes: int, concurrency: int
) -> Iterator[Phase]:
    """Run phases `put`, `import`, `index` and `load`; the collection is served afterwards.

    Raises:
        StoreError: a segment was not imported. Unsupported: its object store was not started here.
    """
    store, address = context.store, context.address
    source = store.capabilities.bulk_import
    assert source is not None
    service = None if address is None else address.services.get(source.service)
    if service is None:
        raise Unsupported(
            f"{store.name} is not a cluster that was started here, whose object store is known"
        )
    store.create(context.schema, context.index)
    # Its bucket is there when it answers.
    access = _access(service, source.bucket)
    objects = Objects(access, part_bytes=part_bytes, concurrency=concurrency)
    spans, meter = Spans(), _TrafficMeter(service)
    folders = []
    began = perf_counter_ns()
    rows = int(point["segment_rows"])
    for number, batch in enumerate(ingest.batches(context.dataset, context.schema, rows)):
        context.progress(number * rows, context.dataset.rows, "putting segments")
        folder = f"{_FOLDER}/{context.index.kind}/{number:05d}"
        with spans.timed(Stage.SEGMENT, number, 0) as sized:
            files = store.import_files(batch)
            sized.size_bytes = size_bytes = sum(map(len, files.values()))
        with spans.timed(Stage.PUT, number, 0) as sized:
            for name, data in files.items():
                objects.put(f"{folder}/{name}", data)
            sized.size_bytes = size_bytes
        folders.append(folder)
    put = Phase("put", began, perf_counter_ns(), dict(point))
    own = spans.select(Stage.SEGMENT, Stage.PUT)
    write_totals(put, own, (Stage.SEGMENT, Stage.PUT), len(folders))
    yield put
    yield from span_phases(own)
    meter.add(put)

    began, failed = perf_counter_ns(), dict[int, str]()
    for number, why in store.bulk_import(folders):
        context.progress(number, len(folders), "importing segments")
        if why:
            failed[number] = why
        else:
            spans.add(Stage.IMPORT, number, began, perf_counter_ns())
    phase = Phase("import", began, perf_counter_ns(), dict(point))
    write_totals(phase, spans.select(Stage.IMPORT), (Stage.IMPORT,), len(folders))
    yield phase
    yield from span_phases(spans.select(Stage.IMPORT))
    meter.add(phase)
    if failed:
        said = "; ".join(f"segment {number}: {why}" for number, why in sorted(failed.items()))
        raise StoreError(f"import: {len(failed)} of {len(folders)} segments failed: {said}")

    for name, stage, act in (
        ("index", Stage.BUILD, store.build),
        ("load", Stage.LOAD, store.wait_indexed),
    ):
        context.progress(0, 1, name)
        began = perf_counter_ns()
        known_by = act()
        spans.add(stage, 0, began, perf_counter_ns())
        phase = Phase(name, began, perf_counter_ns(), dict(point))
        if known_by:
            phase.params = {**phase.params, "known_by": known_by}
        write_totals(phase, spans.select(stage), (stage,), len(folders))
        yield phase
        meter.add(phase)
    count = store.count()
    if count != context.dataset.rows:
        raise StoreError(f"{count:,} rows are there, {context.dataset.rows:,} were imported")
    for folder in folders:
        for key in objects.keys(folder):
            objects.delete(key)


def _access(service: Address, bucket: str) -> ObjectsAccess:
    return ObjectsAccess(
        endpoint=f"http://{service.host}:{service.ports['s3']}",
        bucket=bucket,
        user=service.secrets["user"],
        password=service.secrets["password"],
    )


class _TrafficMeter:
    """Traffic of the object store, phase by phase, by its own counters."""

    def __init__(self, service: Address) -> None:
        self._service = service
        self._before = self._now()

    def _now(self) -> S3Traffic:
        time.sleep(_COUNTED_S)
        return traffic(self._service)

    def add(self, phase: Phase) -> None:
        """Add the traffic since the previous phase to a phase that was already yielded."""
        now = self._now()
        moved = now.traffic_since(self._before)
        self._before = now
        phase.metrics |= {
            "objects_written_bytes": moved.received_bytes,
            "objects_read_bytes": moved.sent_bytes,
            "objects_requests": moved.requests,
        }
