"""A whole comparison, from what the command line says to verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from vectrial.analysis.interference import disturbed_phases
from vectrial.compare.caveats import caveats
from vectrial.compare.cells import CompareOptions, cells_of
from vectrial.compare.judge import Kind, Verdict, judge, undisturbed
from vectrial.compare.sides import Side, subjects
from vectrial.experiments.registry import all_metrics
from vectrial.model.errors import UserError
from vectrial.model.results_schema import MetricName
from vectrial.util.suggest import suggestion

#: What is compared unless a metric is named: speed, its tail, the load that is sustained, and what
#: it costs to get there.
DEFAULT_METRICS = ("qps", "p99", "sustained_qps", "ready_s", "disk")
#: Short names; every metric of the schema goes by its own, too.
ALIASES = {
    "p50": "latency_p50",
    "p90": "latency_p90",
    "p95": "latency_p95",
    "p99": "latency_p99",
    "p99.9": "latency_p99_9",
    "max": "latency_max",
    "mean": "latency_mean",
    "recall": "recall_mean",
    "disk": "disk_bytes",
    "memory": "rss_growth_bytes",
}


@dataclass(frozen=True)
class Comparison:
    """B judged against A. alone: items that only one of the two has. caveats: disturbances."""

    a: Side
    b: Side
    verdicts: tuple[Verdict, ...]
    threshold: float
    alone: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()

    def of(self, kind: Kind) -> list[Verdict]:
        """The verdicts of one kind, in order."""
        return [v for v in self.verdicts if v.kind is kind]

    @property
    def headline(self) -> str:
        """'1 worse, 5 ties, 2 not comparable'."""
        counts = Counter(v.kind for v in self.verdicts)
        names = {
            Kind.WORSE: ("worse", "worse"),
            Kind.BETTER: ("better", "better"),
            Kind.TIE: ("tie", "ties"),
            Kind.NOT_COMPARABLE: ("not comparable", "not comparable"),
        }
        parts = [f"{counts[k]} {names[k][counts[k] != 1]}" for k in names if counts[k]]
        return ", ".join(parts) or "nothing to compare"


def metrics_of(names: Sequence[str]) -> tuple[MetricName, ...]:
    """The metrics of these names or short names, each once.

    Raises:
        UserError: an unknown name, or a metric of which neither more nor less is better.
    """
    known, found = all_metrics(), {}
    for name in names:
        metric = known.get(ALIASES.get(name, name))
        if metric is None:
            possible = [*ALIASES, *(m.name for m in known.values() if m.better)]
            raise UserError(
                f"'{name}' is not a metric",
                where="--metric",
                remedy=suggestion(name, possible) or f"for example {', '.join(ALIASES)}",
            )
        if metric.better is None:
            raise UserError(f"of '{name}' neither more nor less is better", where="--metric")
        found[metric.name] = metric
    return tuple(found.values())


def compare(a: Side, b: Side, options: CompareOptions, threshold: float) -> Comparison:
    """Judge B against A.

    Raises:
        UserError: they have no store in common, or neither measured what is asked for.
    """
    pairs, alone = subjects(a, b)
    cells = [cell for pair in pairs for cell in cells_of(pair, options)]
    if not cells:
        names = ", ".join(m.name for m in options.metrics)
        where = f" in {', '.join(options.experiments)}" if options.experiments else ""
        raise UserError(
            f"neither side has measured {names}{where}",
            remedy="vectrial report RUN --format jsonl shows what there is",
        )
    verdicts = undisturbed(
        judge(cells, threshold), disturbed_phases(a.run), disturbed_phases(b.run)
    )
    return Comparison(
        a, b, tuple(verdicts), threshold, tuple(alone), tuple(caveats(pairs, verdicts))
    )
