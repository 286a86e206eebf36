"""What DAGs have announced of a job, beside its control tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_backfill_provider.core.epoch.announced import Announced
from airflow_backfill_provider.state.announcements import Announcements

ANNOUNCED = Announced(incarnation="0a", epoch=7, measured=8)


def test_each_dag_has_its_own_record(lake: Path):
    announcements = Announcements(str(lake / "state"))
    assert announcements.of("orders") is None

    announcements.write("orders", ANNOUNCED)
    announcements.write("a/../ordérs", ANNOUNCED.up_to(9, "0b"))

    assert Announcements(str(lake / "state")).of("orders") == ANNOUNCED
    assert announcements.of("a/../ordérs") == Announced(incarnation="0b", epoch=9, measured=8)


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"\xff"], ids=repr)
def test_a_record_that_cannot_be_read_is_not_known(lake: Path, content: bytes):
    announcements = Announcements(str(lake / "state"))
    announcements.write("orders", ANNOUNCED)
    Path(lake, "state", "announcements", "orders.json").write_bytes(content)

    assert announcements.of("orders") is None
