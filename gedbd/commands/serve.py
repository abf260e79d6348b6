"""Serve an index over HTTP: a web page, an API and a webhook for GitHub."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from gedbd.configuration.command import command
from gedbd.io.console import open_console, print_line
from gedbd.io.locks import sole_process

if TYPE_CHECKING:
    from gedbd.service.server import ConnectionLimits
    from gedbd.triage.stored_index import StoredIndex


LOCK_FILE = "serve.lock"


@command("serve")
def main(cfg: DictConfig) -> None:
    """Opens the index and listens, or handles one event from a file."""
    from gedbd.service.server import check_address, check_installed, check_proxy, read_secret, read_token

    check_installed()
    limits = instantiate(cfg.connections)
    token = read_token(cfg.token_env, cfg.host, cfg.allow_open or cfg.event is not None)
    if cfg.event is None:
        check_proxy(cfg.host, cfg.proxy)
        check_address(cfg.host, cfg.port)
    secret = None if cfg.event is not None else read_secret(cfg.webhook.secret_env)
    folder = Path(service_folder(cfg))
    # Two processes would post comments twice, and an older event could overwrite a later one.
    with sole_process(folder / LOCK_FILE, f"index={folder} is served") if folder.is_dir() else nullcontext():
        serve(cfg, limits, token, secret)


def service_folder(cfg: DictConfig) -> str:
    """The folder of the index, or of feedback and deliveries for an index on a server."""
    return "." if cfg.store and OmegaConf.is_missing(cfg, "index") else str(cfg.index)


def serve(cfg: DictConfig, limits: "ConnectionLimits", token: str | None, secret: str | None) -> None:
    """Opens the index and serves it, or handles one event; the caller holds the lock."""
    from gedbd.service.server import listen
    from gedbd.service.webhook import IN_AN_ACTION, append_summary, build_webhook, run_event

    console = open_console()
    shared = {"url": cfg.store, "folder": service_folder(cfg)} if cfg.store else {}
    index: StoredIndex = instantiate(cfg.opened, **shared)
    if cfg.event is not None:
        receiver = build_webhook(cfg.webhook, index, secret="")
        result = run_event(receiver, Path(cfg.event), cfg.event_name)
        print_line(console, result)
        if receiver.how_to_write(IN_AN_ACTION):
            print_line(console, receiver.how_to_write(IN_AN_ACTION))
        if cfg.summary:
            append_summary(Path(cfg.summary), receiver, result)
        receiver.close()
        index.close()
        return
    from gedbd.service.app import create_app

    webhook = build_webhook(cfg.webhook, index, secret) if secret else None
    app = create_app(index, instantiate(cfg.settings, token=token), webhook, instantiate(cfg.suspects))
    webhook_text = f"with a webhook for {cfg.webhook.repository}" if webhook else "without a webhook"
    if cfg.webhook.repository and not webhook:
        webhook_text += f" for {cfg.webhook.repository}, as {cfg.webhook.secret_env} is not set"
    print_line(console, f"{index.name}: {len(index):,} reports; http://{cfg.host}:{cfg.port}, {webhook_text}")
    for statement in app.state.service.statements:
        print_line(console, statement)
    if webhook and webhook.how_to_write():
        print_line(console, webhook.how_to_write())
    listen(app, cfg.host, cfg.port, limits)
