"""What an object store's refusal means, and what to do about it, from the text of a client's error."""

from __future__ import annotations

import re

_DOCUMENT = re.compile(r"<\?xml[^>]*\?>\s*(?:<(\w+)[^>]*>.*?</\1>)?|<Error\b[^>]*>.*?</Error>", re.DOTALL)
"""The document with which a store answers; it may hold the id of a key, and the text that was to be signed."""

_CODE = re.compile(r"<Code>\s*(\w+)\s*</Code>")

_ANSWERS: dict[str, tuple[str, ...]] = {
    "the storage does not know the key, or the secret is wrong; correct the credentials": (
        r"\b(?:InvalidAccessKeyId|SignatureDoesNotMatch|AuthenticationFailed|InvalidAuthenticationInfo)\b",
        "lacked valid authentication credentials|401 Unauthorized",
    ),
    "the token has expired; give a new one, or credentials that renew themselves": (
        r"\b(?:ExpiredToken(?:Exception)?|TokenRefreshRequired|InvalidToken|RequestExpired)\b",
        r"token (?:\w+ )?expired",
    ),
    "the clock of this machine differs too much from the storage's; set it": (r"\bRequestTimeTooSkewed\b",),
    "the bucket is in another region; correct AWS_REGION": (
        r"\b(?:PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraintException|301 Moved)\b",
    ),
    "there is no such bucket; correct the location, or make the bucket": (r"\b(?:NoSuchBucket|ContainerNotFound)\b",),
    "the storage is busy or out of order; nothing is lost, try again later": (
        r"\b(?:SlowDown|ServiceUnavailable|InternalError|ServerBusy|Throttling\w*|RequestTimeout)\b",
        r"\b(?:429 Too Many|500 Internal|502 Bad|503 Service|504 Gateway)|Status Code: (?:429|500|502|503|504)\b",
    ),
    "the credentials lack a right; grant them to list and to read there, and to write where the job's tables are": (
        r"\b(?:AccessDenied(?:Exception)?|AllAccessDisabled|AuthorizationFailure|AuthorizationPermissionMismatch)\b",
        r"lacked the necessary privileges|403 Forbidden|Status Code: 403\b",
    ),
}
"""What to do → patterns of the errors, in the order in which they are looked for."""

_OTHERWISE = "check the storage, its options and the access rights, then try again"


def advice(text: str) -> str:
    """
    Return what to do about an error.

    :param text: the text of a client's error.
    """
    known = (what for what, patterns in _ANSWERS.items() if re.search("|".join(patterns), text))
    return next(known, _OTHERWISE)


def without_documents(text: str) -> str:
    """Return an error's text with the codes of the documents in place of them."""
    return _DOCUMENT.sub(lambda found: _code(found.group()), text)


def _code(document: str) -> str:
    found = _CODE.search(document)
    return found[1] if found else ""
