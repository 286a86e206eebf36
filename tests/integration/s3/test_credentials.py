"""Credentials that renew themselves: nothing is in the connection, and each library asks for them again in time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from demo.s3_server import ACCESS_KEY, SECRET_KEY, S3Server

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]  # a Spark of its own

SECONDS = 8
"""How long credentials are valid; both libraries renew them a few minutes earlier, so at each use."""

ASKED = f"""
    import datetime as dt, json, os, sys
    with open(sys.argv[1], "a", encoding="utf-8") as asked:
        process = os.getppid()
        while (name := open(f"/proc/{{process}}/comm", encoding="utf-8").read().strip()) == "sh":
            process = open(f"/proc/{{process}}/stat", encoding="utf-8").read().rsplit(") ", 1)[1].split()[1]
        print(name, file=asked)
    until = dt.datetime.now(dt.UTC) + dt.timedelta(seconds={SECONDS})
    print(json.dumps({{
        "Version": 1,
        "AccessKeyId": "{ACCESS_KEY}",
        "SecretAccessKey": "{SECRET_KEY}",
        "Expiration": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }}))
"""

JOB = """
    name: orders
    upstream: {{path: "{root}/orders", key: [id]}}
    materialized_view: "{root}/view"
    query: SELECT id, name FROM upstream
    strategy: no_shuffle
    rate_limit: 3
"""


@pytest.fixture
def environment(s3: S3Server, tmp_path: Path) -> dict[str, str]:
    """A profile whose credentials come from a process, and storage options without credentials."""
    script, asked, config = (tmp_path / name for name in ("ask.py", "asked", "config"))
    script.write_text(textwrap.dedent(ASKED), encoding="utf-8")
    config.write_text(
        f"[profile lake]\ncredential_process = {sys.executable} {script} {asked}\nregion = us-east-1\n",
        encoding="utf-8",
    )
    options = {name: value for name, value in s3.storage_options.items() if "KEY" not in name}
    # With an endpoint of its own, deltalake asks nobody else for credentials by default.
    options["AWS_FORCE_CREDENTIAL_LOAD"] = "true"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {
        **kept,
        "AWS_PROFILE": "lake",
        "AWS_CONFIG_FILE": str(config),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AIRFLOW_BACKFILL_STORAGE_OPTIONS": json.dumps(options),
    }


def test_an_epoch_uses_credentials_that_a_process_renews(
    s3: S3Server, environment: dict[str, str], tmp_path: Path
) -> None:
    root = s3.make_bucket(f"credentials-{os.getpid()}")
    write = f"""
        import pyarrow as pa
        from deltalake import write_deltalake
        rows = pa.table({{"id": range(9), "name": [str(number) for number in range(9)]}})
        write_deltalake("{root}/orders", rows, storage_options={s3.storage_options!r},
                        configuration={{"delta.enableChangeDataFeed": "true"}})
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(write)], check=True)
    (tmp_path / "job.yaml").write_text(textwrap.dedent(JOB.format(root=root)), encoding="utf-8")
    provider = "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider"
    said = ""
    for command in ("create", "run"):
        done = subprocess.run(
            [
                *(str(Path(sys.executable).parent / "airflow-backfill"), command, str(tmp_path / "job.yaml")),
                *("--conf", f"spark.hadoop.fs.s3a.aws.credentials.provider={provider}"),
            ],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        said += done.stdout + done.stderr
        assert done.returncode == 0, said
    asked = Counter((tmp_path / "asked").read_text(encoding="utf-8").split())
    assert asked.pop("java") > 1
    assert sum(asked.values()) > 1, "deltalake, in Python"
    assert SECRET_KEY not in said
