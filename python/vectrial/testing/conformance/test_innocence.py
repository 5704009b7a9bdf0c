"""Checks that a correct store is not called wrong: awkward but valid rows pass the gate, or the
store declares that it does not take them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from vectrial._engine import Judge
from vectrial.datasets.exact import exact_topk
from vectrial.gate import ExpectedRows, Subject, check_loaded_rows
from vectrial.model.errors import Unsupported
from vectrial.model.filters import Eq
from vectrial.model.refusals import indistinct_values, refuse, refuse_k, refuse_rows
from vectrial.model.schema import FieldType, Schema
from vectrial.model.store import Store
from vectrial.stores.common.arrow import batch_of
from vectrial.stores.common.temporary import close_store
from vectrial.testing.conformance.awkward import DATASETS, Awkward, together
from vectrial.testing.conformance.cases import each_index_and_metric, telling_case
from vectrial.testing.conformance.world import Case, folder

#: Distinct values of a column that are each looked for.
_MOST_VALUES = 8


@each_index_and_metric
def test_awkward_rows_pass_the_gate_or_are_refused_by_the_plan(case: Case, tmp_path: Path) -> None:
    faults = []
    for number, one in enumerate(datasets_of(case)):
        at = folder(tmp_path, str(number))
        faults += [f"{one.what}: {fault}" for fault in verdicts(case, one, at)]
    assert not faults, "\n".join(faults)


def datasets_of(case: Case) -> list[Awkward]:
    """The datasets that the plan accepts: all of them on a library's telling case, else those that
    have revealed faults. On a server, one dataset combines all columns."""
    able = [one for one in DATASETS if case.metric in one.metrics and not is_refused(case, one)]
    if case.store.server is None:
        return [one for one in able if one.telling or case == telling_case(case.store)]
    columns = [one for one in able if one.columns and len(one.columns) == 1]
    most = case.capabilities.columns
    joined = [together(columns[:most])] if columns else []
    return [one for one in able if one.telling and not one.columns] + joined


def is_refused(case: Case, dataset: Awkward) -> bool:
    """True if the plan says that the store does not take the dataset."""
    try:
        refuse(case.store, dataset.schema(case.metric), case.build)
        refuse_k(case.store, dataset.k)
        refuse_rows(case.store, case.build, len(dataset.ids))
    except Unsupported:
        return True
    return False


def verdicts(case: Case, dataset: Awkward, location: Path) -> list[str]:
    """The gate's complaints about the store, loaded with these rows, and errors."""
    schema, metadata = dataset.schema(case.metric), dataset.metadata
    store = case.make(location)
    try:
        store.create(schema, case.build)
        store.insert(batch(schema, dataset))
        store.flush()
        store.build()
        store.wait_indexed()
        truth = exact_topk(dataset.vectors, dataset.ids, dataset.queries, case.metric, dataset.k)
        judge = Judge(dataset.k, truth.accept_offsets, truth.accept_ids, truth.available)
        rows = ExpectedRows(dataset.ids, dataset.vectors, metadata)
        subject = Subject(
            store, case.make, schema, case.build, rows, dataset.queries, judge, dataset.k
        )
        results, lost = check_loaded_rows(subject), wrongly_found_values(case, store, dataset)
    except Exception as error:  # noqa: BLE001 - whatever a store raises is its answer
        return [f"raised {type(error).__name__}: {error}"]
    finally:
        close_store(store)
    return [f"{r.name}: {r.detail}" for r in results if r.passed is False or r.raised] + lost


def wrongly_found_values(case: Case, store: Store, dataset: Awkward) -> list[str]:
    """Values for which the store finds the wrong rows; the gate itself tries only a few of them."""
    faults = []
    fields = dataset.schema(case.metric).fields
    told_apart = {
        column.name for column in fields if not indistinct_values(case.capabilities, column)
    }
    for name, (kind, values) in dataset.columns.items():
        distinct = {value for value in values if value is not None}
        asked = (
            "eq" in case.capabilities.find and kind is not FieldType.FLOAT and name in told_apart
        )
        if not asked or len(distinct) > _MOST_VALUES:
            continue
        for value in distinct:
            right = {int(i) for i, v in zip(dataset.ids, values, strict=True) if v == value}
            found = store.find(Eq(name, value), len(values)).tolist()
            if set(found) != right:
                faults.append(f"{len(found)} rows found of {value!r}, and {len(right)} have it")
    return faults


def batch(schema: Schema, dataset: Awkward) -> pa.RecordBatch:
    """The rows of a dataset, in the batch that a load gives to a store."""
    metadata = dataset.metadata
    columns = (
        {}
        if metadata is None
        else {name: metadata.column(name).combine_chunks() for name in metadata.column_names}
    )
    return batch_of(schema, dataset.ids, np.ascontiguousarray(dataset.vectors), columns)
