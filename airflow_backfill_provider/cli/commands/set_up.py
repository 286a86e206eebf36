"""Commands that prepare a machine: archive-classes."""

from __future__ import annotations

import time

from airflow_backfill_provider.cli.options import Debug
from airflow_backfill_provider.cli.output import console
from airflow_backfill_provider.cli.reporting import reporting


@reporting
def archive_classes(*, debug: Debug = False) -> None:  # noqa: ARG001 - for reporting
    """
    Archive the classes that Spark loads, so that it starts faster on this machine. Takes a minute, and 200 MB.

    Run it once for each installation, and again after Java, Spark or Delta's jars were replaced. Every Spark with a
    local master that this package starts then uses the archive.
    """
    from airflow_backfill_provider.runtime.class_archiver import make_class_archive

    started = time.monotonic()
    archive = make_class_archive()
    seconds = time.monotonic() - started
    console().print(f"archived {archive.stat().st_size >> 20} MiB of classes in {seconds:.0f} s: {archive}")
