"""The tables of a run, and the fixed names and units of everything measured.

A run folder holds `run.duckdb` (these tables), `suite.toml` as it was resolved,
`environment.json` and `logs/`. A trial's rows appear in one transaction when the trial ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

#: Raised when the layout changes; a run of another layout is refused.
SCHEMA_VERSION = 5

#: Definition of the table that earlier versions lack.
SLICES_DDL = """
create table slice (
    phase_id integer not null, session bigint not null, round integer not null,
    place integer not null,
    began_s double not null, length_s double not null, seconds double not null,
    count bigint not null, errors bigint not null, head_s double not null,
    head_count bigint not null, recall double, idle_s double not null, idle_cpu_s double,
    hdr blob, ran_s double, waited_s double);
"""
DDL = (
    """
create table run (
    run_id varchar primary key, schema_version integer not null, started_at timestamptz not null,
    finished_at timestamptz, suite_name varchar not null, command varchar not null,
    vectrial_version varchar not null, git_revision varchar,
    environment json not null);
create table dataset (
    name varchar not null, fingerprint varchar not null, rows bigint not null,
    dim integer not null, queries integer not null, metric_space varchar not null,
    raw_bytes bigint not null, metadata_bytes bigint not null, source varchar not null,
    licence varchar not null, stand_in_for varchar, facts json not null,
    primary key (name, rows));
create table trial (
    trial_id integer primary key, key varchar unique not null,
    store varchar not null, store_version varchar, lane varchar not null,
    dataset varchar not null, rows bigint not null, dim integer not null,
    metric_space varchar not null,
    experiment varchar not null, index_kind varchar not null, index_params json not null,
    params json not null, repeat integer not null, seed bigint not null,
    status varchar not null check (status in ('ok', 'invalid', 'failed', 'skipped')),
    reason varchar, differences json not null,
    started_at timestamptz, duration_s double, environment_name varchar,
    server json, notes json not null, load json);
create table phase (
    phase_id integer primary key, trial_id integer not null, ordinal integer not null,
    name varchar not null, role varchar, params json not null, started_s double not null,
    duration_s double not null, valid boolean not null, reason varchar);
create table metric (
    phase_id integer not null, name varchar not null, value double, unit varchar not null,
    valid boolean not null, reason varchar);
create table histogram (
    phase_id integer not null, name varchar not null, hdr blob not null);
create table error (
    phase_id integer not null, kind varchar not null, count bigint not null,
    messages json not null);
create table "window" (
    phase_id integer not null, operation varchar not null, second integer not null,
    count bigint not null, errors bigint not null, p50_us double, p99_us double, max_us double,
    recall double);
create table telemetry (
    trial_id integer not null, phase_id integer, at_s double not null, process varchar not null,
    cpu_s double not null, rss_bytes bigint not null, peak_rss_bytes bigint, threads integer,
    read_bytes bigint, write_bytes bigint, voluntary_switches bigint,
    involuntary_switches bigint, disk_bytes bigint, load_1m double,
    group_cpu_s double, group_peak_bytes bigint);
create table gate (
    trial_id integer not null, name varchar not null, passed boolean,
    detail varchar not null, demands varchar not null, invalidates varchar not null,
    relevant boolean not null);
"""
    + SLICES_DDL
)
# dataset: one row per number of rows that was loaded; every figure is that of the cut.
# trial.server: of a store with one, how it was run: 'provider' and why it was chosen, 'program',
# 'limits' asked for and whether they hold, 'cores'; 'oom_kills' and 'memory_peak_bytes' of its
# control group. Of a library with limits: those of the measuring process. trial.notes: what a
# reader should know. trial.load: seconds of the load that its rows come from: load_s, flush_s,
# build_s, wait_s, and their sum ready_s; null where they are unknown. Runs of earlier versions lack
# the column.
# phase.role: a `vectrial.model.phase.Role`, or null.
# gate.passed is null for a check that does not apply to the store; detail then says why.
# gate.invalidates: 'everything', 'filtered searches', 'finds by condition' or 'changes of rows';
# relevant: the trial is among them, so that it is invalid where the check failed.
# phase.started_s and telemetry.at_s count from the trial's start; cpu_s and the io and switch
# counters are cumulative for the process and its descendants, ended ones included.
# telemetry.process: 'client' or the server's name. peak_rss_bytes: the sum of the greatest resident
# memory that each process has had. group_*: of the server's own control group, where it has one;
# its memory counts the page cache too. disk_bytes: allocated blocks of the data folders.
# window.second counts from the phase's start.
# slice: a turn of a phase that took turns with others; see `vectrial.model.phase`. Slices of the
# same round of the same session were measured together; began_s counts from the trial's
# start; length_s was asked for, head included. Runs of earlier versions lack the table.


@dataclass(frozen=True)
class MetricName:
    """A measured quantity: its name, unit and meaning; `better` is 'higher', 'lower' or None.

    title: the heading of a table's column.
    """

    name: str
    unit: str
    better: str | None
    meaning: str
    title: str = ""

    @property
    def is_timed(self) -> bool:
        """True if it is a time or a rate, which a busy machine makes worse."""
        return self.unit in ("us", "s", "1/s")


_ALL = (
    MetricName("count", "1", None, "answers and finished operations"),
    MetricName("errors", "1", "lower", "operations that failed, of any class"),
    MetricName("saturated", "1", "lower", "latencies beyond 100 s, kept as 100 s"),
    MetricName("incomplete_results", "1", "lower", "answers with fewer rows than exist"),
    MetricName("duplicate_answers", "1", "lower", "answers that name a row twice"),
    MetricName("qps", "1/s", "higher", "answered queries per second of the phase"),
    MetricName("latency_mean", "us", "lower", "mean from intended start to answer"),
    MetricName("latency_min", "us", "lower", "least latency"),
    MetricName("latency_p50", "us", "lower", "median latency"),
    MetricName("latency_p90", "us", "lower", "90th percentile of latency"),
    MetricName("latency_p95", "us", "lower", "95th percentile of latency"),
    MetricName("latency_p99", "us", "lower", "99th percentile of latency"),
    MetricName("latency_p99_9", "us", "lower", "99.9th percentile of latency"),
    MetricName("latency_max", "us", "lower", "greatest latency"),
    MetricName(
        "stalls",
        "1",
        "lower",
        "closed loop: seconds with an answer that took more than 0.1 s and 50 times the median",
    ),
    MetricName("recall_mean", "1", "higher", "mean tie-aware recall@k of the timed answers"),
    MetricName(
        "recall_error",
        "1",
        None,
        "half of the 95 % interval of recall_mean as an estimate of that of whole passes over the "
        "queries; 0 where every query was answered equally often",
    ),
    MetricName("recall_p05", "1", "higher", "5th percentile of recall over the answers"),
    MetricName("recall_min", "1", "higher", "least recall of an answer"),
    MetricName(
        "fusion_agreement",
        "1",
        "higher",
        "share of the k best of an exact fusion among the timed answers, ties counted as right",
    ),
    MetricName("ndcg", "1", "higher", "mean nDCG@k of the timed answers against the judgement"),
    MetricName(
        "ndcg_exact",
        "1",
        "higher",
        "mean nDCG@k of the exact fusion for the same requests, against the same judgement",
    ),
    MetricName("selectivity", "1", None, "share of the rows that a filter keeps, mean of queries"),
    MetricName("selectivity_min", "1", None, "least share of the rows that a query's filter keeps"),
    MetricName("selectivity_max", "1", None, "greatest of these shares"),
    MetricName(
        "filter_correlation",
        "1",
        None,
        "rank-biserial correlation of a filter with nearness to its query, mean of queries: 1 when "
        "all kept rows are nearer than all others, 0 when it has nothing to do with it, -1 farther",
    ),
    MetricName("filter_correlation_min", "1", None, "least of a query"),
    MetricName("filter_correlation_max", "1", None, "greatest of a query"),
    MetricName("checked_answers", "1", None, "answers of which every row was held to the filter"),
    MetricName("violations", "1", "lower", "of these, those with a row that the filter leaves out"),
    MetricName("kept_answers", "1", None, "timed answers that were kept, to look at every row"),
    MetricName("unknown_answers", "1", "lower", "of these, those with a row never written"),
    MetricName("wrong_scores", "1", "lower", "scores of these that are not those computed again"),
    MetricName(
        "warmup_recall",
        "1",
        None,
        "mean recall before the clock started, of the queries that were asked under it, too",
    ),
    MetricName("first_pass_count", "1", None, "first answers to a query in the phase"),
    MetricName("first_pass_p50", "us", "lower", "median latency of these"),
    MetricName("first_pass_p99", "us", "lower", "99th percentile of latency of these"),
    MetricName("later_pass_count", "1", None, "later answers to the same queries"),
    MetricName("later_pass_p50", "us", "lower", "median latency of these"),
    MetricName("later_pass_p99", "us", "lower", "99th percentile of latency of these"),
    MetricName(
        "familiar_p50",
        "us",
        "lower",
        "median latency, right after the phase, of new queries like those that it sent",
    ),
    MetricName("unfamiliar_p50", "us", "lower", "median latency of rows as queries beside them"),
    MetricName("familiar_count", "1", None, "pairs of such queries"),
    MetricName("warmup_count", "1", None, "requests before the clock started, not recorded"),
    MetricName("warmup_errors", "1", "lower", "those of them that failed"),
    MetricName(
        "concurrency", "1", None, "closed-loop clients; Python clients that share an open loop"
    ),
    MetricName(
        "littles_law",
        "1",
        None,
        "closed loop: qps × mean latency / clients, at most 1; open loop: service times in all / "
        "requests in flight over time, 1; up to rounding",
    ),
    MetricName("offered_rate", "1/s", None, "arrivals of the schedule per second"),
    MetricName("sent_rate", "1/s", None, "requests sent per second of the schedule"),
    MetricName(
        "unsent",
        "1",
        "lower",
        "arrivals never sent: the bound on requests in flight was met to the end",
    ),
    MetricName(
        "in_flight_limit_hits",
        "1",
        "lower",
        "arrivals that had to wait: the bound on requests in flight was met",
    ),
    MetricName(
        "unanswered", "1", "lower", "requests sent, and neither answered nor failed at the end"
    ),
    MetricName(
        "backlog",
        "1",
        "lower",
        "arrivals due and neither answered nor failed when the schedule ended",
    ),
    MetricName("schedule_lag_p50", "us", "lower", "median of actual minus intended send"),
    MetricName("schedule_lag_p99", "us", "lower", "99th percentile of actual minus intended send"),
    MetricName("service_p50", "us", "lower", "median from actual send to answer"),
    MetricName("service_p99", "us", "lower", "99th percentile from actual send to answer"),
    MetricName("in_flight_mean", "1", None, "requests in flight, averaged over the phase"),
    MetricName("in_flight_peak", "1", None, "requests in flight at once, at most"),
    MetricName("reconnects", "1", "lower", "connections opened anew during the phase"),
    MetricName(
        "client_cpu_share", "1", "lower", "processor time of client threads over what they had"
    ),
    MetricName("client_processes", "1", None, "processes of the Python client"),
    MetricName("ceiling_qps", "1/s", None, "requests per second the client sends to a null server"),
    MetricName("ceiling_share", "1", "lower", "requests per second over the ceiling"),
    MetricName(
        "sustained_qps",
        "1/s",
        "higher",
        "greatest rate that was confirmed to hold within the limits on p99, recall and errors",
    ),
    MetricName("bracket_low", "1/s", None, "greatest rate that held, before it was confirmed"),
    MetricName("load_s", "s", "lower", "time to insert all rows, acknowledged"),
    MetricName("flush_s", "s", "lower", "time to make them durable"),
    MetricName("build_s", "s", "lower", "time to build the index, where that is a step"),
    MetricName("wait_s", "s", "lower", "time until every row is served by the final index"),
    MetricName(
        "first_search_s", "s", "lower", "the first search after that, with making ready to search"
    ),
    MetricName("ready_s", "s", "lower", "load + flush + build + wait + first search"),
    MetricName("cold_count", "1", None, "searches right after a load that were answered"),
    MetricName("cold_first", "us", "lower", "latency of the first of them"),
    MetricName("cold_p50", "us", "lower", "their median latency"),
    MetricName("cold_max", "us", "lower", "the greatest of their latencies"),
    MetricName(
        "probing_s", "s", None, "between load and flush, while rows were probed; not in ready_s"
    ),
    MetricName("batches", "1", None, "acknowledged requests of a load, whose latencies these are"),
    MetricName("rows_per_s", "1/s", "higher", "rows / load time"),
    MetricName("mb_per_s", "MB/s", "higher", "n·d·4 bytes / load time, in 10^6 bytes"),
    MetricName(
        "payload_mb_per_s", "MB/s", "higher", "bytes of the rows as Arrow / time, in 10^6 bytes"
    ),
    MetricName("ready_rows_per_s", "1/s", "higher", "rows / ready time"),
    MetricName("time_to_searchable", "us", "lower", "row acknowledged until a search returns it"),
    MetricName("raw_bytes", "B", None, "n·d·4"),
    MetricName("metadata_bytes", "B", None, "the metadata columns as Arrow"),
    MetricName("disk_bytes", "B", "lower", "allocated blocks of the store's folder after flush"),
    MetricName(
        "disk_ratio",
        "1",
        "lower",
        "disk bytes that came with the load / (raw + metadata bytes)",
    ),
    MetricName("disk_rows_bytes", "B", None, "of what came: rows, and vectors kept with them"),
    MetricName("disk_vectors_bytes", "B", None, "of what came: vectors kept apart"),
    MetricName("disk_index_bytes", "B", None, "of what came: indexes of vectors"),
    MetricName(
        "disk_metadata_index_bytes", "B", None, "of what came: indexes of columns, words and ids"
    ),
    MetricName("disk_log_bytes", "B", None, "of what came: write-ahead logs, message queues"),
    MetricName("disk_catalog_bytes", "B", None, "of what came: collections, segments, settings"),
    MetricName("disk_mixed_bytes", "B", None, "of what came: files that hold several of these"),
    MetricName("disk_other_bytes", "B", None, "of what came: what the store's driver names not"),
    MetricName("index_bytes", "B", "lower", "bytes of the index, as the store itself tells"),
    MetricName("log_bytes", "B", "lower", "bytes of its log, as the store itself tells"),
    MetricName("rss_bytes", "B", "lower", "resident memory with everything loaded"),
    MetricName("rss_growth_bytes", "B", "lower", "resident memory over that before loading"),
    MetricName("rss_ratio", "1", "lower", "resident growth / (raw + metadata bytes)"),
    MetricName("verified", "1", None, "operations whose effect was checked afterwards"),
    MetricName("ineffective", "1", "lower", "operations acknowledged without their effect"),
    MetricName(
        "checked_by_search", "1", None, "changed rows that were looked for by searches afterwards"
    ),
    MetricName(
        "wrong_by_search",
        "1",
        "lower",
        "of these, rows missed at their place, seen at an old one, or seen though deleted",
    ),
    MetricName("passes", "1", None, "times that every row was read out"),
    MetricName("export_rows_per_s", "1/s", "higher", "rows read out / time"),
    MetricName("export_mb_per_s", "MB/s", "higher", "their bytes as Arrow / time, in 10^6 bytes"),
    MetricName("disk_baseline_bytes", "B", "lower", "disk bytes before anything was loaded"),
    MetricName("stored_vector_bytes", "B", "lower", "bytes of vectors, as the store itself tells"),
    MetricName("acknowledged_rows", "1", None, "rows acknowledged by then"),
    MetricName("stale_results", "1", "lower", "answers that name a row that was not there then"),
    MetricName(
        "cpu_s",
        "s",
        "lower",
        "processor time of the measured process in the phase; of a server's client alone",
    ),
    MetricName("cpu_us_per_op", "us", "lower", "that, per finished operation"),
    MetricName("server_cpu_s", "s", "lower", "processor time of the server in the phase"),
    MetricName("server_cores", "1", None, "that, per second of the phase: processors kept busy"),
    MetricName("server_cpu_us_per_op", "us", "lower", "that, per finished operation"),
    MetricName(
        "server_rss_bytes", "B", "lower", "resident memory of the server at the phase's end"
    ),
    MetricName("server_peak_rss_bytes", "B", "lower", "greatest resident memory during the phase"),
    MetricName("server_read_bytes", "B", "lower", "bytes the server read from disks in the phase"),
    MetricName("server_write_bytes", "B", "lower", "bytes the server wrote to disks in the phase"),
    MetricName(
        "server_major_faults", "1", "lower", "page faults of the server that waited for a disk"
    ),
    MetricName(
        "server_link_bytes", "B", "lower", "bytes on the links of the server's hosts, both ways"
    ),
    MetricName("server_link_packets", "1", "lower", "packets on these links, both ways"),
    MetricName("server_switches", "1", "lower", "context switches of the server in the phase"),
    MetricName("server_threads", "1", None, "threads of the server at the phase's end"),
    MetricName(
        "server_disk_bytes", "B", "lower", "allocated blocks of its data at the phase's end"
    ),
    MetricName("load_1m", "1", None, "the machine's load average when the phase began"),
    MetricName(
        "other_cores", "1", None, "processors kept busy by neither the client nor the server"
    ),
    MetricName(
        "steal_share", "1", None, "share of the processors' time that other guests of the host had"
    ),
    MetricName(
        "stalled_share", "1", None, "share of the time in which some task waited for a processor"
    ),
    MetricName(
        "memory_stalled_share",
        "1",
        None,
        "share of the time in which some task of the machine waited for memory",
    ),
    MetricName(
        "throttled_share", "1", None, "share of the time in which the processor quota was used up"
    ),
    MetricName("cpu_mhz", "MHz", None, "mean frequency of the processors, where the system tells"),
)

#: Titles that are not the metric's name in words.
_TITLES = {
    "qps": "QPS", "offered_rate": "Offered QPS", "sent_rate": "Sent QPS",
    "sustained_qps": "Sustained QPS", "ceiling_qps": "Ceiling", "ceiling_share": "Of the ceiling",
    "latency_mean": "mean", "latency_min": "min", "latency_p50": "p50", "latency_p90": "p90",
    "latency_p95": "p95", "latency_p99": "p99", "latency_p99_9": "p99.9", "latency_max": "max",
    "service_p50": "p50 of service time", "service_p99": "p99 of service time",
    "schedule_lag_p50": "p50 of schedule lag", "schedule_lag_p99": "p99 of schedule lag",
    "concurrency": "Clients", "in_flight_peak": "Peak in flight", "backlog": "Backlog at the end",
    "in_flight_limit_hits": "Delayed by the in-flight limit", "confirmations": "Confirmed by",
    "steps_down": "Lowered", "bracket_low": "Passed at", "bracket_high": "Failed at",
    "recall_parameter_value": "Search parameter", "recall_mean": "Recall", "auroc": "AUROC",
    "fusion_agreement": "Agreement", "ndcg": "nDCG", "ndcg_exact": "nDCG of the exact fusion",
    "load_s": "Load", "flush_s": "Flush", "build_s": "Build", "wait_s": "Wait",
    "first_search_s": "First search", "ready_s": "Ready",
    "export_s": "Export", "elapsed_s": "Elapsed", "rows_per_s": "Rows/s", "mb_per_s": "MB/s",
    "payload_mb_per_s": "MB/s as Arrow", "export_rows_per_s": "Rows/s",
    "export_mb_per_s": "MB/s as Arrow", "ready_rows_per_s": "Rows/s until ready",
    "time_to_searchable": "Row searchable after",
    "searchable_after_s": "All found after the last row", "cold_first": "first",
    "cold_p50": "p50", "cold_max": "max", "raw_bytes": "Raw", "metadata_bytes": "Metadata",
    "disk_bytes": "Disk", "disk_baseline_bytes": "Before the load", "disk_ratio": "× raw",
    "stored_vector_bytes": "Vectors", "index_bytes": "Index", "log_bytes": "Log",
    "rss_bytes": "Memory in all", "rss_growth_bytes": "Memory", "rss_ratio": "× raw",
    "checked_by_search": "Searched for", "wrong_by_search": "Wrong for searches",
    "cpu_s": "Client CPU", "cpu_us_per_op": "Client CPU time per request",
    "client_cpu_share": "Of its CPUs", "server_cpu_s": "Server CPU",
    "server_cpu_us_per_op": "Server CPU time per operation", "server_cores": "Kept busy",
    "server_rss_bytes": "At the end", "server_peak_rss_bytes": "At most",
    "server_disk_bytes": "Disk", "server_read_bytes": "Read", "server_write_bytes": "Written",
    "server_link_bytes": "Bytes on links", "server_major_faults": "Major faults",
}  # fmt: skip

#: The metrics that several experiments have; others are declared by the experiment that measures
#: them (`Experiment.metrics`).
METRICS = {
    metric.name: replace(
        metric, title=_TITLES.get(metric.name) or metric.name.replace("_", " ").capitalize()
    )
    for metric in _ALL
}


def metrics_with(own: Iterable[MetricName]) -> Mapping[str, MetricName]:
    """The shared metrics and these, an experiment's own, by name."""
    return METRICS | {metric.name: metric for metric in own}


#: Keys of one object of `vectrial report RUN --format jsonl`, in order; more may follow.
EXPORT_KEYS = (
    "store", "lane", "dataset", "rows", "dim", "metric_space", "experiment", "phase", "params",
    "repeat", "metric", "value", "unit", "valid", "reason",
)  # fmt: skip
