"""The functions and operators of queries of groups, by the kinds of values; ``{c}`` stands for a column."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

_KEYS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "number": (
        ("{c} % 3", "number"),
        ("{c} > 2", "boolean"),
        ("CAST({c} AS STRING)", "text"),
        ("{c} IS NULL", "boolean"),
    ),
    "decimal": (("floor({c})", "decimal"), ("CAST({c} AS STRING)", "text"), ("{c} < 0", "boolean")),
    "floating": (("CAST({c} AS STRING)", "text"), ("isnan({c})", "boolean"), ("{c} > 1", "boolean")),
    "text": (
        *(("lower({c})", "text"), ("upper({c})", "text"), ("length({c})", "number"), ("substr({c}, 1, 1)", "text")),
        *(("trim({c})", "text"), ("coalesce({c}, '')", "text"), ("{c} LIKE 'a%'", "boolean"), ("hex({c})", "text")),
    ),
    "day": (("year({c})", "number"), ("trunc({c}, 'MM')", "day"), ("{c} < DATE'2000-01-01'", "boolean")),
    "moment": (("date_trunc('MONTH', {c})", "moment"), ("CAST({c} AS DATE)", "day"), ("hour({c})", "number")),
    "boolean": (("NOT {c}", "boolean"), ("coalesce({c}, false)", "boolean"), ("if({c}, 'yes', 'no')", "text")),
    "binary": (("hex({c})", "text"), ("length({c})", "number"), ("md5({c})", "text")),
}
_CONDITIONS: Mapping[str, tuple[str, ...]] = {
    "number": ("{c} > 3", "{c} % 2 = 0", "{c} BETWEEN -2 AND 8", "{c} IN (1, 2, 3)"),
    "decimal": ("{c} > 0", "{c} <> 1.5"),
    "floating": ("{c} > 0", "NOT isnan({c})", "{c} = 0.0"),
    "text": ("{c} >= 'a'", "{c} LIKE '%a%'", "length({c}) < 3", "{c} <> ''"),
    "day": ("{c} > DATE'1970-01-01'", "year({c}) = 1970"),
    "moment": ("hour({c}) < 12", "year({c}) > 2000"),
    "boolean": ("{c}", "NOT {c}", "{c} IS NOT TRUE"),
    "binary": ("length({c}) > 1", "{c} = X'00'"),
}
_NUMERIC = (
    *("sum({c})", "sum({c})", "avg({c})", "try_sum({c})", "stddev({c})", "var_pop({c})", "median({c})"),
    *(
        "percentile({c}, 0.5)",
        "sum(DISTINCT {c})",
        "avg(DISTINCT {c})",
        "percentile_cont(0.25) WITHIN GROUP (ORDER BY {c})",
    ),
)
_ANY = (
    *("count({c})", "count(DISTINCT {c})", "min({c})", "max({c})", "min({c})", "max({c})", "mode({c}, true)"),
    *("sort_array(collect_list({c}))", "sort_array(collect_set({c}))", "approx_count_distinct({c})"),
    *("max_by({c}, struct({key}))", "min_by({c}, struct({d}, {key}))", "count(DISTINCT {c}, {d})"),
    *("count_if({c} IS NULL)", "count(DISTINCT {d}) + count({c})"),
)
_AGGREGATES: Mapping[str, tuple[str, ...]] = {
    "number": (*_NUMERIC, *_ANY, "bit_xor({c})", "bit_and({c})", "sum({c} * 2 - 1)", "kurtosis({c})", "max(-{c})"),
    "decimal": (*_NUMERIC, *_ANY, "sum({c} / 3)", "avg(-{c})"),
    "floating": (*_NUMERIC, "min({c})", "max({c})", "count({c})", "count(DISTINCT {c})", "max_by({c}, struct({key}))"),
    "text": (
        *_ANY,
        "listagg({c}, '') WITHIN GROUP (ORDER BY {c} DESC)",
        "listagg({c}, '|') WITHIN GROUP (ORDER BY {c})",
        "max(length({c}))",
        "min(lower({c}))",
    ),
    "day": (*_ANY, "max(year({c}))"),
    "moment": (*_ANY, "min(CAST({c} AS DATE))"),
    "boolean": (*_ANY, "bool_and({c})", "bool_or({c})", "every(NOT {c})", "some({c})"),
    "binary": (*_ANY, "max(length({c}))"),
}
_OF_AGGREGATES = (
    *("{a}", "{a}", "{a}", "{a}", "{a}", "{a}"),
    *(
        "coalesce({a}, {a})",
        "CASE WHEN count(*) > 2 THEN {a} END",
        "nullif(count(*), 2)",
        "if(count(*) = 1, NULL, {a})",
    ),
)
_CALLED = re.compile(r"(\w+)\(|\b(DIV|WITHIN)\b")


@dataclass(frozen=True, slots=True)
class Words:
    """
    What an engine can compute.

    :param keys: for each kind of values, expressions that can tell groups apart, each with its own kind.
    :param conditions: for each kind, conditions on a value.
    :param aggregates: for each kind, aggregates of values; ``{d}`` stands for another column, ``{key}`` for the key.
    :param of_aggregates: expressions of an aggregate ``{a}``.
    """

    keys: Mapping[str, tuple[tuple[str, str], ...]]
    conditions: Mapping[str, tuple[str, ...]]
    aggregates: Mapping[str, tuple[str, ...]]
    of_aggregates: tuple[str, ...]

    def with_functions(self, known: Collection[str]) -> Words:
        """Return the words without what calls other functions."""

        def is_known(text: str) -> bool:
            return all((call or word).lower() in known for call, word in _CALLED.findall(text))

        return Words(
            {kind: tuple(one for one in found if is_known(one[0])) for kind, found in self.keys.items()},
            {kind: tuple(filter(is_known, found)) for kind, found in self.conditions.items()},
            {kind: tuple(filter(is_known, found)) for kind, found in self.aggregates.items()},
            tuple(filter(is_known, self.of_aggregates)),
        )


SPARK = Words(_KEYS, _CONDITIONS, _AGGREGATES, _OF_AGGREGATES)
"""What Spark can compute."""
