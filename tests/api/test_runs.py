"""The encoder of a training run in the API: the numbers of the commands with run=."""

import numpy as np
import pandas as pd
import pytest

import gedbd


@pytest.mark.slow
def test_a_trained_encoder_ranks_and_searches_as_by_commands(command, demo):
    smoke = ["encoder=tiny", "trainer=smoke", "graph=none", "ranking.parts=[]", "hydra.run.dir=training"]
    command("train", *smoke)
    command("baseline", "name=frozen", "run=training", "hydra.run.dir=frozen")
    encoder = gedbd.Encoder("training")
    result = gedbd.rank(demo, "frozen", encoder=encoder)
    stored = pd.read_parquet("frozen/queries.parquet")
    assert list(result.queries["rank"]) == list(stored["rank"])
    assert encoder.encode(["Crash"]).shape == (1, 16)  # projected, as it is trained
    tested = gedbd.backtest(demo, "training", options=["max_replayed=40", "ranker.kind=linear"])
    tested.save("tested")
    command("index", "run=tested", "out=stored")
    with gedbd.Index.build(demo, "stored", backtest=tested) as index:
        assert index.changes.unchanged == len(demo)
        _, vectors = index._stored.vectors()
    texts = (demo.reports["title"] + "\n" + demo.reports["description"]).str.strip()
    np.testing.assert_allclose(encoder.encode(list(texts[-3:]), kind="query"), vectors[-3:], atol=1e-5)
    with pytest.raises(ValueError, match=r"^run=training was trained with split=.*: set the same value$"):
        gedbd.rank(demo, "frozen", encoder=encoder, options=["split.test_from=0.7"])
    with pytest.raises(ValueError, match=r"^run=training: the corpus demo has changed since the run was trained$"):
        gedbd.rank(gedbd.load_corpus("demo", last_n=400), "frozen", encoder=encoder)
    with pytest.raises(ValueError, match=r"^run=training: there is no refit.ckpt in its checkpoints$"):
        gedbd.Encoder("training", checkpoint="refit")
