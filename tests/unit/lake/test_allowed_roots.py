"""Where a deployment lets jobs read and write."""

from __future__ import annotations

import json

import pytest

from airflow_backfill_provider.core.errors import LocationNotAllowedError
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.lake.allowed_roots import ROOTS_VARIABLE
from airflow_backfill_provider.protocol.backfill import Backfill


def open_job(upstream="/lake/orders", view="/lake/views/paid", state=""):
    return Backfill(
        BackfillJob(
            name="paid",
            upstream={"path": upstream, "key": ["id"]},
            materialized_view=view,
            query="SELECT id FROM upstream",
            state=state,
        )
    )


@pytest.fixture
def allow(monkeypatch):
    def allow(*roots):
        monkeypatch.setenv(ROOTS_VARIABLE, json.dumps(roots))

    return allow


def test_without_the_variable_a_job_may_lie_anywhere(monkeypatch):
    monkeypatch.delenv(ROOTS_VARIABLE, raising=False)
    open_job("/anywhere/orders", "s3a://bucket/view")


def test_under_the_allowed_roots_everything_opens(allow):
    allow("/lake/", "s3a://bucket/lake")
    open_job()
    open_job(view="s3a://bucket/lake/paid", state="/lake/state/paid")


@pytest.mark.parametrize(
    ("place", "field"),
    [
        ({"upstream": "/lakes/orders"}, "upstream.path"),
        ({"upstream": "/lake/../etc/orders"}, "upstream.path"),
        ({"view": "/elsewhere/paid"}, "materialized_view"),
        ({"view": "s3a://bucket/lakes/paid", "state": "/lake/state"}, "materialized_view"),
        ({"view": "s3a://other/lake/paid", "state": "/lake/state"}, "materialized_view"),
        ({"state": "/tmp/state"}, "state"),
    ],
)
def test_outside_of_the_roots_the_field_is_named_before_anything_is_read(allow, place, field):
    allow("/lake", "s3a://bucket/lake")
    with pytest.raises(LocationNotAllowedError, match=f"^{field}: .* outside the folders"):
        open_job(**place)


def test_a_link_does_not_lead_out(allow, tmp_path):
    (tmp_path / "lake").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "lake" / "link").symlink_to(tmp_path / "elsewhere")
    allow(str(tmp_path / "lake"))
    with pytest.raises(LocationNotAllowedError, match="upstream.path"):
        open_job(upstream=str(tmp_path / "lake" / "link" / "orders"), view=str(tmp_path / "lake" / "view"))


def test_a_root_may_be_a_link(allow, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "lake").symlink_to(tmp_path / "real")
    allow(str(tmp_path / "lake"))
    open_job(upstream=str(tmp_path / "real" / "orders"), view=str(tmp_path / "lake" / "view"))


def test_control_tables_outside_of_the_roots_are_not_read(allow):
    allow("/lake")
    with pytest.raises(LocationNotAllowedError, match="^state: "):
        Backfill.at("/elsewhere/state")


@pytest.mark.parametrize("text", ["/lake", "[]", "[1]", '{"a": 1}', '["lake"]', "["])
def test_an_unreadable_variable_allows_nothing(monkeypatch, text):
    monkeypatch.setenv(ROOTS_VARIABLE, text)
    with pytest.raises(LocationNotAllowedError, match="is not a list of folders"):
        open_job()
