"""Faults in what people write: a job's definition."""

from __future__ import annotations

import random

from airflow_backfill_provider.core.errors import BackfillError
from faults.campaign import WrongError
from faults.classes.fault import Fault, adding_to
from tests.integration.engine.lakehouse import Lakehouse

FAULTS: dict[str, Fault] = {}
fault = adding_to(FAULTS)


WRONG_FIELDS: tuple[dict[str, object], ...] = (
    {"query": "SELECT id FROM elsewhere"},
    {"query": "SELECT id, rand() AS r FROM upstream"},
    {"query": "SELECT count(*) AS n FROM upstream"},
    {"query": "SELECT id, nothing FROM upstream"},
    {"query": "DROP TABLE upstream"},
    {"key": ["nothing"]},
    {"key": []},
    {"vnode_count": 0},
    {"vnode_count": 10**9},
    {"rate_limit": -1},
    {"parallelism": 99},
    {"strategy": "hope"},
    {"state": "relative/../../state"},
    {"restrict_to": {"keys": {"up_to": ["soon"]}}},
    {"unknown": True},
)


@fault("the configuration is wrong")
def _configuration(lakehouse: Lakehouse, random: random.Random) -> None:
    job = lakehouse.job
    fields = random.choice(WRONG_FIELDS)
    try:
        lakehouse.rebuild(**{"query": "SELECT id FROM upstream", **fields})
    except BackfillError:
        pass
    except ValueError as error:
        # pydantic's own, which names the field.
        if not any(name in str(error) for name in fields):
            raise WrongError(f"{fields}: {error}") from error
    else:
        raise WrongError(f"{fields} was taken")
    finally:
        lakehouse.job = job
