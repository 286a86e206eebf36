"""Two DAGs of one job; their applications are stand-ins for Spark."""

from __future__ import annotations

import os
from pathlib import Path

from airflow_backfill_provider.dag_factory import backfill_dag
from tests.unit.stand_in import Lake

LAKE = Lake(Path(os.environ["ORDERS_LAKE"]), {"name": "announced_orders"})

for dag_id in ("announcing", "announcing_too"):
    globals()[dag_id] = backfill_dag(
        LAKE.definition, dag_id=dag_id, barriers=1, deferrable=False, default_args={"retries": 0}
    )
