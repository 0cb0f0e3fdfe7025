"""The answers that are no success, as the description of the service names them."""

from typing import Any

from bayestriplet.service.models import Message


def _described(**statuses: str) -> dict[int | str, dict[str, Any]]:
    """Return answers that are no success, for the description of the service."""
    return {int(name[1:]): {"model": Message, "description": text} for name, text in statuses.items()}


SENDER = _described(_401="The token is missing or wrong.", _403="Sent by a page of another site.")
ERRORS = SENDER | _described(
    _404="No such item.", _409="There is no index yet.", _503="The index cannot be read; the log says why."
)
PICTURE_ERRORS = _described(_410="The file is gone, or has changed since it was indexed.")
FORM_ERRORS = _described(
    _400="The form cannot be read.",
    _408="The upload paused, or took too long.",
    _413="The upload is too large.",
    _415="What was sent is no form.",
    _422="What was asked for cannot be.",
    _503="There are too many uploads, or the index cannot be read.",
)
