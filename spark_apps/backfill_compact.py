"""
Compact the tables of a job, if that is due: ``spark-submit backfill_compact.py --state LOCATION --at N``.

No row changes. The exit codes are those of ``backfill_epoch.py``.
"""

from __future__ import annotations

import argparse
from functools import partial

from airflow_backfill_provider.applications.process_end import end_process_with
from airflow_backfill_provider.applications.spark_application import compact, run_application

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compact the tables of a backfill job, if that is due.")
    parser.add_argument("--state", required=True, help="location of the job's control tables")
    parser.add_argument("--at", required=True, type=int, help="how many files a compaction must save to be due")
    parser.add_argument("--target-file-size", type=int, help="bytes of a file; by default the table's property")
    arguments = parser.parse_args()
    end_process_with(
        partial(
            run_application,
            compact,
            state=arguments.state,
            at=arguments.at,
            target_file_size=arguments.target_file_size,
        )
    )
