"""The fast way to read JSON has the results of the exact one, for objects that anybody may write."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.sources.shared.formats.column_types import parsed_type
from airflow_backfill_provider.sources.shared.formats.definition import JsonFormat
from airflow_backfill_provider.sources.shared.formats.json_usual import is_written_again, usual_object
from airflow_backfill_provider.sources.shared.formats.resolved import resolved
from airflow_backfill_provider.sources.shared.formats.spark import decoded, with_decoded

pytestmark = pytest.mark.spark

SCHEMA = "a BIGINT, ab INT, b TINYINT, c STRING, d DECIMAL(5,2), e DOUBLE, f BOOLEAN, g DATE, h TIMESTAMP, i BINARY"

RIGHT = {
    "a": ["0", "-9223372036854775808", "7"],
    "ab": ["2147483647", "-1"],
    "b": ["127", "-128"],
    "c": [
        '""',
        '"x"',
        '"a,b:{}[]"',
        '"é€😀"',
        r'"\n\\\/\""',
        r'"\u0041"',
        r'"\ud83d\ude00"',
        '"null"',
        '"1"',
        '"true"',
    ],
    "d": ["1", "1.5", "-999.99", "1.50", "0.00", "1.500"],
    "e": ["1", "0.1", "-0.0", "1e3", "1.0E10", "-0", "0.0"],
    "f": ["true", "false"],
    "g": ['"2024-02-29"'],
    "h": ['"2024-01-01T12:00:00"', '"2024-01-01T14:00:00+02:00"'],
    "i": ['""', '"AQI="'],
}
"""Values that fit their columns, as JSON."""

WRONG = {
    "a": ["9223372036854775808", "1.0", '"1"', "1e0", "01", "-"],
    "ab": ["2147483648", "true"],
    "b": ["128", "200", "255", "256", "-129"],
    "c": ["1", "1.50", "true", "[]", '["x"]', "{}", '{"c":"x"}', r'"\ud800"', r'"\x"', '"\t"', '"'],
    "d": ["1.505", "1000", '"1.50"', "1e-3", "true", "{}"],
    "e": ["1e999", '"1.0"', "NaN", '"NaN"', "-Infinity", ".5"],
    "f": ['"true"', "1", "tru"],
    "g": ['"2023-02-29"', '"2024-1-1"', "19000"],
    "h": ['"2024-01-01"', '"now"', "1700000000"],
    "i": ['"A"', '"AQI"', "[1]"],
}
"""Values that do not."""

MORE = ['"z":1', '"z":{"a":[1,"}]"]}', '"z":1,"z":2', '"a":1', '"\\u0061":2', '"A":1', '"":0', '"z":"-0,"', '"c":"x"']
"""Members that an object may have beside."""

AROUND = [
    ("", "}"),
    ("[", "]"),
    ("", "}]"),
    ("", "]"),
    ("", '""'),
    ("", " 2"),
    ("", ",{}"),
    ("", "x"),
    ("", '}{"a":1}'),
]


def made_objects(count: int) -> list[bytes]:
    """Return objects with any of these values, fields in any order, and little or much that is unusual."""
    chance = random.Random(7)
    return [_made(chance, unusual=number % 4) for number in range(count)]


def _made(chance: random.Random, unusual: int) -> bytes:
    def once_in(number: int) -> bool:
        return unusual > 0 and chance.randrange(number) == 0

    members = []
    for name, right in RIGHT.items():
        if not once_in(5):
            value = chance.choice(WRONG[name] if once_in(30 // max(unusual, 1)) else [*right, "null"])
            members.append((name, value))
    if once_in(3):
        chance.shuffle(members)
    blank = chance.choice(["", " ", "\n\t "]) if unusual > 1 else ""
    texts = [f'"{name}"{blank}:{blank}{value}' for name, value in members]
    if unusual > 1 and once_in(3):
        texts.insert(chance.randrange(len(texts) + 1), chance.choice(MORE))
    text = f"{blank}{{{blank}{f'{blank},{blank}'.join(texts)}{blank}}}{blank}"
    before, after = chance.choice(AROUND) if once_in(8) else ("", "")
    record = f"{before}{text}{after}".encode()
    if once_in(15):
        place = chance.randrange(len(record) + 1)
        return (
            record[:place] + chance.choice([b"\xff", b"\x00", b"", b'"', b"\\", b"\xef\xbf\xbd"]) + record[place + 1 :]
        )
    return record


def test_the_fast_way_and_the_exact_one_agree(spark):
    format_ = resolved(JsonFormat(schema_=SCHEMA))
    rows = spark.createDataFrame([*enumerate(made_objects(3000))], "number INT, record BINARY")
    rows = rows.withColumn("exact", decoded("record", format_))
    found = with_decoded(rows, "record", "fast", format_).orderBy("number").collect()
    assert [row["record"] for row in found if row["fast"] != row["exact"]] == []
    errors = [row["fast"]["error"] for row in found]
    assert len({*errors}) > len(RIGHT)
    assert errors.count(None) > len(errors) / 3


def test_most_right_objects_are_usual(spark):
    fields = parsed_type(resolved(JsonFormat(schema_=SCHEMA)).delta_type)["fields"]
    records = [(record,) for record in made_objects(400)[::4]]
    text = F.col("record").cast("string")
    found = spark.createDataFrame(records, "record BINARY").filter(text.rlike(usual_object(fields))).count()
    assert found > len(records) / 3


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ('{"a":1,"c":"x","d":1.50}', True),
        ('{"a":null,"c":null,"d":null}', True),
        ('{"a":1,"c":"é,{}:[]","d":-0.05}', True),
        ('{"a":1,"c":"x","d":1.5}', False),
        ('{"a":1,"c":5,"d":1.50}', False),
        ('{"a":1,"c":"x","d":"1.50"}', False),
        ('{"a":1,"c":"x\\n","d":1.50}', False),
        ('{"a":1,"c":"x","d":1.50}}', False),
        ('{"a":1,"c":"x","d":1.50,"d":1.50}', False),
        ('{"c":"x","a":1,"d":1.50}', False),
    ],
)
def test_an_object_is_written_again_as_it_was(spark, record, expected):
    schema = "a BIGINT, c STRING, d DECIMAL(5,2)"
    fields = parsed_type(resolved(JsonFormat(schema_=schema)).delta_type)["fields"]
    rows = spark.createDataFrame([(record,)], "record STRING")
    rows = rows.withColumn("read", F.from_json("record", schema))
    read = {field["name"]: f"read.{field['name']}" for field in fields}
    ((found,),) = rows.select(F.expr(is_written_again("record", read, fields))).collect()
    assert found is expected
