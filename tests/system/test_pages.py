"""The pages as their users see them, and the form of a connection: a real Airflow, and a real browser."""

from __future__ import annotations

from tests import airflow_home  # noqa: F401  # isort: skip - before anything of Airflow

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable, Field
from playwright.sync_api import Locator, Page, expect

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs import revert, succession
from airflow_backfill_provider.jobs.verification import verifier, view_differences
from tests.cut_overs import KnownComparer
from tests.plain_engine import CountingEngine, make
from tests.system.job_page import answer, ask
from tests.system.site import NEEDS_CHROMIUM, Site, running_site
from tests.unit.stand_in import Lake, run_epoch

pytestmark = [pytest.mark.airflow, NEEDS_CHROMIUM]

DAGS = Path(__file__).parent / "paged_dags"

CONNECTIONS = "/api/v2/connections"
SECRET = "very-secret-access-key"
SECRETS = {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": SECRET, "AZURE_STORAGE_ACCOUNT_KEY": SECRET}


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Lake]:
    """The site's jobs, by name."""
    folder = tmp_path_factory.mktemp("lakes")
    names = ("changed", "watched", "untouched", "damaged", "rebuilt", "refreshed")
    return {
        **{name: lake_of(folder, name) for name in names},
        "approved": lake_of(folder, "approved", cut_over="on_approval"),
    }


def lake_of(folder: Path, name: str, **fields: Any) -> Lake:
    """Return a job with one of its three epochs done, and report it to its DAG."""
    lake = Lake(folder / name, {"name": name, "materialized_view": str(folder / name / "view"), **fields})
    lake.folder.mkdir()
    lake.append(range(1000))
    lake.create()
    lake.epochs(1)
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(lake.definition), encoding="utf-8")
    return lake


@pytest.fixture(scope="module")
def site(lakes: dict[str, Lake], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    jobs = next(iter(lakes.values())).folder.parent
    folder = tmp_path_factory.mktemp("site")
    variables = {"PAGED_JOBS": str(jobs), "AIRFLOW__CORE__TEST_CONNECTION": "Enabled"}
    with running_site(folder, DAGS, variables, ["api-server", "dag-processor"]) as site:
        site.wait_until(lambda: len(site.call("GET", "/backfill/api/jobs").json()["jobs"]) == len(lakes))
        yield site


def job(name: str) -> str:
    """The address of a job's page."""
    return f"/plugin/backfills/refresh_{name}/{name}"


@pytest.mark.exhaustive
def test_a_finished_view_says_that_an_epoch_is_running(lakes, visit):
    lake = lakes["refreshed"]
    lake.epochs(2)
    protocol.finish_job(store=lake.backfill.store, requested_by="somebody")
    page = visit(job("refreshed"))
    expect(page.get_by_text("Finished and up to date.")).to_be_visible()
    lake.append([2000])
    expect(page.get_by_text("1 version behind the upstream. The next DAG run applies its changes.")).to_be_visible()

    lake.inject()
    expect(page.get_by_role("heading", name="refreshed")).to_contain_text("Finished, epoch running")
    expect(page.get_by_text("1 version behind the upstream. Epoch 4 was pinned")).to_be_visible()
    expect(page.get_by_text("The next DAG run applies")).to_have_count(0)
    run_epoch(lake.backfill, 4)
    expect(page.get_by_text("Finished and up to date.")).to_be_visible()


def test_a_backfill_is_watched_and_changed_from_the_list_to_its_end(lakes, visit):
    """One scenario, as a user plays it, without a reload."""
    lake = lakes["changed"]
    page = visit("/")
    page.get_by_role("link", name="Backfills").click()
    page.get_by_role("searchbox", name="Search by name").fill("chang")
    expect(page.get_by_role("table", name="Backfills").get_by_role("row")).to_have_count(2)
    page.get_by_role("link", name="changed", exact=True).click()
    expect(page.get_by_role("heading", name="changed")).to_contain_text("Waiting for a DAG run")
    expect(page.get_by_role("progressbar", name="Progress of changed")).to_have_attribute("aria-valuenow", "40")

    lake.epochs(1)
    expect(page.get_by_role("progressbar", name="Progress of changed")).to_have_attribute("aria-valuenow", "80")
    expect(page.get_by_role("region", name="Barrier log", exact=True).get_by_role("rowheader")).to_have_text(["2", "1"])

    answer(ask(page, "Pause"), "Pause")
    expect(page.get_by_role("heading", name="changed")).to_contain_text("Paused")
    assert lake.backfill.store.settings().paused

    dialog = ask(page, "Throttle")
    dialog.get_by_label("Rows per epoch").fill("many")
    expect(dialog.get_by_role("button", name="Set rate limit")).to_be_disabled()
    expect(dialog.get_by_text("Enter the rows per epoch as a whole number")).to_be_visible()
    dialog.get_by_label("Rows per epoch").fill("50")
    expect(dialog.get_by_text("Enter the rows per epoch as a whole number")).to_have_count(0)
    answer(dialog, "Set rate limit")
    expect(page.get_by_text("50 rows an epoch")).to_be_visible()

    answer(ask(page, "Resume"), "Resume")
    expect(page.get_by_role("heading", name="changed")).to_contain_text("Waiting for a DAG run")

    dialog = ask(page, "Rescale")
    dialog.get_by_label("Parallel task runs").fill("3")
    dialog.get_by_role("button", name="Rescale").click()
    expect(dialog.get_by_role("alert")).to_contain_text("under no_shuffle all vnodes share one position")
    dialog.get_by_role("button", name="Back").click()
    assert lake.backfill.store.settings().parallelism == 1

    answer(ask(page, "Verify"), "Verify")
    expect(page.get_by_text("Never; again with the next epoch")).to_be_visible()
    verifier.carry_out_waiting(lake.backfill, CountingEngine([["7"]]))
    expect(page.get_by_text("Differs at epoch 2,")).to_be_visible()
    expect(page.get_by_text("1 key missing, in the vnodes 0.")).to_be_visible()
    expect(page.get_by_text('missing: ["7"] of vnode 0')).to_be_visible()
    answer(ask(page, "Repair what differs"), "Repair what differs")
    expect(page.get_by_role("region", name="Changes of the settings", exact=True)).to_contain_text("Repair")
    assert lake.backfill.store.settings().repair.keys == (("7",),)

    dialog = ask(page, "Cancel")
    disabled = dialog.get_by_role("button", name="Cancel the job")
    expect(disabled).to_be_disabled()
    expect(disabled).to_have_accessible_description("Type the job's name, changed, to confirm.")
    dialog.get_by_label("Type changed to confirm").fill("changed")
    answer(dialog, "Cancel the job")
    expect(page.get_by_role("heading", name="changed")).to_contain_text("Cancelled")
    expect(page.get_by_role("group", name="Change the job")).to_have_count(0)
    expect(page.get_by_role("region", name="Changes of the settings", exact=True)).to_contain_text("admin (Airflow)")
    assert lake.backfill.store.settings().cancelled


def test_why_a_row_is_there_or_not_is_told_or_it_says_why_it_is_not_told(lakes, visit):
    # The engine of these tests writes no rows, and so no columns.
    DeltaTable(lakes["watched"].backfill.job.view_location).alter.add_columns([Field("order_id", "long")])
    panel = visit(job("watched")).get_by_role("region", name="Why a row is there, or not", exact=True)
    for key, role, text in (("990", "list", "history is not read that far"), ("[1, 2]", "alert", "There is no answer")):
        panel.get_by_label("Key").fill(key)
        panel.get_by_role("button", name="Ask").click()
        expect(panel.get_by_role(role)).to_contain_text(text)


@pytest.mark.exhaustive
def test_a_rebuild_beside_the_view_is_watched_and_steered(lakes, visit):
    """The view stays finished, and the buttons act on what reads history."""
    lake = lakes["rebuilt"]
    lake.epochs(2)
    protocol.finish_job(store=lake.backfill.store, requested_by="vera")
    make(lake.backfill, succession.grow_successor)
    page = visit(job("rebuilt"))
    expect(page.get_by_role("heading", name="rebuilt")).to_contain_text("Finished")
    rebuild = page.get_by_role("region", name="Rebuild", exact=True)
    expect(rebuild).to_contain_text("0.0 %A rebuild grows beside the view.")

    dialog = ask(page, "Throttle")
    dialog.get_by_label("Rows per epoch").fill("250")
    answer(dialog, "Set rate limit")
    answer(ask(page, "Pause"), "Pause")
    expect(rebuild).to_contain_text("The rebuild is paused, and reads no history.")
    assert not lake.backfill.store.settings().paused
    answer(ask(page, "Resume"), "Resume")

    growing = lake.backfill.successor
    assert growing is not None
    barrier = protocol.inject_barrier(
        store=growing.store, upstream=growing.upstream, requester=Requester(user="vera")
    ).barrier
    assert barrier is not None
    protocol.run_epoch(barrier, store=growing.store, engine=CountingEngine())
    expect(page.get_by_role("progressbar", name="Progress of the rebuild")).to_have_attribute("aria-valuenow", "25")
    expect(rebuild).to_contain_text("250 of about 1,000 rows read, epoch 1.")
    expect(page.get_by_role("region", name="Changes of the settings", exact=True)).to_contain_text(
        "Rebuild begun beside the view"
    )
    assert revert.give_up_successor(lake.backfill.store, requested_by="vera")
    expect(rebuild).to_have_count(0)


@pytest.mark.exhaustive
def test_what_waits_for_an_approval_is_seen_and_approved(lakes, visit):
    lake = lakes["approved"]
    lake.epochs(2)
    page = visit(job("approved"))
    expect(page.get_by_role("heading", name="approved")).to_contain_text("Ready, waits for approval")
    panel = page.get_by_role("region", name="Waits for an approval", exact=True)
    expect(panel).to_contain_text("The backfill is ready since")
    expect(panel).to_contain_text("Nobody has compared it with the view that serves yet.")
    view_differences.compare_waiting(lake.backfill, comparer=KnownComparer, requester=Requester(user="vera"))
    expect(panel).to_contain_text("rows: 10 now, 11 then; 1 added, 0 removed, 1 changed")
    expect(panel).to_contain_text('changed: ["3"] in cents')
    panel.get_by_role("button", name="Approve").click()
    answer(page.get_by_role("dialog"), "Approve")
    expect(panel).to_have_count(0)
    approved = lake.backfill.store.settings().approved
    assert approved is not None
    assert (approved.difference, approved.approved_by) == (1, "admin (Airflow)")
    expect(page.get_by_role("region", name="Changes of the settings", exact=True)).to_contain_text("Approved")
    lake.epochs(1)
    expect(page.get_by_role("heading", name="approved")).to_contain_text("Finished")


def test_a_viewer_sees_everything_and_can_do_nothing(lakes, visit):
    page = visit(job("watched"), "vera")

    expect(page.get_by_text("You may look at this job, but not change it")).to_be_visible()
    expect(page.get_by_role("region", name="Barrier log", exact=True).get_by_role("rowheader")).to_have_text(["1"])
    expect(page.get_by_role("group", name="Change the job")).to_have_count(0)
    refused = page.evaluate(
        """async () => (await fetch("/backfill/api/dags/refresh_watched/jobs/watched/pause", {
            body: "{}", headers: {"Content-Type": "application/json"}, method: "POST"})).status"""
    )
    assert refused == 403
    assert not lakes["watched"].backfill.store.settings().paused


@pytest.mark.exhaustive
def test_verifications_that_cannot_be_read_are_unknown_and_not_never(lakes, visit):
    lake = lakes["damaged"]
    verifier.ask_for_verification(lake.backfill, requested_by="vera")
    page = visit(job("damaged"))
    expect(page.get_by_text("Never; again with the next epoch")).to_be_visible()
    for file in Path(lake.backfill.job.state, "verifications", "_delta_log").glob("*.json"):
        file.write_bytes(b"{" * 50)
    expect(page.get_by_text("Unknown", exact=True)).to_be_visible()
    expect(page.get_by_text("it is unknown whether the view was verified: ")).to_be_visible()
    expect(page.get_by_text("Never")).to_have_count(0)


def test_everything_is_reached_by_keyboard(visit):
    page = visit(job("untouched"))
    pause = page.get_by_role("button", name="Pause")
    expect(pause).to_be_visible()
    tab_to(page, pause)
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"

    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Pause untouched?")
    expect(dialog).to_be_visible()
    assert page.evaluate("document.activeElement.closest('dialog') !== null")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(pause).to_be_focused()

    tab_to(page, page.get_by_role("listbox", name="Map of vnodes"))
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("Vnode 1: in progress; position 399")).to_be_visible()
    tab_to(page, page.get_by_role("listbox", name="Chart of epochs"))
    expect(page.get_by_text("Epoch 1: 400 rows, 0 changes")).to_be_visible()


def tab_to(page: Page, wanted: Locator) -> None:
    for _ in range(60):
        if wanted.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{wanted} is not reached by the tab key")


@pytest.mark.exhaustive
def test_the_tab_of_a_dag_has_its_backfill_and_says_so_if_there_is_none(visit):
    page = visit("/dags/refresh_watched/plugin/backfill")
    expect(page.get_by_role("heading", name="watched", exact=False).last).to_be_visible()
    expect(page.get_by_role("progressbar", name="Progress of watched")).to_be_visible()

    page = visit("/dags/without_backfill/plugin/backfill")
    expect(page.get_by_role("heading", name="This DAG has no backfill")).to_be_visible()


@pytest.mark.exhaustive
def test_the_tabs_of_a_run_and_of_a_task_have_it_too(site: Site, visit):
    begun = {"logical_date": None, "dag_run_id": "by_hand+1"}
    triggered = site.call("POST", "/api/v2/dags/refresh_watched/dagRuns", begun)
    assert triggered.ok, triggered.text
    run = "/dags/refresh_watched/runs/by_hand%2B1"

    for tab in ("plugin/backfill-run", "tasks/backfill.create_job/plugin/backfill-task"):
        page = visit(f"{run}/{tab}")
        expect(page.get_by_text("has committed no epoch (yet). These are the backfills of its DAG.")).to_be_visible()
        expect(page.get_by_role("progressbar", name="Progress of watched")).to_be_visible()


@pytest.mark.exhaustive
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read_in_light_and_dark(visit, scheme):
    page = visit(job("watched"), color_scheme=scheme)
    expect(page.get_by_role("progressbar", name="Progress of watched")).to_be_visible()

    text, background = page.evaluate(
        """() => {
            const painted = (element) => {
                const context = document.createElement("canvas").getContext("2d");
                const background = element.parentElement ? painted(element.parentElement) : "white";
                for (const colour of [background, getComputedStyle(element).backgroundColor]) {
                    context.fillStyle = colour;
                    context.fillRect(0, 0, 1, 1);
                }
                return `rgb(${context.getImageData(0, 0, 1, 1).data.slice(0, 3).join(" ")})`;
            };
            const page = document.querySelector(".bf-page");
            const cover = document.createElement("div");
            cover.style.backgroundColor = getComputedStyle(page).color;
            page.append(cover);
            return [painted(cover), painted(page)];
        }"""
    )
    difference = brightness(background) - brightness(text)
    assert (difference > 0.6) if scheme == "light" else (difference < -0.6)


def brightness(colour: str) -> float:
    """Return how bright ``rgb(…)`` is, from 0 to 1."""
    return sum(int(part) for part in re.findall(r"\d+", colour)) / (3 * 255)


@pytest.mark.exhaustive
def test_a_hidden_page_sends_no_requests(site: Site, visit):
    page = visit("/")
    page.clock.install()
    page.goto(f"{site.url}{job('watched')}")
    expect(page.get_by_role("progressbar", name="Progress of watched")).to_be_visible()
    with page.expect_request(re.compile("/backfill/api/")):
        page.clock.run_for(10_000)

    page.evaluate(
        """() => {
            Object.defineProperty(document, "hidden", { value: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(60_000)

    assert [url for url in asked if "/backfill/api/" in url] == []


def connection(**extra: Any) -> dict[str, Any]:
    return {"connection_id": "lake", "conn_type": "airflow_backfill", "extra": json.dumps(extra)}


def test_the_form_of_a_connection_is_there_and_hides_the_storage_options(site: Site):
    forms = site.call("GET", "/ui/connections/hook_meta").json()
    (form,) = [form for form in forms if form["connection_type"] == "airflow_backfill"]
    assert form["hook_name"] == "Backfill"
    assert list(form["extra_fields"]) == ["state_root", "storage_options", "secret_storage_options"]
    assert form["extra_fields"]["secret_storage_options"]["schema"]["format"] == "password"
    hidden = {name for name, field in form["standard_fields"].items() if field and field["hidden"]}
    assert {"host", "port", "login", "password"} <= hidden


def test_the_test_of_a_connection_says_what_it_found(site: Site, tmp_path: Path):
    answer = site.call("POST", f"{CONNECTIONS}/test", connection(state_root=str(tmp_path))).json()
    assert answer == {
        "status": True,
        "message": f"control tables lie under {tmp_path}; it can be read and written to, and has 0 folders",
    }


def test_the_test_of_a_connection_says_what_is_missing_without_secrets(site: Site):
    options = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ALLOW_HTTP": "true"}
    tested = connection(
        state_root="s3a://bucket/backfill",
        storage_options=json.dumps(options),
        secret_storage_options=json.dumps(SECRETS),
    )
    answer = site.call("POST", f"{CONNECTIONS}/test", tested).json()
    assert not answer["status"]
    assert "s3a://bucket/backfill cannot be reached" in answer["message"]
    assert SECRET not in answer["message"]


@pytest.mark.parametrize("written", [SECRETS, json.dumps(SECRETS)], ids=["an object", "text, as the form has it"])
def test_a_saved_connection_does_not_show_its_secrets_again(site: Site, written):
    saved = connection(storage_options='{"AWS_REGION": "eu-central-1"}', secret_storage_options=written)
    assert site.call("POST", CONNECTIONS, saved).ok
    try:
        found = site.call("GET", f"{CONNECTIONS}/lake").json()["extra"]
    finally:
        site.call("DELETE", f"{CONNECTIONS}/lake")
    assert "eu-central-1" in found
    assert SECRET not in found
