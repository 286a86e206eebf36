"""
The functions that a query may call, and those that it may not.

Only Spark's own deterministic functions are allowed, and each shape has its list. Functions of a catalog, a session or
a user can hide ``rand()`` or a subquery, and can be replaced while the view is built, so the view would mix the results
of both. Spark resolves its own functions before others of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.function_arguments import refuse_other_arguments

NON_DETERMINISTIC = frozenset(
    """
    aes_encrypt curdate current_catalog current_database current_date current_path current_schema current_time
    current_timestamp current_timezone current_user getdate input_file_block_length input_file_block_start
    input_file_name java_method localtime localtimestamp monotonically_increasing_id now rand randn random
    randstr reflect session_user shuffle spark_partition_id try_reflect uniform user uuid version
    """.split()
)
"""Functions with values that change over time, or depend on the user or the machine."""

AGGREGATES = frozenset(
    """
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg
    bool_and bool_or collect_list collect_set corr count count_if count_min_sketch covar_pop covar_samp every
    first first_value grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint
    kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float
    kurtosis last last_value listagg max max_by mean measure median min min_by mode percentile percentile_approx
    percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
    regr_sxy regr_syy schema_of_json_agg schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp
    string_agg sum theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum
    tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double
    tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer var_pop var_samp variance vector_avg
    vector_sum
    """.split()
)

GENERATORS = frozenset(
    """
    explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer session_window stack unnest
    variant_explode variant_explode_outer window window_time
    """.split()
)
"""Functions that return several rows for one, or work only with one that does."""

WINDOW_FUNCTIONS = frozenset(
    """
    cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number
    """.split()
)

TABLE_FUNCTIONS = frozenset(
    """
    collations python_worker_logs range sql_keywords table_changes table_changes_by_path
    """.split()
)

ROW_FUNCTIONS = frozenset(
    """
    abs acos acosh add_months aes_decrypt aggregate approx_top_k_estimate array array_append array_compact
    array_contains array_distinct array_except array_insert array_intersect array_join array_max array_min
    array_position array_prepend array_remove array_repeat array_size array_sort array_union arrays_overlap
    arrays_zip ascii asin asinh assert_true atan atan2 atanh base64 bigint bin binary bit_count bit_get
    bit_length bitmap_bit_position bitmap_bucket_number bitmap_count boolean bround btrim cardinality cast cbrt
    ceil ceiling char char_length character_length chr coalesce collate collation concat concat_ws contains conv
    convert_timezone cos cosh cot crc32 csc date date_add date_diff date_format date_from_unix_date date_part
    date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear decimal decode
    degrees div double e element_at elt encode endswith equal_null exists exp expm1 extract factorial filter
    find_in_set flatten float floor forall format_number format_string from_avro from_csv from_json
    from_protobuf from_unixtime from_utc_timestamp from_xml get get_json_object getbit greatest hash hex
    hll_sketch_estimate hll_union hour hypot if ifnull ilike initcap instr int is_valid_utf8 is_valid_variant
    is_variant_null isnan isnotnull isnull json_array_length json_object_keys kll_sketch_get_n_bigint
    kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double
    kll_sketch_get_quantile_float kll_sketch_get_rank_bigint kll_sketch_get_rank_double
    kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float
    kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float last_day lcase least left
    len length levenshtein like ln locate log log10 log1p log2 lower lpad ltrim luhn_check make_date
    make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz
    make_valid_utf8 make_ym_interval map map_concat map_contains_key map_entries map_filter map_from_arrays
    map_from_entries map_keys map_values map_zip_with mask md5 minute mod month monthname months_between
    named_struct nanvl negative next_day nullif nullifzero nvl nvl2 octet_length overlay parse_json parse_url pi
    pmod position positive pow power printf quarter quote radians raise_error reduce regexp regexp_count
    regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat replace
    reverse right rint rlike round rpad rtrim schema_of_avro schema_of_csv schema_of_json schema_of_variant
    schema_of_xml sec second sentences sequence sha sha1 sha2 shiftleft shiftright shiftrightunsigned sign
    signum sin sinh size slice smallint sort_array soundex space split split_part sqrt st_asbinary
    st_geogfromwkb st_geomfromwkb st_setsrid st_srid startswith str_to_map string struct substr substring
    substring_index tan tanh theta_difference theta_intersection theta_sketch_estimate theta_union time
    time_bucket time_diff time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis
    time_to_seconds time_trunc timediff timestamp timestamp_micros timestamp_millis timestamp_seconds
    timestampadd timestampdiff tinyint to_avro to_binary to_char to_csv to_date to_json to_number to_protobuf
    to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp to_varchar
    to_variant_object to_xml transform transform_keys transform_values translate trim trunc try_add
    try_aes_decrypt try_cast try_divide try_element_at try_make_interval try_make_timestamp
    try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_multiply try_parse_json try_parse_url try_subtract
    try_to_binary try_to_date try_to_number try_to_time try_to_timestamp try_url_decode try_validate_utf8
    try_variant_get tuple_difference_double tuple_difference_integer tuple_difference_theta_double
    tuple_difference_theta_integer tuple_intersection_double tuple_intersection_integer
    tuple_intersection_theta_double tuple_intersection_theta_integer tuple_sketch_estimate_double
    tuple_sketch_estimate_integer tuple_sketch_summary_double tuple_sketch_summary_integer
    tuple_sketch_theta_double tuple_sketch_theta_integer tuple_union_double tuple_union_integer
    tuple_union_theta_double tuple_union_theta_integer typeof ucase unbase64 unhex unix_date unix_micros
    unix_millis unix_seconds unix_timestamp upper url_decode url_encode validate_utf8 variant_get
    vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm vector_normalize weekday
    weekofyear width_bucket xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number
    xpath_short xpath_string xxhash64 year zeroifnull zip_with
    """.split()
)
"""Functions that return one value for one row, and always the same one under the settings that every session gets."""

_NOT_CALLED = frozenset(
    """
    all and any as between both by case distinct div else escape except filter for from group having in interval is
    leading like ilike not on or over placing rlike regexp select some then trailing when where
    char character dec decimal numeric string time timestamp varchar
    """.split()
)
"""Words of the grammar that may stand before a parenthesis: keywords, and types with a length."""

_IDENTIFIER_CLAUSE = "identifier"


def refuse_other_functions(
    tokens: Sequence[Token], allowed: Collection[str], refused: Callable[[str], InvalidJobError]
) -> None:
    """
    Refuse a query that calls other functions than the allowed ones, or these with arguments that open something.

    :param allowed: the functions of Spark that the query's shape allows.
    :param refused: returns the error for another function of Spark's, by its name.
    :raises InvalidJobError: with the function's name, and what to do.
    """
    for opening, called in called_functions(tokens):
        *qualifiers, function = called
        name = ".".join(called)
        if qualifiers not in ([], ["builtin"], ["system", "builtin"]) or function not in _KNOWN:
            raise InvalidJobError(
                f"the query calls {name}, which is not a built-in function of Spark: its definition could change while "
                "the view is built; write out its expression instead"
            )
        if function not in allowed:
            raise refused(name)
        refuse_other_arguments(function, tokens, opening)


def identifier_clauses(tokens: Sequence[Token]) -> Iterator[str]:
    """
    Yield the texts in ``IDENTIFIER('…')``; each names a column.

    :raises InvalidJobError: if one is not a plain text, or names a function.
    """
    for index, token in enumerate(tokens):
        if token.token_type == TokenType.IDENTIFIER or token.text.lower() != _IDENTIFIER_CLAUSE:
            continue
        following = [found.token_type for found in tokens[index + 1 : index + 5]]
        if following[:1] != [TokenType.L_PAREN]:
            continue
        plain = following[1:3] == [TokenType.STRING, TokenType.R_PAREN] and not _has_escapes(tokens[index + 2])
        if not plain or following[3:] == [TokenType.L_PAREN] or _follows_dot(tokens, index):
            raise InvalidJobError(
                "the query uses IDENTIFIER(…) with more than one text; write the column's name instead"
            )
        yield tokens[index + 2].text


def _has_escapes(text: Token) -> bool:
    """Return whether a text is written in another way than its value between quotes."""
    return len(text.text) != text.end - text.start - 1


def called_functions(tokens: Sequence[Token]) -> Iterator[tuple[int, list[str]]]:
    """Yield the index of each parenthesis after a name, and the name with its qualifiers."""
    for index, (token, following) in enumerate(pairwise(tokens)):
        if following.token_type != TokenType.L_PAREN or not _is_word(token):
            continue
        if index and tokens[index - 1].token_type == TokenType.PIPE_GT:
            continue  # a pipe operator
        name = token.text.lower()
        if _follows_dot(tokens, index):
            yield index + 1, [*_qualifiers(tokens, index), name]
        elif token.token_type == TokenType.IDENTIFIER or name not in _NOT_CALLED | {_IDENTIFIER_CLAUSE}:
            yield index + 1, [name]


def _qualifiers(tokens: Sequence[Token], index: int) -> list[str]:
    found: list[str] = []
    while _follows_dot(tokens, index):
        index -= 2
        found.insert(0, tokens[index].text.lower())
    return found


def _follows_dot(tokens: Sequence[Token], index: int) -> bool:
    return index > 0 and tokens[index - 1].token_type == TokenType.DOT


def _is_word(token: Token) -> bool:
    return token.token_type == TokenType.IDENTIFIER or token.text[:1].isalpha() or token.text[:1] == "_"


_KNOWN = ROW_FUNCTIONS | WINDOW_FUNCTIONS | TABLE_FUNCTIONS | AGGREGATES | GENERATORS | NON_DETERMINISTIC
