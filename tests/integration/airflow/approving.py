"""What waits for an approval, as the pages' API shows it."""

from __future__ import annotations

from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs.verification import view_differences
from tests.cut_overs import KnownComparer
from tests.integration.airflow.pages_site import Api, job


def assert_waits_and_is_approved(api: Api, name: str) -> None:
    """
    Look at the difference of a first backfill that is ready, and approve it.

    :param name: a job that is not created yet.
    """
    path, lake = job(name), api.lakes[name]
    lake.fields["cut_over"] = "on_approval"
    lake.create()
    lake.complete()
    assert api.get(path).json()["state"] == "ready"
    assert api.get(f"{path}/difference").json()["number"] is None
    view_differences.compare_waiting(lake.backfill, comparer=KnownComparer, requester=Requester(user="vera"))
    shown = api.get(f"{path}/difference").json()
    assert (shown["number"], shown["keys"][0]) == (1, 'changed: ["3"] in cents')
    assert "no difference 7" in api.post(f"{path}/approve", {"difference": 7}).json()["detail"]
    assert api.post(f"{path}/approve", {"difference": 1}).json()["summary"]["cut_over"] is None
    approved = lake.backfill.store.settings().approved
    assert approved is not None
    assert approved.approved_by == "admin (Airflow)"
    assert api.post(f"{path}/approve", {"difference": 1}).status_code == 422
    assert api.get(f"{path}/difference").json()["number"] is None
