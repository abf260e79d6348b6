"""Serve an index over HTTP: a page, an API and a webhook for GitHub."""

import os

from hydra.utils import instantiate
from omegaconf import DictConfig

from gedbd.configuration.command import command
from gedbd.io.printing import open_console, print_line


@command("serve")
def main(cfg: DictConfig) -> None:
    """Opens the index and listens, or handles one event from a file."""
    from gedbd.service.server import check_installed, listen, read_token

    check_installed()
    from gedbd.service.webhook.assembly import build_webhook, handle_event

    limits = instantiate(cfg.connections)
    console = open_console()
    token = read_token(cfg.token_env, cfg.host, cfg.allow_open or cfg.event is not None)
    index = instantiate(cfg.opened)
    if cfg.event is not None:
        print_line(console, handle_event(cfg.webhook, index, cfg.event, cfg.event_name))
        return
    from gedbd.service.app import create_app

    secret = os.environ.get(cfg.webhook.secret_env)
    webhook = build_webhook(cfg.webhook, index, secret) if secret else None
    app = create_app(index, instantiate(cfg.settings, token=token), webhook, instantiate(cfg.suspects))
    hooked = f"with a webhook for {cfg.webhook.repository}" if webhook else "without a webhook"
    if cfg.webhook.repository and not webhook:
        hooked += f" for {cfg.webhook.repository}, as {cfg.webhook.secret_env} is not set"
    print_line(console, f"{index.name}: {len(index):,} reports; http://{cfg.host}:{cfg.port}, {hooked}")
    for statement in app.state.service.statements:
        print_line(console, statement)
    listen(app, cfg.host, cfg.port, limits)


if __name__ == "__main__":
    main()
