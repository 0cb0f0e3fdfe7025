"""Answers to requests that cannot be met: a status and a message in words, as JSON."""

import asyncio
import contextlib
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from bayestriplet.errors import (
    BayesTripletError,
    DataError,
    InputError,
    InputTypeError,
    StateError,
    StoreError,
)
from bayestriplet.service.catalogue import UnknownItemError

# How much more of a refused upload is read and thrown away, so that its sender reads why.
LINGER_SECONDS, LINGER_BYTES = 2.0, 64 * 2**20


class RefusalError(Exception):
    """A request that is not met, with the status that says so."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


def status_of(error: BayesTripletError) -> HTTPStatus:
    """Return the status that fits an error of the library."""
    if isinstance(error, UnknownItemError):
        return HTTPStatus.NOT_FOUND
    if isinstance(error, StoreError):
        return HTTPStatus.SERVICE_UNAVAILABLE
    if isinstance(error, StateError):
        return HTTPStatus.CONFLICT
    if isinstance(error, InputError | InputTypeError | DataError):
        return HTTPStatus.UNPROCESSABLE_ENTITY
    return HTTPStatus.INTERNAL_SERVER_ERROR


async def refuse(request: Request, error: Exception) -> Response:
    """Turn whatever a request ran into into an answer.

    What was not foreseen is raised again by the framework, so that the server logs it.
    """
    if isinstance(error, RefusalError):
        return LastAnswer({"message": str(error)}, error.status)
    if isinstance(error, BayesTripletError):
        return JSONResponse({"message": str(error).splitlines()[0]}, status_of(error))
    if isinstance(error, HTTPException):
        message = _in_words(error.status_code, request)
        return JSONResponse({"message": message}, error.status_code, headers=error.headers)
    if isinstance(error, ClientDisconnect):
        return Response(status_code=400)  # nobody is there to read it
    return JSONResponse({"message": "the server failed at this; its log says why"}, 500)


def _in_words(status: int, request: Request) -> str:
    if status == HTTPStatus.NOT_FOUND:
        return "there is nothing at this address; /docs lists what there is"
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        return f"{request.method} is not for this address; /docs lists what is"
    return HTTPStatus(status).phrase.lower()


class LastAnswer(JSONResponse):
    """An answer after which the connection is closed, whatever is still on its way.

    Closing at once would make the sender of a large upload see a broken connection, not the
    answer: for a moment what it sends is read and thrown away.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, linger, close."""
        del scope
        headers = [*self.raw_headers, (b"connection", b"close")]
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                left = LINGER_BYTES
                while left > 0 and (message := await receive()).get("more_body"):
                    left -= len(message.get("body", b""))
        await send({"type": "http.response.body", "body": b"", "more_body": False})
