"""What ``gedbd.Index.build`` builds an index with."""

from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig, OmegaConf

from gedbd.api.encoder import AnyEncoder, as_encoder
from gedbd.api.options import default_cache_dir
from gedbd.configuration.saved_options import saved_options
from gedbd.encoders.given import is_given

if TYPE_CHECKING:
    from gedbd.api.backtesting import BacktestResult
    from gedbd.triage.building import IndexModel


def index_model(encoder: AnyEncoder | None, backtest: "BacktestResult | str | Path | None") -> "IndexModel":
    """What an index is built with: encoder, text and backend, and the model of the backtest or the default one."""
    from gedbd.triage.building import IndexModel
    from gedbd.triage.triage_model import default_model

    if backtest is not None:
        return _tested_model(encoder, backtest)
    chosen = as_encoder(encoder or "minilm")
    cfg = OmegaConf.create()
    chosen._put_into(cfg)
    return IndexModel(_sections(cfg), default_model(), chosen._weights, cfg.cache_dir, chosen._given)


def _tested_model(encoder: AnyEncoder | None, backtest: "BacktestResult | str | Path") -> "IndexModel":
    """What an index is built with after a backtest, which brings its encoder unless that is an object in Python."""
    from gedbd.triage.building import IndexModel
    from gedbd.triage.chosen_model import find_backtest

    given = None if encoder is None else as_encoder(encoder)._given
    if isinstance(backtest, str | Path):
        cfg, matching, weights = find_backtest(Path(backtest))
    else:
        cfg = OmegaConf.create(saved_options(backtest._cfg))
        matching = backtest._measured.backtest.matching
        weights = backtest.encoder._weights
        given = given or (backtest.encoder._given if encoder is None else None)
    if is_given(cfg.encoder):
        if given is None:
            raise ValueError(f"the backtest used {cfg.encoder.name}, an object in Python: give it as encoder=")
        given.check(cfg.encoder, "the backtest")
    elif encoder is not None:
        raise ValueError("the backtest sets the encoder: leave out encoder= or backtest=")
    return IndexModel(_sections(cfg), matching, weights, default_cache_dir(), given)


def _sections(cfg: DictConfig) -> DictConfig:
    """The sections that an index stores."""
    return OmegaConf.create({name: cfg[name] for name in ("encoder", "text", "backend")})
