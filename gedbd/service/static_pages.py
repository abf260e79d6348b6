"""The page for triagers and the API documentation, served from memory."""

from mimetypes import guess_type
from pathlib import Path

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader

PAGE_DIR = Path(__file__).parent / "page"
# Read once: no request ever names a path on disk.
FILES = {path.name: path.read_bytes() for path in PAGE_DIR.iterdir() if path.is_file()}
DOCUMENTATION = Environment(loader=FileSystemLoader(PAGE_DIR.parent), autoescape=True).get_template("docs.html.j2")

pages_router = APIRouter(include_in_schema=False)


@pages_router.api_route("/", methods=["GET", "HEAD"])
async def page() -> Response:
    """The page for triagers."""
    return page_file("index.html")


@pages_router.api_route("/page/{name}", methods=["GET", "HEAD"])
async def page_part(name: str) -> Response:
    """Scripts, style sheet and icon of the page."""
    return page_file(name)


@pages_router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """The API documentation: a page without scripts, made from the same schema as ``/openapi.json``."""
    return HTMLResponse(DOCUMENTATION.render(schema=request.app.openapi()))


def page_file(name: str) -> Response:
    """A file of the page. Raises HTTPException if there is none of that name."""
    if name not in FILES:
        raise HTTPException(404, "there is no such file")
    return Response(FILES[name], media_type=guess_type(name)[0])
