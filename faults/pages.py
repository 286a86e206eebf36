"""
The API behind the pages, in Airflow's own app, under requests that no client would send.

A case is one operation, and a hundred requests to it that are made from its contract: allowed by it, not allowed by it,
or from somebody whom nobody knows. Each case meets the same job. No answer is a server error, each is one of the
contract, and strangers change nothing.
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
OPERATIONS = 11
"""How many the API has."""

REQUESTS = 100
"""Made in a case. Those of an admin are sent twice, if they name a job: also to the one that there is."""

FROM = ("allowed", "not allowed", "from a stranger")
ROUNDS = 10
"""In a full run, so that each operation gets two thousand requests by an admin and a thousand by a stranger."""


def play_requests(api: Api, case: int, random: random.Random) -> Outcome:
    """Send a case's requests."""
    from hypothesis import HealthCheck, Phase, settings
    from schemathesis import GenerationMode

    from tests.integration.airflow.hostile_requests import Attack, operations_of_pages

    kind = FROM[case // OPERATIONS % len(FROM)]
    operations = operations_of_pages()
    if len(operations) != OPERATIONS:
        raise WrongError(f"the API has {len(operations)} operations, and the campaign knows {OPERATIONS}")
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
        if kind == "from a stranger":
            attack.as_stranger(operation)
        else:
            attack.as_admin(operation, GenerationMode.POSITIVE if kind == "allowed" else GenerationMode.NEGATIVE)
    except BaseExceptionGroup as failures:
        # A group of failed checks is no Exception.
        raise WrongError(f"{about}: {failures.exceptions[0]}") from failures
    if kind == "from a stranger" and api.lakes[JOB].backfill.store.settings_history() != before:
        raise WrongError(f"{about}: changed the job")
    return Outcome(checks=attack.requests, about=about)


@contextmanager
def _stage() -> Iterator[Play]:
    # It tells of each request that it refuses.
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
    about="requests to the pages' API that no client would send: an answer of the contract, and nothing for strangers",
    quick=OPERATIONS * len(FROM),
    full=OPERATIONS * len(FROM) * ROUNDS,
    checks="requests",
    stage=_stage,
    # At least one of its own: Airflow reads its home as soon as it is imported.
    processes=2,
)
