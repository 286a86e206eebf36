"""The API behind the pages, in Airflow's own app with its database, its users and their rights."""

from __future__ import annotations

from tests import airflow_home  # noqa: F401  # isort: skip - before anything of Airflow

from collections.abc import Iterator

import pytest
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from hypothesis import settings
from schemathesis import GenerationMode

from airflow_backfill_provider.assets import JOB_XCOM
from airflow_backfill_provider.jobs.verification import verifier
from faults.pages import OPERATIONS
from tests.integration.airflow.approving import assert_waits_and_is_approved
from tests.integration.airflow.auth_manager import Question, hide_dag, record_questions
from tests.integration.airflow.hostile_requests import Attack, operations_of_pages
from tests.integration.airflow.pages_site import (
    ACTIONS,
    Api,
    application_page,
    connection,
    emit_from_another_dag,
    job,
    pages_of,
)
from tests.plain_engine import CountingEngine

pytestmark = pytest.mark.airflow


@pytest.fixture(scope="module")
def api(airflow_database: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    names = ("throttled", "watched", "hostile", "unproved", "cancelled_one", "not_created", "waits")
    folder = tmp_path_factory.mktemp("pages")
    with pages_of(folder, names, not_created=["not_created", "waits"]) as api:
        emit_from_another_dag(api.lakes["watched"], backfill_conn_id=connection(folder, "s3cr3t-of-the-store"))
        yield api


# --- what is answered -----------------------------------------------------------------------------


def test_the_list_has_the_jobs_of_every_dag(api: Api):
    answer = api.get("jobs").json()

    rows = {row["name"]: row for row in answer["jobs"]}
    assert rows.keys() >= {"throttled", "watched", "chosen", "not_created"}
    assert answer["total"] == len(answer["jobs"]) >= len(rows), "other tests have jobs of one name"
    assert (rows["watched"]["dag_ids"], rows["watched"]["state"]) == (["refresh_watched"], "waiting")
    assert rows["watched"]["summary"]["rows_read"] == 800
    assert (rows["not_created"]["state"], rows["not_created"]["summary"]) == ("not_created", None)
    assert rows["chosen"]["dag_ids"] == ["without_backfill"]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ({"search": "WATCH"}, ["watched"]),
        ({"search": "nothing like it"}, []),
        ({"state": "not_created", "search": "not"}, ["not_created"]),
        ({"state": "waiting", "search": "watched"}, ["watched"]),
        ({"warnings": "true", "search": "watched"}, []),
        ({"search": "watched", "limit": "1", "offset": "1"}, []),
    ],
)
def test_the_list_can_be_narrowed(api: Api, question, names):
    assert [row["name"] for row in api.get("jobs", params=question).json()["jobs"]] == names


def test_a_job_is_described_with_all_that_its_page_shows(api: Api):
    detail = api.get(job("watched")).json()

    assert (detail["state"], detail["summary"]["epoch"], detail["may_act"]) == ("waiting", 2, False)
    assert [cell["in_progress"] for cell in detail["cells"]] == [1, 1, 1, 1]
    assert detail["shared_position"] is True
    assert api.get(job("not_created")).json()["shared_position"] is False
    assert [(point["epoch"], point["rows"]) for point in detail["epochs"]] == [(1, 400), (2, 400)]
    assert [(change["change"], change["requested_by"]) for change in detail["changes"]] == [("create", "somebody")]
    assert detail["definition"]["query"] == "SELECT order_id FROM upstream"
    assert api.get(job("watched"), "admin").json()["may_act"] is True


def test_the_log_comes_in_pages(api: Api):
    newest = api.get(f"{job('watched')}/log", params={"limit": 1}).json()
    oldest = api.get(f"{job('watched')}/log", params={"limit": 1, "before_epoch": newest["older"]}).json()

    assert [epoch["epoch"] for epoch in newest["epochs"] + oldest["epochs"]] == [2, 1]
    assert oldest["older"] is None


@pytest.mark.parametrize(
    "path", ["jobs?search=watched", "dags/refresh_watched/jobs", job("watched"), f"{job('watched')}/log"]
)
def test_an_unchanged_answer_is_not_sent_again(api: Api, path):
    first = api.get(path)
    again = api.get(path, headers={"If-None-Match": first.headers["ETag"]})

    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")


def test_a_change_is_sent(api: Api):
    before = api.get(job("throttled"))
    api.lakes["throttled"].append([9999])

    after = api.get(job("throttled"), headers={"If-None-Match": before.headers["ETag"]})

    assert after.status_code == 200
    assert after.json()["summary"]["lag_versions"] == before.json()["summary"]["lag_versions"] + 1


@pytest.mark.parametrize(
    ("question", "narrowed"),
    [
        ({}, False),
        ({"run_id": "run+1"}, True),
        ({"run_id": "run+1", "task_id": "nothing", "map_index": "2"}, True),
        ({"run_id": "run+1", "task_id": "nothing", "map_index": "3"}, False),
        ({"run_id": "another"}, False),
    ],
)
def test_a_run_has_the_jobs_that_it_reported_or_those_of_its_dag(api: Api, question, narrowed):
    answer = api.get("dags/without_backfill/jobs", params=question).json()

    assert ([row["name"] for row in answer["jobs"]], answer["narrowed"]) == (["chosen"], narrowed)


def test_a_jobs_connection_is_read_and_never_sent(api: Api):
    """A connection in Airflow's database says where the control tables are. Its storage options are never sent."""
    answers = [api.get(path) for path in ("jobs", "dags/without_backfill/jobs", "dags/without_backfill/jobs/chosen")]

    assert answers[-1].json()["state_location"].endswith("/states/chosen")
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert not any("s3cr3t" in answer.text or "AWS_SECRET" in answer.text for answer in answers)


# --- who may do what ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["jobs", "dags/refresh_watched/jobs", job("watched"), f"{job('watched')}/log"])
def test_reading_requires_a_login(api: Api, path):
    assert api.get(path, None).status_code == 401


@pytest.mark.parametrize(("action", "body"), ACTIONS.items())
def test_changing_a_job_requires_the_right_to_run_the_dag(api: Api, action, body):
    """Invariant of the pages: a change requires the right to run the DAG."""
    store = api.lakes["watched"].backfill.store

    assert api.post(f"{job('watched')}/{action}", body, None).status_code == 401
    assert api.post(f"{job('watched')}/{action}", body, "vera").status_code == 403
    assert len(store.settings_history()) == 1


@pytest.fixture
def asked(api: Api, monkeypatch: pytest.MonkeyPatch) -> list[Question]:
    return record_questions(monkeypatch)


def test_reading_asks_for_the_right_to_read_the_dag_and_changing_for_the_right_to_run_it(api: Api, asked):
    """Other auth managers distinguish rights that Airflow's simple one grants together."""
    for path in ("dags/refresh_watched/jobs", f"{job('watched')}/log"):
        asked.clear()
        api.get(path)
        assert {(*one,) for one in asked} == {("GET", None, "refresh_watched")}, path
    run = ("POST", DagAccessEntity.RUN, "refresh_watched")
    for action, body in ACTIONS.items():
        asked.clear()
        api.post(f"{job('watched')}/{action}", body, "vera")
        assert asked == [run], action
    asked.clear()
    api.get(job("watched"))
    assert set(asked) == {("GET", None, "refresh_watched"), run}, "the answer also says whether the user may act"


def test_two_users_get_different_answers(api: Api):
    """The answer says whether the user may act, and no proxy may cache it."""
    answers = [api.get(job("watched"), user) for user in ("vera", "admin")]
    assert len({answer.headers["ETag"] for answer in answers}) == 2
    assert {answer.headers["Cache-Control"] for answer in answers} == {"private, no-cache"}


@pytest.fixture
def without_watched(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_dag(monkeypatch, "refresh_watched", user="vera")


@pytest.mark.usefixtures("without_watched")
def test_a_user_who_may_not_read_a_dag_sees_none_of_its_jobs(api: Api):
    for path in ("dags/refresh_watched/jobs", job("watched"), f"{job('watched')}/log"):
        assert api.get(path).status_code == 403
        assert api.get(path, "admin").status_code == 200
    page = "/backfill/dags/refresh_watched/jobs/watched/applications/epoch-1"
    assert api.client.get(page, headers=api.headers("vera")).status_code == 403
    names = {user: {row["name"] for row in api.get("jobs", user).json()["jobs"]} for user in ("vera", "admin")}
    assert names["admin"] - names["vera"] == {"watched"}


@pytest.mark.parametrize("path", ["dags/refresh_watched/jobs/throttled", "dags/nowhere/jobs/watched"])
def test_a_job_of_another_dag_is_not_found(api: Api, path):
    assert api.get(path).status_code == 404
    assert api.get(f"{path}/log").status_code == 404
    assert api.post(f"{path}/pause", {}).status_code == 404


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_form_on_another_site_cannot_change_a_job(api: Api, content_type):
    """A browser would send the form with the user's cookie, and does not ask first for these three content types."""
    cookie = api.headers("admin")["Authorization"].split()[1]
    headers = {"Content-Type": content_type, "Cookie": f"_token={cookie}"}

    answer = api.client.post(f"/backfill/api/{job('watched')}/pause", content="{}", headers=headers)

    assert answer.status_code == 415
    assert not api.lakes["watched"].backfill.store.settings().paused


# --- changing settings ----------------------------------------------------------------------------


def test_a_change_of_settings_records_who_made_it(api: Api):
    path, store = job("throttled"), api.lakes["throttled"].backfill.store

    assert api.post(f"{path}/pause", {}).json()["state"] == "paused"
    assert api.post(f"{path}/throttle", {"rate_limit": 25}).json()["summary"]["rate_limit"] == 25
    assert api.post(f"{path}/resume", {}).json()["state"] == "waiting"
    assert api.post(f"{path}/throttle", {"rate_limit": None}).json()["summary"]["rate_limit"] is None

    changes = api.get(path).json()["changes"]
    assert [(change["change"], change["value"], change["requested_by"]) for change in changes[:4]] == [
        ("throttle", None, "admin (Airflow)"),
        ("resume", None, "admin (Airflow)"),
        ("throttle", 25, "admin (Airflow)"),
        ("pause", None, "admin (Airflow)"),
    ]
    assert store.settings().rate_limit is None

    auto = {"rate_limit": "auto", "target_epoch_seconds": 30, "max_rows_per_second": 500}
    assert api.post(f"{path}/throttle", auto).json()["summary"].items() >= auto.items()
    assert api.post(f"{path}/throttle", {"rate_limit": 7}).json()["summary"]["max_rows_per_second"] == 500
    assert api.post(f"{path}/throttle", {**auto, "rate_limit": 7}).status_code == 422


def test_a_verification_is_requested_and_then_the_repair_of_what_it_found(api: Api):
    path, backfill = job("unproved"), api.lakes["unproved"].backfill
    assert "was not verified yet" in api.post(f"{path}/repair", {}).json()["detail"]
    assert api.post(f"{path}/verify", {}).json()["summary"]["verification_waits"] is True
    assert api.post(f"{path}/verify", {}).json()["summary"]["verified"] is None

    verifier.carry_out_waiting(backfill, CountingEngine([["7"]]))
    found = api.get(path).json()["summary"]
    assert (found["verification_waits"], found["verified"]["equal"], found["verified"]["epoch"]) == (False, False, 2)
    assert found["verified"]["sample"] == [{"kind": "missing", "vnode": 0, "key": ["7"], "columns": []}]
    assert found["verified"]["requested_by"] == "admin (Airflow)"

    assert api.post(f"{path}/repair", {}).json()["summary"]["verification_waits"] is True
    assert backfill.store.settings().repair.keys == (("7",),)
    assert api.get(path).json()["changes"][0]["requested_by"] == "admin (Airflow)"


def test_what_waits_is_shown_with_its_difference_and_approved(api: Api):
    assert_waits_and_is_approved(api, "waits")


@pytest.mark.parametrize(("action", "body"), [*ACTIONS.items(), ("throttle", {"rate_limit": 31})])
def test_airflow_records_it_in_its_audit_log(api: Api, action, body):
    """Refused actions are recorded, too: this job is not created."""
    from airflow.models.log import Log
    from airflow.utils.session import create_session
    from sqlalchemy import select

    api.post(f"{job('not_created')}/{action}", body)

    event = (Log.event == f"backfill.{action}", Log.dag_id == "refresh_not_created")
    with create_session() as session:
        entries = session.scalars(select(Log).where(*event))
        assert any(entry.owner == "admin" and all(str(v) in entry.extra for v in body.values()) for entry in entries)


def test_what_cannot_be_done_says_why(api: Api):
    answer = api.post(f"{job('watched')}/rescale", {"parallelism": 2})
    assert answer.status_code == 422
    assert "under no_shuffle all vnodes share one position" in answer.json()["detail"]

    answer = api.post(f"{job('not_created')}/pause", {})
    assert answer.status_code == 409
    assert "no job was created" in answer.json()["detail"]

    assert api.post(f"{job('cancelled_one')}/cancel", {}).json()["state"] == "cancelled"
    for action in ("pause", "verify", "repair"):
        answer = api.post(f"{job('cancelled_one')}/{action}", {})
        assert answer.status_code == 409
        assert "was cancelled" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("throttle", {}),
        ("throttle", {"rate_limit": -1}),
        ("throttle", {"rate_limit": "7"}),
        ("throttle", {"rate_limit": 2**70}),
        ("throttle", {"rate_limit": True}),
        ("throttle", {"rate_limit": 7, "max_rows_per_second": 0}),
        ("rescale", {"parallelism": 0}),
        ("rescale", {"parallelism": None}),
        ("pause", {"unknown": 1}),
        ("pause", [1]),
    ],
)
def test_bad_input_is_refused(api: Api, action, body):
    before = api.lakes["watched"].backfill.store.settings()

    assert api.post(f"{job('watched')}/{action}", body).status_code == 422
    assert api.lakes["watched"].backfill.store.settings() == before


# --- hostile requests -----------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", GenerationMode)
def test_hostile_requests_get_an_answer_of_the_contract(api: Api, mode):
    attack = Attack(api, "hostile", settings(max_examples=15))
    operations = operations_of_pages()
    assert len(operations) == OPERATIONS
    for operation in operations:
        attack.as_admin(operation, mode)


def test_hostile_requests_without_a_login_get_nothing(api: Api):
    attack = Attack(api, "hostile", settings(max_examples=5))
    before = api.lakes["hostile"].backfill.store.settings()
    for operation in operations_of_pages():
        attack.without_login(operation)
    assert api.lakes["hostile"].backfill.store.settings() == before


def test_a_running_application_leads_to_sparks_own_pages_on_a_known_host(api: Api, monkeypatch):
    assert "<dd>http://driver:4040</dd>" in application_page(api, web_url="http://driver:4040").text
    monkeypatch.setenv("AIRFLOW_BACKFILL_SPARK_UI_HOSTS", '["driver"]')
    assert application_page(api, web_url="http://driver:4040").headers["location"] == "http://driver:4040"


def test_an_application_without_pages_shows_what_is_known_of_it(api: Api):
    answer = application_page(api, web_url="javascript:alert(1)", said=("30 rows read",))
    assert answer.status_code == 200
    assert "running" in answer.text
    assert "30 rows read" in answer.text
    assert "/logs/&lt;b&gt;epoch-1&lt;/b&gt;.log" in answer.text
    assert "javascript" not in answer.text


def test_an_application_on_a_server_says_which(api: Api):
    answer = application_page(api, application_id="0a-1b", web_url="sc://spark.example:15002")
    assert answer.status_code == 200
    assert "Spark Connect server" in answer.text
    assert "sc://spark.example:15002" in answer.text
    assert "0a-1b" in answer.text


def test_an_application_that_failed_says_why(api: Api):
    answer = application_page(api, exit_code=1, error="no such key", web_url="http://driver:4040")
    assert "failed with exit code 1" in answer.text
    assert "no such key" in answer.text


def test_applications_are_for_those_who_may_read_the_dag(api: Api):
    path = "/backfill/dags/refresh_watched/jobs/watched/applications/epoch-100"
    assert api.client.get(path).status_code == 401
    assert api.client.get(path, headers=api.headers("vera")).status_code == 404


def test_a_value_with_a_foreign_class_hides_no_job(api: Api):
    assert api.names_beside_a_foreign_class("refresh_throttled") >= {"throttled", "watched"}


def test_a_run_without_an_epoch_shows_the_job_that_it_creates(api: Api):
    runs = "/api/v2/dags/refresh_watched/dagRuns"
    admin = {"headers": api.headers("admin")}
    definition = {**api.lakes["not_created"].definition, "name": "chosen_by_hand"}
    said = {"definition": definition, "backfill_conn_id": "airflow_backfill_default"}
    begun = api.client.post(runs, json={"dag_run_id": "begun", "logical_date": None}, **admin)
    assert begun.status_code == 200, begun.text
    reported = api.client.post(
        f"{runs}/begun/taskInstances/backfill.create_job/xcomEntries",
        json={"key": JOB_XCOM, "value": said},
        **admin,
    )
    assert reported.status_code == 201, reported.text
    of_run = api.get("dags/refresh_watched/jobs?run_id=begun").json()
    detail = api.get("dags/refresh_watched/jobs/chosen_by_hand")
    assert ([row["name"] for row in of_run["jobs"]], of_run["narrowed"]) == (["chosen_by_hand"], True)
    assert (detail.status_code, detail.json()["definition"]["name"]) == (200, "chosen_by_hand")
    assert "chosen_by_hand" in {row["name"] for row in api.get("jobs?limit=100").json()["jobs"]}
    assert api.get("dags/refresh_throttled/jobs/chosen_by_hand").status_code == 404
    api.client.patch(f"{runs}/begun", json={"state": "success"}, **admin)
    assert api.get("dags/refresh_watched/jobs/chosen_by_hand").status_code == 404
