"""The page on which reports are compared, and the description of the service: read once, then sent from memory."""

from mimetypes import guess_type
from pathlib import Path

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader

PAGE_DIR = Path(__file__).parent / "page"
FILES = {path.name: path.read_bytes() for path in PAGE_DIR.iterdir() if path.is_file()}
DESCRIPTION = Environment(loader=FileSystemLoader(PAGE_DIR.parent), autoescape=True).get_template("docs.html.j2")

pages_router = APIRouter(include_in_schema=False)


@pages_router.api_route("/", methods=["GET", "HEAD"])
async def page() -> Response:
    """The page."""
    return page_file("index.html")


@pages_router.api_route("/page/{name}", methods=["GET", "HEAD"])
async def page_part(name: str) -> Response:
    """Scripts, style and icon of the page."""
    return page_file(name)


@pages_router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """All of this, for reading: a page without scripts, from the same description as ``/openapi.json``."""
    return HTMLResponse(DESCRIPTION.render(schema=request.app.openapi()))


def page_file(name: str) -> Response:
    """A file of the page. Raises HTTPException if there is none of that name."""
    if name not in FILES:
        raise HTTPException(404, "there is no such file")
    return Response(FILES[name], media_type=guess_type(name)[0])
