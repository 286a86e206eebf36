"""What a status says of upstreams, and of one that cannot be read."""

from __future__ import annotations

import shutil

import pytest

from airflow_backfill_provider.core.errors import UpstreamNotFoundError
from tests.several import shape_of_several
from tests.shop import Shop, minute
from tests.unit.stand_in import Lake


@pytest.fixture
def shop(tmp_path):
    with shape_of_several():
        shop = Shop(tmp_path)
        shop.create()
        shop.epoch()
        yield shop


@pytest.mark.parametrize(("gone", "other"), [("customers", "orders"), ("orders", "customers")])
def test_a_status_tells_which_of_several_tables_cannot_be_read(shop, gone, other):
    shutil.rmtree(shop.folder / gone)
    status = shop.backfill.status(lambda: minute(4))

    assert not status.upstreams[gone].answers
    assert status.upstreams[gone].lag_seconds is None
    assert status.upstreams[other].answers
    (alarm,) = status.alarms
    assert f"upstream {gone} cannot be read" in alarm.message
    assert str(shop.folder / gone) in alarm.message
    assert status.furthest_behind == gone


def test_the_newest_offset_of_a_table_that_cannot_be_read_is_the_one_that_was_read(shop):
    shutil.rmtree(shop.folder / "customers")
    found = shop.backfill.status(lambda: minute(4)).upstreams["customers"]

    assert (found.latest_version, found.lag_versions) == (found.version, 0)


def test_the_only_upstream_must_be_there(tmp_path):
    lake = Lake(tmp_path)
    lake.append(range(10))
    lake.create()
    shutil.rmtree(tmp_path / "orders")

    with pytest.raises(UpstreamNotFoundError):
        lake.backfill.status()
