"""The trigger of each of several upstreams."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.triggers.upstream import UpstreamCommit, UpstreamCommitTrigger, _JobWatch, _UpstreamWatch
from tests.several import shape_of_several
from tests.shop import Shop


@pytest.fixture
def shop(tmp_path):
    with shape_of_several():
        made = Shop(tmp_path)
        made.create()
        made.epoch()
        yield made


def demand(shop, other):
    looked = _UpstreamWatch(shop.job, "airflow_backfill_default", other).look()
    assert isinstance(looked, UpstreamCommit)
    return _JobWatch(shop.job.model_dump(mode="json"), "airflow_backfill_default", other).demand(looked)


def test_a_commit_of_a_dimension_needs_an_epoch(shop):
    assert demand(shop, "customers") is None
    shop.customer(3, 3)
    assert demand(shop, "customers").reason == "customers's newest offset is 1, and the epochs have read up to 0"
    assert demand(shop, None) is None or "newest" not in demand(shop, None).reason


def test_a_trigger_is_made_again_for_its_upstream(shop):
    job = shop.job.model_dump(mode="json")
    trigger = UpstreamCommitTrigger(job=job, backfill_conn_id="c", poll_interval=1, other="customers")
    path, arguments = trigger.serialize()
    assert arguments["other"] == "customers"
    assert UpstreamCommitTrigger(**arguments).shared_stream_key() == trigger.shared_stream_key()
    assert "other" not in UpstreamCommitTrigger(job=job, backfill_conn_id="c", poll_interval=1).serialize()[1]
    assert path.endswith("UpstreamCommitTrigger")
