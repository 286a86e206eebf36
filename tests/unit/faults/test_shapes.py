"""What the campaign of shapes draws: the same for the same seed, everything within some hundred cases."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from decimal import Decimal

import pytest

from airflow_backfill_provider.core.errors import (
    BackfillError,
    DataFileError,
    DuplicateKeyError,
    EpochFailedError,
    InvalidJobError,
    QueryFailedError,
    UpstreamSchemaChangedError,
)
from airflow_backfill_provider.core.job.definition import BackfillJob
from faults.campaign import WrongError, chance
from faults.shapes import names, settings, values
from faults.shapes.case import Case, Column, Gap
from faults.shapes.drawing import CHANGES, STATISTICS, WRITERS, a_case
from faults.shapes.expressions import built_in
from faults.shapes.refusals import require_true
from faults.shapes.rows import Rows, as_arrow
from faults.shapes.statistics import statistics

MANY = 240
CASES = [a_case(chance("shapes", 1, number)) for number in range(MANY)]
COLUMNS = (
    Column(name="id", type="decimal(20,0)"),
    Column(name="at", type="timestamp"),
    Column(name="t", type="string"),
)


def drawn(**changes):
    fields = {
        "rows_seed": 1,
        "writer": "log",
        "columns": COLUMNS,
        "key": (("id", False),),
        "rows": 20,
        "files": 1,
        "in_order": True,
        "job": {"query": "SELECT * FROM upstream", "strategy": "no_shuffle", "visibility": "every_epoch"},
        "gaps": (),
        "beyond": (),
        "verified": False,
    }
    return Case(**{**fields, **changes})


def test_a_seed_and_a_number_draw_one_case():
    assert a_case(chance("shapes", 1, 7)) == CASES[7] != a_case(chance("shapes", 2, 7))


def test_some_hundred_cases_have_every_writer_type_statistic_setting_and_change():
    gaps = [gap for case in CASES for gap in (*case.gaps, *case.beyond)]
    assert {case.writer for case in CASES} == set(WRITERS)
    kinds = {column.type for case in CASES for column in case.columns}
    assert kinds >= {*values.VALUE_TYPES, *values.SPARK_TYPES}
    keys = {column.type for case in CASES for column in case.columns if column.name in dict(case.key)}
    assert keys >= set(values.KEY_TYPES)
    for writer, kinds_of_statistics in STATISTICS.items():
        assert {case.statistics for case in CASES if case.writer == writer} == set(kinds_of_statistics)
    assert {name for gap in gaps for name in gap.settings} == set(settings.SETTINGS)
    assert {change for gap in gaps for change in gap.changes} == set(CHANGES)


def test_some_hundred_cases_have_every_kind_of_name_and_feature():
    found = {column.name for case in CASES for column in case.columns}
    for pool in (names.PLAIN, names.OURS, names.RESERVED, names.UNICODE, names.QUOTED, names.MAPPED):
        assert len(found & set(pool)) > len(pool) / 2
    assert any({"a", "a.b"} <= {column.name for column in case.columns} for case in CASES)
    assert any("IDENTITY" in extra for case in CASES for extra in case.extra)
    assert any(column.clause for case in CASES for column in case.columns)
    assert any(column.computed for case in CASES for column in case.columns)
    assert any(column.widened_from for case in CASES for column in case.columns)
    for field in ("layout", "partition", "constraints", "odd_files", "mapping", "alters", "sets", "verified"):
        assert 0 < sum(bool(getattr(case, field)) for case in CASES) < MANY
    for field in ("distribution_key", "restrict_to", "restrict_after_row", "table_properties"):
        assert 0 < sum(field in case.job for case in CASES) < MANY
    assert {name for case in CASES for name in case.properties} > {"delta.enableDeletionVectors"}
    assert {(case.job["strategy"], case.job["visibility"]) for case in CASES} == {
        (strategy, visibility)
        for strategy in ("no_shuffle", "arrangement")
        for visibility in ("every_epoch", "on_finish")
    } | {("snapshot", "on_finish")}


def test_most_queries_are_row_level():
    refused = Counter()
    for case in CASES:
        try:
            BackfillJob(
                name="shapes",
                upstream={"path": "/lake/orders", "key": ["id"]},
                materialized_view="/lake/view",
                query=case.job["query"],
            )
        except InvalidJobError as error:
            refused[str(error)] += 1
    assert refused.total() < MANY / 8


def test_the_calls_of_built_in_functions_come_out_of_columns_where_they_can():
    assert len(built_in()) > 500
    assert sum("{empty}" in call for call in built_in()) > 400


def test_a_case_is_summed_up_in_one_line_and_printed_as_json():
    for case in CASES:
        assert "\n" not in case.summary()
        assert json.loads(case.as_json())["writer"] == case.writer
        assert case.summary().isascii()


def test_rows_have_different_keys_and_values_of_their_types():
    for case in CASES[:60]:
        rows = Rows(case)
        now = rows.begin(case.rows)
        for kind in CHANGES:
            change = rows.change(kind, now)
            assert (kind == "rewrite") == (not change.pairs)
            now = change.after
            keys = [repr([row[i] for i in case.key_indices]) for row in now]
            assert len(set(keys)) == len(keys)
        assert as_arrow(case.written, now).num_rows == len(now)


def test_a_swap_gives_rows_the_keys_of_others():
    rows = Rows(drawn())
    before = rows.begin(20)
    change = rows.change("swap", before)
    assert sorted(map(repr, (old[0] for old, _ in change.pairs))) == sorted(
        map(repr, (new[0] for _, new in change.pairs))
    )
    assert len(change.after) == len(before)


ROWS = [
    (Decimal(10**19 + 3), dt.datetime(2024, 1, 1, 0, 0, 0, 999_999, tzinfo=dt.UTC), "x" * 40),
    (Decimal(10**19 + 9), None, "a"),
    (Decimal(10**19 + 5), dt.datetime(1969, 12, 31, tzinfo=dt.UTC), None),
]


def statistics_of(kind):
    return statistics(kind, COLUMNS, ROWS, [column.name for column in COLUMNS])


def test_exact_statistics_are_those_of_delta():
    found = json.loads(statistics_of("exact"), parse_int=str)
    assert found == {
        "numRecords": "3",
        "minValues": {"id": "10000000000000000003", "at": "1969-12-31T00:00:00.000Z", "t": "a"},
        "maxValues": {
            "id": "10000000000000000009",
            "at": "2024-01-01T00:00:00.999Z",
            "t": "x" * 32 + "\U0010ffff",
        },
        "nullCount": {"id": "0", "at": "1", "t": "1"},
    }


def test_other_statistics_say_less_or_something_else():
    exact = json.loads(statistics_of("exact"))
    assert (statistics_of("none"), statistics_of("empty"), statistics_of("counts")) == (None, "{}", '{"numRecords": 3}')
    assert "numRecords" not in json.loads(statistics_of("bounds"))
    assert set(json.loads(statistics_of("partial"))["minValues"]) == {"id", "t"}
    rounded = json.loads(statistics_of("rounded"))
    assert (rounded["minValues"]["id"], rounded["maxValues"]["t"]) == (1e19, "x" * 32)
    assert json.loads(statistics_of("narrow"))["maxValues"]["id"] == 10**19 + 5
    assert json.loads(statistics_of("shifted"))["minValues"]["id"] == 10**19 + 5
    assert [json.loads(statistics_of(kind))["numRecords"] for kind in ("fewer", "more")] == [0, 10]
    assert json.loads(statistics_of("all nulls"))["nullCount"]["id"] == 3
    assert json.loads(statistics_of("no nulls"))["nullCount"]["t"] == 0 != exact["nullCount"]["t"]
    with pytest.raises(json.JSONDecodeError):
        json.loads(statistics_of("garbage"))


@pytest.mark.parametrize(
    ("error", "changes"),
    [
        (DuplicateKeyError("orders holds a key twice"), {}),
        (EpochFailedError("try again"), {}),
        (QueryFailedError("the query fails on a row"), {}),
        (UpstreamSchemaChangedError("a column is gone"), {}),
        (InvalidJobError("the query is wrong"), {}),
        (DataFileError("the file is damaged"), {"statistics": "exact"}),
        (InvalidJobError(f"no number: {values.IN_MESSAGES[0]}of rows"), {"gaps": (Gap(settings={"a": "b"}),)}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BackfillError) else None,
)
def test_a_refusal_that_is_not_true_is_wrong(error, changes):
    with pytest.raises(WrongError):
        require_true(error, drawn(**changes), began=True, fails=lambda: False)


def test_a_refusal_that_is_true_is_a_right_end():
    altered = drawn(gaps=(Gap(alters=("DROP COLUMN t",)),))
    require_true(UpstreamSchemaChangedError("a column is gone"), altered, began=True, fails=lambda: False)
    require_true(DataFileError("a file has other rows"), drawn(statistics="narrow"), began=True, fails=lambda: False)
    require_true(QueryFailedError("the query fails on a row"), drawn(), began=True, fails=lambda: True)
    require_true(InvalidJobError("the query is wrong"), drawn(), began=False, fails=lambda: False)


def test_names_differ_also_if_case_is_ignored():
    for seed in range(200):
        found = names.some_names(random.Random(seed), 7, mapped=True, of_spark=False)
        assert len({name.lower() for name in found}) == 7
