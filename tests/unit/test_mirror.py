"""
The unit tests mirror the package, so that a module's tests are where anybody looks for them.

``airflow_backfill_provider/core/scan/scan.py`` has ``tests/unit/core/scan/test_scan.py``. Tests of one module may be
cut by subject: ``test_scan_divide.py`` is about ``scan``, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_backfill_provider"
UNIT = ROOT / "tests" / "unit"

ENGINE = "tests/integration/engine"
AIRFLOW = "tests/integration/airflow"
POSTGRES = "tests/integration/postgres"
KAFKA = "tests/integration/kafka"
FORMATS = "tests/integration/formats"


class Untested(NamedTuple):
    """Why a module has no unit tests, and where it is tested; ``None`` if it only declares something."""

    why: str
    where: str | None


def fields_of(tests: str) -> Untested:
    return Untested("a kind's fields are tested with the kind", tests)


def on_postgres(test: str) -> Untested:
    return Untested("it works on a real PostgreSQL", f"{POSTGRES}/{test}.py")


def on_kafka(test: str) -> Untested:
    return Untested("it asks a real Kafka broker", f"{KAFKA}/{test}.py")


def on_a_server(test: str) -> Untested:
    return Untested("it is an expression of Spark", f"{FORMATS}/{test}.py")


def on_spark(test: str) -> Untested:
    return Untested("it works on Spark's data frames", f"{ENGINE}/{test}.py")


WITHOUT = {
    # What only declares something.
    "core/status/alarm.py": Untested("a value without rules", "tests/unit/core/status/test_watchdog.py"),
    "core/epoch/engine.py": Untested("a protocol, and values without rules", None),
    "core/epoch/unit_work.py": Untested("a value without rules", "tests/unit/core/status/test_recent_work.py"),
    "core/job/succession.py": Untested("values without rules", None),
    "core/job/upstream_view.py": Untested("a value without rules", None),
    "sources/shared/unreadable_records.py": Untested("two names", None),
    "sources/shared/kept_rows.py": Untested("a level of storage", "tests/unit/test_house.py"),
    "sources/append_only/definition.py": fields_of("tests/unit/sources/shared/file_log/test_definition.py"),
    "sources/debezium/definition.py": fields_of("tests/unit/sources/test_debezium.py"),
    "sources/delta/definition.py": fields_of("tests/unit/sources/shared/test_catalog_table.py"),
    "sources/files/definition.py": fields_of("tests/unit/sources/files/test_source.py"),
    "sources/kafka/definition.py": fields_of("tests/unit/sources/test_kafka.py"),
    "sources/postgres/definition.py": fields_of("tests/unit/sources/test_postgres.py"),
    "sources/upserts/definition.py": fields_of("tests/unit/sources/test_upserts.py"),
    "sources/base.py": Untested("an interface", f"{ENGINE}/test_another_source.py"),
    "sources/watch.py": Untested("an interface", f"{ENGINE}/test_another_source.py"),
    "sources/kind.py": Untested("an interface", f"{ENGINE}/test_another_source.py"),
    "sources/present_rows.py": Untested("an interface", "tests/integration/postgres/test_epochs.py"),
    "sources/reader.py": Untested("an interface", f"{ENGINE}/test_another_source.py"),
    "sources/shared/appended_rows.py": on_spark("test_append_only"),
    "sources/shared/file_log/reader.py": on_spark("test_append_only"),
    "sources/splits.py": Untested("an interface", f"{KAFKA}/test_epochs.py"),
    "sources/numbered_files.py": Untested("an interface", f"{ENGINE}/test_snapshot.py"),
    "shapes/expressions.py": Untested("checks of whole queries", "tests/unit/shapes/row/test_query.py"),
    "shapes/token_lists.py": Untested("lists of tokens of whole queries", "tests/unit/shapes/test_levels.py"),
    "shapes/edits.py": Untested("edits of whole queries", "tests/unit/shapes/joined/test_texts.py"),
    "shapes/pipe_operators.py": Untested("steps of whole queries", "tests/unit/shapes/test_levels.py"),
    "shapes/joined/affected_rows.py": on_spark("test_joins"),
    "shapes/joined/changed_leads.py": on_spark("test_unions"),
    "shapes/joined/checks.py": Untested("checks of whole queries", "tests/unit/shapes/joined/test_query.py"),
    "shapes/joined/clauses.py": Untested("clauses of whole queries", "tests/unit/shapes/joined/test_query.py"),
    "shapes/joined/conditions.py": Untested("conditions of whole queries", "tests/unit/shapes/joined/test_tree.py"),
    "shapes/joined/edges.py": Untested("conditions of whole queries", "tests/unit/shapes/joined/test_tree.py"),
    "shapes/joined/job_checks.py": Untested("checks of whole jobs", "tests/unit/shapes/united/test_query.py"),
    "shapes/joined/names.py": Untested("names in whole queries", "tests/unit/shapes/joined/test_query.py"),
    "shapes/joined/outcome.py": Untested("checks of whole queries", "tests/unit/shapes/joined/test_query.py"),
    "shapes/joined/parts.py": Untested("values with few rules", "tests/unit/shapes/joined/test_texts.py"),
    "shapes/joined/reading.py": Untested("readings of whole queries", "tests/unit/shapes/joined/test_tree.py"),
    "shapes/joined/refusals.py": Untested("texts of refusals", "tests/unit/shapes/joined/test_query.py"),
    "shapes/joined/relations.py": Untested("values with few rules", "tests/unit/shapes/joined/test_columns.py"),
    "shapes/joined/resolved.py": Untested("whole queries", "tests/unit/shapes/joined/test_units.py"),
    "shapes/joined/scopes.py": Untested("names in whole queries", "tests/unit/shapes/joined/test_columns.py"),
    "shapes/group/grouping_query.py": Untested("what queries of groups share", "tests/unit/shapes/group/test_query.py"),
    "shapes/changes.py": Untested("a value without rules", None),
    "shapes/joined_groups/upkeep.py": Untested("texts of plans", "tests/unit/shapes/joined_groups/test_query.py"),
    "shapes/group/upkeep.py": Untested("texts of plans", "tests/unit/jobs/planning/test_plan_text.py"),
    "shapes/full/reading.py": Untested("readings of whole queries", "tests/unit/shapes/full/test_query.py"),
    "shapes/full/refusals.py": Untested("texts of refusals", "tests/unit/shapes/full/test_query.py"),
    "shapes/group/calls.py": Untested("calls in whole queries", "tests/unit/shapes/group/test_orders.py"),
    "shapes/group/refusals.py": Untested("texts of refusals", "tests/unit/shapes/group/test_query.py"),
    "shapes/group/steps.py": Untested("steps of whole queries", "tests/unit/shapes/group/test_units.py"),
    "strategies/cost.py": Untested("a value without rules", None),
    "strategies/reader.py": Untested("an interface", f"{ENGINE}/test_another_strategy.py"),
    "state/file_rows.py": Untested("it saves requests to a real server", "tests/integration/s3/test_known_tables.py"),
    "lake/log/exclusive_commits.py": Untested(
        "it asks a real server", "tests/integration/s3/test_exclusive_commits.py"
    ),
    # What works on Spark alone.
    "spark/adoption.py": on_spark("test_adoption"),
    "spark/appending.py": on_spark("test_appending"),
    "spark/catalog.py": on_spark("test_catalog_tables"),
    "spark/key_removal.py": on_spark("test_key_removal"),
    "spark/log_preloader.py": Untested("it saves requests to a real server", "tests/integration/s3/test_requests.py"),
    "spark/key_variable.py": on_spark("test_key_removal"),
    "spark/merging.py": on_spark("test_small_changes"),
    "spark/replaced_units.py": on_spark("test_unit_changes"),
    "spark/created_types.py": on_spark("test_upstream_schemas"),
    "spark/different_rows.py": on_spark("test_compared_tables"),
    "spark/first_rows.py": on_spark("test_succession"),
    "spark/further_lead.py": on_spark("test_unions"),
    "spark/kept_changes.py": on_spark("test_hidden_rows"),
    "spark/table_rows.py": on_spark("test_hidden_rows"),
    "spark/job_rows.py": on_spark("test_bad_input"),
    "spark/lasting_values.py": on_spark("test_lasting_values"),
    "spark/net_changes.py": on_spark("test_net_changes"),
    "spark/observed_rows.py": on_kafka("test_epochs"),
    "spark/named_relations.py": on_spark("test_named_relations"),
    "spark/own_table.py": on_spark("test_arrangement"),
    "engine/row_finder.py": on_spark("test_row_questions"),
    "jobs/row_questions.py": on_spark("test_row_questions"),
    "core/status/row_answer.py": Untested("values without rules", "tests/unit/core/status/test_row_answer_text.py"),
    "spark/partitions.py": on_spark("test_layout"),
    "spark/predicates.py": on_spark("test_predicates"),
    "spark/query.py": on_spark("test_names"),
    "spark/row_account.py": on_spark("test_suspect_statistics"),
    "spark/row_hash.py": on_spark("test_verification"),
    "spark/counted_keys.py": on_spark("test_duplicate_keys"),
    "sources/shared/one_machine.py": on_spark("test_duplicate_keys"),
    "spark/row_units.py": on_spark("test_unit_arrangement"),
    "spark/unit_places.py": on_spark("test_joined_unit_arrangement"),
    "spark/shallow_rows.py": on_spark("test_warm_engine"),
    "spark/staged_files.py": on_spark("test_appending"),
    "spark/former_rows.py": on_spark("test_former_rows"),
    "spark/former_units.py": on_spark("test_former_units"),
    "spark/former_units_view.py": on_spark("test_former_units"),
    "shapes/row/former_rows.py": on_spark("test_former_rows"),
    "engine/forgetting.py": on_spark("test_former_rows"),
    "spark/touched_units.py": on_spark("test_unit_changes"),
    "spark/unit_changes.py": on_spark("test_unit_changes"),
    "spark/whole_view.py": on_spark("test_full_refresh"),
    "spark/stamped_table.py": on_spark("test_stamped_table"),
    "engine/adopted_table.py": on_spark("test_adoption"),
    "engine/compared_sides.py": on_spark("test_verification"),
    "engine/comparison.py": on_spark("test_verification"),
    "engine/opened_sides.py": on_spark("test_cut_over"),
    "engine/view_difference.py": on_spark("test_cut_over"),
    "engine/epoch.py": on_spark("test_epochs"),
    "engine/expected.py": on_spark("test_verification"),
    "engine/inexact.py": on_spark("test_another_shape"),
    "engine/named_tables.py": on_spark("test_catalog_tables"),
    "engine/other_changes.py": on_spark("test_several_upstreams"),
    "engine/single_keys.py": on_spark("test_auto_over_several"),
    "engine/lead_changes.py": on_spark("test_unions"),
    "engine/placed_changes.py": on_spark("test_joined_unit_arrangement"),
    "engine/window_changes.py": on_spark("test_epochs"),
    "engine/repeated_keys.py": on_spark("test_bad_input"),
    "engine/spark_engine.py": on_spark("test_epochs"),
    "engine/tables.py": on_spark("test_giving_up"),
    "jobs/strategy_tables.py": on_postgres("test_beginnings"),
    "spark/mergeable_columns.py": on_spark("test_bad_input"),
    "shapes/view_checks.py": on_spark("test_lasting_values"),
    "shapes/leads_writer.py": on_spark("test_unions"),
    "shapes/full/writer.py": on_spark("test_full_refresh"),
    "shapes/group/grouped_rows.py": on_spark("test_groups"),
    "shapes/group/repair.py": on_spark("test_groups"),
    "shapes/group/slices.py": on_spark("test_groups"),
    "shapes/group/upstream_rows.py": on_spark("test_groups"),
    "shapes/group/writer.py": on_spark("test_groups"),
    "shapes/group/writers.py": on_spark("test_group_folds"),
    "shapes/group/fold/groups.py": on_spark("test_folds"),
    "shapes/group/added_rows_writer.py": on_spark("test_added_rows"),
    "shapes/group/fold_writer.py": on_spark("test_group_folds"),
    "shapes/group/folded_query.py": on_spark("test_group_folds"),
    "shapes/row/repair.py": on_spark("test_verification"),
    "shapes/row/writer.py": on_spark("test_epochs"),
    "shapes/joined/writer.py": on_spark("test_joins"),
    "shapes/united/units.py": on_spark("test_unions"),
    "shapes/united/writer.py": on_spark("test_unions"),
    "shapes/joined_groups/joined_input.py": on_spark("test_joined_groups"),
    "shapes/joined_groups/joined_rows.py": on_spark("test_joined_groups"),
    "shapes/joined_groups/read_units.py": on_spark("test_joined_unit_arrangement"),
    "shapes/joined_groups/row_units.py": on_spark("test_joined_unit_arrangement"),
    "sources/append_only/description.py": on_spark("test_append_only"),
    "sources/append_only/delta_scan.py": on_spark("test_append_only"),
    "sources/append_only/reader.py": on_spark("test_append_only"),
    "sources/append_only/source.py": on_spark("test_append_only"),
    "sources/append_only/watch.py": on_spark("test_append_only"),
    "sources/shared/file_log/rows.py": on_spark("test_files"),
    "sources/shared/file_log/splits.py": on_spark("test_files"),
    "sources/files/csv_values.py": on_spark("test_files"),
    "sources/files/read_values.py": on_spark("test_files"),
    "sources/files/reader.py": on_spark("test_files"),
    "sources/files/texts.py": on_spark("test_files"),
    "sources/shared/by_key.py": on_spark("test_debezium_changes"),
    "sources/shared/hidden_rows.py": on_spark("test_hidden_rows"),
    "sources/debezium/description.py": on_postgres("test_debezium"),
    "sources/debezium/events.py": on_spark("test_debezium_changes"),
    "sources/debezium/present.py": on_postgres("test_debezium"),
    "sources/debezium/reader.py": on_spark("test_debezium_changes"),
    "sources/debezium/snapshot_table.py": on_postgres("test_debezium"),
    "sources/debezium/source.py": on_spark("test_debezium"),
    "sources/delta/versioned.py": Untested("it asks the history", "tests/unit/sources/delta/test_history.py"),
    "sources/event_table/changes.py": on_spark("test_debezium_changes"),
    "sources/event_table/events.py": on_spark("test_upserts"),
    "sources/event_table/reader.py": on_spark("test_upserts"),
    "sources/event_table/source.py": on_spark("test_debezium"),
    "sources/upserts/events.py": on_spark("test_upserts"),
    "sources/upserts/reader.py": on_spark("test_upserts"),
    "sources/upserts/source.py": on_spark("test_upserts"),
    "sources/shared/present_as_of.py": on_postgres("test_debezium"),
    "sources/shared/refusals.py": on_spark("test_debezium_changes"),
    "sources/shared/change_log/reader.py": on_postgres("test_random_histories"),
    "sources/shared/change_log/dialect.py": Untested("a value without rules", f"{POSTGRES}/test_types.py"),
    "sources/shared/postgresql/spark_errors.py": Untested(
        "its errors are tested with all others", "tests/unit/spark/test_spark_errors.py"
    ),
    "sources/shared/postgresql/texts.py": on_postgres("test_types"),
    "sources/spark_failures.py": Untested("values without rules", "tests/unit/spark/test_spark_errors.py"),
    "sources/shared/formats/avro_values.py": on_a_server("test_avro"),
    "sources/shared/formats/framing.py": on_a_server("test_avro"),
    "sources/shared/formats/json_plain.py": on_a_server("test_fast_json"),
    "sources/shared/formats/json_scalars.py": on_a_server("test_formats"),
    "sources/shared/formats/json_text.py": on_a_server("test_formats"),
    "sources/shared/formats/json_usual.py": on_a_server("test_fast_json"),
    "sources/shared/formats/json_values.py": on_a_server("test_formats"),
    "sources/shared/formats/once.py": on_a_server("test_formats"),
    "sources/shared/formats/spark.py": on_a_server("test_formats"),
    "sources/shared/formats/parts.py": on_a_server("test_avro"),
    "sources/shared/formats/portable_values.py": on_a_server("test_avro"),
    "sources/shared/formats/years.py": on_a_server("test_avro"),
    "sources/kafka/cluster.py": on_kafka("test_security"),
    "sources/kafka/decoding.py": on_kafka("test_formats"),
    "sources/kafka/description.py": on_kafka("test_formats"),
    "sources/kafka/sampled_records.py": on_kafka("test_sampled_records"),
    "sources/kafka/reader.py": on_kafka("test_epochs"),
    "sources/kafka/source.py": on_kafka("test_epochs"),
    "sources/kafka/topic.py": on_kafka("test_topic"),
    "sources/kafka/watch.py": on_kafka("test_lag"),
    "sources/postgres/beginning.py": on_postgres("test_beginnings"),
    "sources/shared/postgresql/catalog.py": on_postgres("test_types"),
    "sources/shared/postgresql/database.py": on_postgres("test_outages"),
    "sources/shared/postgresql/jdbc.py": on_postgres("test_types"),
    "sources/shared/postgresql/key_sample.py": on_postgres("test_epochs"),
    "sources/shared/postgresql/key_values.py": on_postgres("test_strange_keys"),
    "sources/postgres/landing.py": on_postgres("test_semantics"),
    "sources/postgres/looks.py": on_postgres("test_silent_ddl"),
    "sources/postgres/present.py": on_postgres("test_random_histories"),
    "sources/postgres/reader.py": on_postgres("test_types"),
    "sources/postgres/rights.py": on_postgres("test_rights"),
    "sources/postgres/server_texts.py": on_postgres("test_encodings"),
    "sources/postgres/slot.py": on_postgres("test_semantics"),
    "sources/postgres/slot_owner.py": on_postgres("test_beginnings"),
    "sources/postgres/source.py": on_postgres("test_semantics"),
    "sources/postgres/table.py": on_postgres("test_types"),
    "sources/postgres/table_feed.py": on_postgres("test_lag"),
    "sources/shared/postgresql/table_key.py": Untested(
        "it is tested with descriptions", "tests/unit/sources/postgres/test_description.py"
    ),
    "sources/postgres/watch.py": on_postgres("test_watch"),
    "strategies/arrangement/arranged_rows.py": on_spark("test_arranged_chunk"),
    "strategies/arrangement/reader.py": on_spark("test_arrangement"),
    "jobs/beginnings.py": on_postgres("test_beginnings"),
    "strategies/cdc/reader.py": on_postgres("test_random_histories"),
    "strategies/source/dead_letters.py": on_kafka("test_kills"),
    "strategies/source/reader.py": on_kafka("test_kills"),
    "strategies/snapshot/reader.py": on_spark("test_snapshot"),
    "strategies/in_place_reader.py": on_spark("test_suspect_statistics"),
    "applications/class_training.py": Untested(
        "a program for spark-submit", "tests/unit/applications/test_class_archiver.py"
    ),
    "applications/connect_engine.py": Untested("it needs a Spark Connect server", f"{ENGINE}/test_warm_engine.py"),
    "applications/spark_session.py": Untested("it starts a JVM", f"{ENGINE}/test_object_store.py"),
    # What needs Airflow's database and users to answer requests.
    "plugin/mutations.py": Untested("endpoints of Airflow's API", f"{AIRFLOW}/test_pages_api.py"),
    "plugin/read_endpoints.py": Untested("endpoints of Airflow's API", f"{AIRFLOW}/test_pages_api.py"),
    "operators/announcing.py": Untested(
        "what an operator knows while it reports", "tests/unit/operators/test_epoch_reporting.py"
    ),
}
"""Modules that have no unit tests under their own names."""

OTHERS = {
    "docs/test_pages.py": "the documentation's pages",
    "docs/test_port_map.py": "one of them, which names code and tests",
    "demo/test_table.py": "the tables that the demo's writer makes",
    "cli/commands/test_chains.py": "what all commands do about an upstream that is an unfinished view",
    "operators/test_chains.py": "what all tasks do about it",
    "scripts/test_install_postgres.py": "a script in Bash",
    "scripts/test_test_other_pythons.py": "a script in Bash",
    "state/test_damage.py": "damage to any control table",
    "state/test_long_run.py": "all control tables after many epochs",
    "test_exhaustive_run.py": "the record of the exhaustive tests",
    "test_lifeline.py": "a helper of these tests",
    "test_ports.py": "where the servers of tests listen",
    "test_seconds.py": "the record of the tests' seconds",
    "test_selection.py": "which files of tests a run imports",
    "test_upstream_templates.py": "a helper of the tests on Spark",
    "test_house.py": "rules for all files of code",
    "test_mirror.py": "these tests themselves",
}
"""Test files that are about no single module."""


def modules() -> list[str]:
    """Return the modules by their paths in the package; a folder's own code is tested by its kinds."""
    files = (file for file in PACKAGE.rglob("*.py") if file.name != "__init__.py")
    return sorted(str(file.relative_to(PACKAGE)) for file in files)


def _has_code(file: Path) -> bool:
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return any(not isinstance(node, ast.Expr | ast.Import | ast.ImportFrom) for node in body)


def named_by(test: str) -> Iterator[Path]:
    """Yield what a test file may be named after: a module or folder of the package, or one beside the package."""
    path = Path(test)
    words = path.stem.removeprefix("test_").split("_")
    for count in range(len(words), 0, -1):
        name = path.parent / "_".join(words[:count])
        for root in (PACKAGE, ROOT):
            yield from (root / name.with_suffix(".py"), root / name)


TESTS = sorted(str(file.relative_to(UNIT)) for file in UNIT.rglob("test_*.py"))
ABOUT = {test: next((found for found in named_by(test) if found.exists()), None) for test in TESTS}
"""Test file → the module that it is about: the one with the longest name."""


def test_each_module_has_tests_under_its_own_name():
    tested = set(ABOUT.values())
    missing = [module for module in modules() if PACKAGE / module not in tested and module not in WITHOUT]
    assert [module for module in missing if _has_code(PACKAGE / module)] == []


def test_each_test_file_is_named_after_a_module():
    assert [test for test, module in ABOUT.items() if module is None and test not in OTHERS] == []


@pytest.mark.parametrize("module", WITHOUT)
def test_a_module_without_tests_under_its_name_is_tested_where_it_is_said(module):
    assert (PACKAGE / module).is_file()
    assert PACKAGE / module not in ABOUT.values(), "it has tests under its name: take it out of the list"
    where = WITHOUT[module].where
    assert where is None or (ROOT / where).is_file()


@pytest.mark.parametrize("test", OTHERS)
def test_a_test_file_that_is_named_otherwise_is_there_and_names_no_module(test):
    assert test in TESTS
    assert ABOUT[test] is None


def test_names_are_found_by_their_longest_part():
    assert (
        next(found for found in named_by("core/status/test_verification_text.py") if found.exists()).stem
        == "verification_text"
    )
    assert next(found for found in named_by("protocol/test_run_shared_crashes.py") if found.exists()).stem == "run"
    assert not any(found.exists() for found in named_by("protocol/test_runs.py"))
