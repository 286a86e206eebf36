"""
The API behind the pages, in Airflow's own app, under requests that no client would send.

A case is one operation, and a hundred requests to it that are generated from its contract: allowed, not allowed, or
without a login. Each case has the same job. No answer may be a server error or outside the contract, and requests
without a login must change nothing.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from faults.campaign import Campaign, Outcome, Play, WrongError

if TYPE_CHECKING:
    from tests.integration.airflow.pages_site import Api

JOB = "hostile"
OPERATIONS = 14
"""The number of operations of the API."""

REQUESTS = 100
"""The number of requests of a case. An admin's request that names a job is also sent to the existing job."""

FROM = ("allowed", "not allowed", "without a login")
ROUNDS = 10
"""The rounds of a full run: each operation gets two thousand requests of an admin and a thousand without a login."""


def play_requests(api: Api, case: int, random: random.Random) -> Outcome:
    """Send a case's requests."""
    from hypothesis import HealthCheck, Phase, settings
    from schemathesis import GenerationMode

    from tests.integration.airflow.hostile_requests import Attack, operations_of_pages

    kind = FROM[case // OPERATIONS % len(FROM)]
    operations = operations_of_pages()
    if len(operations) != OPERATIONS:
        raise WrongError(f"the API has {len(operations)} operations, but the campaign expects {OPERATIONS}")
    operation = operations[case % OPERATIONS]
    how = settings(
        max_examples=REQUESTS,
        phases=[Phase.generate],
        database=None,
        derandomize=False,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    attack = Attack(api, JOB, how, decided_by=random.getrandbits(64))
    about = f"{operation.label}, {kind}"
    store = api.lakes[JOB].backfill.store
    before = store.settings_history()
    try:
        if kind == "without a login":
            attack.without_login(operation)
        else:
            attack.as_admin(operation, GenerationMode.POSITIVE if kind == "allowed" else GenerationMode.NEGATIVE)
    except BaseExceptionGroup as failures:
        # A group of failed checks is not an Exception.
        raise WrongError(f"{about}: {failures.exceptions[0]}") from failures
    if kind == "without a login" and api.lakes[JOB].backfill.store.settings_history() != before:
        raise WrongError(f"{about}: changed the job")
    return Outcome(checks=attack.requests, about=about)


@contextmanager
def _stage() -> Iterator[Play]:
    # Airflow logs each request that it refuses.
    os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "CRITICAL"
    from tests.integration.airflow.pages_site import pages_of  # isort: skip - before anything of Airflow

    from airflow.utils.db import initdb

    initdb()
    with tempfile.TemporaryDirectory(prefix="backfill-faults-") as name:
        folder, good = Path(name, "jobs"), Path(name, "good")
        folder.mkdir()
        with pages_of(folder, [JOB]) as api:
            lake = api.lakes[JOB].folder
            shutil.copytree(lake, good)

            def play(case: int, random: random.Random) -> Outcome:
                shutil.rmtree(lake)
                shutil.copytree(good, lake)
                return play_requests(api, case, random)

            yield play


CAMPAIGN = Campaign(
    name="pages",
    about="hostile requests to the pages' API: answers obey the contract, and without a login nothing changes",
    quick=OPERATIONS * len(FROM),
    full=OPERATIONS * len(FROM) * ROUNDS,
    checks="requests",
    stage=_stage,
    # More than one, so that it runs in a new process: Airflow reads its home as soon as it is imported.
    processes=2,
)
