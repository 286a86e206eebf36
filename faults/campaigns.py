"""All campaigns by name, cheap ones first. Each module is loaded when its campaign runs."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from faults.campaign import Campaign

NAMES = (
    "model",
    "state-files",
    "schedules",
    "cut-overs",
    "names",
    "query-text",
    "mutants",
    "key-order",
    "shapes",
    "slices",
    "groups",
    "joins",
    "lives",
    "histories",
    "classes",
    "failpoints",
    "kills",
    "files",
    "cdc",
    "kafka",
    "store",
    "kills-in-bucket",
    "pages",
    "airflow",
)


def _load(name: str) -> Callable[[], Campaign]:
    def load() -> Campaign:
        found: Campaign = import_module(f"faults.{name.replace('-', '_')}").CAMPAIGN
        return found

    return load


CAMPAIGNS: dict[str, Callable[[], Campaign]] = {name: _load(name) for name in NAMES}
