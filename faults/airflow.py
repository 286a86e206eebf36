"""
Kill the scheduler, triggerer, workers and applications of a real Airflow in the middle of epochs.

A case runs `tests/integration/airflow/test_survival.py` again, in a separate process. The cases differ in timing,
because Airflow has many processes.
"""

from __future__ import annotations

import random
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

from faults.campaign import Campaign, Outcome, WrongError

SCENARIO = "tests/integration/airflow/test_survival.py"
DEATHS = 7
"""
The triggerer, a task run, the scheduler with its workers, an application; a task marked failed, one cleared; and one
marked failed whose application another DAG's task waits for.
"""

ROOT = Path(__file__).parents[1]


def play(_: int, random: random.Random) -> Outcome:
    """Run the test once."""
    del random
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", SCENARIO],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    if done.returncode:
        raise WrongError(done.stdout[-3000:])
    return Outcome(checks=DEATHS, about="every epoch ran once and has its event, and no application was left over")


CAMPAIGN = Campaign(
    name="airflow",
    about="Airflow's scheduler, triggerer, workers and applications are killed in the middle of epochs",
    quick=1,
    full=10,
    checks="deaths",
    stage=lambda: nullcontext(play),
)
