"""The terms of an answer: what two answers must have in common to be ranked together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vectrial.analysis import resources
from vectrial.analysis.run_data import Point, RunData
from vectrial.analysis.trial import Trial
from vectrial.compare.groups import conditions_of, measured_terms
from vectrial.model.trial import NODES
from vectrial.util import formatting
from vectrial_web.site.questions import Question

Terms = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Like:
    """The terms that two entries must share to be ranked, including the machine.

    title, conditions: for display only.
    """

    dataset: str
    rows: int
    terms: Terms
    title: str = field(compare=False)
    conditions: str = field(compare=False)


def machine_of(run: RunData) -> str:
    """Description of a run's machine, which decides whether figures of two runs are comparable."""
    facts = run.run["environment"] if isinstance(run.run["environment"], dict) else {}
    cpu, memory = facts.get("cpu") or {}, resources.memory_bytes(run)
    parts = [str(cpu.get("model") or "unknown processor")]
    parts += [formatting.plural(int(cpu["logical"]), "processor")] if cpu.get("logical") else []
    parts += [f"{memory / 2**30:.0f} GiB"] if memory else []
    kernel = (facts.get("os") or {}).get("kernel")
    return ", ".join([*parts, *([f"kernel {kernel}"] if kernel else [])])


def like_of(run: RunData, trial: Trial, question: Question, point: Point) -> Like:
    """The terms of a point that answers a question. trial: one of the trials that measured it."""
    measured = measured_terms(run, trial, {**trial.params, **point.params})
    hidden = {*dict(question.quiet), *question.ignores, "filter", "verdict"}
    if question.against is not None:
        hidden |= set(question.against.varies)
    terms = {k: v for k, v in measured.items() if k not in hidden and v is not None}
    if NODES not in hidden:
        terms[NODES] = point.series.nodes
    if question.against is not None and question.against.by != NODES:
        terms[question.against.by] = key_of(question.against.by, point)
    server = trial.server or {}
    processors = resources.processors(run, point.series)
    terms["machine"] = machine_of(run)
    terms["limits"] = str(server.get("limits") or "none")
    terms["processors"] = "unknown" if processors is None else f"{processors:g}"
    if server.get("hosts"):
        terms["hosts"] = server["hosts"]
    terms = {name: value for name, value in terms.items() if name not in question.ignores}
    title = _title(question, point, terms, conditions_of(point.experiment))
    packed = tuple(sorted((k, str(v)) for k, v in terms.items()))
    return Like(point.dataset, point.rows, packed, title, _conditions(terms, bool(server)))


def _conditions(terms: Mapping[str, Any], served: bool) -> str:
    of = "each server" if served else "the process"
    said = [f"Machine: {terms['machine']}"]
    said += [f"Processors of {of}: {terms['processors']}"] if "processors" in terms else []
    said += [f"Limits of the server: {terms['limits']}"] if served else []
    said += [str(terms["hosts"]).capitalize()] if "hosts" in terms else []
    return ". ".join(said)


def quiet_of(question: Question, point: Point) -> tuple[str, ...]:
    """The terms that are columns."""
    known = {**point.params, NODES: point.series.nodes, "lane": point.series.lane}
    found = []
    for name, _ in question.quiet:
        value = known.get(name)
        found.append(formatting.NOTHING if value is None else str(value).replace("_", " "))
    return tuple(found)


def key_of(name: str, point: Point) -> float:
    """A point's value of the term or metric by which baselines are chosen."""
    if name == NODES:
        return float(point.series.nodes)
    return _rounded(point.value(name) or 0.0)


def _rounded(share: float) -> float:
    """A share rounded to two digits, so that filters of two datasets can have the same share."""
    return float(f"{share:.2g}")


def percent(share: float) -> str:
    """A share in percent."""
    return f"{share * 100:.2g} %" if share < 0.995 else "100 %"


def _title(
    question: Question, point: Point, terms: Mapping[str, Any], names: Mapping[str, str]
) -> str:
    """Readable title of a table."""
    parts = [point.dataset, formatting.rows(point.rows)]
    if "recall_mean" in question.needs and "k" in terms:
        parts.append(f"k = {terms['k']}")
    if terms.get("returns") not in (None, "ids"):
        parts.append(f"returning {terms['returns']}")
    if "clients" in terms:
        parts.append(formatting.plural(int(terms["clients"]), "client"))
    if "lane" in terms:
        parts.append(str(terms["lane"]))
    if "selectivity" in terms:
        parts.append(f"keeps {percent(float(terms['selectivity']))}")
    if int(terms.get("nodes", 1)) > 1:
        parts.append(formatting.plural(int(terms["nodes"]), "node"))
    if str(terms.get("limits", "none")) != "none":
        parts.append(str(terms["limits"]).partition(":")[0])
    named = {"k", "returns", "clients", "loop", "selectivity", "predicate", "arrivals"}
    for name, said in names.items():
        if name in terms and name not in named and name not in question.only:
            parts.append(f"{said} {terms[name]}")
    return " · ".join(parts)
