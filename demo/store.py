"""Where the tables of a demo lie: in its folder, or in a bucket of a server with the API of S3."""

from __future__ import annotations

import json
import os
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from airflow_backfill_provider.applications.spark_settings import (
    STORAGE_OPTIONS_VARIABLE,
    storage_options_to_environment,
)
from airflow_backfill_provider.core.job.connections import variable_of
from demo.folder import DemoError, program, short_path
from demo.processes import free_port
from demo.run import DemoRun
from demo.s3_server import PROGRAM, START_SECONDS, S3Server

SERVER = "s3-server"
PREFERRED_PORT = 17070
CONNECTION = "airflow_backfill_default"
"""The connection in which Airflow finds the options of the object store."""


class Store(ABC):
    """
    The store of a demo's tables.

    :param run: the run of the demo; :attr:`run` is the same one, with the places of the tables.
    """

    def __init__(self, run: DemoRun) -> None:
        self.run = run

    @property
    def storage_options(self) -> Mapping[str, str]:
        """The options with which its tables are opened, as deltalake takes them."""
        return {}

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables that a process needs to open its tables."""
        return {}

    @abstractmethod
    def start(self) -> None:
        """Make it ready for tables, and say so."""

    @property
    def places(self) -> Mapping[Path | str, str]:
        """What it leaves behind → what that is."""
        return {}

    @property
    def commands_meanwhile(self) -> Sequence[str]:
        """What a shell needs before other commands can open the tables."""
        return ()

    @property
    def commands_after_the_end(self) -> Sequence[str]:
        """The same once the demo has ended."""
        return self.commands_meanwhile


class LocalStore(Store):
    """The demo's folder."""

    def start(self) -> None:
        """Do nothing: the folder is there."""


class S3Store(Store):
    """A bucket of a server of the demo's own, on loopback."""

    def __init__(self, run: DemoRun) -> None:
        super().__init__(run)
        if not PROGRAM.exists():
            raise DemoError(f"{PROGRAM} is missing; run make s3-server, which builds it")
        self._server = S3Server(run.folder.path / SERVER, free_port(PREFERRED_PORT))
        self.run = replace(run, folder=replace(run.folder, bucket=self._server.root))
        os.environ.update(self.environment)

    @property
    def storage_options(self) -> Mapping[str, str]:
        """The server's address, and its keys."""
        return self._server.storage_options

    @property
    def environment(self) -> Mapping[str, str]:
        """The options for Airflow, and for programs without it."""
        is_secret = {name: "SECRET" in name or "ACCESS_KEY" in name for name in self.storage_options}
        extra = {
            "storage_options": {name: value for name, value in self.storage_options.items() if not is_secret[name]},
            "secret_storage_options": {name: value for name, value in self.storage_options.items() if is_secret[name]},
        }
        connection = {"conn_type": "airflow_backfill", "extra": extra}
        return {
            variable_of(CONNECTION): json.dumps(connection),
            **storage_options_to_environment(self.storage_options),
        }

    def start(self) -> None:
        """Start the server."""
        terminal, server = self.run.terminal, self._server
        with terminal.step(
            f"starting a server with the API of S3 in {short_path(server.folder)}, on {server.endpoint}"
        ):
            server.make_bucket(server.bucket)
            self.run.servers.start(SERVER, server.command, server.environment)
            until = time.monotonic() + START_SECONDS
            while not server.answers():
                self.run.servers.require_alive()
                if time.monotonic() > until:
                    raise DemoError(f"it did not start within {START_SECONDS} s; see {self.run.servers.log(SERVER)}")
                time.sleep(0.1)
        terminal.say(f"all tables lie in its bucket: {server.root}")
        self._file.touch(mode=0o600)  # it holds the keys
        options = self.environment[STORAGE_OPTIONS_VARIABLE]
        self._file.write_text(f"export {STORAGE_OPTIONS_VARIABLE}={shlex.quote(options)}\n", encoding="utf-8")

    @property
    def places(self) -> Mapping[Path | str, str]:
        """The server's folder."""
        return {self._server.folder: "the objects of the bucket; its server stops with the demo"}

    @property
    def commands_meanwhile(self) -> Sequence[str]:
        """The options of the store."""
        return (f". {short_path(self._file)}    (the options of the object store)",)

    @property
    def commands_after_the_end(self) -> Sequence[str]:
        """The server, which stops with the demo, and its options."""
        server = self._server
        return (
            f"{program('python')} -m demo.s3_server {short_path(server.folder)} {server.port} &    (the server again)",
            *self.commands_meanwhile,
        )

    @property
    def _file(self) -> Path:
        return self.run.folder.path / "store.environment"


STORES: Mapping[str, Callable[[DemoRun], Store]] = {"local": LocalStore, "s3": S3Store}
"""The stores by name."""
