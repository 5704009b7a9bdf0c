"""Signs that something other than the store affected the measurement: other activity of the
machine, and repeats that stand out or drift. A report shows them at its head, a comparison for each
side."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vectrial.analysis.run_data import Point, RunData
from vectrial.analysis.trial import PhaseResult, Trial
from vectrial.model.results_schema import METRICS
from vectrial.model.trial import Series
from vectrial.stats.disturbance import LEAST, drift, is_first_outlier, outliers
from vectrial.util import formatting

#: Values of a phase from which a report mentions them; the first is a share of the processors.
OTHER_CORES_SHARE = 0.1
STEAL_SHARE = 0.01
THROTTLED_SHARE = 0.01
#: Ratio of the slowest to the fastest clock in repeats of the same work.
SLOWER_CLOCK = 0.9
#: Least processor time that is reported: it is the sum of several counters in steps of 10 ms.
LEAST_S = 0.05
#: Distance of a repeat from the median, as a share, from which a report names it as an outlier; a
#: nearer one shows in the spread.
FIGURE_SHARE = 0.5
#: Main metrics; the first that a phase has is its figure. A phase without one waits or weighs.
FIGURES = ("sustained_qps", "ready_s", "qps", "latency_p50")
#: Largest number of places that are named.
NAMED = 3

Place = tuple[Trial, PhaseResult]


@dataclass(frozen=True)
class Disturbance:
    """Worst case of a disturbance, and its remedy. where: phases, the worst first.
    looked: number of phases in which it could have been seen."""

    seen: str
    remedy: str
    where: tuple[Place, ...] = ()
    looked: int = 0


def machine_interference(run: RunData, trials: Sequence[Trial]) -> list[Disturbance]:
    """Activity of the machine beside the phases of some trials of a run. Less than 0.05 s of
    processor time is not reported. Nor is load beside a server that somebody else started: that
    server's share of the load is unknown."""
    processors = (run.run["environment"].get("cpu") or {}).get("logical") or 1
    signs = []
    other = _excess(monitored_trials(trials), "other_cores", OTHER_CORES_SHARE * processors, 1)
    if other.where:
        signs.append(
            Disturbance(
                f"up to {other.worst:.1f} of {processors} processors were busy with something else",
                "end what else runs, and measure again",
                other.where,
                other.looked,
            )
        )
    steal = _excess(trials, "steal_share", STEAL_SHARE, processors)
    if steal.where:
        signs.append(
            Disturbance(
                f"other guests of the host took up to {steal.worst:.0%} of the processors (steal)",
                "a noisy neighbour; more repeats, another hour, or a machine of one's own",
                steal.where,
                steal.looked,
            )
        )
    # Limits of a library are those of the measuring process, which was to be throttled.
    unlimited = [t for t in trials if t.server is None or "provider" in t.server]
    throttled = _excess(unlimited, "throttled_share", THROTTLED_SHARE, math.inf)
    if throttled.where:
        signs.append(
            Disturbance(
                f"the processor quota was used up for up to {throttled.worst:.0%} of a phase"
                " (throttling)",
                "the quota was measured, not the store; raise it, or measure without one",
                throttled.where,
                throttled.looked,
            )
        )
    return signs + _clock(run, trials)


def disturbed_keys(run: RunData) -> frozenset[str]:
    """Keys of the trials with a phase in which something other than client and server was busy, or
    other guests of the host were."""
    signs = machine_interference(run, run.trials)
    return frozenset(trial.key for sign in signs for trial, _ in sign.where)


def disturbed_phases(run: RunData) -> frozenset[int]:
    """Ids of the phases in which something other than client and server was busy, other guests of
    the host were, or the processors were throttled."""
    signs = machine_interference(run, run.trials)
    return frozenset(phase.phase_id for sign in signs for _, phase in sign.where)


def monitored_trials(trials: Sequence[Trial]) -> list[Trial]:
    """Trials for which the resource use of both client and server is fully known."""
    return [t for t in trials if (t.server or {}).get("provider") != "external"]


@dataclass(frozen=True)
class _Excess:
    worst: float
    where: tuple[Place, ...]
    looked: int


def _excess(trials: Sequence[Trial], metric: str, limit: float, processors: float) -> _Excess:
    """Phases in which a metric exceeds a limit, for long enough to be measurable on this many
    processors."""
    told = [(v, t, p) for t in trials for p in t.phases if (v := p.value(metric)) is not None]
    found = [
        (value, trial, phase)
        for value, trial, phase in told
        if value > limit
        and (phase.duration_s is None or value * phase.duration_s * processors >= LEAST_S)
    ]
    found.sort(key=lambda one: -one[0])
    where = tuple((trial, phase) for _, trial, phase in found)
    return _Excess(found[0][0] if found else 0.0, where, len(told))


def _clock(run: RunData, trials: Sequence[Trial]) -> list[Disturbance]:
    """Signs that processors were slower in one repeat than in another of the same work. Idle
    processors sleep, and their clock rate says nothing."""
    among = {phase.phase_id: (trial, phase) for trial in trials for phase in trial.phases}
    slow: list[tuple[float, float, Place]] = []
    looked = 0
    for point in run.points:
        clocks = [
            (mhz, among[phase.phase_id])
            for phase in point.phases
            if phase.phase_id in among and (mhz := phase.value("cpu_mhz"))
        ]
        if len(clocks) < 2 or figure_of(point) is None:
            continue
        looked += len(clocks)
        fastest = max(mhz for mhz, _ in clocks)
        slow += [(mhz, fastest, place) for mhz, place in clocks if mhz < SLOWER_CLOCK * fastest]
    if not slow:
        return []
    slow.sort(key=lambda one: one[0] / one[1])
    slowest, fastest, _ = slow[0]
    return [
        Disturbance(
            f"the processors' clock fell from {fastest:,.0f} to {slowest:,.0f} MHz between repeats",
            "fix the frequency (governor 'performance'), or let the machine cool down",
            tuple(place for _, _, place in slow),
            looked,
        )
    ]


def repeat_variation(by_repeat: Mapping[int, float]) -> list[Disturbance]:
    """Irregularities in the repeats of one figure: an outlier or a drift. by_repeat: value by
    number of the repeat, in the order of measurement. Fewer than five repeats give no signs."""
    numbers, values = list(by_repeat), list(by_repeat.values())
    signs = []
    if is_first_outlier(values):
        signs.append(
            Disturbance(
                "the first repeat stands out",
                "caches were cold, or the machine was not at its pace yet; a longer warm-up, or a"
                " repeat to throw away",
            )
        )
    elif odd := outliers(values):
        away = max(abs(values[i] / statistics.median(values) - 1) for i in odd)
        listed = ", ".join(str(numbers[i]) for i in odd)
        signs.append(
            Disturbance(
                f"repeat {listed} stands out by {away:.0%}",
                "something else ran; more repeats on a quiet machine",
            )
        )
    change = drift(values)
    if change is not None:
        signs.append(
            Disturbance(
                f"{'rises' if change > 0 else 'falls'} steadily over the repeats, by"
                f" {abs(change):.0%} in all",
                "the machine or the store is not in a steady state; let both come to rest, and"
                " measure again",
            )
        )
    return signs


def figure_of(point: Point) -> str | None:
    """The metric that a point was measured for: the first of `FIGURES` for which every repeat has a
    value above 0. The rate of an open loop is given by its schedule, and does not count."""
    names = [n for n in FIGURES if n != "qps" or point.params.get("loop") != "open"]
    able = (n for n in names if all((phase.value(n) or 0) > 0 for phase in point.phases))
    return next(able, None)


def sentences(run: RunData) -> list[str]:
    """Every sign in a run, a sentence each: what was seen, where, and what to do about it."""
    names = _Names(run)
    signs = [_sentence(sign, names) for sign in machine_interference(run, run.trials)]
    return [*signs, *_differing_repeats(run, names)]


def _sentence(sign: Disturbance, names: _Names) -> str:
    places = list(dict.fromkeys(names.place(*place) for place in sign.where))
    count = f"{len(sign.where):,} of {formatting.plural(sign.looked, 'phase')}"
    return f"{_capitalize(sign.seen)}, in {count} ({_name_list(places)}): {sign.remedy}."


def _differing_repeats(run: RunData, names: _Names) -> Iterator[str]:
    """Whole repeats that differ come first: their cause is the machine, or the store. A single
    figure has outliers by chance; only one that is far away is reported."""
    jobs: dict[tuple[Series, str, int], list[Point]] = defaultdict(list)
    for point in run.points:
        if len(point.phases) >= LEAST and figure_of(point) is not None:
            jobs[point.series, point.dataset, point.rows].append(point)
    trial_of = {phase.phase_id: trial for trial, phase in run.phases()}
    whole: dict[str, list[str]] = defaultdict(list)
    far: list[tuple[float, Place]] = []
    for (series, dataset, _), points in jobs.items():
        pace = _pace(points, trial_of)
        for sign in repeat_variation(pace):
            whole[sign.remedy].append(f"{names.job(series, dataset)}: {sign.seen}")
        told = {list(pace)[i] for i in outliers(list(pace.values()))}
        apart = (one for point in points for one in _outlying_repeats(point, trial_of))
        far += [one for one in apart if one[1][0].repeat not in told]
    for remedy, stores in whole.items():
        yield f"Repeats are not alike, all figures together ({_name_list(stores)}): {remedy}."
    if far:
        far.sort(key=lambda one: -one[0])
        places = list(dict.fromkeys(names.place(*place) for _, place in far))
        count = (
            f"{formatting.plural(len(far), 'repeat')} of {sum(map(len, jobs.values())):,} figures"
        )
        yield (
            f"{count} {'stands' if len(far) == 1 else 'stand'} out by up to {far[0][0]:.0%}"
            f" ({_name_list(places)}): something else ran, or the store did other work;"
            " more repeats on a quiet machine."
        )


def _outlying_repeats(point: Point, trial_of: Mapping[int, Trial]) -> Iterator[tuple[float, Place]]:
    """Repeats that deviate by half of the median or more: the deviation, and the place."""
    values = [phase.value(figure_of(point) or "") or 0.0 for phase in point.phases]
    median = statistics.median(values)
    for i in outliers(values):
        phase, away = point.phases[i], abs(values[i] / median - 1)
        if away >= FIGURE_SHARE:
            yield away, (trial_of[phase.phase_id], phase)


def _pace(points: Sequence[Point], trial_of: Mapping[int, Trial]) -> dict[int, float]:
    """Pace by repeat, in the order measured: the geometric mean, over the points, of their figure
    (for a time its inverse) relative to its median. Only repeats that all points have."""
    logs: dict[int, list[float]] = defaultdict(list)
    for point in points:
        name = figure_of(point)
        assert name is not None
        sign = -1 if METRICS[name].better == "lower" else 1
        speeds = [sign * math.log(phase.value(name) or 1.0) for phase in point.phases]
        middle = statistics.median(speeds)
        for phase, speed in zip(point.phases, speeds, strict=True):
            logs[trial_of[phase.phase_id].repeat].append(speed - middle)
    whole = {repeat: found for repeat, found in logs.items() if len(found) == len(points)}
    return {repeat: math.exp(statistics.fmean(found)) for repeat, found in whole.items()}


class _Names:
    """Short names of the places of a run, no longer than needed to distinguish them."""

    def __init__(self, run: RunData) -> None:
        self._labels = run.labels
        self._datasets = len({trial.dataset for trial in run.trials})
        self._repeats = max((trial.repeat for trial in run.trials), default=1)
        self._values: dict[tuple[Series, str, str], set[str]] = defaultdict(set)
        for trial in run.trials:
            for name, value in trial.params.items():
                self._values[trial.series, trial.experiment, name].add(str(value))

    def job(self, series: Series, dataset: str) -> str:
        """A job: 'redis · native on words'."""
        return self._labels[series] + (f" on {dataset}" if self._datasets > 1 else "")

    def place(self, trial: Trial, phase: PhaseResult) -> str:
        """A phase: 'redis · native crud read, repeat 2', 'faiss recall sweep at ef_search=64'."""
        parts = [self.job(trial.series, trial.dataset), trial.experiment.replace("_", " ")]
        if phase.name not in ("search", trial.experiment):
            parts.append(phase.name.replace("_", " "))
        turned = {
            name: value
            for name, value in trial.params.items()
            if len(self._values[trial.series, trial.experiment, name]) > 1
        }
        parts += [f"at {formatting.params(turned)}"] if turned else []
        return " ".join(parts) + (f", repeat {trial.repeat}" if self._repeats > 1 else "")


def _name_list(names: Sequence[str]) -> str:
    """The first of the names, then the number of the others."""
    if len(names) <= NAMED:
        return "; ".join(names)
    return f"{'; '.join(names[:NAMED])}; and {len(names) - NAMED:,} more"


def _capitalize(words: str) -> str:
    return words[:1].upper() + words[1:]
