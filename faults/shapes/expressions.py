"""Expressions on one row, by the type of their column; and calls of every built-in function."""

from __future__ import annotations

from functools import cache
from pathlib import Path

BUILT_IN = Path(__file__).with_name("functions.txt")
"""
A call of each built-in function that a query may use, from Spark's own documentation.

``{empty}`` stands for an empty text from a column, so that Spark cannot evaluate the call in advance.
"""

_INTEGER = (
    *(
        "try_add({c}, 1)",
        "try_multiply({c}, 3)",
        "try_divide({c}, 3)",
        "{c} % 7",
        "pmod({c}, 5)",
        "CAST({c} AS STRING)",
    ),
    *(
        "CAST({c} AS DOUBLE) / 3",
        "try_cast({c} AS TINYINT)",
        "bin({c})",
        "hex({c})",
        "{c} & 6",
        "{c} IN (1, 2, 3, NULL)",
    ),
    *("CASE WHEN {c} > 3 THEN 'many' WHEN {c} > 0 THEN 'few' END", "nullif({c}, 1)", "format_number({c}, 1)"),
    *(
        "try_cast({c} AS DECIMAL(10, 2)) / 7",
        "shiftleft({c}, 2)",
        "hash({c})",
        "xxhash64({c})",
        "{c} * 1E0",
        "{c} <=> NULL",
    ),
    *("sequence(1, CAST(pmod({c}, 4) AS INT))", "map(1, 'a', CAST({c} % 3 + 5 AS INT), 'b')", "greatest({c}, 2)"),
    *(
        "timestamp_seconds(pmod({c}, 1000000))",
        "make_date(2024, CAST(pmod({c}, 12) AS INT) + 1, 1)",
        "CAST({c} AS BOOLEAN)",
    ),
    *(
        "map_from_arrays(array('a', 'a'), array({c}, 1))",
        "element_at(array(1, 2, 3), CAST(pmod(coalesce({c}, 0), 3) AS INT) + 1)",
    ),
)
_FRACTION = (
    *("try_add({c}, 1)", "try_divide({c}, 3)", "CAST({c} AS STRING)", "CAST({c} AS DOUBLE)", "round({c}, 1)", "-{c}"),
    *(
        "{c} > 0.5",
        "try_cast({c} AS BIGINT)",
        "hash({c})",
        "coalesce({c}, 0)",
        "signum({c})",
        "least({c}, 1.25)",
        "{c} = 0",
    ),
    *(
        "CASE WHEN {c} >= 0 THEN 'up' ELSE 'down' END",
        "struct({c} AS value, 1 AS one)",
        "nullif({c}, 0)",
        "{c} IS NULL",
    ),
)
_TEXT = (
    *(
        "upper({c})",
        "lower({c})",
        "length({c})",
        "octet_length({c})",
        "concat({c}, '!', {c})",
        "{c} || 'x'",
        "reverse({c})",
    ),
    *(
        "substring({c}, 2, 3)",
        "left({c}, 2)",
        "trim({c})",
        "initcap({c})",
        "md5({c})",
        "sha2({c}, 256)",
        "base64(encode({c}, 'UTF-8'))",
    ),
    *(
        "regexp_replace({c}, '\\\\d+', '#')",
        "regexp_extract({c}, r'(\\d+)', 1)",
        "{c} RLIKE '^[a-c]'",
        "{c} LIKE 'a\\_%'",
    ),
    *(
        "split({c}, '')",
        "soundex({c})",
        "ascii({c})",
        "{c} ILIKE '%A%'",
        "try_cast({c} AS INT)",
        "try_cast({c} AS DATE)",
    ),
    *(
        "try_cast({c} AS TIMESTAMP)",
        "try_to_timestamp({c}, 'yyyy-MM-dd')",
        "translate({c}, 'ab', 'xy')",
        "{c} = 'a\\tb'",
    ),
    *(
        "CASE {c} WHEN 'a' THEN 1 WHEN '' THEN 2 END",
        'nvl({c}, "none")',
        "lpad({c}, 5, '*')",
        "instr({c}, 'e')",
        "crc32({c})",
    ),
    *(
        "from_json(to_json(struct({c} AS v)), 'v STRING').v",
        "url_encode({c})",
        "contains({c}, 'beginning')",
        "{c} IS NOT NULL",
    ),
    *(
        "named_struct('t', {c}, 'n', char_length({c}))",
        "array({c}, 'z')",
        "elt(1, {c}, 'x')",
        "{c} COLLATE UTF8_LCASE = 'A'",
    ),
    *("date_format(try_cast({c} AS TIMESTAMP), 'YYYY')", "levenshtein({c}, 'abc')", "str_to_map({c}, ',', ':')"),
)
_DAY = (
    *(
        "date_add({c}, 1)",
        "year({c})",
        "datediff({c}, DATE '2020-01-01')",
        "CAST({c} AS STRING)",
        "date_format({c}, 'EEE yyyy-MM-dd')",
    ),
    *(
        "trunc({c}, 'MM')",
        "dayofweek({c})",
        "weekofyear({c})",
        "{c} > DATE '1970-01-01'",
        "CAST({c} AS TIMESTAMP)",
        "last_day({c})",
    ),
    *(
        "unix_date({c})",
        "extract(QUARTER FROM {c})",
        "{c} BETWEEN DATE '1582-10-01' AND DATE '2024-01-01'",
        "add_months({c}, 1)",
    ),
)
_MOMENT = (
    *(
        "CAST({c} AS STRING)",
        "CAST({c} AS DATE)",
        "date_trunc('HOUR', {c})",
        "hour({c})",
        "date_format({c}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')",
    ),
    *(
        "{c} > TIMESTAMP '1970-01-01 00:00:00'",
        "extract(SECOND FROM {c})",
        "to_json(struct({c} AS at))",
        "dayofyear({c})",
    ),
    *(
        "{c} + INTERVAL '1' DAY",
        "try_subtract({c}, INTERVAL '2' HOUR)",
        "year({c})",
        "CAST({c} AS TIMESTAMP_NTZ)",
        "weekday({c})",
    ),
    *("to_utc_timestamp({c}, 'America/New_York')", "convert_timezone('UTC', 'Asia/Tokyo', CAST({c} AS TIMESTAMP_NTZ))"),
    *("CAST({c} AS STRING) || ''", "concat_ws('/', year({c}), month({c}))"),
)
_NESTED = (
    "CAST({c} AS STRING)",
    "{c} IS NULL",
    "to_json(struct({c} AS v))",
    "struct({c} AS v)",
    "hash(to_json(struct({c} AS v)))",
)
_ARRAY = (
    *_NESTED,
    "size({c})",
    "{c}[0] IS NULL",
    "try_element_at({c}, 1)",
    "array_distinct({c})",
    "slice({c}, 1, 1)",
    "reverse({c})",
)
_NUMBERS = (
    "transform({c}, x -> x + 1)",
    "filter({c}, x -> x > 0)",
    "exists({c}, x -> x > 3)",
    "aggregate({c}, 0, (a, x) -> a + coalesce(x, 0))",
)

BY_TYPE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), _INTEGER),
    **dict.fromkeys(
        ("float", "double"), (*_FRACTION, "isnan({c})", "nanvl({c}, 0)", "CAST({c} AS FLOAT)", "{c} = {c}")
    ),
    "decimal": (*_FRACTION, "{c} * 1.10", "{c} / 3.0", "CAST({c} AS DECIMAL(38, 6)) / 7"),
    **dict.fromkeys(("string", "varchar"), _TEXT),
    "char": (
        "upper({c})",
        "length({c})",
        "concat({c}, '!')",
        "CAST({c} AS STRING)",
        "{c} IS NULL",
        "substring({c}, 2, 3)",
    ),
    "date": _DAY,
    "timestamp": (*_MOMENT, "unix_micros({c})", "from_utc_timestamp({c}, 'Asia/Kolkata')", "{c} > '2000-01-01'"),
    "timestamp_ntz": (*_MOMENT, "CAST({c} AS TIMESTAMP)", "{c} = TIMESTAMP_NTZ '1970-01-01 00:00:00'"),
    "binary": (
        "hex({c})",
        "length({c})",
        "base64({c})",
        "concat({c}, X'00')",
        "concat({c}, {c})",
        "md5({c})",
        "{c} = X'FF'",
        "{c} IS NULL",
        "crc32({c})",
    ),
    "boolean": (
        "NOT {c}",
        "IF({c}, 1, 0)",
        "CAST({c} AS STRING)",
        "{c} IS TRUE",
        "{c} AND 1 = 1",
        "coalesce({c}, true)",
        "CAST({c} AS INT)",
    ),
    "array<integer>": (*_ARRAY, *_NUMBERS, "array_contains({c}, 1)", "array_sort({c})", "array_max({c})"),
    "array<struct<a:integer,b:string>>": (*_ARRAY, "{c}.a", "transform({c}, x -> x.b)", "{c}[0].a IS NULL"),
    "map<string,integer>": (
        *_NESTED,
        "size({c})",
        "map_keys({c})",
        "{c}['a']",
        "try_element_at({c}, 'é')",
        "map_filter({c}, (k, v) -> v > 0)",
    ),
    "struct<a:integer,b:string>": (*_NESTED, "{c}.a", "{c}.b", "coalesce({c}.a, 0)", "{c}.B"),
    "variant": (
        "variant_get({c}, '$.a', 'int')",
        "to_json({c})",
        "CAST({c} AS STRING) IS NULL",
        "schema_of_variant({c})",
        "is_variant_null({c})",
        "{c}",
    ),
}
"""Expressions by type; ``{c}`` is the column. CHAR, VARCHAR and DECIMAL are named without their numbers."""

CONDITIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("byte", "short", "integer", "long"),
        ("{c} % 3 <> 1", "{c} > 5 OR {c} IS NULL", "{c} NOT IN (7, 8)", "{c} BETWEEN -5 AND 60"),
    ),
    **dict.fromkeys(("float", "double", "decimal"), ("{c} >= 0 OR {c} IS NULL", "{c} <> 0", "coalesce({c}, 1) > -100")),
    **dict.fromkeys(
        ("string", "varchar", "char"),
        ("{c} IS NOT NULL", "length({c}) > 1", "{c} <> 'a'", "{c} NOT LIKE 'X%'", "{c} RLIKE '\\\\d' OR true"),
    ),
    **dict.fromkeys(
        ("date", "timestamp", "timestamp_ntz"),
        ("year({c}) > 1600 OR {c} IS NULL", "{c} IS NOT NULL", "month({c}) <> 4"),
    ),
    "boolean": ("{c}", "{c} IS NOT FALSE", "NOT coalesce({c}, false)"),
    "binary": ("{c} IS NOT NULL", "{c} <> X'80'"),
}
"""Conditions that many rows meet, by type."""


def kind_of(type_: str) -> str:
    """Return the name of a type in the tables above."""
    return type_.partition("(")[0]


@cache
def built_in() -> tuple[str, ...]:
    """Return a call of each built-in function."""
    return tuple(line for line in BUILT_IN.read_text(encoding="utf-8").splitlines() if line)
