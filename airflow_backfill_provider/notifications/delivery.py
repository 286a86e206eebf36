"""Sends an event to notifiers, even if some of them fail."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable
from typing import Any

from airflow_backfill_provider.notifications.events import BackfillEvent

TEMPLATE_NAME = "backfill"
"""The name of the event in the notifiers' templates."""

Sender = Callable[[Any], None]
"""A notifier of Airflow or of a provider, or any other callable that takes a context."""

logger = logging.getLogger(__name__)


def deliver(event: BackfillEvent, senders: Iterable[Sender], context: Any) -> None:
    """
    Send an event through all senders. If one fails, the error is logged, and the others still send the event.

    :param context: the context of the task run or of the callback.
    """
    for sender in senders:
        try:
            # A notifier renders its templates in place, so each event needs a fresh one.
            copy.copy(sender)({**context, TEMPLATE_NAME: event.as_template()})
        except Exception:  # a failed notification must not fail the task
            logger.exception("%s failed to send: %s", type(sender).__name__, event.text)
