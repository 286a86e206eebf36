"""Columns may have any name, also one that the engine uses: every value in the view is the upstream's."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.jobs import mutations
from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark

OURS = """
    is_last first_version key_appeared has_double is_double key_is_new is_upsert appeared epoch row newest history
    is_live first_appeared row_vnode state_vnode whole position_0 position_1 wanted_0 appeared_0 hash rows changed_1
    change_type commit_version key_id
""".split()
PLAIN = "rows count unit row hash_1 text_0 view change".split()

FLAGS = [f"__{name}" for name in OURS]
"""Names as they are where nothing clashes; none of these was refused before."""

TWO_LEVELS = [*FLAGS, "__VNODE", "___Is_Upsert", "___is_last", "___CHANGED_0", "___epoch", "___position_0"]
"""With these, ours take a fourth underscore."""


def fill(lakehouse: Lakehouse, key: str, text_key: str, names: list[str]) -> None:
    """Make an upstream of forty rows; in each column of numbers each row has another value."""
    values = [*names, *PLAIN]
    columns = ", ".join(f"{quote(name)} BIGINT" for name in values)
    lakehouse.make_upstream(f"{quote(key)} BIGINT, {quote(text_key)} STRING, {columns}")
    numbers = ", ".join(f"id * 1000 + {number}" for number in range(len(values)))
    lakehouse.sql(
        f"INSERT INTO {{upstream}} SELECT /*+ COALESCE(1) */ id, concat('t', id % 3), {numbers} FROM range(40)"
    )


def change(lakehouse: Lakehouse, key: str, first: str, epoch: int) -> None:
    """Update rows, among them some that were read and some that were not, delete some, and insert one."""
    lakehouse.sql(f"UPDATE {{upstream}} SET {quote(first)} = {quote(first)} + 7 WHERE {quote(key)} % 5 = {epoch}")
    lakehouse.sql(f"DELETE FROM {{upstream}} WHERE {quote(key)} % 13 = {epoch}")
    lakehouse.sql(f"UPDATE {{upstream}} SET {quote(key)} = {quote(key)} + 100 WHERE {quote(key)} = {3 + epoch}")


CASES: dict[str, tuple[list[str], dict[str, Any]]] = {
    "flags, in place": (FLAGS, {"strategy": "no_shuffle", "rate_limit": 25}),
    "two levels, in place, hidden": (
        TWO_LEVELS,
        {"strategy": "no_shuffle", "rate_limit": 25, "visibility": "on_finish"},
    ),
    "two levels, arranged": (TWO_LEVELS, {"strategy": "arrangement", "rate_limit": 25}),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES)
def test_a_view_over_columns_with_our_own_names_is_its_query_at_every_epoch(lakehouse: Lakehouse, case: str) -> None:
    """I1, I6: through epochs with changes, a verification, and repairs of a vnode and of a key."""
    names, fields = CASES[case]
    key, text_key, first = "__changed_0", "___changed_1" if names is FLAGS else "___Vnode", names[0]
    fill(lakehouse, key, text_key, names)
    upstream: dict[str, Any] = {"path": lakehouse.upstream_path, "key": [key, text_key]}
    if fields["strategy"] == "arrangement":
        # Rows move between vnodes.
        upstream["distribution_key"] = [first]
    lakehouse.create(
        upstream=upstream,
        query=f"SELECT * EXCEPT ({text_key}, hash_1), hash_1 AS __text_0 FROM upstream WHERE {first} >= 0",
        **fields,
    )
    lakehouse.epoch()
    change(lakehouse, key, first, 0)
    lakehouse.epoch()
    lakehouse.assert_truth()
    change(lakehouse, key, first, 1)
    lakehouse.finish()
    others = f"SELECT * EXCEPT ({text_key}, hash_1, {first}), hash_1 AS __text_0, {text_key} AS __key_{text_key}"
    lakehouse.assert_equals_query(f"{others}, {first} FROM {{upstream}}")

    lakehouse.spark.sql(f"UPDATE {lakehouse.view_name} SET {first} = -1")
    chosen = [[str(number), f"t{number % 3}"] for number in range(20, 40)]
    mutations.repair_job(keys=chosen, vnodes=["0-2"], store=lakehouse.backfill.store, requested_by="tester")
    lakehouse.finish()
    vnode = f"pmod(hash({first if 'distribution_key' in upstream else f'{key}, {text_key}'}), 4)"
    is_repaired = f"{vnode} < 3 OR {key} BETWEEN 20 AND 39"
    lakehouse.assert_equals_query(f"{others}, if({is_repaired}, {first}, -1) AS {first} FROM {{upstream}}")


@pytest.mark.exhaustive
def test_a_hidden_key_column_gives_way_to_a_column_of_its_name(lakehouse: Lakehouse) -> None:
    """Whether the query names it, a star stands for it, or the star of a struct."""
    lakehouse.make_upstream("id BIGINT, __key_id BIGINT, s STRUCT<___Key_Id: BIGINT>")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, id + 10, named_struct('___Key_Id', id + 20) FROM range(9)")
    lakehouse.create(rate_limit=5, query="SELECT * EXCEPT (id, s), s.*, id + 30 AS ____key_id FROM upstream")
    lakehouse.epoch()
    lakehouse.sql("UPDATE {upstream} SET __key_id = __key_id + 1")
    lakehouse.finish()
    assert lakehouse.view().columns == ["__key_id", "___Key_Id", "____key_id", "_____key_id"]
    lakehouse.assert_truth()
    lakehouse.assert_equals_query(
        "SELECT __key_id, s.___Key_Id, id + 30 AS ____key_id, id AS _____key_id FROM {upstream}"
    )


@pytest.mark.exhaustive
def test_a_key_column_may_begin_with_a_dot(lakehouse: Lakehouse) -> None:
    lakehouse.make_upstream("`.` BIGINT, `.a.b` STRING, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('t', id % 3), concat('n', id) FROM range(40)")
    lakehouse.create(key=[".", ".a.b"], rate_limit=15, strategy="arrangement")
    lakehouse.epoch()
    lakehouse.sql("UPDATE {upstream} SET name = 'changed' WHERE `.` % 4 = 0")
    lakehouse.sql("DELETE FROM {upstream} WHERE `.` % 7 = 0")
    lakehouse.finish()
    lakehouse.assert_truth()
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.exhaustive
def test_column_names_with_braces_are_not_replaced_by_rows(lakehouse: Lakehouse) -> None:
    """A template has the relation in braces."""
    lakehouse.make_upstream(
        "`{rows}` BIGINT, `a{b}` STRING, `{0}}` STRING",
        properties={"delta.enableChangeDataFeed": "true", "delta.columnMapping.mode": "name"},
    )
    lakehouse.sql("INSERT INTO {upstream} SELECT id, '{rows}', concat('{', id, '}') FROM range(9)")
    query = "SELECT `{rows}` AS id, `a{b}` AS a, concat(`{0}}`, '{rows}{{') AS b FROM "
    lakehouse.create(key=["{rows}"], rate_limit=5, query=f"{query} upstream WHERE `a{{b}}` = '{{rows}}'")
    lakehouse.epoch()
    lakehouse.sql("UPDATE {upstream} SET `a{b}` = 'gone' WHERE `{rows}` = 3")
    lakehouse.finish()
    lakehouse.assert_truth()
    lakehouse.assert_equals_query(f"{query} {{upstream}} WHERE `{{rows}}` <> 3")


@pytest.mark.parametrize(
    ("alias", "properties"),
    [("_Row_Dropped_", {}), ("filePath", {"delta.enableDeletionVectors": "true"})],
)
def test_names_that_delta_cannot_merge_are_refused(
    lakehouse: Lakehouse, alias: str, properties: dict[str, str]
) -> None:
    """I6: the first epoch with changes would fail, and every one after it."""
    lakehouse.make_upstream("id BIGINT, name STRING")
    with pytest.raises(
        InvalidJobError, match=f"`{alias}` has a name that Delta uses internally .* give it another alias"
    ):
        lakehouse.create(query=f"SELECT id, name AS {alias} FROM upstream", table_properties=properties)
