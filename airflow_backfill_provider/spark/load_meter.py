"""
Measures Spark's load during an epoch, from what Spark itself publishes about its cluster and its stages.

Slots and memory come from the session's configuration. What was spilled, collected and queued comes from the monitoring
API of the driver's web server (``spark.ui.enabled``). A session of Spark Connect has no access to it, and a local
session of this package does not start it; then these fields are unknown. A measurement never fails an epoch.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.epoch.auto_rate import MEMORY_SHARE
from airflow_backfill_provider.core.epoch.spark_load import SparkLoad

_PATIENCE_SECONDS = 5
_DEFAULT_MEMORY = "1g"
_UNITS = {"": 20, "k": 10, "m": 20, "g": 30, "t": 40}
_SIZE = re.compile(r"(?P<number>\d+)(?P<unit>[kmgt]?)b?")


class LoadMeter:
    """
    Measures the load from its creation on.

    :param spark: the session that the epoch runs in.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._began_at = dt.datetime.now(dt.UTC)

    def load(self) -> SparkLoad:
        """Return the load so far; fields that Spark does not tell are ``None``."""
        address = self._address()
        executors = _asked(f"{address}/executors") if address else None
        stages = _asked(f"{address}/stages?status=complete") if address else None
        cluster = self._configured() if executors is None else cluster_of(executors)
        return SparkLoad.model_validate({**cluster, **({} if stages is None else work_of(stages, self._began_at))})

    def _address(self) -> str | None:
        """Return the address of the application in the monitoring API; ``None`` if there is none."""
        try:
            context = self._spark.sparkContext
        except PySparkException:
            return None
        return f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}" if context.uiWebUrl else None

    def _configured(self) -> dict[str, int | None]:
        """Return the size of the cluster as the session's configuration says it, as far as it does."""
        conf = self._spark.conf
        master = conf.get("spark.master", "") or ""
        if master.startswith("local"):
            slots = re.fullmatch(r"local\[(\d+)(,.*)?\]", master)
            memory = bytes_of(conf.get("spark.driver.memory", _DEFAULT_MEMORY) or _DEFAULT_MEMORY)
            return {"slots": int(slots[1]) if slots else None, "memory_bytes": memory}
        instances = conf.get("spark.executor.instances", "") or ""
        if not instances.isdecimal() or conf.get("spark.dynamicAllocation.enabled", "false") == "true":
            return {}
        memory = bytes_of(conf.get("spark.executor.memory", _DEFAULT_MEMORY) or _DEFAULT_MEMORY)
        cores = conf.get("spark.executor.cores", "") or ""
        return {
            "slots": int(instances) * int(cores) if cores.isdecimal() else None,
            "memory_bytes": None if memory is None else int(instances) * memory,
        }


def bytes_of(size: str) -> int | None:
    """Return the bytes of a size as Spark writes it, such as ``2g``; a number alone counts mebibytes."""
    found = _SIZE.fullmatch(size.strip().lower())
    return None if found is None else int(found["number"]) << _UNITS[found["unit"]]


def _asked(address: str) -> Sequence[Mapping[str, Any]] | None:
    """Return what the monitoring API answers; ``None`` if it does not."""
    # The driver's own address, so no proxy stands before it.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=_PATIENCE_SECONDS) as answer:
            found = json.load(answer)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, list) else None


def cluster_of(executors: Sequence[Mapping[str, Any]]) -> dict[str, int | None]:
    """Return the size of the cluster, from its executors. The driver is one only in a local session."""
    working = [executor for executor in executors if executor.get("isActive") and executor.get("totalCores")]
    if not working:
        return {}
    return {
        "slots": sum(int(executor["totalCores"]) for executor in working),
        # The API has what is left for tasks and cached rows, after Spark's own share.
        "memory_bytes": round(sum(int(executor.get("maxMemory", 0)) for executor in working) / MEMORY_SHARE) or None,
    }


def work_of(stages: Sequence[Mapping[str, Any]], since: dt.datetime) -> dict[str, float]:
    """Return what the stages that were submitted since an instant spilled, collected and waited."""
    ours = [stage for stage in stages if (submitted := _instant(stage.get("submissionTime"))) and submitted >= since]
    spent = sum(int(stage.get("executorRunTime", 0)) for stage in ours)
    collected = sum(int(stage.get("jvmGcTime", 0)) for stage in ours)
    waits = [
        (launched - submitted).total_seconds()
        for stage in ours
        if (submitted := _instant(stage.get("submissionTime")))
        and (launched := _instant(stage.get("firstTaskLaunchedTime")))
    ]
    return {
        "spilled_bytes": sum(int(stage.get("diskBytesSpilled", 0)) for stage in ours),
        "gc_share": min(collected / spent, 1.0) if spent else 0.0,
        "queued_seconds": max(sum(waits), 0.0),
    }


def _instant(text: object) -> dt.datetime | None:
    """Return an instant as the monitoring API writes it, such as ``2026-03-29T01:30:00.000GMT``."""
    try:
        return dt.datetime.fromisoformat(str(text).replace("GMT", "+00:00"))
    except ValueError:
        return None
