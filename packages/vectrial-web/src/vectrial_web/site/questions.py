"""The questions of a site as data, which phases answer each, and the terms of an answer: what two
answers must have in common to be ranked together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vectrial.analysis import resources
from vectrial.analysis.analysis import TARGETS
from vectrial.analysis.run_data import Point, RunData
from vectrial.analysis.trial import Trial
from vectrial.compare.groups import conditions_of, measured_terms
from vectrial.model.faults import Crash
from vectrial.model.phase import Role
from vectrial.model.trial import NODES
from vectrial.util import formatting

#: The limit of latency of the first question, in µs.
P99_US = 20_000.0
#: The size of the second question.
LARGE_ROWS = 10_000_000


@dataclass(frozen=True)
class AnswerBaseline:
    """The baseline of an answer: the same store, index and load, except for some terms.

    varies: names of those terms. by: the term or metric by which the baseline is chosen. highest:
        the baseline has its highest value, instead of the lowest. title: title of the column.
        limit: the baseline must have exactly this value; None: any.
    """

    varies: tuple[str, ...]
    by: str
    title: str
    highest: bool = False
    limit: float | None = None


@dataclass(frozen=True)
class Question:
    """A question that measured points answer.

    name: name of its page. title: the question as asked. lead: how it is answered.
    metric: metric by which stores are ranked, one of the points' metrics.
    needs: metrics that a point must have. role: role of the phases; None: any phase with the
        metrics.
    shown: metrics in its table, in order, as (metric, heading).
    among: the metric with the total for the count in `metric`. Such an answer has a verdict and no
        rank: one count breaks a promise, and none proves nothing beyond an upper limit.
    at_least, at_most: limits of metrics. rows: the least number of rows.
    only: values that a point's parameters must have. against: see `AnswerBaseline`.
    quiet: terms that make no table of their own, as (name, heading): they are columns.
    ignores: terms that do not affect the answer.
    priced: ranked by price, if a suite has prices.
    empty: text if nothing answers it.
    """

    name: str
    title: str
    lead: str
    metric: str
    needs: tuple[str, ...]
    shown: tuple[tuple[str, str], ...]
    role: Role | None = None
    among: str = ""
    at_least: Mapping[str, float] = field(default_factory=dict)
    at_most: Mapping[str, float] = field(default_factory=dict)
    rows: int = 0
    only: Mapping[str, str] = field(default_factory=dict)
    against: AnswerBaseline | None = None
    quiet: tuple[tuple[str, str], ...] = ()
    ignores: tuple[str, ...] = ()
    priced: bool = False
    empty: str = ""


_RECALL = TARGETS[0]
_SEARCH = (
    ("qps", "QPS"),
    ("recall_mean", "Recall"),
    ("latency_p99", "p99"),
    ("errors", "Errors"),
)

QUESTIONS = (
    Question(
        "fastest",
        f"Fastest at recall ≥ {_RECALL:.2f} under {P99_US / 1000:.0f} ms",
        f"The highest QPS of each store in a closed loop, with a recall of at least {_RECALL:.2f}"
        f" and a p99 latency of at most {P99_US / 1000:.0f} ms. All figures of a row come from the"
        " same requests.",
        "qps",
        ("qps", "recall_mean", "latency_p99"),
        _SEARCH,
        role=Role.SEARCH,
        at_least={"recall_mean": _RECALL},
        at_most={"latency_p99": P99_US},
        empty="No run has searches with their recall.",
    ),
    Question(
        "cheapest",
        f"Cheapest for {LARGE_ROWS // 1_000_000} M rows",
        f"The price of a million queries on {LARGE_ROWS:,} rows or more: the processors, memory and"
        " disk that a store used, by the price sheet of its suite, at its highest measured QPS"
        f" with a recall of at least {_RECALL:.2f}. Where a suite has no prices, the resources"
        " stand side by side and are not ranked.",
        "qps",
        ("qps", "recall_mean"),
        (("qps", "QPS"), ("recall_mean", "Recall"), ("latency_p99", "p99")),
        role=Role.SEARCH,
        at_least={"recall_mean": _RECALL},
        rows=LARGE_ROWS,
        priced=True,
        empty=f"No run searches {LARGE_ROWS:,} rows or more.",
    ),
    Question(
        "filters",
        "What a filter costs",
        "The highest QPS of each store under a filter, against its highest QPS without one, both"
        f" with a recall of at least {_RECALL:.2f}; under a filter, recall is judged among the rows"
        " that it keeps.",
        "qps",
        ("qps", "recall_mean", "selectivity"),
        (("selectivity", "Keeps"), *_SEARCH),
        at_least={"recall_mean": _RECALL},
        against=AnswerBaseline(
            ("selectivity", "predicate", "depth", "filter", "pivots", "payload_index"),
            "selectivity",
            "Against no filter",
            highest=True,
            limit=1.0,
        ),
        quiet=(("predicate", "Rows kept"), ("payload_index", "Indexed")),
        empty="No run searches under filters.",
    ),
    Question(
        "power-cuts",
        "What survives a power cut",
        "Acknowledged changes that a store promised to keep, looked for after each power cut. The"
        " outages with a row that breaks the promise are counted: one is enough to break it, and"
        " none of many excludes only rates above that of the column “Excluded above”, at 95 %.",
        "broken_outages",
        ("outages", "broken_outages"),
        (
            ("broken_outages", "Broken"),
            ("outages", "Outages"),
            ("broken_rate_at_most", "Excluded above"),
            ("lost_rows", "Lost rows"),
            ("unanswered", "Unreadable"),
        ),
        among="outages",
        only={"outage": Crash.POWER_CUT.value},
        quiet=(("durability", "Promise"), ("lane", "Lane")),
        ignores=("processors", "queries", "k", "returns"),
        empty="No run cuts the power.",
    ),
    Question(
        "nodes",
        "What a second node brings",
        f"The highest QPS of a cluster with a recall of at least {_RECALL:.2f}, against that of the"
        " fewest nodes of the same store that the same run measured, under the same load.",
        "qps",
        ("qps", "recall_mean"),
        _SEARCH,
        role=Role.SEARCH,
        at_least={"recall_mean": _RECALL},
        against=AnswerBaseline(("nodes",), "nodes", "Against the fewest nodes"),
        quiet=(("nodes", "Nodes"),),
        empty="No run measures a store with several numbers of nodes.",
    ),
)


Terms = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class RankingTerms:
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


def ranking_terms_of(run: RunData, trial: Trial, question: Question, point: Point) -> RankingTerms:
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
    return RankingTerms(point.dataset, point.rows, packed, title, _conditions(terms, bool(server)))


def _conditions(terms: Mapping[str, Any], served: bool) -> str:
    of = "each server" if served else "the process"
    said = [f"Machine: {terms['machine']}"]
    said += [f"Processors of {of}: {terms['processors']}"] if "processors" in terms else []
    said += [f"Limits of the server: {terms['limits']}"] if served else []
    said += [str(terms["hosts"]).capitalize()] if "hosts" in terms else []
    return ". ".join(said)


def column_terms_of(question: Question, point: Point) -> tuple[str, ...]:
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
    return _round_share(point.value(name) or 0.0)


def _round_share(share: float) -> float:
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
