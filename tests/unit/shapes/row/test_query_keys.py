"""Key columns in the view, and hidden ones that are inserted into the query without another change of its text."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.shapes.row.query import check_query
from tests.unit.shapes.row.projections import PROJECTIONS

# --- what is easily overlooked --------------------------------------------------------------------


def test_a_hint_stays_where_it_was_written():
    text = "SELECT /*+ REPARTITION(3) */ a FROM upstream"
    assert check_query(text).render("r", []) == "SELECT /*+ REPARTITION(3) */ a FROM `r` AS `upstream`"


# --- key columns ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("projection", "output"),
    [
        ("id", "id"),
        ("ID", "ID"),
        ("`id`", "id"),
        ("upstream.id", "id"),
        ("UPSTREAM.id", "id"),
        ("id AS order_id", "order_id"),
        ("id order_id", "order_id"),
        ("id AS `order id`", "order id"),
        ("amount, status, id", "id"),
        ("id + 1 AS id, id AS original", "original"),
        ("id AS a, id AS b", "a"),
        ("*", "id"),
        ("upstream.*", "id"),
        ("*, 1 AS x", "id"),
        ("* EXCEPT (amount)", "id"),
        # Dropped or changed: the view needs a hidden column.
        ("amount", None),
        ("id + 0 AS id", None),
        ("CAST(id AS string) AS id", None),
        ("amount AS id", None),
        ("(id)", None),
        ("* EXCEPT (id)", None),
        ("* EXCEPT (ID, amount)", None),
        ("upstream.* EXCEPT (`id`)", None),
        ("* EXCEPT (id), id + 1 AS id", None),
        ("s.id", None),
        ("s.upstream.id", None),
        ("'id'", None),
        pytest.param("s.*", None),
        pytest.param("struct(*) AS s", None),
        pytest.param("xxhash64(*) AS h", None),
        ("id, struct(*) AS s", "id"),
    ],
)
def test_a_key_column_is_found_in_the_output_only_if_it_is_unchanged(projection, output):
    query = check_query(f"SELECT {projection} FROM upstream")
    assert query.output_of_key("id") == output
    hidden = {} if output else {"id": "__key_id"}
    assert query.hidden_keys(["id"]) == hidden
    assert query.key_outputs(["id"]) == (output or "__key_id",)


def test_a_key_column_that_a_star_leaves_out_is_left_out_however_it_is_written():
    for text in ("SELECT * EXCEPT (id) FROM upstream", "SELECT upstream.* EXCEPT (Id) FROM upstream"):
        assert [check_query(text).output_of_key(name) for name in ("id", "ID", "iD", "amount")] == [None] * 3 + [
            "amount"
        ]


def test_a_key_column_that_a_star_replaces_is_changed():
    query = check_query("SELECT * REPLACE (id + 1 AS ID) FROM upstream")
    assert query.key_outputs(["id", "amount"]) == ("__key_id", "amount")


def test_the_outputs_of_a_composite_key_follow_the_key():
    query = check_query("SELECT amount, b AS bee FROM upstream u")
    assert query.key_outputs(["a", "b", "c d"]) == ("__key_a", "bee", "__key_c d")
    assert list(query.hidden_keys(["a", "b", "c d"])) == ["a", "c d"]


def test_a_quoted_key_column_is_found_by_its_name():
    query = check_query("SELECT `order id`, `a.b` AS ab, `c``d` FROM upstream")
    assert query.key_outputs(["order id", "a.b", "c`d"]) == ("order id", "ab", "c`d")


@pytest.mark.parametrize(
    ("text", "names", "hidden"),
    [
        ("SELECT a AS __key_id FROM upstream", [], "___key_id"),
        ("SELECT a AS `__KEY_ID`, b AS ___key_Id FROM upstream", [], "____key_id"),
        ("SELECT a AS b, __key_id FROM upstream", [], "___key_id"),
        ("SELECT '__key_id' FROM upstream", [], "___key_id"),
        ("SELECT a FROM upstream WHERE __key_id > 1", ["__key_id"], "__key_id"),
        ("SELECT * EXCEPT (id) FROM upstream", ["a", "id", "__Key_id"], "___key_id"),
        ("SELECT s.* FROM upstream", ["s", "__key_id", "___key_id"], "____key_id"),
    ],
)
def test_a_hidden_key_column_never_has_the_name_of_another_column(text, names, hidden):
    query = check_query(text)
    assert query.hidden_keys(["id"], names) == {"id": hidden}
    assert query.key_outputs(["id"], names) == (hidden,)
    assert f"`id` AS `{hidden}` FROM" in query.render("r", ["id"], names)


# --- splicing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("SELECT id FROM upstream", "SELECT id FROM `r` AS `upstream`"),
        ("SELECT id FROM upstream;", "SELECT id FROM `r` AS `upstream`"),
        ("SELECT a FROM upstream", "SELECT a\n, `upstream`.`id` AS `__key_id` FROM `r` AS `upstream`"),
        ("SELECT a FROM UpStream", "SELECT a\n, `UpStream`.`id` AS `__key_id` FROM `r` AS `UpStream`"),
        ("SELECT a FROM upstream u", "SELECT a\n, `u`.`id` AS `__key_id` FROM `r` u"),
        ("SELECT a FROM upstream AS `u``v`", "SELECT a\n, `u``v`.`id` AS `__key_id` FROM `r` AS `u``v`"),
        ("SELECT a FROM `upstream`", "SELECT a\n, `upstream`.`id` AS `__key_id` FROM `r` AS `upstream`"),
        (
            "SELECT * EXCEPT (id) FROM upstream",
            "SELECT * EXCEPT (id)\n, `upstream`.`id` AS `__key_id` FROM `r` AS `upstream`",
        ),
        (
            "SELECT a -- FROM nowhere\nFROM -- here\n upstream -- end\nWHERE a = 'FROM upstream'",
            f"SELECT a\n, `upstream`.`id` AS `__key_id` FROM {' ' * 7}\n `r` AS `upstream` {' ' * 6}\n"
            "WHERE a = 'FROM upstream'",
        ),
        (
            "SELECT trim(BOTH 'x' FROM a), a IS DISTINCT FROM b FROM upstream",
            "SELECT trim(BOTH 'x' FROM a), a IS DISTINCT FROM b\n"
            ", `upstream`.`id` AS `__key_id` FROM `r` AS `upstream`",
        ),
        (
            "SELECT trim(BOTH (b) FROM a) FROM upstream",
            "SELECT trim(BOTH (b) FROM a)\n, `upstream`.`id` AS `__key_id` FROM `r` AS `upstream`",
        ),
        (
            "SELECT '😀', `from` FROM upstream WHERE name = 'ü'",
            "SELECT '😀', `from`\n, `upstream`.`id` AS `__key_id` FROM `r` AS `upstream` WHERE name = 'ü'",
        ),
        (
            "select\ta\r\nfrom\tupstream\r\nwhere a > 1",
            "select\ta\n, `upstream`.`id` AS `__key_id` from\t`r` AS `upstream`\r\nwhere a > 1",
        ),
        pytest.param(
            "SELECT s.from FROM upstream", "SELECT s.from\n, `upstream`.`id` AS `__key_id` FROM `r` AS `upstream`"
        ),
        pytest.param("SELECT upstream.from, id FROM upstream", "SELECT upstream.from, id FROM `r` AS `upstream`"),
    ],
)
def test_hidden_keys_are_spliced_in_and_the_rest_stays_as_it_was_written(text, rendered):
    assert check_query(text).render("r", ["id"]) == rendered


def test_names_in_a_rendered_query_cannot_break_out_of_their_quotes():
    rendered = check_query("SELECT a FROM upstream").render("r` WHERE 1=1 --", ["i`d"])
    assert "`r`` WHERE 1=1 --`" in rendered
    assert "`i``d` AS `__key_i``d`" in rendered


@pytest.mark.parametrize(("name", "quoted"), [("a", "`a`"), ("a`b", "`a``b`"), ("", "``"), ("a b.c", "`a b.c`")])
def test_identifiers_are_quoted_for_spark(name, quoted):
    assert quote(name) == quoted


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_a_rendered_query_is_again_row_level(projection):
    """The rendered query parses to one SELECT with the hidden key as its last column."""
    rendered = check_query(f"SELECT {projection} FROM upstream WHERE a = 1").render("upstream", ["__never_selected"])
    again = check_query(rendered)
    assert again.text.endswith("WHERE a = 1")
    if again.has_star:
        return
    assert again.output_of_key("__never_selected") == "__key___never_selected"
