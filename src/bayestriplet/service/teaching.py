"""Teaching over the network: an answer's picture is given a class, and that is undone."""

import asyncio
import json
from http import HTTPStatus
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from starlette.responses import Response

from bayestriplet.errors import InputError
from bayestriplet.retrieval.live import count_measures
from bayestriplet.retrieval.teaching import Teacher
from bayestriplet.runs.folder import RunFolder
from bayestriplet.service.catalogue import Catalogue
from bayestriplet.service.models import TEACH_BODY, Classes, Message
from bayestriplet.service.questions import stack_looks
from bayestriplet.service.refusals import RefusalError
from bayestriplet.service.uploads import PATIENCE, read_replay

MOST_BYTES = 4 * 2**20  # of a request
MOST_TAUGHT = 1000  # pictures at a time
LONGEST_NAME = 200
READ_ONLY = "this server is read-only: start it with --writable to teach classes"


def add_teaching(app: FastAPI, service: Any, read_only: bool) -> None:
    """Add the addresses that teach to an application; ``service`` calls what reads and writes files."""
    catalogue: Catalogue = service.catalogue

    @app.get("/api/classes", response_model=Classes, summary="Classes, trained and taught")
    async def classes() -> Response:
        return await _rendered(service, catalogue, not read_only)

    @app.post(
        "/api/teach", response_model=Classes, summary="Give pictures of answers a class, or undo it",
        responses={403: {"model": Message, "description": "The server is read-only."},
                   422: {"model": Message, "description": "What was sent cannot be taught."}},
        openapi_extra={"requestBody": TEACH_BODY},
    )  # fmt: skip
    async def teach(request: Request) -> Response:
        if read_only:
            raise RefusalError(HTTPStatus.FORBIDDEN, READ_ONLY)
        asked = _check(await _read(request))
        await service.call(_teach, catalogue, asked)
        return await _rendered(service, catalogue, True)


async def _rendered(service: Any, catalogue: Catalogue, writable: bool) -> Response:
    response: Response = await service.render(_list, catalogue, writable)
    return response


async def _read(request: Request) -> bytes:
    content = b""
    try:
        async with asyncio.timeout(PATIENCE):
            async for chunk in request.stream():
                content += chunk
                if len(content) > MOST_BYTES:
                    raise RefusalError(
                        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "these are too many pictures at a time"
                    )
    except TimeoutError:
        raise RefusalError(HTTPStatus.REQUEST_TIMEOUT, "the request took too long to arrive") from None
    return content


def _check(content: bytes) -> dict[str, Any]:
    """Return what is to be taught, if the request says it in the form that it must have."""
    try:
        asked = json.loads(content)
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict) or not asked.keys() <= {"label", "replays", "undo"}:
        raise InputError("teach takes a JSON object with label, replays and undo")
    label, replays, undo = asked.get("label"), asked.get("replays"), asked.get("undo", False)
    if not isinstance(label, str) or len(label) > LONGEST_NAME:
        raise InputError(f"label must be the name of a class, of up to {LONGEST_NAME} letters")
    if not isinstance(replays, list) or not 0 < len(replays) <= MOST_TAUGHT:
        raise InputError(f"replays must be a list of 1 to {MOST_TAUGHT}, each of an earlier answer")
    if not all(isinstance(one, str) for one in replays) or not isinstance(undo, bool):
        raise InputError("replays must be texts, and undo true or false")
    return {"label": label.strip(), "replays": replays, "undo": undo}


def _teach(catalogue: Catalogue, asked: dict[str, Any]) -> None:
    encoder = catalogue.index.encoder
    teacher = _teacher(catalogue)
    measures = count_measures(teacher.trained)
    read = [read_replay(one, encoder.dim, measures) for one in asked["replays"]]
    vectors, looks = np.stack([one[0] for one in read]), stack_looks([one[2] for one in read])
    change = teacher.undo if asked["undo"] else teacher.teach
    change(vectors, [asked["label"]] * len(vectors), looks=looks)
    if catalogue.index.live is not None:
        catalogue.index.live.latest()  # here, so that no search has to wait for it


def _teacher(catalogue: Catalogue) -> Teacher:
    """Return who teaches the run, with the encoder that is open already."""
    return Teacher(RunFolder(catalogue.run), catalogue.index.encoder)


def _list(catalogue: Catalogue, writable: bool) -> dict[str, Any]:
    predictive = catalogue.index.predictive
    if predictive is None:
        return {"writable": False, "classes": []}
    found = _teacher(catalogue).classes()
    classes = [{"name": one.name, "trained": one.trained, "taught": one.taught} for one in found]
    return {"writable": writable, "classes": classes}
