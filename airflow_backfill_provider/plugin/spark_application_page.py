"""
The target of a task's link to its Spark application: Spark's UI, or a page with the application's record.

Spark serves its UI only while the application runs, and only if it is enabled. Its address is in the record, in a job's
state folder, which others than the deployment's administrators may write to. So the link leads to it only if the
deployment names its host; otherwise the page shows it as a text.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Response, status
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import StrictStr, TypeAdapter, ValidationError

from airflow_backfill_provider.core.application import ApplicationRecord
from airflow_backfill_provider.core.remote import is_remote
from airflow_backfill_provider.plugin.access import MAY_READ, Job, Observer

HOSTS_VARIABLE = "AIRFLOW_BACKFILL_SPARK_UI_HOSTS"

_HOSTS = TypeAdapter(list[StrictStr])
_ADDRESS = re.compile(
    r"https?://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?(?:/[\w.~!$&'()*+,;=:%/?#-]*)?"
)
"""An address that every browser understands in the same way, so without a login and backslashes."""

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }}
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
dt {{ font-weight: 600 }}
dd {{ margin: 0 0 .75rem; overflow-wrap: anywhere; white-space: pre-wrap }}
</style>
</head>
<body>
<h1>{title}</h1>
<dl>
{facts}
</dl>
</body>
</html>
"""

# This is a separate page, which the other pages don't use.
router = APIRouter(prefix="/dags/{dag_id}/jobs/{name}/applications", dependencies=MAY_READ, include_in_schema=False)


@router.get("/{application}", response_class=HTMLResponse)
def show_application(
    job: Job, observer: Observer, application: Annotated[str, Path(pattern=r"^[a-z0-9-]+$", max_length=100)]
) -> Response:
    """Redirect to the Spark UI of a running application, if its host is known, or show the application's record."""
    backfill = observer.job(job).backfill
    record = backfill.store.applications.read(application)
    if record is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"{job.name} has no record of a Spark application {application}")
    if not record.ended and record.web_url and leads_to_known_host(record.web_url):
        return RedirectResponse(record.web_url, status.HTTP_303_SEE_OTHER)
    facts = "\n".join(
        f"<dt>{html.escape(term)}</dt><dd>{html.escape(fact)}</dd>" for term, fact in _facts(record) if fact
    )
    return HTMLResponse(_PAGE.format(title=html.escape(f"{job.name}: {application}"), facts=facts))


def leads_to_known_host(address: str) -> bool:
    """Return whether an address leads to a host that the deployment names; an invalid list names none."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return False
    try:
        known = _HOSTS.validate_json(os.environ.get(HOSTS_VARIABLE) or "[]")
    except ValidationError:
        return False
    return found["host"].lower() in {host.lower() for host in known}


def _facts(record: ApplicationRecord) -> Iterator[tuple[str, str]]:
    yield "State", _state(record)
    if is_remote(record.web_url or ""):
        yield "Spark Connect server", record.web_url or ""
        yield "Session on the server", record.application_id or ""
    else:
        yield "Spark application", record.application_id or ""
        if not record.ended and _ADDRESS.fullmatch(record.web_url or ""):
            yield "Spark's own pages", record.web_url or ""
    yield "Runs on", record.host
    yield "Started", f"{record.started_at:%Y-%m-%d %H:%M:%S %Z}"
    yield "Ended", f"{record.ended_at:%Y-%m-%d %H:%M:%S %Z}" if record.ended_at else ""
    yield "Spark's output, on that machine", record.log
    yield "Messages", "\n".join(record.said)
    yield "Error", record.error


def _state(record: ApplicationRecord) -> str:
    if not record.ended:
        return "running"
    return "succeeded" if record.succeeded else f"failed with exit code {record.exit_code}"
