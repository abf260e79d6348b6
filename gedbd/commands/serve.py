"""Serve an index over HTTP: a web page, an API and a webhook for GitHub."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from gedbd.configuration.command import command
from gedbd.io.console import open_console, print_line
from gedbd.io.locks import sole_process
from gedbd.service import server

if TYPE_CHECKING:
    from gedbd.triage.stored_index import StoredIndex

LOCK_FILE = "serve.lock"


@command("serve")
def main(cfg: DictConfig) -> None:
    """Opens the index and listens, or handles one event from a file."""
    server.check_installed()
    limits = instantiate(cfg.connections)
    token = server.read_token(cfg.token_env, cfg.host, cfg.allow_open or cfg.event is not None)
    if cfg.event is None:
        server.check_proxy(cfg.host, cfg.proxy)
        server.check_address(cfg.host, cfg.port)
    secret = server.read_secret(cfg.webhook.secret_env) if cfg.event is None else ""
    if secret is not None:
        server.check_repository(cfg.webhook.repository)
    # The folder of the index, or of feedback and deliveries for an index on a server.
    folder = Path("." if cfg.store and OmegaConf.is_missing(cfg, "index") else cfg.index)
    # Two processes would post comments twice, and an older event could overwrite a later one.
    with sole_process(folder / LOCK_FILE, f"index={folder} is served") if folder.is_dir() else nullcontext():
        serve(cfg, folder, limits, token, secret)


def serve(
    cfg: DictConfig, folder: Path, limits: server.ConnectionLimits, token: str | None, secret: str | None
) -> None:
    """Opens the index and serves it, or handles one event; the caller holds the lock."""
    from gedbd.service.webhook import IN_AN_ACTION, append_summary, build_webhook, run_event

    console = open_console()
    index: StoredIndex = instantiate(cfg.opened, **({"url": cfg.store, "folder": str(folder)} if cfg.store else {}))
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
    server.listen(app, cfg.host, cfg.port, limits)
