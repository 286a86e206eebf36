"""Credentials that renew themselves: nothing is in the connection, and each library asks for them again in time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from demo.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.integration.s3.credential_server import ROLE, WEB_TOKEN, CredentialServer

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]  # a Spark of its own

SECONDS = 3
"""How long credentials are valid, which is less than a backfill takes."""

ASKED = f"""
    import datetime as dt, json, os, sys
    with open(sys.argv[1], "a", encoding="utf-8") as asked:
        process = os.getppid()
        while (name := open(f"/proc/{{process}}/comm", encoding="utf-8").read().strip()) == "sh":
            process = open(f"/proc/{{process}}/stat", encoding="utf-8").read().rsplit(") ", 1)[1].split()[1]
        print("spark" if name == "java" else "deltalake", file=asked)
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


COMMANDS = ("create", "run")


@dataclass(frozen=True, slots=True)
class Found:
    """
    Where the libraries find credentials.

    :param environment: variables of the environment.
    :param asked: returns how often each library got some.
    :param provider: the class that finds them in Java; S3A's own ones by default.
    """

    environment: dict[str, str]
    asked: Callable[[], Counter[str]]
    provider: str = ""


@contextmanager
def of_a_process(folder: Path) -> Iterator[Found]:
    """A profile whose credentials come from a process."""
    script, asked, config = (folder / name for name in ("ask.py", "asked", "config"))
    script.write_text(textwrap.dedent(ASKED), encoding="utf-8")
    config.write_text(f"[profile lake]\ncredential_process = {sys.executable} {script} {asked}\n", encoding="utf-8")
    yield Found(
        {"AWS_PROFILE": "lake", "AWS_CONFIG_FILE": str(config), "AWS_EC2_METADATA_DISABLED": "true"},
        lambda: Counter(asked.read_text(encoding="utf-8").split()),
        "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider",
    )


@contextmanager
def of_a_web_identity(folder: Path) -> Iterator[Found]:
    """A role that is assumed with a token in a file, as for a pod on EKS."""
    token = folder / "token"
    token.write_text(WEB_TOKEN, encoding="utf-8")
    with CredentialServer.running(SECONDS) as server:
        yield Found(
            {
                "AWS_ROLE_ARN": f"arn:aws:iam::1:role/{ROLE}",
                "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
                # Without a region in the environment, Java asks another address than this one.
                "AWS_REGION": "us-east-1",
                "AWS_ENDPOINT_URL_STS": server.url,
                "AWS_EC2_METADATA_DISABLED": "true",
            },
            lambda: server.asked,
            "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider",
        )


@contextmanager
def of_an_instance(folder: Path) -> Iterator[Found]:
    """The profile of the instance on which everything runs."""
    del folder
    # S3A renews them five minutes before.
    with CredentialServer.running(5 * 60 + SECONDS) as server:
        yield Found({"AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url}, lambda: server.asked)


@pytest.mark.parametrize("found", [of_a_process, of_a_web_identity, of_an_instance])
def test_an_epoch_uses_credentials_that_are_renewed(
    found: Callable[[Path], AbstractContextManager[Found]], s3: S3Server, tmp_path: Path
) -> None:
    root = s3.make_bucket(f"credentials-{os.getpid()}-{found.__name__.replace('_', '-')}")
    rows = pa.table({"id": range(9), "name": [str(number) for number in range(9)]})
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(f"{root}/orders", rows, storage_options=s3.storage_options, configuration=feed)
    (tmp_path / "job.yaml").write_text(textwrap.dedent(JOB.format(root=root)), encoding="utf-8")

    options = {name: value for name, value in s3.storage_options.items() if "KEY" not in name}
    # With an endpoint of its own, deltalake asks nobody else for credentials by default.
    options["AWS_FORCE_CREDENTIAL_LOAD"] = "true"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with found(tmp_path) as credentials:
        conf = (
            ["--conf", f"spark.hadoop.fs.s3a.aws.credentials.provider={credentials.provider}"]
            if credentials.provider
            else []
        )
        said = ""
        for command in COMMANDS:
            done = subprocess.run(
                [str(Path(sys.executable).parent / "airflow-backfill"), command, str(tmp_path / "job.yaml"), *conf],
                env={**kept, **credentials.environment, "AIRFLOW_BACKFILL_STORAGE_OPTIONS": json.dumps(options)},
                capture_output=True,
                text=True,
                check=False,
            )
            said += done.stdout + done.stderr
            assert done.returncode == 0, said
        asked = credentials.asked()
    # More often than there are processes: they were renewed within one.
    assert min(asked["spark"], asked["deltalake"]) > len(COMMANDS), asked
    assert SECRET_KEY not in said
