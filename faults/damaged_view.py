"""Damages a finished view as a foreign writer would, and asks for the repair of what a verification finds."""

from __future__ import annotations

import random

from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.protocol import repairs
from faults.campaign import WrongError
from tests.integration.engine.lakehouse import TESTER, Lakehouse

_WAYS = ("DELETE FROM {view}", "INSERT INTO {view} SELECT * FROM {view} LIMIT 1")


def damage_and_ask_for_repair(lakehouse: Lakehouse, drawn: random.Random) -> str | None:
    """
    Damage a view, and ask for its repair, which the next epoch does.

    :param drawn: draws the damage.
    :returns: the damage; ``None`` if the view has no rows, so nothing was done.
    :raises WrongError: if the verification does not find the damage (I6).
    """
    damage = drawn.choice(_WAYS)
    if not lakehouse.view().take(1):
        return None
    lakehouse.sql(damage)
    verifier.verify_job(lakehouse.backfill, engine=lambda: lakehouse.engine, requester=TESTER)
    if repairs.ask_for_repair(lakehouse.backfill, requested_by="tester") is None:
        raise WrongError(f"I6: the verification did not find {damage}: {lakehouse.backfill.job.query}")
    return damage
