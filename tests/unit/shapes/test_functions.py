"""Which functions a query may call."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.row.query import check_query

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


@pytest.mark.parametrize("expression", AGGREGATES)
@pytest.mark.parametrize("query", ["SELECT {} FROM upstream", "SELECT id FROM upstream WHERE {} > 1"])
def test_an_aggregate_is_refused(expression, query):
    with pytest.raises(InvalidJobError, match="the aggregate .* must be row-level"):
        check_query(query.format(expression))


@pytest.mark.parametrize("expression", NOT_ALWAYS_THE_SAME)
@pytest.mark.parametrize("query", ["SELECT id, {} AS x FROM upstream", "SELECT id FROM upstream WHERE a = {}"])
def test_a_function_with_changing_values_is_refused(expression, query):
    """I2: an epoch that runs again must write the same rows."""
    with pytest.raises(InvalidJobError, match="is not deterministic"):
        check_query(query.format(expression))


@pytest.mark.parametrize("expression", SEVERAL_ROWS)
def test_a_function_that_makes_several_rows_of_one_is_refused(expression):
    with pytest.raises(InvalidJobError, match="returns several rows for one"):
        check_query(f"SELECT id, {expression} FROM upstream")


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
    """I2: such a function can hide rand() or a subquery, and can be replaced while the view is built."""
    with pytest.raises(InvalidJobError, match="not a built-in function of Spark.* write out its expression") as caught:
        check_query(f"SELECT id, {expression} AS x FROM upstream")
    assert "function" in str(caught.value).lower()


@pytest.mark.parametrize(
    "call", ["lag(a)", "rank()", "current_path()", "collations()", "vector_sum(a)", "window_time(a)"]
)
def test_a_function_that_is_not_of_one_row_is_refused_by_name(call):
    with pytest.raises(InvalidJobError, match=call.split("(", maxsplit=1)[0]):
        check_query(f"SELECT id, {call} AS x FROM upstream")
