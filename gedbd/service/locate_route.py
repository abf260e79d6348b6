"""The route that finds suspect commits, where a repository is configured."""

from fastapi import APIRouter, HTTPException

from gedbd.service.locate_schemas import LocateRequest, LocateResponse, locate_response
from gedbd.service.routes import ERROR_RESPONSES, ServiceDependency
from gedbd.service.suspects import RepositoryError

locate_router = APIRouter(responses=ERROR_RESPONSES)


@locate_router.post("/api/locate")
async def locate(query: LocateRequest, service: ServiceDependency) -> LocateResponse:
    """Finds the commits that may have induced the bug of a report, the most suspect first, with matching lines."""
    finder = service.suspects
    assert finder is not None  # the route is there only with a repository
    try:
        found = await service.searches.run(finder.find, query.to_report(), query.top_k)
    except RepositoryError as problem:
        raise HTTPException(503, str(problem), {"Retry-After": "5"}) from problem
    return locate_response(found, finder.statement)
