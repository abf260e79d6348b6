"""Search an index over HTTP: ``python -m gedbd.serve index=folder``."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console

from gedbd.configuration.command import command
from gedbd.configuration.renamed_options import refuse_renamed

if TYPE_CHECKING:
    from gedbd.service.connections import ConnectionLimits
    from gedbd.service.index_interface import Index
    from gedbd.service.webhook.receiver import Webhook


@refuse_renamed({"webhook.precision": "webhook.target_precision"})
@command("serve")
def main(cfg: DictConfig) -> None:
    """Opens the index and listens, or does what one event asks for."""
    from gedbd.service.server import check_installed, listen, read_token

    check_installed()
    limits: ConnectionLimits = instantiate(cfg.connections)
    console = Console(soft_wrap=True, highlight=False)
    token = read_token(cfg.token_env, cfg.host, cfg.allow_open or cfg.event is not None)
    index: Index = instantiate(cfg.opened)
    if cfg.event is not None:
        from gedbd.service.webhook.route import run_event

        hook = build_webhook(cfg, index, secret="")
        console.print(run_event(hook, Path(cfg.event), cfg.event_name), markup=False)
        hook.close()
        index.close()
        return
    from gedbd.service.app import create_app

    secret = os.environ.get(cfg.webhook.secret_env)
    webhook = build_webhook(cfg, index, secret) if secret else None
    app = create_app(index, instantiate(cfg.settings, token=token), webhook)
    hooked = f"with a webhook for {cfg.webhook.repository}" if webhook else "without a webhook"
    console.print(f"{index.name}: {len(index):,} reports; http://{cfg.host}:{cfg.port}, {hooked}", markup=False)
    console.print(index.target.statement, markup=False)
    listen(app, cfg.host, cfg.port, limits)


def build_webhook(cfg: DictConfig, index: "Index", secret: str) -> "Webhook":
    """The webhook; it posts comments if there is a token for them."""
    from gedbd.service.webhook.comments import GitHub
    from gedbd.service.webhook.receiver import Webhook

    token = os.environ.get(cfg.webhook.token_env)
    hook = cfg.webhook
    github = GitHub(token, hook.api_url, hook.timeout_s, hook.deadline_s) if token else None
    chosen = hook.target_precision, hook.suggestions, hook.max_waiting
    return Webhook(index, hook.repository, github, secret, *chosen)


if __name__ == "__main__":
    main()
