"""A job's definition in a YAML file."""

from __future__ import annotations

import pytest
import yaml

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from tests.builders import job_fields


def test_yaml_gives_the_same_job_as_python(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(
        """
        name: paid_orders
        upstream:
          path: /lake/orders
          key: [region, {column: id, descending: true}]
        materialized_view: /lake/paid_orders
        query: |
          SELECT id, 'ünï' AS u   -- what we sell
          FROM upstream
          WHERE status = 'paid';
        rate_limit: null
        vnode_count: 16
        """,
        encoding="utf-8",
    )
    job = BackfillJob.from_yaml(file)
    assert [column.column for column in job.upstream.key] == ["region", "id"]
    assert [column.descending for column in job.upstream.key] == [False, True]
    assert job == BackfillJob(**yaml.safe_load(file.read_text(encoding="utf-8")))
    assert BackfillJob.from_yaml(str(file)) == job


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a mapping of a job's fields (name, upstream, "),
        (b"- name: x", "is not a mapping"),
        (b"just text", "is not a mapping"),
        (b"name: [", "cannot be read as YAML"),
        (b"name:\tx\n\t- y", "cannot be read as YAML"),
        (b"\xff\xfe\x00", "cannot be read as YAML"),
        (b"name: !!python/object/apply:os.system ['touch /tmp/x']", "cannot be read as YAML"),
        (b"a: &a [*a", "cannot be read as YAML"),
        (b"1: 2", "1: unknown field; allowed are name, upstream, "),
        (b"name: 2024-01-01", "name: Input should be a valid string"),
        (b"upstream: &u {path: /a, key: [*u]}", "upstream.key.0.column: "),
        (b"rate_limit: 1_000.5", "rate_limit: Input should be a valid integer"),
    ],
)
def test_a_file_that_defines_no_job_is_refused_with_its_path(tmp_path, content, said):
    file = tmp_path / "jöb's.yaml"
    file.write_bytes(content)
    with pytest.raises(InvalidJobError) as caught:
        BackfillJob.from_yaml(file)
    assert str(file) in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize("place", ["missing.yaml", "."])
def test_a_file_that_cannot_be_read_is_refused_with_its_path(tmp_path, place):
    with pytest.raises(InvalidJobError, match="cannot be read as YAML"):
        BackfillJob.from_yaml(tmp_path / place)


def test_a_field_written_twice_is_a_contradiction(tmp_path):
    """I6: either of the two rate limits may be meant."""
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job_fields(rate_limit=5)) + "rate_limit: 0\n", encoding="utf-8")
    with pytest.raises(InvalidJobError, match="rate_limit"):
        BackfillJob.from_yaml(file)
