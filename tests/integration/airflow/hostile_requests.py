"""
Requests that no client would send: made from the contract of the pages' API, allowed by it or not.

Every answer obeys the contract and is no server error; requests without a login are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import schemathesis
from hypothesis import given, seed, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from airflow_backfill_provider.plugin.app import create_app
from tests.integration.airflow.pages_site import Api

CONTRACT = [not_a_server_error, response_schema_conformance, status_code_conformance]


def operations_of_pages() -> list[Any]:
    """Return the operations of a separate app, each with a generator of requests."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", create_app())
    return [result.ok() for result in schema.get_all_operations()]


class Attack:
    """
    Sends requests, and fails at the first answer outside of the contract.

    :param api: Airflow's app, whose users and jobs the requests are about.
    :param job: the existing job that requests address.
    :param how: how many are made for each operation, and how.
    :param decided_by: what decides them; by default Hypothesis does.
    """

    def __init__(self, api: Api, job: str, how: settings, decided_by: int | None = None) -> None:
        self._api = api
        self._path_of_job = {"dag_id": f"refresh_{job}", "name": job}
        self._how = how
        self._decided_by = decided_by
        self.requests = 0

    def as_admin(self, operation: Any, mode: GenerationMode) -> None:
        """
        Send requests of a user with all rights, also to the job.

        :param mode: whether the contract allows it.
        """

        def send(case: Any) -> None:
            case.call_and_validate(headers=self._api.headers("admin"))
            self.requests += 1
            if "dag_id" in (case.path_parameters or {}):
                case.path_parameters = dict(self._path_of_job)
                # The path of the case is replaced, so its checks of the path no longer apply.
                case.call_and_validate(headers=self._api.headers("admin"), checks=CONTRACT)
                self.requests += 1

        self._send_all(operation, mode, send)

    def without_login(self, operation: Any) -> None:
        """Send what the contract allows, without a login."""

        def send(case: Any) -> None:
            status = case.call().status_code
            assert status in {401, 403}, f"{case.method} {case.formatted_path}: {status}"  # 403: with a made-up token
            self.requests += 1

        self._send_all(operation, GenerationMode.POSITIVE, send)

    def _send_all(self, operation: Any, mode: GenerationMode, send: Callable[[Any], None]) -> None:
        @self._how
        @given(operation.as_strategy(generation_mode=mode))
        def all_of_them(case: Any) -> None:
            send(case)

        if self._decided_by is not None:
            all_of_them = seed(self._decided_by)(all_of_them)
        all_of_them()
