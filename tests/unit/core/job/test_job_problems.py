"""What a definition's author reads about words that YAML does not take for texts."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob

JOB = """
name: {name}
upstream: {{path: /lake/orders, key: [{key}], distribution_key: [{distribution_key}]}}
materialized_view: /lake/paid_orders
query: SELECT id FROM upstream
table_properties: {{a: {value}}}
"""
GOOD = {"name": "paid", "key": "id", "distribution_key": "id", "value": "b"}


def problem(folder, **words) -> str:
    file = folder / "job.yaml"
    file.write_text(JOB.format(**GOOD | words), encoding="utf-8")
    with pytest.raises(InvalidJobError) as refused:
        BackfillJob.from_yaml(file)
    return str(refused.value).removeprefix(f"{file}: ")


@pytest.mark.parametrize(
    ("word", "read_as"),
    [
        ("no", "true or false"),
        ("off", "true or false"),
        ("yes", "true or false"),
        ("~", "nothing"),
        ("null", "nothing"),
        ("007", "a number"),
        ("1.5", "a number"),
        ("2024-01-01", "a date"),
        ("2024-01-01 10:00:00", "a date"),
    ],
)
@pytest.mark.parametrize("field", ["name", "key", "distribution_key", "value"])
def test_a_name_that_is_no_text_to_yaml_is_to_be_quoted(tmp_path, field, word, read_as):
    said = problem(tmp_path, **{field: word})
    where = {"key": "upstream.key.0", "distribution_key": "upstream.distribution_key.0", "value": "table_properties.a"}
    assert said.startswith(f"{where.get(field, field)}: ")
    assert said.endswith(f"; in YAML, this word is {read_as}: quote it")
    assert said.count("quote it") == 1, "the field is named once, whatever else follows from it"


def test_a_list_in_place_of_a_name_is_not_to_be_quoted(tmp_path):
    assert "quote it" not in problem(tmp_path, key="[a]")


def test_a_key_without_columns_is_still_explained(tmp_path):
    assert "give it a unique column" in problem(tmp_path, key="")
