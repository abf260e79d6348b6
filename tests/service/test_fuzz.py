"""Requests made up from the description of the service: none may make it fail."""

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, settings
from small_index import SmallIndex

from gedbd.service.app import create_app
from gedbd.service.routes import router
from gedbd.service.webhook import Webhook, webhook_router

BARE = FastAPI()
BARE.include_router(router)
BARE.include_router(webhook_router)
SCHEMA = schemathesis.openapi.from_dict(BARE.openapi())


@pytest.fixture(scope="module")
def home(listening, tmp_path_factory) -> str:
    index = SmallIndex(tmp_path_factory.mktemp("index"))
    port = listening(create_app(index, webhook=Webhook(index, "ann/mail", None, "a secret")))
    return f"http://127.0.0.1:{port}"


@SCHEMA.parametrize()
@settings(max_examples=20, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_no_request_makes_the_service_fail(case, home):
    answer = case.call(base_url=home)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400 and answer.content:
        assert set(answer.json()) == {"detail"}
