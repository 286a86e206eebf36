"""Writers of every speed that never rest while a backfill comes to its end, whatever they say about their commits."""

from __future__ import annotations

import json
import random
from itertools import count
from typing import Any

from deltalake import DeltaTable

from airflow_backfill_provider.core.epoch.held_up import MOST_DOUBLINGS, PATIENCE
from airflow_backfill_provider.core.epoch.replay import MOST_EPOCHS
from airflow_backfill_provider.jobs import mutations
from faults.campaign import WrongError
from faults.classes.fault import Fault, adding_to
from faults.table_shapes import change
from tests.builders import commit_file
from tests.integration.engine.lakehouse import Lakehouse

FAULTS: dict[str, Fault] = {}
fault = adding_to(FAULTS)

METRICS: tuple[dict[str, Any] | None, ...] = (
    None,
    {},
    {"num_target_rows_updated": 653, "num_target_rows_copied": 199_759, "num_output_rows": 200_412},
    {"numUpdatedRows": "200412"},
    {"numTargetRowsInserted": "0"},
    {"numOutputRows": "many"},
)
"""What a commit may say that it changed; nothing of it need be true."""

for _speed in (1, 3, 8):

    @fault(f"writers commit {_speed} times an epoch while the log is replayed")
    def _replay(lakehouse: Lakehouse, random: random.Random, speed: int = _speed) -> None:
        _begin_again(lakehouse, strategy="snapshot", visibility="on_finish", rate_limit=None)
        _commit(lakehouse, random, 8)
        lakehouse.epoch()
        store = lakehouse.backfill.store
        mutations.throttle_job(random.choice([1, 20, 200]), store=store, requested_by="tester")
        for number in count(1):
            _commit(lakehouse, random, speed)
            commit = lakehouse.epoch()
            if commit is not None and commit.completed:
                return
            if number >= MOST_EPOCHS:
                raise WrongError(f"I4: the replay goes on after {number} epochs, at {speed} commits an epoch")


for _strategy in ("no_shuffle", "arrangement"):

    @fault(f"the greatest keys are added faster than the rate limit, {_strategy}")
    def _tail(lakehouse: Lakehouse, random: random.Random, strategy: str = _strategy) -> None:
        _begin_again(lakehouse, strategy=strategy, rate_limit=random.choice([4, 9]))
        added = random.choice([10, 40])
        most = PATIENCE * MOST_DOUBLINGS
        for number in range(most):
            first = 10**6 + added * number
            lakehouse.sql(
                f"INSERT INTO {{upstream}} SELECT id, 'new', 1, NULL, 't', 1, NULL FROM range({first}, {first + added})"
            )
            commit = lakehouse.epoch()
            if commit is not None and commit.completed:
                return
        raise WrongError(f"I4: there are rows to read after {most} epochs, with {added} new ones before each")


def _begin_again(lakehouse: Lakehouse, **fields: Any) -> None:
    assert lakehouse.job is not None
    job = lakehouse.job.model_dump(mode="json")
    kept = {name: job[name] for name in job if name not in {"name", "materialized_view", "state"}}
    lakehouse.rebuild(**kept | fields)


def _commit(lakehouse: Lakehouse, random: random.Random, times: int) -> None:
    """Change the upstream, and let each commit say something about it."""
    for _ in range(times):
        before = DeltaTable(lakehouse.upstream_path).version()
        change(lakehouse, random, 1)
        for version in range(before + 1, DeltaTable(lakehouse.upstream_path).version() + 1):
            _say(lakehouse, version, random.choice(METRICS))


def _say(lakehouse: Lakehouse, version: int, metrics: dict[str, Any] | None) -> None:
    file = commit_file(lakehouse.upstream_path, version)
    actions = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"].pop("operationMetrics", None)
            action["commitInfo"] |= {} if metrics is None else {"operationMetrics": metrics}
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    file.write_text("\n".join(map(json.dumps, actions)) + "\n", encoding="utf-8")
