"""Which queries are row-level, and that hidden key columns are spliced into the text without touching it."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.sql import quote
from airflow_backfill_provider.shapes.row.query import check_query

# --- what is row-level ----------------------------------------------------------------------------

PROJECTIONS = """
id
*
upstream.*
*, id + 1 AS more
* EXCEPT (id)
id AS `order id`, `weird ``name```
amount * 100 AS cents, -amount, +amount, amount DIV 2, amount % 2, ~amount, a & b | c ^ d
a || b, a <=> b, a != b, a <> b, NOT a, a AND b OR c, a IS NULL, b IS NOT NULL
a IS DISTINCT FROM b AS changed
a IS NOT DISTINCT FROM b
a BETWEEN 1 AND 2, a NOT IN (1, 2), a LIKE 'x%' ESCAPE '!', a RLIKE '[x]', a LIKE ANY ('x', 'y'), a ILIKE 'X'
CASE WHEN a THEN 1 WHEN b THEN 2 ELSE 3 END, CASE a WHEN 1 THEN 'x' END, if(a, b, c), iff
CAST(a AS DECIMAL(10, 2)), a::int, try_cast(a AS date), INT(a), STRING(a)
coalesce(a, b), nvl(a, b), nullif(a, b), ifnull(a, b), greatest(a, b), least(a, b)
upper(a), lower(a), trim(a), trim(BOTH 'x' FROM a), substring(a, 1, 2), substring(a FROM 2), concat_ws('-', a, b)
extract(year FROM ts), date_trunc('day', ts), year(ts), datediff(a, b), ts + INTERVAL '1' DAY, add_months(a, 1)
overlay(a PLACING 'x' FROM 2), position('x' IN a), regexp_replace(a, 'x', 'y'), split(a, ','), format_string('%s', a)
date '2020-01-01', timestamp '2020-01-01 00:00:00', x'1F', 1L, 1S, 1.0BD, 1e3, true, NULL
named_struct('a', 1), struct(a, b), map('a', 1), array(1, 2), a.b.c, d[0], e['k'], element_at(d, 1), size(d)
exists(items, i -> i > 1), filter(items, i -> i > 1), transform(items, (i, n) -> i + n), forall(items, i -> i > 0)
aggregate(items, 0, (acc, i) -> acc + i), reduce(items, 0, (acc, i) -> acc + i), zip_with(a, b, (x, y) -> x + y)
array_max(items), array_min(items), array_join(items, ','), sort_array(items), array_distinct(items), flatten(a)
hash(a, b), xxhash64(a), md5(a), sha2(a, 256), crc32(a), base64(a), hex(a), conv(a, 2, 10)
to_json(struct(a)), from_json(a, 'x INT'), get_json_object(a, '$.x'), parse_url(a, 'HOST')
unix_timestamp(ts), to_date(a, 'yyyy'), from_unixtime(a), to_utc_timestamp(ts, 'UTC'), make_date(2020, 1, 1)
round(a, 2), bround(a), floor(a), ceil(a), abs(a), sqrt(a), power(a, 2), pmod(a, 7), mod(a, 2), sign(a), log10(a)
system.builtin.upper(a), builtin.lower(a), `upper`(a)
a << 2, a >> 2, IDENTIFIER('a'), identifier('upstream.a')
date, timestamp, value, key, type, year, count, first, max, user_id, current, rank, window
`select`, `from`, `where`, `order by`, `rand()`
order, group
'it''s', "a FROM b", r'raw', '-- no comment', '/* none */', 'SELECT max(x) FROM y', 'current_date()'
""".strip().splitlines()


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_an_expression_of_one_row_is_accepted(projection):
    query = check_query(f"SELECT {projection} FROM upstream")
    assert query.text == f"SELECT {projection} FROM upstream"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM upstream",
        "select id from upstream",
        "SELECT id FROM UPSTREAM",
        "SELECT id FROM `upstream`",
        "SELECT ALL id FROM upstream",
        "SELECT id FROM upstream WHERE id > 1",
        "SELECT id FROM upstream WHERE id IN (1, 2) AND (status = 'a' OR NOT paid)",
        "SELECT u.id FROM upstream u",
        "SELECT u.id FROM upstream AS u WHERE u.id IS NOT DISTINCT FROM u.old",
        "SELECT `o'x`.id FROM upstream AS `o'x`",
        "  SELECT id FROM upstream  ;  ",
        "\n-- what we sell\nSELECT id -- the key\nFROM /* the */ upstream -- all\nWHERE id > 1 -- some",
        "SELECT/**/id/**/FROM/**/upstream/**/WHERE/**/id>1",
        "SELECT '😀', ünï FROM upstream WHERE name = '日本'",
        "SELECT id FROM upstream WHERE " + " AND ".join(["id > 1"] * 2000),
        "SELECT upper('now') FROM upstream WHERE txt <> 'today' AND txt IN ('10:15', 'yesterday')",
    ],
)
def test_a_filtered_projection_is_accepted_however_it_is_written(text):
    assert check_query(text).render("r", ["id"])


# --- what is not ----------------------------------------------------------------------------------

AGGREGATES = """
count(*) count(id) count(DISTINCT(id)) count_if(a) sum(a) avg(a) mean(a) min(a) max(a) max_by(a,b) min_by(a,b)
first(a) last(a) first_value(a) last_value(a) any_value(a) some(a) every(a) bool_and(a) bool_or(a) bit_and(a)
bit_or(a) bit_xor(a) collect_list(a) collect_set(a) array_agg(a) stddev(a) stddev_samp(a) stddev_pop(a) std(a)
variance(a) var_pop(a) var_samp(a) corr(a,b) covar_pop(a,b) covar_samp(a,b) skewness(a) kurtosis(a) median(a)
mode(a) percentile(a,0.5) percentile_approx(a,0.5) approx_percentile(a,0.5) approx_count_distinct(a) regr_slope(a,b)
regr_count(a,b) histogram_numeric(a,5) hll_sketch_agg(a) count_min_sketch(a,0.5,0.5,1) bitmap_construct_agg(a)
grouping(a) grouping_id(a) listagg(a) string_agg(a,',') try_sum(a) try_avg(a) sum(a)FILTER(WHERE(b))
""".split()
NOT_ALWAYS_THE_SAME = """
rand() rand(1) random() randn() randstr(5) uniform(1,2) uuid() shuffle(a) monotonically_increasing_id()
spark_partition_id() input_file_name() input_file_block_start() input_file_block_length() current_timestamp
current_timestamp() now() localtimestamp() current_date current_date() curdate() current_time() unix_timestamp()
current_user() current_user user() session_user() session_user current_catalog() current_database()
current_schema() current_timezone() version() reflect('java.util.UUID','randomUUID')
java_method('java.util.UUID','randomUUID') try_reflect('java.util.UUID','randomUUID') `rand`() system.builtin.rand()
transform(a,x->rand()) coalesce(a,uuid()) RAND() Now()
""".split()
SEVERAL_ROWS = """
explode(a) explode_outer(a) posexplode(a) posexplode_outer(a) inline(a) inline_outer(a) stack(2,a,b)
""".split()
WINDOWS = [
    "row_number() OVER (ORDER BY id)",
    "sum(a) OVER (PARTITION BY b)",
    "lag(a) OVER w",
    "count(*) OVER ()",
    "percentile_cont(0.5) WITHIN GROUP (ORDER BY a)",
]


@pytest.mark.parametrize("expression", AGGREGATES)
@pytest.mark.parametrize("query", ["SELECT {} FROM upstream", "SELECT id FROM upstream WHERE {} > 1"])
def test_an_aggregate_is_refused(expression, query):
    with pytest.raises(InvalidJobError, match="the aggregate .* must be row-level"):
        check_query(query.format(expression))


@pytest.mark.parametrize("expression", NOT_ALWAYS_THE_SAME)
@pytest.mark.parametrize("query", ["SELECT id, {} AS x FROM upstream", "SELECT id FROM upstream WHERE a = {}"])
def test_what_does_not_give_the_same_value_every_time_is_refused(expression, query):
    """I2: an epoch that runs again must write the same rows."""
    with pytest.raises(InvalidJobError, match="is not deterministic"):
        check_query(query.format(expression))


@pytest.mark.parametrize("expression", SEVERAL_ROWS)
def test_what_makes_several_rows_of_one_is_refused(expression):
    with pytest.raises(InvalidJobError, match="returns several rows for one"):
        check_query(f"SELECT id, {expression} FROM upstream")


@pytest.mark.parametrize("expression", WINDOWS)
def test_a_window_function_is_refused(expression):
    with pytest.raises(InvalidJobError, match="window functions"):
        check_query(f"SELECT {expression} FROM upstream")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT DISTINCT id FROM upstream", "DISTINCT"),
        ("SELECT id FROM upstream GROUP BY id", "GROUP BY"),
        ("SELECT id FROM upstream GROUP BY ALL", "GROUP BY"),
        ("SELECT id FROM upstream HAVING id > 1", "HAVING"),
        ("SELECT id FROM upstream QUALIFY id = 1", "QUALIFY"),
        ("SELECT id FROM upstream WINDOW w AS (ORDER BY id)", "WINDOW"),
        ("SELECT id FROM upstream ORDER BY id", "ORDER BY"),
        ("SELECT id FROM upstream SORT BY id", "SORT BY"),
        ("SELECT id FROM upstream CLUSTER BY id", "CLUSTER BY"),
        ("SELECT id FROM upstream DISTRIBUTE BY id", "DISTRIBUTE BY"),
        ("SELECT id FROM upstream LIMIT 5", "LIMIT"),
        ("SELECT id FROM upstream LIMIT ALL", "LIMIT"),
        ("SELECT id FROM upstream OFFSET 5", "OFFSET"),
        ("SELECT id FROM upstream LATERAL VIEW explode(a) t AS x", "LATERAL VIEW"),
        ("SELECT id FROM upstream LATERAL VIEW OUTER explode(a) AS x", "LATERAL VIEW"),
        ("SELECT id FROM upstream, upstream b", "joins"),
        ("SELECT id FROM upstream JOIN other USING (id)", "joins"),
        ("SELECT id FROM upstream NATURAL JOIN other", "joins"),
        ("SELECT id FROM upstream CROSS JOIN upstream", "joins"),
        ("SELECT id FROM upstream LEFT ANTI JOIN other USING (id)", "joins"),
        ("SELECT (SELECT 1)", "FROM upstream"),
        ("SELECT (SELECT 1) FROM upstream", "subqueries"),
        ("SELECT id FROM upstream WHERE id IN (SELECT 1)", "subqueries"),
        ("SELECT id FROM upstream WHERE EXISTS (SELECT 1)", "subqueries"),
        ("SELECT id FROM upstream WHERE id > (SELECT max(id) FROM upstream)", "subqueries"),
        ("WITH t AS (SELECT 1) SELECT id FROM upstream", "WITH t, which is never read"),
        ("WITH a AS (SELECT id FROM upstream), b AS (SELECT 1) SELECT id FROM a", "WITH b, which is never read"),
        ("WITH t(x) AS (SELECT id FROM upstream) SELECT x FROM t", "WITH name AS"),
        ("WITH RECURSIVE t AS (SELECT id FROM upstream) SELECT id FROM t", "WITH name AS"),
        ("WITH upstream AS (SELECT 1 AS id) SELECT id FROM upstream", "FROM upstream"),
        ("WITH t AS (SELECT DISTINCT id FROM upstream) SELECT id FROM t", "DISTINCT"),
        ("WITH t AS (SELECT id FROM upstream) SELECT t.id FROM t JOIN t AS u USING (id)", "joins"),
        ("SELECT id FROM (SELECT id, rand() AS x FROM upstream) WHERE x < 0.5", "rand"),
        ("SELECT max(id) FROM (SELECT id FROM upstream)", "the aggregate max"),
        ("SELECT id FROM (SELECT id FROM upstream LIMIT 1)", "LIMIT"),
        ("SELECT struct(*) AS s FROM (SELECT id FROM upstream)", "name the columns"),
        ("FROM upstream |> SELECT hash(*) AS h", "name the columns"),
        ("FROM upstream |> LIMIT 1", "operator LIMIT"),
        ("FROM upstream |> UNION ALL (SELECT 1)", "operator UNION"),
        ("FROM upstream |> AGGREGATE (count(*)) GROUP BY id", "operator AGGREGATE"),
        ("FROM upstream |> JOIN other USING (id)", "operator JOIN"),
        ("FROM upstream |> EXTEND (SELECT 1) AS x", "subqueries"),
        ("FROM upstream |> WHERE id IN (SELECT 1)", "subqueries"),
        ("FROM upstream |> SELECT DISTINCT id", "DISTINCT"),
        ("FROM upstream |> SELECT id FROM upstream", "more than expressions"),
        ("FROM upstream |> EXTEND max(id) AS m", "the aggregate max"),
        ("FROM upstream |> SET id = explode(items)", "several rows"),
        ("SELECT id FROM upstream WHERE id = :x", "parameters"),
        ("SELECT id FROM upstream WHERE id = ?", "parameters"),
        ("SELECT _metadata.file_path FROM upstream", "_metadata"),
        ("SELECT upstream._METADATA FROM upstream", "_metadata"),
    ],
)
def test_a_clause_that_looks_beyond_one_row_is_refused(text, said):
    with pytest.raises(InvalidJobError, match="must be row-level") as caught:
        check_query(text)
    assert said in str(caught.value)


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


# --- what is easily overlooked ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        "timestamp 'now'",
        "date 'today'",
        "CAST('now' AS timestamp)",
        "'tomorrow'::date",
        "to_date('today')",
        "timestamp_ntz 'now UTC'",
        "CAST(('10:15') AS timestamp)",
        "timestamp 'T10:15'",
        "to_timestamp('1:15:00')",
    ],
)
def test_the_clock_in_a_literal_is_refused(expression):
    """I2: ``date 'today'`` is another day when the epoch is run again."""
    with pytest.raises(InvalidJobError, match="changes from day to day"):
        check_query(f"SELECT id, {expression} AS x FROM upstream")


def test_encryption_with_a_random_vector_is_refused():
    """I2."""
    with pytest.raises(InvalidJobError, match="not deterministic"):
        check_query("SELECT id, aes_encrypt(name, 'abcdefghijklmnop') AS x FROM upstream")


def test_a_sliding_window_is_refused():
    """I1: Spark gives two rows of one here, and the view would have a key twice."""
    with pytest.raises(InvalidJobError, match="several rows"):
        check_query("SELECT id, window(ts, '10 minutes', '5 minutes') AS w FROM upstream")


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(expression)
        for expression in (
            "any(a)",
            "bitmap_and_agg(a)",
            "kll_sketch_agg_bigint(a)",
            "theta_sketch_agg(a)",
            "measure(a)",
        )
    ],
)
def test_a_rarer_aggregate_is_refused(expression):
    with pytest.raises(InvalidJobError, match="aggregate"):
        check_query(f"SELECT {expression} FROM upstream")


def test_a_script_transformation_is_refused():
    with pytest.raises(InvalidJobError):
        check_query("SELECT TRANSFORM(id) USING 'cat' AS (id) FROM upstream")


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
def test_what_the_parser_chokes_on_is_a_wrong_job_and_no_crash(text):
    """I6: a clear error, never a traceback of the SQL parser."""
    with pytest.raises(InvalidJobError):
        check_query(text)


def test_a_comment_after_the_closing_semicolon_is_harmless():
    assert check_query("SELECT id FROM upstream; -- that is all").render("r", ["id"])


def test_a_hint_stays_where_it_was_written():
    text = "SELECT /*+ REPARTITION(3) */ a FROM upstream"
    assert check_query(text).render("r", []) == "SELECT /*+ REPARTITION(3) */ a FROM `r` AS `upstream`"


# --- levels ---------------------------------------------------------------------------------------


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
            ", `__key_id`  -- all",
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
        # `t` may be a struct by then: the key is kept once more, to be sure.
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


def test_a_function_without_parentheses_is_looked_for_among_what_the_level_before_gives():
    """Spark reads the name as a function where the level before does not give such a column."""
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


# --- columns --------------------------------------------------------------------------------------


def test_used_columns_come_in_the_upstreams_order_and_whatever_their_case():
    query = check_query("SELECT Amount * 2 AS x FROM upstream WHERE STATUS = 'note'")
    assert query.columns_of(["id", "status", "note", "AMOUNT"]) == ("status", "AMOUNT")


@pytest.mark.parametrize(
    ("projection", "column"),
    [
        ("`order id`", "order id"),
        ("`a.b`", "a.b"),
        ("`a``b`", "a`b"),
        ("`it's`", "it's"),
        ("ÜNÏ", "ünï"),
        ("s.field.deep", "s"),
        ("upstream.s.field", "s"),
        ("items[0].x", "items"),
        ("transform(items, i -> i + offset_)", "offset_"),
        ("`from`", "from"),
        ("extract(day FROM ts)", "ts"),
    ],
)
def test_a_used_column_is_found_however_it_is_written(projection, column):
    assert check_query(f"SELECT {projection} AS x FROM upstream").columns_of(["other", column]) == (column,)


@pytest.mark.parametrize(
    "projection",
    [
        "amount * 100 AS cents",
        "amount * 100 cents",
        "amount AS `cents`",
        "cents(amount)",
        "s.cents",
        "upstream.s.cents",
        "items[0].cents",
        "to_json(s).cents",
        "'cents'",
        "amount -- cents",
    ],
)
def test_a_column_is_not_used_by_an_alias_a_function_or_a_field_of_its_name(projection):
    """Another type of such a column, or none at all, concerns no epoch."""
    text = f"SELECT {projection}\nFROM upstream"
    if "cents(" in projection:
        with pytest.raises(InvalidJobError, match="cents"):
            check_query(text)
        return
    assert "cents" not in check_query(text).columns_of(["amount", "cents", "items", "s"])


def test_a_column_is_not_used_by_a_type_or_a_keyword_of_its_name():
    query = check_query("SELECT CAST(a AS date), b::timestamp FROM upstream WHERE c IS NOT NULL")
    assert query.columns_of(["a", "b", "c", "date", "timestamp", "from", "where", "not"]) == ("a", "b", "c")


@pytest.mark.parametrize(
    "projection",
    [
        "amount AS cents, cents + 1 AS more",
        "amount AS cents, upstream.cents AS again",
        "amount AS cents, UPSTREAM.`Cents` AS again",
        "amount AS cents, transform(items, i -> i + cents)",
        "cents.amount",
        "IDENTIFIER('cents') AS x",
        "IDENTIFIER('upstream.`cents`') AS x",
        "CASE WHEN cents IN (1) THEN 1 END",
        "cents cents",
    ],
)
def test_a_column_is_used_also_where_an_alias_has_its_name(projection):
    """Without it, Spark would read the name as the alias, and nobody would notice."""
    assert "cents" in check_query(f"SELECT {projection} FROM upstream").columns_of(["amount", "cents", "items"])


@pytest.mark.parametrize("text", ["IDENTIFIER('a' || 'b')", "IDENTIFIER('upper')('a')", "s.identifier('a')"])
def test_a_name_that_is_computed_is_refused(text):
    with pytest.raises(InvalidJobError):
        check_query(f"SELECT {text} AS x FROM upstream")


@pytest.mark.parametrize(
    "expression",
    [
        "my_function(a)",
        "schema.my_function(a)",
        "system.session.upper(a)",
        "spark_catalog.default.upper(a)",
        "`my_function`(a)",
        "transform(items, i -> My_Function(i))",
        "ai_query(a)",
    ],
)
def test_a_function_that_is_not_sparks_own_is_refused_by_name(expression):
    """I2: it can hold rand() or a subquery under any name, and can be replaced while the view is built."""
    with pytest.raises(InvalidJobError, match="not a built-in function of Spark.* write out its expression") as caught:
        check_query(f"SELECT id, {expression} AS x FROM upstream")
    assert "function" in str(caught.value).lower()


@pytest.mark.parametrize(
    "call", ["lag(a)", "rank()", "current_path()", "collations()", "vector_sum(a)", "window_time(a)"]
)
def test_a_function_that_is_not_of_one_row_is_refused_by_name(call):
    with pytest.raises(InvalidJobError, match=call.split("(", maxsplit=1)[0]):
        check_query(f"SELECT id, {call} AS x FROM upstream")


@pytest.mark.parametrize("projection", ["*", "upstream.*", "* EXCEPT (a)", "struct(*) AS s", "xxhash64(*) AS h"])
def test_a_star_uses_every_column(projection):
    assert check_query(f"SELECT {projection} FROM upstream").columns_of(["a", "b"]) == ("a", "b")


@pytest.mark.parametrize("name", ["user", "current_time", "localtimestamp"])
def test_a_function_without_parentheses_is_refused_unless_a_column_has_its_name(name):
    """I2: Spark reads such a name as a function where the upstream has no such column."""
    query = check_query(f"SELECT id, {name} FROM upstream")
    with pytest.raises(InvalidJobError, match=f"{name}, which is not deterministic"):
        query.require_names(["id"])
    query.require_names(["id", name.upper()])
    check_query(f"SELECT upstream.{name} FROM upstream").require_names(["id"])


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
            "SELECT a -- FROM nowhere\n, `upstream`.`id` AS `__key_id` FROM -- here\n `r` AS `upstream` -- end\n"
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
    """The splice keeps the clause structure: what comes out parses to one select with the hidden key behind."""
    rendered = check_query(f"SELECT {projection} FROM upstream WHERE a = 1").render("upstream", ["__never_selected"])
    again = check_query(rendered)
    assert again.text.endswith("WHERE a = 1")
    if again.has_star:
        return
    assert again.output_of_key("__never_selected") == "__key___never_selected"
