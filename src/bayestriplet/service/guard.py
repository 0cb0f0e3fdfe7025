"""What stands before every request: who may ask, what browsers may do with the answer, and the log."""

import asyncio
import hashlib
import hmac
import re
import time
from collections.abc import Mapping
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bayestriplet.service.logs import log

COOKIE = "bayestriplet"
SLOWER = 0.2  # seconds that a wrong token waits for every one of the last minute
SLOWEST = 5.0
MINUTE = 60.0
HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^\s\[\]:/@]+)(:\d{1,5})?")
PORTS = {"http": 80, "https": 443}
# Scripts and styles are files of this server, none are inline; pictures may also be made by the page.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def name_of(host: str) -> str:
    """Return a Host header without its port, or nothing for one that is not well formed."""
    found = HOST.fullmatch(host)
    if found is None:
        return ""
    name = found["name"].lower()
    if not name.startswith("["):
        return name
    try:
        return str(IPv6Address(name[1:-1]))
    except ValueError:
        return ""


def is_own_request(headers: Mapping[str, str]) -> bool:
    """Return whether a request is of the service's own page, or of a program that is no browser.

    Pages cannot set these headers themselves. Where a browser says of which site a page is, that
    holds, so that a proxy may call the service by another name; older ones send the origin alone.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site in ("same-origin", "none")
    if origin is None:
        return True
    scheme, _, named = origin.lower().partition("://")
    port = PORTS.get(scheme)
    return port is not None and _with_port(named, port) == _with_port(headers.get("host", "").lower(), port)


def _with_port(host: str, port: int) -> str:
    return host if re.search(r":\d+$", host) else f"{host}:{port}"


class Failures:
    """Makes whoever guesses tokens wait, the longer the more were wrong lately; right ones never wait."""

    def __init__(self) -> None:
        self._moments: list[float] = []

    def note(self, now: float) -> float:
        """Count a wrong token; return the seconds that its answer has to wait."""
        recent = [one for one in self._moments if now - one < MINUTE][-int(SLOWEST / SLOWER) :]
        self._moments = [*recent, now]
        return min(SLOWEST, SLOWER * len(self._moments))


class Guard:
    """Asks for the token where there is one; without one, for an address of this machine.

    The latter keeps web pages of others from reading the service through a name of theirs that
    leads here. What a page of another site sends is refused in any case: that page could not read the
    answer, but the work would be done. The page and the description of the service hold no data and are
    free to see.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self.app, self.token = app, token
        self.failures = Failures()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or turn it away."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            refusal = self._refusal(scope)
            if refusal is not None and refusal.status_code == HTTPStatus.UNAUTHORIZED and _is_guess(scope):
                await asyncio.sleep(self.failures.note(time.monotonic()))
            await (refusal or self.app)(scope, receive, send_on)
        finally:
            took = round(1e3 * (time.perf_counter() - began), 1)
            # The pattern of the address, not the address: ids may be names of patients.
            route = getattr(scope.get("route"), "path", "").replace(":item", "")
            fields = {"method": scope["method"], "route": route, "status": status, "ms": took}
            log.info("request", extra=fields)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self.token is None and not is_loopback(name_of(headers.get("host", ""))):
            return JSONResponse({"message": "this server answers only to localhost"}, HTTPStatus.FORBIDDEN)
        if not scope["path"].startswith("/api/"):
            return None
        if not is_own_request(headers):
            message = "requests that pages of other sites send are not answered"
            return JSONResponse({"message": message}, HTTPStatus.FORBIDDEN)
        if self.token is None or knows_token(headers, self.token):
            return None
        given = "wrong" if "authorization" in headers else "missing"
        return JSONResponse(
            {"message": f"the token is {given}: send it as `Authorization: Bearer TOKEN`"},
            HTTPStatus.UNAUTHORIZED,
            headers={"www-authenticate": "Bearer"},
        )


def _is_guess(scope: Scope) -> bool:
    """Return whether a request names a token or a cookie that stands for one."""
    headers = Headers(scope=scope)
    return "authorization" in headers or COOKIE in cookie_parser(headers.get("cookie", ""))


def knows_token(headers: Headers, token: str) -> bool:
    """Return whether a request proves to know the token, in its header or by the cookie it got for it."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return hmac.compare_digest(given.strip().encode(), token.encode())
    kept = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")  # others' cookies may be odd
    return hmac.compare_digest(kept.encode(), cookie_of(token).encode())


def cookie_of(token: str) -> str:
    """Return what a browser keeps in place of the token."""
    return hmac.new(token.encode(), b"browser session", hashlib.sha256).hexdigest()
