"""Builds the webhook from its section of the configuration."""

import os
from pathlib import Path
from typing import Any

from gedbd.service.index_interface import Index
from gedbd.service.webhook.comments import GitHub
from gedbd.service.webhook.receiver import Webhook


def build_webhook(options: Any, index: Index, secret: str) -> Webhook:
    """The webhook; it posts comments if the environment holds a token for them.

    Args:
        options: The section ``webhook`` of ``conf/serve.yaml``.
        index: The index that events change and search.
        secret: Signs GitHub's events.
    """
    token = os.environ.get(options.token_env)
    github = GitHub(token, options.api_url, options.timeout_s, options.deadline_s) if token else None
    return Webhook(
        index,
        options.repository,
        github,
        secret,
        options.target_precision,
        options.suggestions,
        options.max_waiting,
    )


def handle_event(options: Any, index: Index, file: str, kind: str) -> str:
    """Handles one event without a server, closes the index, and says what was done.

    Args:
        options: See ``build_webhook``.
        index: See ``build_webhook``.
        file: A JSON file with the event's payload.
        kind: What GitHub calls the event, such as ``issues``.
    """
    from gedbd.service.webhook.route import run_event

    webhook = build_webhook(options, index, secret="")
    said = run_event(webhook, Path(file), kind)
    webhook.close()
    index.close()
    return said
