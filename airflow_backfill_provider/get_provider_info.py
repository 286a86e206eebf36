"""
What Airflow needs to know of this package, and the connection form it draws from it.

Airflow loads this while it reads its own configuration, so it imports nothing.
"""

from __future__ import annotations

from typing import Any

from airflow_backfill_provider import __version__

_PACKAGE = "airflow_backfill_provider"
_INTEGRATION = "Orchestrated backfills"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description; entry point ``apache_airflow_provider``."""
    return {
        "package-name": "airflow-backfill-provider",
        "name": _INTEGRATION,
        "description": "Backfills materialized views over changing Delta tables, epoch by epoch, on Apache Spark.",
        "versions": [__version__],
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://delta.io/",
                "tags": ["software"],
            }
        ],
        "hooks": [_modules("hooks.backfill", "hooks.connect_application", "hooks.spark_application")],
        "operators": [
            _modules(
                "operators.approval",
                "operators.compaction",
                "operators.epoch",
                "operators.finish",
                "operators.job",
                "operators.mutation",
                "operators.shared_epoch",
                "operators.verification",
                "operators.watchdog",
            )
        ],
        "sensors": [_modules("sensors.backfill")],
        "triggers": [_modules("triggers.application", "triggers.backfill", "triggers.upstream")],
        "extra-links": [
            f"{_PACKAGE}.operators.links.{link}"
            for link in ("BackfillLink", "MaterializedViewLink", "SparkApplicationLink")
        ],
        "notifications": [
            f"{_PACKAGE}.notifications.backfill.BackfillNotifier",
            f"{_PACKAGE}.notifications.webhook.WebhookNotifier",
        ],
        "connection-types": [_connection_type()],
    }


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": _INTEGRATION, "python-modules": [f"{_PACKAGE}.{name}" for name in names]}


def _connection_type() -> dict[str, Any]:
    return {
        "connection-type": "airflow_backfill",
        "hook-class-name": f"{_PACKAGE}.hooks.backfill.BackfillHook",
        "hook-name": "Backfill",
        "ui-field-behaviour": {
            "hidden-fields": ["host", "port", "login", "password", "schema"],
            "relabeling": {},
            "placeholders": {},
        },
        "conn-fields": {
            "state_root": {
                "label": "State root",
                "description": (
                    "Folder under which the control tables of a job lie that names no state of its own: an absolute "
                    "path, or a URI such as s3a://bucket/backfill. Without it they lie beside the materialized view."
                ),
                "schema": {"type": ["string", "null"]},
            },
            "storage_options": {
                "label": "Storage options",
                "description": (
                    "JSON object with the object store's options as deltalake takes them, for Spark alike: names that "
                    'begin with AWS_, AZURE_ or GOOGLE_, such as {"AWS_REGION": "eu-central-1"}. Airflow shows them to '
                    "everybody who may see connections."
                ),
                # Somebody may write a credential into it all the same.
                "schema": {"type": ["string", "null"], "format": "password"},
            },
            # Airflow hides a saved extra again if its name has "secret" in it, and only then.
            "secret_storage_options": {
                "label": "Secret storage options",
                "description": (
                    "The credentials among them, as another JSON object, such as "
                    '{"AWS_ACCESS_KEY_ID": "…", "AWS_SECRET_ACCESS_KEY": "…"}. Airflow never shows them again.'
                ),
                "schema": {"type": ["string", "null"], "format": "password"},
            },
        },
    }
