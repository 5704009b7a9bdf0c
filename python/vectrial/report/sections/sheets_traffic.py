"""Sections of rows on their way: in and out in bulk, and changing while others search."""

from __future__ import annotations

from vectrial.report.sections.sheets import LATENCY, Sheet, metric

SHEETS = (
    Sheet(
        "transport",
        "Rows in and out in bulk",
        "put: writes into an empty store until the last row is acknowledged. indexed: from the "
        "first write until the final index serves every row. get: reads of all rows. mixed: "
        "alternating puts and full reads, each client on its own growing collection. MB are 10^6 "
        "bytes of Arrow batches (ids, vectors, metadata) or of vectors alone, over the time of all "
        "clients together. Latency is that of one batch put or one full read.",
        ("put", "indexed", "get", "mixed", "mixed_put", "mixed_get"),
        (("rows", "Rows"), ("clients", "Clients"), ("phase", "What")),
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
        "Rows were written, then the process was ended by SIGKILL and started again. With synced "
        "writes the store promises every acknowledged row; with buffered writes, those whose flush "
        "was due; else those that were flushed. The page cache survives a killed process: this is "
        "not a power cut.",
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
        "closed: one client searches, inserts, updates and deletes in random order. open: each "
        "operation has its own rate, and latency counts from the scheduled time. Recall is against "
        "the rows alive at each search. With one client it is exact; otherwise writes in flight "
        "leave a range, and both bounds are shown. A row counts as dead only if it was certainly "
        "absent for the whole search.",
        ("search", "insert", "update", "delete"),
        (
            ("mix", "Mix"),
            ("loop", "Loop"),
            ("rate", "Offered/s"),
            ("clients", "Clients"),
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
