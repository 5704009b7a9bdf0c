"""The indexes that a server uses for searches of a table that somebody else made.

The server itself is asked: it plans a search (`EXPLAIN`), and the plan names the indexes. So this
also finds the indexes of partitions, of the table under a view, of an expression
(`embedding::halfvec(768)`), and of a part of the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vectrial.model.errors import UserError
from vectrial.model.metric import Metric
from vectrial.stores.common.sql import quoted
from vectrial.stores.postgres.sql import OPERATORS, TableNames

#: Runs SQL with values for $1, $2, …, and returns a cursor.
RunSql = Callable[..., Any]

#: Types of vectors that are searched: those of half precision are read as float32.
OPERANDS = ("vector", "halfvec")
_METRICS = {
    f"{operand}_{name}_ops": metric
    for operand in OPERANDS
    for name, metric in (("l2", Metric.L2), ("cosine", Metric.COSINE), ("ip", Metric.IP))
}
#: Kinds of index and their parameters, each with its name there.
_KINDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "hnsw": ("hnsw", {"m": "m", "ef_construction": "ef_construction"}),
    "ivfflat": ("ivf_flat", {"lists": "nlist"}),
}
#: Kinds of index that order no rows by distance of vectors.
_OTHERS = ["btree", "hash", "gin", "gist", "spgist", "brin"]
#: Query for the expression, the condition and the class of operators (which has the metric) of
#: each index of a relation, of its partitions, and of the tables under a view.
_KEYS = """\
WITH RECURSIVE link (above, below) AS (
SELECT inhparent, inhrelid FROM pg_inherits UNION
SELECT ev_class, refobjid FROM pg_rewrite JOIN pg_depend ON objid = pg_rewrite.oid
WHERE classid = 'pg_rewrite'::regclass AND refclassid = 'pg_class'::regclass),
part (relation) AS (SELECT $1::regclass::oid UNION
SELECT below FROM part JOIN link ON above = relation)
SELECT DISTINCT pg_get_indexdef(indexrelid, 1, true),
coalesce(pg_get_expr(indpred, indrelid, true), ''), opcname, amname FROM pg_index
JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam
JOIN pg_opclass ON pg_opclass.oid = indclass[0]
WHERE indrelid IN (SELECT relation FROM part) AND indisvalid AND amname <> ALL ($2)
ORDER BY 1, 2, 3, 4"""
#: An index by its name and that of its table.
_INDEX = """\
SELECT amname, coalesce(reloptions, '{}') FROM pg_index
JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam
WHERE indrelid = $1::regclass AND relname = $2"""
#: Rows of the search that is planned.
_LIMIT = 10


@dataclass(frozen=True)
class SearchTarget:
    """An expression that searches can compare with a query (see `TableNames`). metrics: metrics
    that an index serves."""

    column: str
    expression: str
    operand: str
    predicate: str
    metrics: Sequence[Metric]

    @property
    def title(self) -> str:
        """The searched expression, with its predicate if it has one, for messages."""
        return f"{self.expression}{f' where {self.predicate}' if self.predicate else ''}"


@dataclass(frozen=True)
class PlannedIndexes:
    """The indexes that the plan of a search uses. names: names of the indexes. forced: they are
    used only if the planner may not read the whole table."""

    searched: SearchTarget
    metric: Metric
    index: str
    params: Mapping[str, int]
    names: Sequence[str]
    forced: bool


def planned_indexes(
    run_sql: RunSql, table: str, column: SearchTarget, metric: Metric | None, expression: str | None
) -> PlannedIndexes | None:
    """The indexes that the server uses for searches, tried first with its own settings; None if it
    reads every row.

    Args:
        column: the column, with the searches' condition if they have one.
        expression: what the application compares with a query; "" means the column, None that the
            user has not said.

    Raises:
        UserError: the indexes have several metrics, cover several parts of the rows, or are of a
            kind that is not measured; or the user must say what is searched.
    """
    others, left_out = _candidates(run_sql, table, column)
    over = [one for one in others if one.expression]
    if expression:
        named = [
            one for one in over if _strip_brackets(one.expression) == _strip_brackets(expression)
        ]
        if not named:
            has = ", ".join(dict.fromkeys(one.expression for one in over))
            raise UserError(
                f"no index that is measured is over {expression}",
                where="--vector",
                remedy=f"name the column, {column.column}" + (f", or one of {has}" if has else ""),
            )
        return _first_planned(run_sql, table, [named], metric)
    plain = [[column], [one for one in others if not one.expression]]
    if found := _first_planned(run_sql, table, plain, metric):
        return found
    if expression is None and (other := _first_planned(run_sql, table, [over], metric)):
        what = other.searched.expression
        raise UserError(
            f"an index is over {what}, which searches of {column.column} itself do not use",
            where="--vector",
            remedy=f"name what your application searches: --vector '{what}' or --vector"
            f" {column.column}",
        )
    if left_out and metric is None:
        raise UserError(
            f"the index of '{column.column}' is one that is not measured: {', '.join(left_out)}",
            remedy="--metric cosine, l2 or ip has searches without it measured",
        )
    return None


def _first_planned(
    run_sql: RunSql, table: str, groups: Sequence[Sequence[SearchTarget]], requested: Metric | None
) -> PlannedIndexes | None:
    """The indexes of the first group of candidates that has any used by searches."""
    for forced in (False, True):
        if forced:
            run_sql("SELECT set_config('enable_seqscan', 'off', false)")
        try:
            for some in groups:
                planned = [
                    PlannedIndexes(one, metric, *about, forced)
                    for one in some
                    for metric in one.metrics
                    if requested in (None, metric)
                    if (about := _plan_search(run_sql, table, one, metric)) is not None
                ]
                if planned:
                    return _require_one(planned)
        finally:
            if forced:
                run_sql("RESET enable_seqscan")
    return None


def _require_one(planned: Sequence[PlannedIndexes]) -> PlannedIndexes:
    if len(metrics := dict.fromkeys(one.metric for one in planned)) > 1:
        raise UserError(
            f"there are indexes for {' and '.join(metrics)}",
            remedy=f"choose: --metric {planned[0].metric}",
        )
    if len(planned) > 1:
        raise UserError(
            f"there are indexes of {', and of '.join(one.searched.title for one in planned)}",
            remedy="make a view of the rows that are searched, and name that",
        )
    return planned[0]


def _candidates(
    run_sql: RunSql, table: str, column: SearchTarget
) -> tuple[list[SearchTarget], list[str]]:
    """Other candidates for searching the column, and its indexes that are not measured. Candidates
    are expressions that other indexes are over. If searches have a condition, the server decides
    which partial indexes cover it."""
    others: dict[tuple[str, str, str], list[Metric]] = {}
    left_out: list[str] = []
    vector = column.column
    for key, predicate, operators, kind in run_sql(_KEYS, (table, _OTHERS)).fetchall():
        expression = _strip_brackets(key)
        if not mentions(expression, vector):
            continue
        plain = expression in (vector, quoted(vector))
        metric = _METRICS.get(operators) if kind in _KINDS else None
        if metric is None:
            left_out.append(f"{kind} ({expression} {operators})")
        elif not plain or (predicate and not column.predicate):
            operand, shown = operators.partition("_")[0], column.predicate or predicate
            metrics = others.setdefault(("" if plain else f"({expression})", operand, shown), [])
            if metric not in metrics:
                metrics.append(metric)
    return [SearchTarget(vector, *what, metrics) for what, metrics in others.items()], left_out


def mentions(expression: str, column: str) -> bool:
    """True if an SQL expression mentions this column."""
    named = rf'(?<![\w"]){re.escape(column)}(?![\w"])|{re.escape(quoted(column))}'
    return re.search(named, expression) is not None


def _strip_brackets(key: str) -> str:
    """An expression without brackets that enclose all of it."""
    while key.startswith("(") and key.endswith(")") and _is_bracketed(key):
        key = key[1:-1]
    return key


def _is_bracketed(key: str) -> bool:
    """True if the first bracket of a text is closed by its last."""
    depth = 0
    for at, letter in enumerate(key):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return at == len(key) - 1
    return False


def _plan_search(
    run_sql: RunSql, table: str, searched: SearchTarget, metric: Metric
) -> tuple[str, Mapping[str, int], Sequence[str]] | None:
    """Kind, parameters and names of the indexes over which a search is planned; None if it uses no
    vector index.

    Raises:
        UserError: the index is not measured, or is not this server's own.
    """
    from psycopg.errors import UndefinedColumn

    near = TableNames("", "", searched.column, "", "", searched.expression, searched.operand)
    where = f" WHERE {searched.predicate}" if searched.predicate else ""
    text = (
        f"EXPLAIN (FORMAT JSON, VERBOSE) SELECT 1 FROM {table}{where}"
        f" ORDER BY {near.searched} {OPERATORS[metric]} {near.query} LIMIT {_LIMIT}"
    )
    try:
        (plan,) = run_sql(text, (np.ones(1, np.float32),)).fetchone()
    except UndefinedColumn:  # of a table under a view, which the view does not show
        return None
    indexes = []
    for scan in _scans(plan[0]["Plan"]):
        path = f"{quoted(scan['Schema'])}.{quoted(scan['Relation Name'])}"
        kind, options = run_sql(_INDEX, (path, scan["Index Name"])).fetchone()
        if kind in _KINDS:
            about = dict(option.split("=", 1) for option in options)
            indexes.append((kind, about, scan["Index Name"]))
        elif "Order By" in scan:
            raise UserError(
                f"searches use '{scan['Index Name']}', an index of the kind {kind}",
                remedy=f"{' and '.join(_KINDS)} are measured",
            )
    if not indexes:
        return None
    kinds, options, names = zip(*indexes, strict=True)
    if len(set(kinds)) > 1:
        raise UserError(f"parts of {table} have indexes of different kinds, which are not measured")
    kind, known = _KINDS[kinds[0]]
    shared = {n: v for n, v in options[0].items() if all(one.get(n) == v for one in options)}
    return kind, {known[name]: int(value) for name, value in shared.items() if name in known}, names


def _scans(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every index scan in a plan.

    Raises:
        UserError: a part of the plan is another server's or an extension's, and is not shown.
    """
    if node["Node Type"] in ("Foreign Scan", "Custom Scan") and "Plans" not in node:
        where = node.get("Relation Name") or node.get("Custom Plan Provider") or "an extension"
        raise UserError(
            f"searches are answered by {where} ({node['Node Type']}), not by this server"
        )
    if "Index Name" in node and "Relation Name" in node:
        yield node
    for below in node.get("Plans", ()):
        yield from _scans(below)
