"""A job's definition as text, as Airflow shows it among the rendered templates of a task."""

from __future__ import annotations

import yaml
from airflow.serialization.helpers import serialize_template_field

from airflow_backfill_provider.core.job.definition import BackfillJob

FIELDS = {
    "name": "paid_orders",
    "upstream": {"path": "/lake/ordérs", "key": ["order_id"]},
    "materialized_view": "/lake/paid_orders",
    "query": "SELECT order_id, amount * 100 AS cents FROM upstream WHERE status = 'paid'",
    "rate_limit": 500,
}


def test_a_job_is_shown_as_the_yaml_that_was_given():
    job = BackfillJob(**FIELDS)
    shown = serialize_template_field(job, "job")
    assert shown.startswith("name: paid_orders\nupstream:\n  key:\n  - order_id\n  path: /lake/ordérs\n")
    assert yaml.safe_load(shown) == FIELDS
    assert BackfillJob(**yaml.safe_load(shown)) == job
