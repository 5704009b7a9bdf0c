"""What makes two trials the same, and what tells trials apart that look the same."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vectrial.model.trial import TrialRow
from vectrial.plan.model import PlannedTrial

#: A setting whose text is longer is a parameter of a trial by its hash.
_LONGEST = 40


def key_of(identity: Mapping[str, Any]) -> str:
    """The key of a trial: the same for the same identity, in every run."""
    return hashlib.sha256(canonical(identity).encode()).hexdigest()[:24]


def add(known: set[str], entry: int, trial: PlannedTrial) -> bool:
    """Add a trial; False if the same trial is there already. entry: number of its store."""
    settings = trial.identity["settings"].items()
    own = {name: value for name, value in settings if name not in trial.experiment.extent}
    one = f"{entry} {canonical({**trial.identity, 'settings': own})}"
    if one in known:
        return False
    known.add(one)
    return True


def distinct_rows(trials: Sequence[PlannedTrial]) -> dict[str, TrialRow]:
    """Rows of trials, by key. Trials that differ in settings only have these among their
    parameters, so that no report takes them for repeats of one trial."""
    alike: dict[tuple[Any, ...], list[PlannedTrial]] = defaultdict(list)
    for trial in trials:
        row = trial.row
        build = (row.store, row.lane, row.index_kind, canonical(row.index_params))
        point = (row.dataset, row.rows, row.experiment, canonical(row.params), row.repeat)
        alike[build, point].append(trial)
    rows = {}
    for group in (group for group in alike.values() if len(group) > 1):
        flat = [_flat(trial) for trial in group]
        names = dict.fromkeys(name for one in flat for name in one)
        differ = [name for name in names if len({canonical(one.get(name)) for one in flat}) > 1]
        for trial, one in zip(group, flat, strict=True):
            more = {name: _short(one[name]) for name in differ if one.get(name) not in (None, [])}
            rows[trial.row.key] = replace(trial.row, params={**trial.row.params, **more})
    return rows


def _flat(trial: PlannedTrial) -> dict[str, Any]:
    """All parts of a trial's identity by name, except those that do not make it another trial."""
    flat = {**trial.identity, **trial.identity["settings"]}
    hidden = {"settings", *trial.experiment.extent}
    return {name: value for name, value in flat.items() if name not in hidden}


def _short(value: Any) -> Any:
    if isinstance(value, str | int | float):
        return value
    text = canonical(value)
    return text if len(text) <= _LONGEST else hashlib.sha256(text.encode()).hexdigest()[:8]


def canonical(value: Any) -> str:
    """A text that is the same for the same value, whatever the order of its keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
