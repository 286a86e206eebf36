"""What records become on Spark: the values of JSON and text exactly, and an error for everything that does not fit."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from airflow_backfill_provider.sources.shared.formats.column_types import parsed_type
from airflow_backfill_provider.sources.shared.formats.columns_text import parse_columns
from airflow_backfill_provider.sources.shared.formats.definition import JsonFormat, RawFormat, TextFormat
from airflow_backfill_provider.sources.shared.formats.json_text import INVALID, NO_OBJECT
from airflow_backfill_provider.sources.shared.formats.resolved import ResolvedFormat, resolved
from airflow_backfill_provider.sources.shared.formats.spark import NO_UTF8, decoded, with_decoded

pytestmark = pytest.mark.spark

UTC = dt.UTC


def read(spark: SparkSession, format_: ResolvedFormat, records: Sequence[bytes | None]) -> list[tuple[Any, str | None]]:
    """Return the value and the error of each record."""
    rows = spark.createDataFrame([*enumerate(records)], "number INT, record BINARY")
    exact = rows.withColumn("exact", decoded("record", format_))
    found = with_decoded(exact, "record", "result", format_).orderBy("number").collect()
    # The fast way must have the same result, whichever records it leaves to the exact one.
    assert [row["result"] for row in found] == [row["exact"] for row in found]
    return [(row["result"]["value"], row["result"]["error"]) for row in found]


def read_json(spark: SparkSession, schema: str, texts: Sequence[str]) -> list[tuple[Any, str | None]]:
    return read(spark, resolved(JsonFormat(schema_=schema)), [text.encode() for text in texts])


def values(spark: SparkSession, kind: str, texts: Sequence[str]) -> list[Any]:
    """Return what a field of some type is for each JSON text; ``"unreadable"`` if the record is."""
    found = read_json(spark, f"f {kind}", [f'{{"f": {text}}}' for text in texts])
    assert {error for _, error in found} <= {None, f"field f is no {kind}", INVALID}
    return ["unreadable" if error else value["f"] for value, error in found]


# --- every format -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record_format", [RawFormat(), TextFormat(), JsonFormat(schema_="a INT")])
def test_a_tombstone_has_neither_a_value_nor_an_error(spark, record_format):
    assert read(spark, resolved(record_format), [None]) == [(None, None)]


@pytest.mark.parametrize(
    "record_format", [RawFormat(), TextFormat(), JsonFormat(schema_="a INT, b ARRAY<STRUCT<c: MAP<STRING, DATE>>>")]
)
def test_the_value_has_the_type_that_was_resolved(spark, record_format):
    found = resolved(record_format)
    frame = spark.createDataFrame([(b"",)], "record BINARY").select(decoded("record", found).alias("result"))
    assert json.loads(frame.schema["result"].dataType["value"].dataType.json()) == parsed_type(found.delta_type)


def test_raw_bytes_are_what_they_are(spark):
    records = [b"", b"\xff\x00", b"a"]
    assert read(spark, resolved(RawFormat()), records) == [(record, None) for record in records]


def test_a_text_is_valid_utf8(spark):
    texts = ["", "ä\x00", "\U0001f600"]
    assert read(spark, resolved(TextFormat()), [text.encode() for text in texts]) == [(text, None) for text in texts]
    invalid = [b"\xff", b"a\xc3", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80"]
    assert read(spark, resolved(TextFormat()), invalid) == [(None, NO_UTF8)] * len(invalid)
    assert read(spark, resolved(JsonFormat(schema_="a INT")), invalid) == [(None, NO_UTF8)] * len(invalid)


def test_types_of_columns_are_what_spark_reads_from_the_same_text(spark):
    text = (
        "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(12,2), i DATE, j TIMESTAMP, "
        "k TIMESTAMP_NTZ, l STRING, m BINARY, n DECIMAL, o ARRAY<STRUCT<p: INT, q: MAP<STRING, DOUBLE>>>, `r s`: DEC(5)"
    )
    assert parse_columns(text, "schema") == json.loads(spark.createDataFrame([], text).schema.json())


# --- JSON objects -------------------------------------------------------------------------------------------------


def test_a_record_is_one_json_object(spark):
    whole = ['{"a":1}', ' \r\n\t{ "a" : 1 }\n', '{"b":[{}],"a":1,"c":{"a":2}}', '{"\\u0061":1}']
    assert read_json(spark, "a INT", whole) == [((1,), None)] * len(whole)
    broken = [
        *("", " ", "1", '"{}"', "null", "true", "[]", '[{"a":1}]', "{", "}", '{"a":1', '{"a"}', '{"a":}', '{"a":1,}'),
        *(
            '{"a":1}x',
            '{"a":1}}',
            '{"a":1}]',
            '{"a":1}]}',
            '{"a":1}}]',
            '{"a":1},',
            '{"a":1},{"a":2}',
            '{"a":1}{"a":2}',
        ),
        *('{"a":1},"a":{}', '{"a":1},[', '{"a":1} 2', '{"a":01}', '{"a":+1}', '{"a":.5}', '{"a":1.}', '{"a":NaN}'),
        *('{"a":Infinity}', "{a:1}", '{"a":1 /* */}', '{"a":tru}', '{"b":"\\x"}', "\ufeff{}", '{"a":1}\x00'),
        *('{"a":1}],[{"a":1}', '{"a":1}},{"a":{"a":1}'),
    ]
    assert read_json(spark, "a INT", broken) == [(None, NO_OBJECT)] * len(broken)


def test_what_spark_alone_would_let_pass_is_unreadable(spark):
    texts = ['{"a":1,"a":2}', '{"a":1,"\\u0061":1}', '{"b":{"c":1,"c":1}}', "{'a':1}", '{"b":"\\ud800"}', '{"b":"\t"}']
    assert read_json(spark, "a INT", texts) == [(None, INVALID)] * len(texts)


def test_a_field_that_is_missing_or_null_is_null_and_others_are_ignored(spark):
    texts = ["{}", '{"a":null}', '{"A":1,"c":"x"}']
    assert read_json(spark, "a INT, b STRUCT<c: INT>", texts) == [((None, None), None)] * len(texts)


def test_an_error_names_the_field_and_never_its_content(spark):
    schema = "a INT, b STRUCT<`c d`: ARRAY<DECIMAL(3,1)>>, e MAP<STRING, STRUCT<f: DATE>>, g ARRAY<INT>"
    b, e = "STRUCT<c d: ARRAY<DECIMAL(3,1)>>", "MAP<STRING, STRUCT<f: DATE>>"
    cases = {
        '{"a":"secret","b":1}': f"field b is no {b}",
        '{"a":"secret","g":["secret"]}': "field a is no INT",
        '{"b":{"c d":[1,null,2.25]}}': "field b.c d is no DECIMAL(3,1)",
        '{"b":{"c d":"secret"}}': f"field b is no {b}",
        '{"b":[]}': f"field b is no {b}",
        '{"e":{"secret":{"f":"secret"}}}': "field e.f is no DATE",
        '{"e":{"secret":["secret"]}}': f"field e is no {e}",
        '{"g":{"secret":1}}': "field g is no ARRAY<INT>",
        '{"g":[1,[2]]}': "field g is no INT",
    }
    assert read_json(spark, schema, [*cases]) == [(None, error) for error in cases.values()]


def test_nested_values_are_read_whole(spark):
    schema = "a ARRAY<STRUCT<x: INT, y: MAP<STRING, DECIMAL(3,1)>>>, `b.c` STRUCT<`'#`: STRING>"
    text = '{"a":[{"x":1,"y":{"k":1.5,"":null}},null,{}],"b.c":{"\'#":"\'#"}}'
    ((value, error),) = read_json(spark, schema, [text])
    assert error is None
    assert value.asDict(recursive=True) == {
        "a": [{"x": 1, "y": {"k": Decimal("1.5"), "": None}}, None, {"x": None, "y": None}],
        "b.c": {"'#": "'#"},
    }
    assert read_json(spark, "a ARRAY<INT>", ['{"a":[]}']) == [(([],), None)]


# --- JSON fields --------------------------------------------------------------------------------------------------

ANYTHING = ('"x"', '""', '"1"', '"#1"', "true", "{}", "[]", "[1]", '{"f":1}')


@pytest.mark.parametrize(("kind", "bits"), [("TINYINT", 8), ("SMALLINT", 16), ("INT", 32), ("BIGINT", 64)])
def test_integers_are_in_range(spark, kind, bits):
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    texts = [str(least), str(most), "0", "-0", str(least - 1), str(most + 1), "1.0", "1e1", str(10**400), *ANYTHING]
    rest = ["unreadable"] * (len(texts) - 4)
    assert values(spark, kind, texts) == [least, most, 0, 0, *rest]


def test_decimals_are_never_rounded(spark):
    fits = {
        "1.5": "1.50",
        "-1.50000": "-1.50",
        "0.00000": "0",
        "-0": "0",
        "9999999999.99": "9999999999.99",
        "1e3": "1000",
        "1.25E+2": "125",
        "12e-1": "1.2",
        "1200E-4": "0.12",
        "0e99999999": "0",
        "1e-02": "0.01",
    }
    assert values(spark, "DECIMAL(12,2)", [*fits]) == [Decimal(text) for text in fits.values()]
    long = f"1.2{'0' * 60}1"
    broken = ["1.501", "0.001", "1e-3", "1e10", "10000000000", "1e99999999999", "1e-99999999999", long, *ANYTHING]
    assert values(spark, "DECIMAL(12,2)", broken) == ["unreadable"] * len(broken)
    assert values(spark, "DECIMAL(38,0)", ["9" * 38, "9" * 39, f"{'9' * 37}.5"]) == [
        Decimal("9" * 38),
        "unreadable",
        "unreadable",
    ]


def test_a_decimal_keeps_every_digit(spark):
    """Spark rounds the negative and the absolute value of a decimal with more than 34 digits."""
    digits = ["1234567890" * 4, "9" * 40]
    whole = [f"{sign}{text[:count]}" for sign in ("", "-") for text in digits for count in (34, 35, 38)]
    assert values(spark, "DECIMAL(38,0)", whole) == [Decimal(text) for text in whole]
    broken = [f"{text[:-30]}.{text[-30:]}" for text in whole]
    assert values(spark, "DECIMAL(38,30)", broken) == [Decimal(text) for text in broken]


DIGITS = st.text("0123456789", min_size=1, max_size=6)
NUMBERS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.one_of(st.just("0"), st.builds("{}{}".format, st.sampled_from("123456789"), DIGITS)),
    st.one_of(st.just(""), DIGITS.map(".{}".format)),
    st.one_of(st.just(""), st.integers(-9, 9).map("e{}".format)),
)


def test_any_number_is_the_decimal_that_it_says_or_unreadable(spark):
    """Python's decimals are the oracle, for numbers made by chance."""
    texts = [*set(_examples(NUMBERS, 300))]
    expected = []
    for text in texts:
        exact = Decimal(text)
        fits = exact == exact.quantize(Decimal("0.001")) and abs(exact) < 10**6
        expected.append(exact if fits else "unreadable")
    assert values(spark, "DECIMAL(9,3)", texts) == expected
    assert {"unreadable"} < set(expected)


def test_any_text_is_read_as_python_reads_it(spark):
    """Quotes, backslashes and digits in texts and names are where marking could go wrong."""
    texts = _examples(st.text(st.sampled_from("\"\\/#'1{}[],:\nuä\u2028\U0001f600 "), max_size=8), 200)
    for ascii_only in (True, False):
        records = [json.dumps({f"n{text}": text, "f": text, "z": [text, 1]}, ensure_ascii=ascii_only) for text in texts]
        assert [value["f"] for value, _ in read_json(spark, "f STRING, z ARRAY<STRING>", records) if value] == []
        assert [value["f"] for value, _ in read_json(spark, "f STRING, y STRING", records)] == texts
        names = [json.dumps({"f": {text: text}}, ensure_ascii=ascii_only) for text in texts]
        found = read_json(spark, "f MAP<STRING, STRING>", names)
        assert [value["f"] for value, _ in found] == [{text: text} for text in texts]


def _examples(strategy: st.SearchStrategy[str], count: int) -> list[str]:
    """Return examples of a strategy, always the same ones."""
    found: list[str] = []

    @settings(max_examples=count, derandomize=True, database=None)
    @given(strategy)
    def collect(example: str) -> None:
        found.append(example)

    collect()
    return found


@pytest.mark.parametrize(("kind", "most", "over"), [("FLOAT", "3e38", "1e39"), ("DOUBLE", "1e308", "1e309")])
def test_floats_are_finite(spark, kind, most, over):
    assert values(spark, kind, ["0.5", "-1", "1e-999"]) == [0.5, -1.0, 0.0]
    assert values(spark, kind, [most])[0] == pytest.approx(float(most))
    broken = [over, f"-{over}", '"NaN"', '"Infinity"', *ANYTHING]
    assert values(spark, kind, broken) == ["unreadable"] * len(broken)


def test_booleans_are_no_texts_and_no_numbers(spark):
    assert values(spark, "BOOLEAN", ["true", "false"]) == [True, False]
    broken = ["1", "0", '"true"', *(text for text in ANYTHING if text != "true")]
    assert values(spark, "BOOLEAN", broken) == ["unreadable"] * len(broken)


def test_strings_are_texts(spark):
    texts = ["", "x", "#1", "'", 'a "b" \\ 1', "\x00", "\U0001f600", "true"]
    assert values(spark, "STRING", [json.dumps(text) for text in texts]) == texts
    broken = ["1", "1.50", "true", "{}", "[]"]
    assert values(spark, "STRING", broken) == ["unreadable"] * len(broken)


def test_bytes_are_in_base64(spark):
    assert values(spark, "BINARY", ['""', '"AQI="', '"AQID"', '"\\u002b/8="']) == [b"", b"\1\2", b"\1\2\3", b"\xfb\xff"]
    broken = ['"A"', '"A==="', '"AQI"', '"AQI\\n"', '"AQ I="', '"-_8="', "1", "[1]"]
    assert values(spark, "BINARY", broken) == ["unreadable"] * len(broken)


def test_dates_exist(spark):
    assert values(spark, "DATE", ['"2024-02-29"', '"0001-01-01"']) == [dt.date(2024, 2, 29), dt.date(1, 1, 1)]
    broken = [
        '"2023-02-29"',
        '"2024-1-1"',
        '"2024-01-01\\n"',
        '"2024"',
        '"2024-01-01T00:00:00"',
        '"2024-01-01 x"',
        '"today"',
        "19000",
        "{}",
    ]
    assert values(spark, "DATE", broken) == ["unreadable"] * len(broken)


NO_TIMES = [
    '"2024-02-30T00:00:00"',
    '"2024-01-01T00:00:00\\n"',
    '"2024-01-01"',
    '"2024-01-01T25:00:00"',
    '"2024-01-01T00:00:00.1234567"',
    '"2024-01-01T00:00:00 Europe/Berlin"',
    '"12:00:00"',
    '"now"',
    '"1700000000"',
    "1700000000",
    "true",
    "{}",
]


def test_instants_have_a_zone_or_are_in_utc(spark):
    texts = [
        '"2024-01-01T12:00:00"',
        '"2024-01-01 12:00"',
        '"2024-01-01T12:00:00Z"',
        '"2024-01-01T14:00+02:00"',
        '"2024-01-01T14:00:00.000000000+02:00"',
    ]
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        found = read_json(spark, "t TIMESTAMP", [f'{{"t":{text}}}' for text in texts])
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert {value["t"].astimezone(UTC) for value, _ in found} == {dt.datetime(2024, 1, 1, 12, tzinfo=UTC)}
    assert values(spark, "TIMESTAMP", NO_TIMES) == ["unreadable"] * len(NO_TIMES)


def test_local_times_have_no_zone(spark):
    texts = ['"2024-01-01T12:00:00"', '"2024-01-01 12:00:00.123456"', '"2024-01-01T12:00:00.1234560"']
    noon = dt.datetime(2024, 1, 1, 12)
    later = noon.replace(microsecond=123456)
    assert values(spark, "TIMESTAMP_NTZ", texts) == [noon, later, later]
    broken = [*NO_TIMES, '"2024-01-01T12:00:00Z"', '"2024-01-01T12:00:00+00:00"']
    assert values(spark, "TIMESTAMP_NTZ", broken) == ["unreadable"] * len(broken)


def test_times_outside_the_years_1_to_9999_are_unreadable(spark):
    """Other programs do not know them; a zone may lead there, too."""
    outside = {
        "DATE": ['"0000-12-31"', '"10000-01-01"', '"+10000-01-01"', '"-0001-01-01"'],
        "TIMESTAMP": ['"0000-12-31T23:59:59Z"', '"9999-12-31T23:00:00-02:00"', '"0001-01-01T00:30+01:00"'],
        "TIMESTAMP_NTZ": ['"0000-12-31T23:59:59"', '"10000-01-01T00:00:00"'],
    }
    for kind, texts in outside.items():
        assert values(spark, kind, texts) == ["unreadable"] * len(texts)
    assert values(spark, "DATE", ['"0001-01-01"', '"9999-12-31"']) == [dt.date.min, dt.date.max]
    late = dt.datetime(9999, 12, 31, 21, tzinfo=UTC)
    found = read_json(spark, "t TIMESTAMP", ['{"t": "9999-12-31T23:00:00+02:00"}'])
    assert [(value["t"].astimezone(UTC), error) for value, error in found] == [(late, None)]


def test_a_long_text_with_many_escapes_is_read(spark):
    text = 'x\n"\\' * 200_000
    assert values(spark, "STRING", [json.dumps(text)]) == [text]
