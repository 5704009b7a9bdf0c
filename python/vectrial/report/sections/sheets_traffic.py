"""Sections of rows on their way: in and out in bulk, and changing while others search."""

from __future__ import annotations

from vectrial.report.sections.sheets import LATENCY, Sheet, metric

SHEETS = (
    Sheet(
        "transport",
        "Rows in and out in bulk",
        "Puts into an empty store until the last row was acknowledged (put); from the first until "
        "every row is served by the final index (indexed); reads of everything (get). Then puts "
        "and whole reads by turns, each caller on a collection of its own, which grows (mixed, "
        "with its halves). MB are 10^6 bytes of Arrow batches (ids, vectors, metadata) or of "
        "vectors alone, over the time of all callers together. Latency is of a batch put, or of a "
        "whole read.",
        ("put", "indexed", "get", "mixed", "mixed_put", "mixed_get"),
        (("rows", "Rows"), ("clients", "Callers"), ("phase", "What")),
        (
            metric("payload_mb_per_s", "all", "MB/s", "MB/s put"),
            metric("mb_per_s", "vectors", "MB/s", "MB/s put"),
            metric("export_mb_per_s", "all", "MB/s", "MB/s got"),
            metric("rows_per_s", "put", "1/s", "Rows/s"),
            metric("ready_rows_per_s", "put and indexed", "1/s", "Rows/s"),
            metric("export_rows_per_s", "got", "1/s", "Rows/s"),
            metric("load_s", "put", "s", "Seconds"),
            metric("ready_s", "put and indexed", "s", "Seconds"),
            metric("qps", "Operations/s", "1/s"),
            *LATENCY,
            metric("errors", "Errors", "1"),
            metric("ineffective", "Incomplete reads", "1"),
        ),
        growing=True,
        sparse=True,
    ),
    Sheet(
        "durability",
        "Rows after a crash",
        "Rows were written, the process that held them was ended by SIGKILL and started again. "
        "Promised are all acknowledged rows where writes are synced, those that were due where "
        "they are buffered, else those that were flushed. What the system had not written to the "
        "disk outlives a process: a power cut was not tried.",
        ("crash",),
        (("durability", "Writes are"), ("rows", "Rows")),
        (
            metric("acknowledged_rows", "acknowledged", "1", "Rows"),
            metric("promised_rows", "promised", "1", "Rows"),
            metric("kept_rows", "kept", "1", "Rows"),
            metric("lost_rows", "promised and lost", "1", "Rows"),
            metric("reopen_s", "Back after", "s"),
        ),
    ),
    Sheet(
        "mixed",
        "Searching while rows change",
        "One caller who searches, inserts, updates and deletes in random order (closed); or each "
        "at a rate of its own (open), with latency from when a request was due. Recall is against "
        "the rows alive at each search: exact with one caller; else what is alive is known but for "
        "the writes under way, and recall lies between the two figures. Only a row certainly not "
        "there while the search ran is called dead.",
        ("search", "insert", "update", "delete"),
        (
            ("mix", "Mix"),
            ("loop", "Loop"),
            ("rate", "Wanted/s"),
            ("clients", "Callers"),
            ("phase", "Operation"),
        ),
        (
            metric("qps", "Done/s", "1/s"),
            *LATENCY,
            metric("schedule_lag_p99", "lag p99", "us", "Latency"),
            metric("recall_mean", "at most", "1", "Recall"),
            metric("recall_mean_least", "at least", "1", "Recall"),
            metric("uncertain_rows", "Rows under way", "1"),
            metric("count", "Done", "1"),
            metric("unsent", "Not sent", "1"),
            metric("errors", "Errors", "1"),
            metric("dead_answers", "Answers with dead rows", "1"),
        ),
        sparse=True,
    ),
)
