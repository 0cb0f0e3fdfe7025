"""The files of the page, read once: nothing else on the disk can be asked for."""

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response

from bayestriplet.errors import MissingDependencyError

TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
NAMES = (
    "page.html", "docs.html", "page.css", "plot.css", "docs.js", "icon.svg",
    "page.js", "server.js", "results.js", "map.js", "link.js", "element.js", "groups.js",
    "pictures.js", "teach.js", "enlarge.js", "download.js",
)  # fmt: skip


@dataclass(frozen=True)
class PageFile:
    """A file with its compressed form and a digest that changes with it."""

    content: bytes
    packed: bytes
    digest: str
    kind: str

    @classmethod
    def read(cls, file: Traversable) -> "PageFile":
        """Read a file of text."""
        content = file.read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:16]
        return cls(content, gzip.compress(content, 6), digest, TYPES[file.name.rpartition(".")[2]])

    def response(self, request: Request) -> Response:
        """Return the file, or that the browser has it already."""
        headers = {"etag": f'"{self.digest}"', "cache-control": "no-cache", "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        packed = "gzip" in request.headers.get("accept-encoding", "")
        if packed:
            headers["content-encoding"] = "gzip"
        kind = f"{self.kind}; charset=utf-8"
        return Response(self.packed if packed else self.content, headers=headers, media_type=kind)


@cache
def page_files() -> dict[str, PageFile]:
    """Return every file of the page by name; plotly.js comes with its Python package."""
    folder = files("bayestriplet.service") / "static"
    static = {name: PageFile.read(folder / name) for name in NAMES}
    try:
        plotly = files("plotly") / "package_data" / "plotly.min.js"
        return {**static, "plotly.js": PageFile.read(plotly)}
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise MissingDependencyError("the page needs plotly: pip install 'bayestriplet[serve]'") from error
