"""The FastAPI app: the API of the pages, and their static files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response, status
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles

from airflow_backfill_provider.core.errors import BackfillError, InvalidJobError
from airflow_backfill_provider.plugin import mutations, read_endpoints, spark_application_page
from airflow_backfill_provider.plugin.observer import JobObserver

STATIC = Path(__file__).parent / "static"


class _RevalidatedFiles(StaticFiles):
    """Static files that a browser revalidates on each load, so that it gets new ones after an upgrade."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def create_app() -> FastAPI:
    """Return the app; Airflow serves it under the plugin's prefix."""
    app = FastAPI(
        title="Backfills",
        description="The API of the pages about backfills. Not a stable interface: use the command line.",
        docs_url=None,
        redoc_url=None,
    )
    app.state.observer = JobObserver()
    app.include_router(read_endpoints.router)
    app.include_router(mutations.router)
    app.include_router(spark_application_page.router)
    app.mount("/static", _RevalidatedFiles(directory=STATIC), name="static")
    app.add_exception_handler(BackfillError, _refused)
    return app


def _refused(request: Request, error: Exception) -> JSONResponse:
    """Answer with the error's message, which has names and paths, but never rows or secrets."""
    del request
    if isinstance(error, InvalidJobError):
        code = status.HTTP_422_UNPROCESSABLE_CONTENT
    elif isinstance(error, BackfillError) and error.retryable:
        code = status.HTTP_503_SERVICE_UNAVAILABLE
    else:
        code = status.HTTP_409_CONFLICT
    return JSONResponse({"detail": str(error)}, code)
