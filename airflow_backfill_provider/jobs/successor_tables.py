"""The folder of a successor: its control tables, its view, and their end."""

from __future__ import annotations

from airflow_backfill_provider.core.job.succession import Successor
from airflow_backfill_provider.lake.log.dropping import drop_table
from airflow_backfill_provider.state.store import BackfillStore


def store_of(successor: Successor, store: BackfillStore) -> BackfillStore:
    """Return the control tables of a successor."""
    return BackfillStore(str(successor.growing["state"]), store.storage_options)


def active_store(store: BackfillStore) -> BackfillStore:
    """
    Return the control tables of the job that reads history, for mutations of how it reads.

    A job with a successor is finished, so pausing, throttling or rescaling it would mean nothing.
    """
    successor = store.settings().successor
    return store if successor is None else store_of(successor, store)


def delete_unused(store: BackfillStore) -> None:
    """
    Delete the folders of all successors that neither grow nor have rows to hand over; their processes fail from then.

    The settings' history names the folders, so this also deletes what a process left that died before.
    """
    history = store.settings_history()
    in_force = history[-1]
    used = {
        *([in_force.successor.folder] if in_force.successor else []),
        *([in_force.first_rows.folder] if in_force.first_rows and in_force.finished_epoch is None else []),
    }
    for folder in dict.fromkeys(record.successor.folder for record in history if record.successor):
        if folder not in used:
            drop_table(folder, store.storage_options)
