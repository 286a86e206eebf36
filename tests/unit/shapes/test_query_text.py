"""A query consists of tokens that sqlglot and Spark cut in the same way."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.query_text import read_query
from airflow_backfill_provider.shapes.row.query import check_query

LEAK = "(SELECT concat_ws(',', collect_list(value)) FROM text.`/etc/passwd`) AS leak"

HIDDEN = [
    f"SELECT order_id -- \\\n/*\n, {LEAK} -- \\\n*/\nFROM upstream",
    f"SELECT order_id /* /*+ */ , {LEAK} /* */ */ FROM upstream",
    f"SELECT order_id -- \\\r\n/*\r\n, {LEAK} -- \\\r\n*/\r\nFROM upstream",
    "SELECT order_id -- \\\n/*\n, reflect('java.lang.System', 'getProperty', 'user.dir') AS x -- \\\n*/\nFROM upstream",
    "SELECT -- \\\n/*\nTRANSFORM (order_id) USING 'id' AS (order_id) -- \\\n*/ order_id\nFROM upstream",
    "SELECT order_id FROM upstream -- \\\n/*\nWHERE EXISTS (SELECT 1 FROM text.`/etc/passwd`) -- \\\n*/",
    "SELECT order_id FROM upstream WHERE 1 = 1 /* /*+ */ AND EXISTS (SELECT 1 FROM text.`/etc/passwd`) /* */ */",
    f"SELECT order_id /*+ x('*/, {LEAK} /*') */ FROM upstream",
    f"SELECT order_id, '\\\\', {LEAK} --' FROM upstream",
    f"SELECT order_id -- a\u0085, {LEAK}\nFROM upstream",
    f"SELECT order_id -- a\u2028, {LEAK}\nFROM upstream",
    f"SELECT order_id, $$ ' $$, {LEAK} -- ' FROM upstream",
    f"SELECT order_id, r'\\', {LEAK} --' FROM upstream",
]


@pytest.mark.parametrize("text", HIDDEN)
def test_sql_that_one_of_the_lexers_takes_for_a_comment_does_not_run(text: str) -> None:
    """What is checked is what runs: such a query is refused, or it runs without the hidden part."""
    try:
        rendered = check_query(text).render("r", ["order_id"])
    except InvalidJobError:
        return
    for hidden in ("etc/passwd", "reflect", "TRANSFORM"):
        assert hidden not in rendered


@pytest.mark.parametrize(
    "text",
    [
        "SELECT n'a' FROM upstream",
        "SELECT x 'ab' FROM upstream",
        'SELECT x"ab" FROM upstream',
        "SELECT 0x1F FROM upstream",
        "SELECT 1E FROM upstream",
        "SELECT 1.e FROM upstream",
        "SELECT 1.5a FROM upstream",
        "SELECT a ->> b FROM upstream",
        "SELECT a && b FROM upstream",
        "SELECT a ~~ b FROM upstream",
        "SELECT a ?? b FROM upstream",
        "SELECT a :: b ?:: c FROM upstream",
        "SELECT id FROM upstream WHERE /*+ a */ id = 1",
    ],
)
def test_a_text_that_the_lexers_cut_differently_is_refused_with_the_place(text: str) -> None:
    with pytest.raises(InvalidJobError, match=r"can be read in two ways \(line 1, column \d+\)"):
        read_query(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1L, 1.5BD, .5, .5e3, 1., 1e5, 1Y, 2S, 3F, 4D FROM upstream",
        "SELECT X'ab', x'', 'it''s', \"say \"\"a\"\"\", r'\\d+', 'a' 'b' FROM upstream",
        "SELECT a << 1, a >> 1, a >>> 1, a <=> b, !a, a != b, a <> b, a::INT, v:x.y[0]::INT FROM upstream",
        "SELECT CAST(a AS DOUBLE PRECISION), date '2020-01-01', interval '1' day FROM upstream",
        "SELECT /*+ COALESCE(1) */ transform(a, x -> x + 1) FROM upstream",
        "SELECT a.`b``c`.d, 1_0, 1a FROM upstream",
    ],
)
def test_what_both_lexers_cut_in_the_same_way_is_kept_as_written(text: str) -> None:
    assert read_query(text).text == text


def test_doubled_quotes_are_one_text() -> None:
    texts = [token.text for token in read_query("""SELECT 'it''s', "a""b", 'c' 'd' FROM upstream""").tokens[1:-2]]
    assert [text for text in texts if text != ","] == ["it's", 'a"b', "c", "d"]
