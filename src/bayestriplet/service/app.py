"""The service's addresses."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.convertors import register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from bayestriplet import __version__
from bayestriplet.data.bounds import MAX_PIXELS
from bayestriplet.data.thumbnails import picture_type
from bayestriplet.errors import BayesTripletError
from bayestriplet.retrieval.index import MOST
from bayestriplet.retrieval.items import Stored
from bayestriplet.service.catalogue import GLANCE, Catalogue, PlacedReply
from bayestriplet.service.described import ERRORS, FORM_ERRORS, PICTURE_ERRORS, SENDER
from bayestriplet.service.guard import COOKIE, Guard, cookie_of
from bayestriplet.service.item_ids import ItemConvertor
from bayestriplet.service.models import (
    SEARCH_FORM,
    Health,
    Info,
    ItemAnswer,
    Map,
    SearchAnswer,
)  # fmt: skip
from bayestriplet.service.pages import page_files
from bayestriplet.service.pictures import read_picture
from bayestriplet.service.refusals import RefusalError, refuse
from bayestriplet.service.service import FEW, Service
from bayestriplet.service.teaching import add_teaching
from bayestriplet.service.uploads import MOST_BYTES, read_search, write_replay

MOST_GROUPS = 1000  # whose names are sent


def make_app(
    catalogue: Catalogue, token: str | None = None, service: Service | None = None, read_only: bool = True
) -> ASGIApp:
    """Return the whole service as an application for any ASGI server."""
    register_url_convertor("item", ItemConvertor())
    service = service or Service(catalogue)
    pages = page_files()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        service.close()

    app = FastAPI(
        title="bayestriplet", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan,
        description="Search the indexed images of a run by image.",
    )  # fmt: skip
    for kind in (Exception, RefusalError, BayesTripletError, HTTPException, ClientDisconnect):
        app.add_exception_handler(kind, refuse)
    app.add_exception_handler(RequestValidationError, _refuse_parameter)
    _add_pages(app, pages)
    _add_api(app, service, token)
    add_teaching(app, service, read_only)
    return Guard(app, token)


async def _refuse_parameter(_: Request, error: Exception) -> Response:
    problem = error.errors()[0] if isinstance(error, RequestValidationError) else {"loc": (), "msg": ""}
    return JSONResponse({"message": f"{'/'.join(map(str, problem['loc'][1:]))}: {problem['msg']}"}, 422)


def _add_pages(app: FastAPI, pages: dict[str, Any]) -> None:
    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        return pages["page.html"].response(request)

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        return pages["docs.html"].response(request)

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str, request: Request) -> Response:
        if name not in pages:
            raise HTTPException(404)
        return pages[name].response(request)


def _add_api(app: FastAPI, service: Service, token: str | None) -> None:
    catalogue = service.catalogue

    @app.get("/healthz", response_model=Health, summary="Whether the server is there")
    async def healthz() -> Response:
        return JSONResponse({"status": "ok"})

    @app.post("/api/session", status_code=204, responses=SENDER, summary="Get the page's cookie")
    async def session() -> Response:
        response = Response(status_code=204)
        if token is not None:
            response.set_cookie(COOKIE, cookie_of(token), httponly=True, samesite="strict")
        return response

    @app.get("/api/info", response_model=Info, responses=ERRORS, summary="What is served")
    async def info() -> Response:
        return await service.render(_describe, catalogue)

    @app.get("/api/map", response_model=Map, responses=ERRORS, summary="Places of items in the plane")
    async def places() -> Response:
        return await service.render(_draw, catalogue)

    @app.post(
        "/api/search", response_model=SearchAnswer, summary="The items nearest to an image or an item",
        responses={**ERRORS, **FORM_ERRORS}, openapi_extra={"requestBody": SEARCH_FORM},
    )  # fmt: skip
    async def search(request: Request) -> Response:
        with service.held.upload() as add:
            asked = await read_search(request, add)
            placed, thumbnail = await service.search(asked, request.is_disconnected)
        if len(placed.reply.answer.neighbours) > FEW:
            return await service.render(_to_json, placed, thumbnail)
        return JSONResponse(_to_json(placed, thumbnail))

    @app.get(
        "/api/items/{id:item}/image", responses={**ERRORS, **PICTURE_ERRORS}, summary="The picture of an item"
    )
    async def image(
        id: str,  # noqa: A002
        request: Request,
        thumbnail: bool = Query(False, description="The small picture that the index keeps."),
    ) -> Response:
        stored: Stored = await service.items.ask(id)
        etag = f'"{stored.item.hash}{"-small" * thumbnail}"'
        headers = {"etag": etag, "cache-control": "private, no-cache"}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        if thumbnail or not stored.item.path:
            content = await service.thumbnails.ask(id)
        else:
            content = await service.call(read_picture, stored.item, catalogue.index.encoder)
        if not content:
            raise RefusalError(HTTPStatus.NOT_FOUND, f"{id[:200]} is a vector, which has no picture")
        return Response(content, headers=headers, media_type=picture_type(content))

    @app.get("/api/items/{id:item}", response_model=ItemAnswer, responses=ERRORS, summary="An indexed item")
    async def item(id: str) -> Response:  # noqa: A002
        stored: Stored = await service.items.ask(id)
        edition = await service.glance(catalogue.edition)
        fields = stored.item._asdict()
        del fields["hash"]
        return JSONResponse({**fields, "index": edition.version})


def _describe(catalogue: Catalogue) -> dict[str, Any]:
    edition = catalogue.edition(GLANCE)
    encoder, predictive = edition.index.encoder, edition.index.predictive
    return {
        "run": catalogue.run.resolve().name,
        "version": __version__,
        "index": edition.version,
        "items": edition.items,
        "search": edition.how,
        "labels": dict(sorted(edition.labels.items())),
        "groups": edition.groups[:MOST_GROUPS],
        "group_count": len(edition.groups),
        "classes": list(encoder.classes if predictive is None else predictive.classes),
        "size": encoder.size,
        "channels": encoder.channels,
        "dim": encoder.dim,
        "needs": encoder.info.needs,
        "pictures": not encoder.info.inputs,
        "examples": [{"id": one.id, "label": one.label} for one in edition.examples],
        "most_neighbours": MOST,
        "most_bytes": MOST_BYTES,
        "most_pixels": MAX_PIXELS,
    }


def _draw(catalogue: Catalogue) -> dict[str, Any]:
    edition, places = catalogue.edition(GLANCE), catalogue.places()
    return {
        "index": edition.version,
        "way": "pca" if places is None else places.way,
        "pending": catalogue.maps.is_working,
        "total": edition.items,
        "ids": [] if places is None else list(places.ids),
        "labels": [] if places is None else list(places.labels),
        "x": [] if places is None else places.points[:, 0].tolist(),
        "y": [] if places is None else places.points[:, 1].tolist(),
    }


def _to_json(placed: PlacedReply, thumbnail: bytes | None) -> dict[str, Any]:
    reply = placed.reply
    return {
        **reply.answer.to_json(),
        "unlike": reply.answer.is_unlike,
        "place": placed.place,
        "index": placed.version,
        "replay": write_replay(reply.vector, reply.hash, reply.looks),
        "thumbnail": None if thumbnail is None else base64.b64encode(thumbnail).decode(),
    }
