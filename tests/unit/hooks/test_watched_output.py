"""What a task's log gets of an application's output: its messages."""

from __future__ import annotations

import io

from airflow_backfill_provider.hooks.watched_output import WatchedOutput


def test_the_file_gets_every_line_and_the_task_only_messages():
    file, said = io.StringIO(), []
    output = WatchedOutput(file, "here", said.append)
    lines = ["a row\n", "airflow-backfill: spark: app-7 http://driver:4040\n", "airflow-backfill: epoch 1 ends\n"]

    for line in lines:
        output.read(line)

    assert file.getvalue() == "".join(lines)
    assert said == ["Spark application app-7 http://driver:4040", "epoch 1 ends"]
    output.read("airflow-backfill: spark: app-8\n")
    assert said[2:] == ["Spark application app-8"]
    assert output.reason(7) == "the application ended with exit code 7; its output is in here"
