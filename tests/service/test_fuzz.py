"""Requests made up from the description of the service: none may make it fail."""

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from small_repository import make_repository

from gedbd.service.app import create_app, locate_router, public_router, router
from gedbd.service.suspects import open_suspects
from gedbd.service.webhook import Webhook, webhook_router

pytestmark = pytest.mark.slow

BARE = FastAPI()
BARE.include_router(router)
BARE.include_router(public_router)
BARE.include_router(locate_router)
BARE.include_router(webhook_router)
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
SCHEMA = schemathesis.openapi.from_dict(BARE.openapi())


@pytest.fixture(scope="module")
def home(listening, stored_index, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("repository")
    make_repository(folder / "project.git", 2)
    suspects = open_suspects(str(folder / "project.git"), None, str(folder / "cache"))
    webhook = Webhook(stored_index, "ann/mail", None, "a secret")
    port = listening(create_app(stored_index, webhook=webhook, suspects=suspects))
    return f"http://127.0.0.1:{port}"


@SCHEMA.parametrize()
@settings(max_examples=8, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_no_request_makes_the_service_fail(case, home):
    answer = case.call(base_url=home)
    case.validate_response(answer, checks=list(CHECKS))
    if answer.status_code >= 400 and answer.content:
        assert set(answer.json()) == {"detail"}


def test_the_token_is_asked_for_where_the_description_says_so(client_of):
    client = client_of(token="secret")
    paths = client.get("/openapi.json", headers={"Authorization": "Bearer secret"}).json()["paths"]
    asks, says = set(), set()
    for path, methods in paths.items():
        for method, described in methods.items():
            if client.request(method, path.replace("{issue_id}", "1")).status_code == 401:
                asks.add((method, path))
            if described.get("security"):
                says.add((method, path))
    assert asks == says
    assert ("get", "/api/health") not in says
