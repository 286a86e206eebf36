"""What an object store's refusal means, and what to do about it, from the text of a client's error."""

from __future__ import annotations

import re

_DOCUMENT = re.compile(r"<\?xml[^>]*\?>\s*(?:<(\w+)[^>]*>.*?</\1>)?|<Error\b[^>]*>.*?</Error>", re.DOTALL)
"""The document with which a store answers; it may hold the id of a key, and the text that was to be signed."""

_CODE = re.compile(r"<Code>\s*(\w+)\s*</Code>")

_ANSWERS: tuple[tuple[str, str], ...] = (
    (
        r"\b(?:InvalidAccessKeyId|SignatureDoesNotMatch|AuthenticationFailed|InvalidAuthenticationInfo|NotSignedUp)\b"
        r"|lacked valid authentication credentials|401 Unauthorized",
        "the storage does not know the key, or the secret is wrong; correct the credentials",
    ),
    (
        r"\b(?:ExpiredToken|ExpiredTokenException|TokenRefreshRequired|InvalidToken|RequestExpired)\b|token \w*\s*expired",
        "the token has expired; give a new one, or credentials that renew themselves",
    ),
    (r"\bRequestTimeTooSkewed\b", "the clock of this machine differs too much from the storage's; set it"),
    (
        r"\b(?:PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraintException|301 Moved)\b",
        "the bucket is in another region; correct AWS_REGION",
    ),
    (r"\b(?:NoSuchBucket|ContainerNotFound)\b", "there is no such bucket; correct the location, or make the bucket"),
    (
        r"\b(?:SlowDown|ServiceUnavailable|InternalError|ServerBusy|Throttling\w*|RequestTimeout)\b"
        r"|\b(?:429 Too Many|500 Internal|502 Bad|503 Service|504 Gateway)|Status Code: (?:429|500|502|503|504)\b",
        "the storage is busy or out of order; nothing is lost, try again later",
    ),
    (
        r"\b(?:AccessDenied|AllAccessDisabled|AuthorizationFailure|AuthorizationPermissionMismatch)\b"
        r"|lacked the necessary privileges|403 Forbidden|Status Code: 403\b|AccessDeniedException",
        "the credentials lack a right; grant them to list and to read there, and to write where the job's tables are",
    ),
)
"""Patterns of errors → what to do, in the order in which they are looked for."""

_OTHERWISE = "check the storage, its options and the access rights, then try again"


def advice(text: str) -> str:
    """
    Return what to do about an error.

    :param text: the text of a client's error.
    """
    return next((what for pattern, what in _ANSWERS if re.search(pattern, text)), _OTHERWISE)


def without_documents(text: str) -> str:
    """Return an error's text with the codes of the documents in place of them."""
    return _DOCUMENT.sub(lambda found: _code(found.group()), text)


def _code(document: str) -> str:
    found = _CODE.search(document)
    return found[1] if found else ""
