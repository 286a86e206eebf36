"""
The functions that a query of groups may call.

An aggregate is allowed if it gives the same result for the same rows in any order. Some give it only with an order that
leaves no two rows equal; :mod:`~airflow_backfill_provider.shapes.group.orders` checks that order.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.functions import GENERATORS, NON_DETERMINISTIC, ROW_FUNCTIONS
from airflow_backfill_provider.shapes.group.refusals import refused

EXACT_AGGREGATES = frozenset(
    """
    any approx_count_distinct avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and
    bool_or corr count count_if count_min_sketch covar_pop covar_samp every kurtosis max mean median min percentile
    percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy
    regr_syy skewness some std stddev stddev_pop stddev_samp sum try_avg try_sum var_pop var_samp variance
    """.split()
)
"""Aggregates that the order of rows does not matter to, apart from the last digits of floating-point numbers."""

COLLECTING = frozenset({"array_agg", "collect_list", "collect_set"})
"""Aggregates that return an array of values, in the order of the rows."""

LISTING = frozenset({"listagg", "string_agg"})
"""Aggregates that join values in the order that WITHIN GROUP gives."""

BY_EXTREME = frozenset({"max_by", "min_by"})
"""Aggregates that return a value of the first row in the order of their second argument."""

POSITIONAL = frozenset({"any_value", "first", "first_value", "last", "last_value"})
"""Aggregates that return a value of the first or last row; over a window with an order, that is a certain one."""

ORDERED_WINDOWS = frozenset({"lag", "lead", "nth_value", "ntile", "row_number"})
"""Window functions that tell apart rows that are equal in the window's order."""

RANKS = frozenset({"cume_dist", "dense_rank", "percent_rank", "rank"})
"""Window functions that treat rows alike that are equal in the window's order."""

MODE = "mode"

GROUPED_AGGREGATES = EXACT_AGGREGATES | COLLECTING | LISTING | BY_EXTREME | POSITIONAL | {MODE}
"""All aggregates that may occur in a query of groups."""

GROUP_FUNCTIONS = ROW_FUNCTIONS | GROUPED_AGGREGATES | ORDERED_WINDOWS | RANKS
"""All functions that a query of groups may call."""

_INSTEAD: Mapping[str, str] = {
    "approx_percentile": "write percentile(…), which is exact",
    "approx_top_k": "write count(*) in one job, and the top of it with rank() in a second one over its view",
    "grouping": "make one job for each list of columns to group by",
    "grouping_id": "make one job for each list of columns to group by",
    "histogram_numeric": "group by width_bucket(…), and count",
    "percentile_approx": "write percentile(…), which is exact",
    "session_window": "write time_bucket(…) or date_trunc(…), and group by that",
    "window": "write time_bucket(…) or date_trunc(…), and group by that",
}


def other_function(name: str) -> InvalidJobError:
    """Return the error for a function of Spark's that no query of groups may call."""
    if name in _INSTEAD:
        return refused(name, _INSTEAD[name])
    if name in NON_DETERMINISTIC:
        return refused(f"{name}, which is not deterministic", "remove it, or store its value in the upstream")
    if name in GENERATORS:
        return refused(f"{name}, which returns several rows for one", "make a view of the rows first")
    return refused(f"{name}, whose result may depend on the order of rows", "write another aggregate")
