"""Mistakes in the check of queries: what is checked is what Spark runs."""

from __future__ import annotations

from faults.mutants.killers import QUERY_KEYS, QUERY_PLANS, QUERY_TEXT
from faults.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="comments-sent-to-spark",
        breaks="Spark gets the user's comments, and may read one of them as a part of the query.",
        invariant="I6",
        file="airflow_backfill_provider/shapes/query_text.py",
        old="plain = without_gaps(text).strip()",
        new="plain = text.strip()",
        killers=(f"{QUERY_KEYS}::test_hidden_keys_are_spliced_in_and_the_rest_stays_as_it_was_written",),
    ),
    Mutant(
        name="lexers-not-compared",
        breaks="A query is accepted although Spark cuts it into other tokens than those that were checked.",
        invariant="I6",
        file="airflow_backfill_provider/shapes/query_text.py",
        old="tuple(_agreed(plain, list(spark_tokens(plain)), tokens))",
        new="tuple(tokens)",
        killers=(f"{QUERY_TEXT}::test_a_text_that_the_lexers_cut_differently_is_refused_with_the_place",),
    ),
    Mutant(
        name="comment-that-goes-on",
        breaks="A comment ends with its line, although Spark reads on after a backslash.",
        invariant="I6",
        file="airflow_backfill_provider/core/job/spark_tokens.py",
        old="if comment.group().endswith(",
        new="if not comment.group().endswith(",
        killers=(
            "tests/unit/core/job/test_spark_tokens.py::test_a_text_that_spark_may_cut_otherwise_is_refused_with_the_place",
        ),
    ),
    Mutant(
        name="any-option",
        breaks="A function may have an option that names a file or an address.",
        invariant="I6",
        file="airflow_backfill_provider/shapes/function_arguments.py",
        old="if name[0].text.strip().lower() not in known.options:",
        new="if False:",
        killers=("tests/unit/shapes/test_function_arguments.py::test_an_argument_that_may_open_something_is_refused",),
    ),
    Mutant(
        name="second-relation-in-the-plan",
        breaks="A query may read other rows of the session beside those of the upstream.",
        invariant="I6",
        file="airflow_backfill_provider/spark/plan_check.py",
        old="if not as_announced or sum(node.name in _ROWS for node in found) != sum(bound.values()):",
        new="if False:",
        killers=("tests/unit/spark/test_plan_check.py::test_a_plan_with_anything_else_is_refused",),
    ),
    Mutant(
        name="plan-not-checked",
        breaks="A query runs although Spark's plan of it has more than its text seemed to have.",
        invariant="I6",
        file="airflow_backfill_provider/spark/query.py",
        old="    require_announced_plan(str(explained), relation, query.plan_nodes, tuple(others.values()))\n",
        new="",
        killers=(f"{QUERY_PLANS}::test_a_query_that_does_more_than_its_shape_announced_is_refused",),
        spark=True,
    ),
    Mutant(
        name="paths-found-in-the-analysis",
        breaks="Spark opens a file that a query names before the query is refused.",
        invariant="I6",
        file="airflow_backfill_provider/spark/query.py",
        old='"spark.sql.runSQLOnFiles": "false",',
        new='"spark.sql.runSQLOnFiles": "true",',
        killers=(f"{QUERY_PLANS}::test_no_path_is_opened_while_a_query_is_analysed",),
        spark=True,
    ),
)
