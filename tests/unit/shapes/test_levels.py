"""Splitting a query into its levels, and what is not a chain of levels over the upstream."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.row.query import check_query


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT id", "FROM upstream"),
        ("SELECT id FROM orders", "it may read upstream only"),
        ("SELECT id FROM db.upstream", "it may read upstream only"),
        ("SELECT id FROM delta.`/etc`", "it may read upstream only"),
        ("SELECT id FROM parquet.`/lake`", "it may read upstream only"),
        ("SELECT id FROM `up``stream`", "it may read upstream only"),
        ("SELECT id FROM range(5)", "it may read upstream only"),
        ("SELECT id FROM upstream()", "it may read upstream only"),
        ("SELECT id FROM IDENTIFIER('upstream')", "it may read upstream only"),
        ("SELECT id FROM upstream VERSION AS OF 3", "plain upstream, without version"),
        ("SELECT id FROM upstream TIMESTAMP AS OF '2020-01-01'", "plain upstream, without version"),
        ("SELECT id FROM upstream TABLESAMPLE (10 PERCENT)", "plain upstream, without sample"),
        ("SELECT id FROM upstream AS t(a, b)", "plain upstream, without columns"),
        ("SELECT id FROM upstream PIVOT (sum(a) FOR b IN (1))", "plain upstream, without pivots"),
        ("SELECT id FROM upstream UNPIVOT (v FOR n IN (a, b))", "plain upstream, without pivots"),
    ],
)
def test_anything_but_the_upstream_itself_cannot_be_read(text, said):
    with pytest.raises(InvalidJobError) as caught:
        check_query(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        ";",
        "-- nothing",
        "SELECT id FROM upstream UNION ALL SELECT id FROM upstream",
        "SELECT id FROM upstream; DROP TABLE upstream",
        "SELECT id; FROM upstream",
        "DROP TABLE upstream",
        "INSERT INTO upstream VALUES (1)",
        "DELETE FROM upstream",
        "TABLE upstream",
        "VALUES (1)",
        "FROM upstream SELECT id",
        "EXPLAIN SELECT id FROM upstream",
        "SELEC id FROM upstream",
        "FROM upstream",
        "SELECT id FROM (upstream)",
        "SELECT id FROM (VALUES (1))",
        "(SELECT id FROM upstream) UNION ALL (SELECT id FROM upstream)",
        "CACHE TABLE x AS SELECT id FROM upstream",
    ],
)
def test_anything_but_one_select_is_refused(text):
    with pytest.raises(InvalidJobError, match="FROM upstream"):
        check_query(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM",
        "SELECT id FROM upstream WHERE",
        "SELECT (id FROM upstream",
        "SELECT id FROM upstream WHERE status = 'paid",
        "SELECT `id FROM upstream",
    ],
)
def test_a_syntax_error_is_one_line_without_terminal_codes(text):
    with pytest.raises(InvalidJobError, match="syntax error") as caught:
        check_query(text)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("SELECT id FROM upstream |> LIMIT 1"),
        pytest.param("SELECT id FROM upstream |> UNION ALL SELECT 1"),
        pytest.param("SELECT " + "(" * 1000 + "id" + ")" * 1000 + " FROM upstream"),
        "SELECT id FROM upstream |> AGGREGATE count(*)",
        "SELECT id FROM upstream |> ORDER BY id",
        "SELECT id FROM upstream |> TABLESAMPLE (10 PERCENT)",
    ],
    ids=lambda text: text[:40],
)
def test_a_query_that_the_parser_fails_on_is_refused_without_a_crash(text):
    """I6: a clear error, never a traceback of the SQL parser."""
    with pytest.raises(InvalidJobError):
        check_query(text)


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        (
            "SELECT id, x FROM (SELECT id, a + 1 AS x FROM upstream) WHERE x > 1",
            "SELECT id, x FROM (SELECT id, a + 1 AS x FROM `r` AS `upstream`) WHERE x > 1",
        ),
        (
            "SELECT x FROM (SELECT a AS x FROM upstream u) AS t",
            "SELECT x\n, `__key_id` FROM (SELECT a AS x\n, `u`.`id` AS `__key_id` FROM `r` u) AS t",
        ),
        (
            "SELECT * FROM (SELECT a FROM upstream)",
            "SELECT * FROM (SELECT a\n, `upstream`.`id` AS `__key_id` FROM `r` AS `upstream`)",
        ),
        (
            "WITH a AS (SELECT id AS k, b FROM upstream), c AS (SELECT * FROM a WHERE b > 1) SELECT c.k FROM c",
            "WITH a AS (SELECT id AS k, b FROM `r` AS `upstream`), c AS (SELECT * FROM a WHERE b > 1) "
            "SELECT c.k FROM c",
        ),
        (
            "WITH upstream AS (SELECT a FROM upstream) SELECT a FROM upstream",
            "WITH upstream AS (SELECT a\n, `upstream`.`id` AS `__key_id` FROM `r` AS `upstream`) "
            "SELECT a\n, `__key_id` FROM upstream",
        ),
        ("FROM upstream |> WHERE a > 1", "FROM `r` AS `upstream` |> WHERE a > 1"),
        (
            "FROM upstream |> WHERE a > 1 |> SELECT a -- all",
            "FROM `r` AS `upstream`\n|> EXTEND `upstream`.`id` AS `__key_id`  |> WHERE a > 1 |> SELECT a\n"
            ", `__key_id` ",
        ),
        (
            "FROM upstream AS u |> EXTEND a + 1 AS x |> SET id = x |> DROP a",
            "FROM `r` AS u\n|> EXTEND `u`.`id` AS `__key_id`  |> EXTEND a + 1 AS x |> SET id = x |> DROP a",
        ),
        (
            "(SELECT a FROM upstream) |> SELECT a + 1 AS b",
            "(SELECT a\n, `upstream`.`id` AS `__key_id` FROM `r` AS `upstream`) |> SELECT a + 1 AS b\n, `__key_id` ",
        ),
    ],
)
def test_hidden_keys_pass_through_every_level(text, rendered):
    assert check_query(text).render("r", ["id"]) == rendered


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("SELECT k AS key FROM (SELECT id AS k FROM upstream)", "key"),
        ("SELECT id FROM (SELECT a AS id FROM upstream)", None),
        ("SELECT b FROM (SELECT id AS a, id AS b FROM upstream)", "b"),
        ("SELECT t.* FROM (SELECT id FROM upstream) t", "id"),
        ("SELECT s.* FROM (SELECT id, s FROM upstream) t", None),
        ("SELECT * EXCEPT (id) FROM (SELECT * FROM upstream)", None),
        ("WITH t AS (SELECT id FROM upstream) SELECT t.id FROM t", "id"),
        ("FROM upstream |> SET id = id + 1", None),
        ("FROM upstream |> SET a = 1, b = 2 |> EXTEND 1 AS c |> DROP a |> AS t |> WHERE t.b > 1", "id"),
        ("FROM upstream |> AS t |> SELECT t.id AS k", "k"),
        ("FROM upstream |> DROP id", None),
        ("FROM upstream |> EXTEND id AS k |> DROP id", "k"),
        # `t` may be a struct here, so the key is kept in a hidden column as well.
        ("FROM upstream AS t |> SELECT s AS t, id |> SELECT t.id", None),
    ],
)
def test_a_key_column_is_followed_through_every_level(text, output):
    assert check_query(text).output_of_key("id") == output


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("SELECT cents FROM (SELECT amount AS cents FROM upstream)", ("amount",)),
        ("WITH t AS (SELECT id, amount FROM upstream WHERE note = 'x') SELECT id, amount AS cents FROM t", None),
        ("SELECT id FROM (SELECT * FROM upstream)", ("id", "amount", "cents", "note")),
        ("FROM upstream |> SELECT id", ("id", "amount", "cents", "note")),
        ("SELECT id, amount FROM upstream |> EXTEND amount AS cents", ("id", "amount")),
    ],
)
def test_only_the_level_over_the_upstream_uses_its_columns(text, used):
    assert check_query(text).columns_of(["id", "amount", "cents", "note"]) == (used or ("id", "amount", "note"))


def test_a_function_without_parentheses_is_compared_with_the_columns_of_the_level_before():
    """Spark reads the name as a function if the level before has no such column."""
    query = check_query("SELECT user FROM (SELECT id AS user FROM upstream)")
    query.require_names(["id"])
    query = check_query("SELECT id, user FROM (SELECT id FROM upstream)")
    with pytest.raises(InvalidJobError, match="user, which is not deterministic"):
        query.require_names(["id", "user"])
    query = check_query("FROM upstream |> DROP user |> EXTEND user AS u")
    with pytest.raises(InvalidJobError, match="user, which is not deterministic"):
        query.require_names(["id", "user"])


def test_a_hidden_key_column_has_a_name_that_no_level_has():
    query = check_query("SELECT a FROM (SELECT a, b AS __key_id FROM upstream) WHERE __key_id > 1")
    assert query.hidden_keys(["id"]) == {"id": "___key_id"}
