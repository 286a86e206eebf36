"""The connection's form and its test, as a real Airflow's REST API has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.integration.airflow.server import airflow_server, wait_until

pytestmark = pytest.mark.airflow

SECRET = "very-secret-access-key"
SECRETS = {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": SECRET, "AZURE_STORAGE_ACCOUNT_KEY": SECRET}
CONNECTIONS = "/api/v2/connections"


class Api:
    """
    Airflow's REST API about connections.

    :param url: where it is.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def ready(self) -> bool:
        """Tell whether it answers."""
        try:
            return requests.get(f"{self._url}/auth/token", timeout=10).ok
        except requests.ConnectionError:
            return False

    def __call__(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Call it."""
        token = requests.get(f"{self._url}/auth/token", timeout=30).json()["access_token"]
        answer = requests.request(
            method,
            f"{self._url}{path}",
            json=body,
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
        )
        assert answer.ok, answer.text
        return answer.json() if answer.content else None


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """An Airflow of which only the REST API runs."""
    home = tmp_path_factory.mktemp("airflow")
    variables = {"AIRFLOW__CORE__TEST_CONNECTION": "Enabled"}
    with airflow_server(home, home, variables, ["api-server"]) as airflow:
        api = Api(f"http://localhost:{airflow.environment['AIRFLOW__API__PORT']}")
        wait_until(api.ready, seconds=240, logs=home)
        yield api


def body(**extra: Any) -> dict[str, Any]:
    return {"connection_id": "lake", "conn_type": "airflow_backfill", "extra": json.dumps(extra)}


def test_the_form_is_there_and_hides_the_storage_options(api):
    """Issue part 7."""
    (form,) = [
        form for form in api("GET", "/ui/connections/hook_meta") if form["connection_type"] == "airflow_backfill"
    ]
    assert form["hook_name"] == "Backfill"
    assert list(form["extra_fields"]) == ["state_root", "storage_options", "secret_storage_options"]
    assert form["extra_fields"]["secret_storage_options"]["schema"]["format"] == "password"
    hidden = {name for name, field in form["standard_fields"].items() if field and field["hidden"]}
    assert {"host", "port", "login", "password"} <= hidden


@pytest.mark.exhaustive
def test_the_forms_test_says_what_it_found(api, tmp_path: Path):
    assert api("POST", f"{CONNECTIONS}/test", body(state_root=str(tmp_path))) == {
        "status": True,
        "message": f"control tables lie under {tmp_path}; it can be read and written to, and has 0 folders",
    }


def test_the_forms_test_says_what_is_missing_without_secrets(api):
    answer = api(
        "POST",
        f"{CONNECTIONS}/test",
        body(
            state_root="s3a://bucket/backfill",
            storage_options=json.dumps({"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ALLOW_HTTP": "true"}),
            secret_storage_options=json.dumps(SECRETS),
        ),
    )
    assert not answer["status"]
    assert "s3a://bucket/backfill cannot be reached" in answer["message"]
    assert SECRET not in answer["message"]


@pytest.mark.parametrize("written", [SECRETS, json.dumps(SECRETS)], ids=["an object", "text, as the form has it"])
def test_a_saved_connection_does_not_show_its_secrets_again(api, written):
    api("POST", CONNECTIONS, body(storage_options='{"AWS_REGION": "eu-central-1"}', secret_storage_options=written))
    try:
        shown = api("GET", f"{CONNECTIONS}/lake")["extra"]
    finally:
        api("DELETE", f"{CONNECTIONS}/lake")
    assert "eu-central-1" in shown
    assert SECRET not in shown
