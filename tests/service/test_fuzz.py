"""Requests made up from the description of the service: none may make it fail."""

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, settings

from gedbd.service.app import create_app
from gedbd.service.routes import router
from gedbd.service.webhook.receiver import Webhook
from gedbd.service.webhook.route import webhook_router

BARE = FastAPI()
BARE.include_router(router)
BARE.include_router(webhook_router)
SCHEMA = schemathesis.openapi.from_dict(BARE.openapi())


@pytest.fixture(scope="module")
def home(listening, stored_index) -> str:
    port = listening(create_app(stored_index, webhook=Webhook(stored_index, "ann/mail", None, "a secret")))
    return f"http://127.0.0.1:{port}"


@SCHEMA.parametrize()
@settings(max_examples=8, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_no_request_makes_the_service_fail(case, home):
    answer = case.call(base_url=home)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400 and answer.content:
        assert set(answer.json()) == {"detail"}
