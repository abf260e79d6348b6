"""What each page of the manual needs for its commands to run in a test, and the lines that no test runs."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import prepared_files as prepared
from manual_lines import ROOT

# Results lie in the folders that the manual names after the encoder, outputs/demo/minilm.
TINY = "encoder=tiny encoder.name=minilm"
SHORT = f"{TINY} trainer=smoke"
SHORT_DDP = f"{TINY} trainer.accelerator=cpu trainer.max_epochs=1 ++trainer.limit_train_batches=2"
SHORT_HMCBL = (
    "encoder=tiny batch_size=4 trainer.max_epochs=1 task.model.val_candidates=10 task.model.report_tokens=12"
    " task.model.comment_tokens=6 task.model.code_tokens=12 task.model.settings.num_layers=2"
    " task.model.settings.projector_hidden=8 task.model.settings.dim=8 task.model.settings.bank_size=32"
)
SMALL_ROBERTA = "encoder=roberta encoder.model=small-roberta encoder.max_tokens=32"
SMALL_CODE = (
    "encoder.layers=1 encoder.hidden=16 encoder.heads=2 encoder.intermediate=16 encoder.vocab_size=400 batch_size=8"
)
SHORT_TABLE3 = (
    f"{SHORT_HMCBL.removeprefix('encoder=tiny ')} {SMALL_CODE.removesuffix(' batch_size=8')} encoder.layers=2"
    " +task.pretraining.options.trainer.max_epochs=1"
)


class Scenario(NamedTuple):
    """How the commands of a page run.

    Attributes:
        files: Write the files that the commands read.
        before: Commands that the page takes as done.
        by_hand: By a line of the page: a command in place of what a person does before it.
        options: By the beginning of a line: options that are added to it; they replace those of the same name.
        quick: Whether the page is part of ``make integration``, not of the slow tests.
    """

    files: tuple[Callable[[Path], None], ...] = ()
    before: tuple[str, ...] = ()
    by_hand: dict[str, str] = {}
    options: dict[str, str] = {}
    quick: bool = False


SCENARIOS = {
    "README.md": Scenario(
        files=(prepared.issues_json,),
        before=("gedbd baseline name=bm25 dataset=demo",),
        options={
            "gedbd backtest": "encoder=tiny",
            "gedbd serve": "port=0",
            "gedbd train": SHORT,
            "gedbd baseline": TINY,
        },
    ),
    "docs/index.md": Scenario(
        files=(prepared.bugs_csv,),
        options={"gedbd train": SHORT, "gedbd backtest": "encoder=tiny"},
        quick=True,
    ),
    "docs/guides/tracker.md": Scenario(
        files=(prepared.issues_json, prepared.pages, prepared.bugs_csv, prepared.report_txt),
        options={
            "gedbd backtest": "encoder=tiny",
            "gedbd index dataset=csv": "encoder=tiny",
            "gedbd serve": "port=0",
            "gedbd train experiment=best": f"{TINY} trainer.max_epochs=1 trainer.accelerator=cpu",
            "gedbd search index=my-index file=report.txt": "component=compose",  # of the demo corpus
        },
    ),
    "docs/guides/csv.md": Scenario(
        files=(prepared.bugs_csv, prepared.issues_json, partial(prepared.files_of, "docs/guides/csv.md")),
    ),
    "docs/guides/suggestions.md": Scenario(
        files=(prepared.issues_json,),
        by_hand={
            # A person fills in the table of suggestions.
            "gedbd judge run=outputs/TRACKER/backtest/RUN": (
                "sed -i 's/^,no/reject,no/' outputs/TRACKER/backtest/RUN/to_judge.csv"
            ),
        },
        options={"gedbd backtest": "encoder=tiny"},
        quick=True,
    ),
    "docs/guides/serving.md": Scenario(
        files=(prepared.feedback,),
        before=("gedbd index dataset=demo out=my-index",),
        options={
            "gedbd index": "encoder=tiny",
            "gedbd serve": "port=0",
            "gedbd train": SHORT,
        },
    ),
    "docs/guides/github.md": Scenario(
        before=("gedbd index dataset=demo out=my-index",),
        options={"gedbd index": "encoder=tiny", "gedbd serve": "port=0"},
    ),
    "docs/guides/agents.md": Scenario(
        before=("gedbd index dataset=demo out=my-index",), options={"gedbd index": "encoder=tiny"}, quick=True
    ),
    "docs/guides/backlog.md": Scenario(
        before=("gedbd index dataset=demo out=my-index", "gedbd clusters index=my-index threshold=0.01 json=true"),
        by_hand={
            # A person gives a verdict on the page and downloads the file.
            "gedbd clusters index=my-index file=judgements.csv": (
                "printf 'report,suggested,verdict,date\\n2603,2548,reject,\\n' > judgements.csv"
            ),
        },
        options={"gedbd index": "encoder=tiny"},
        quick=True,
    ),
    "docs/guides/localization.md": Scenario(files=(prepared.repository,), quick=True),
    "docs/guides/training.md": Scenario(
        files=(
            *(prepared.issues_json, prepared.bugs_csv, prepared.small_encoder),
            partial(prepared.files_of, "docs/guides/training.md"),
        ),
        before=("gedbd baseline name=bm25 dataset=demo", "gedbd baseline name=fusion dataset=demo"),
        options={
            "gedbd train": SHORT,
            # These and runs of several seeds lie apart from the single run that later lines name.
            "gedbd train encoder=roberta": f"dataset=demo {SMALL_ROBERTA} hydra.run.dir=outputs/roberta",
            "gedbd train pairs=grouped": "dataset=demo hydra.run.dir=outputs/grouped",
            "gedbd train -m fusion.lambda_text=0.3,0.5,0.7": "graph.pca_dim=5",
            "gedbd train -m hydra/sweeper=optuna": "hydra.sweeper.n_trials=2",
            "gedbd train pairs=pk": "encoder.max_tokens=128",
            "gedbd train seeds=5 split=fold": "hydra.run.dir=outputs/folds",
            "gedbd train experiment=supcon_paper": "dataset=demo encoder.max_tokens=128",
            "gedbd baseline name=bm25": TINY,
            "gedbd baseline name=fusion dataset=demo": TINY,
            "gedbd baseline name=boosted": TINY,
            "gedbd baseline name=boosted cross=trained": "cross.max_queries=40 cross.depth=5",
        },
    ),
    "docs/concepts/module_and_data_module.md": Scenario(options={"gedbd train": TINY}),
    "docs/guides/encoders.md": Scenario(
        files=(prepared.bugs_csv, prepared.small_encoder),
        options={
            "gedbd baseline": "encoder.model=small-roberta encoder.max_tokens=32",
            "gedbd train": "encoder.model=small-roberta encoder.max_tokens=32 trainer=smoke",
        },
    ),
    "docs/guides/papers.md": Scenario(
        files=(prepared.small_encoder,),
        options={
            "gedbd train": SHORT,
            "gedbd train experiment=paper_code": f"dataset=demo {SMALL_ROBERTA}",
            "gedbd train experiment=sensitivity": "seeds=1",
        },
    ),
    "docs/guides/wandb.md": Scenario(
        options={"gedbd train": SHORT, "gedbd dashboard project=gedbd": "out=dashboard.json"},
    ),
    "docs/guides/gpu.md": Scenario(
        options={"torchrun": SHORT_DDP},
    ),
    "docs/guides/screenshots.md": Scenario(
        files=(prepared.screenshots,),
        options={
            "gedbd caption dataset=csv dataset.path=bugs.csv captioner=smolvlm": "captioner=tiny",
            "gedbd train": f"{SHORT} encoder.max_tokens=128",  # fields and their markers need more than the 32 of tiny
        },
    ),
    "docs/guides/export.md": Scenario(
        files=(prepared.bugs_csv,),
        before=("gedbd train",),
        options={"gedbd train": SHORT, "gedbd encode dataset=csv": TINY},
    ),
    "docs/guides/questions.md": Scenario(
        files=(prepared.stack_exchange, prepared.reports_csv),
        options={"gedbd": "encoder=tiny", "gedbd train task=questions": "trainer.max_epochs=2"},
    ),
    "docs/guides/code.md": Scenario(
        files=(prepared.repository, prepared.java_sources, prepared.changes),
        options={
            "gedbd train task=pretraining": f"{SMALL_CODE} trainer=smoke",
            "gedbd train task=localization": SHORT_HMCBL,
            "gedbd train experiment=locate_tables24": "encoder=tiny",
            "gedbd train experiment=locate_table3": SHORT_TABLE3,
            "gedbd train experiment=locate_authors": SHORT_HMCBL,
            "gedbd train experiment=locate_ablation": SHORT_HMCBL,
        },
    ),
}
WALK_THROUGHS = sorted((ROOT / "docs" / "contributing").glob("add_*.md"))
SCENARIOS |= {
    page: Scenario(files=(partial(prepared.files_of, page),), quick=page.endswith("add_dataset.md"))
    for page in (path.relative_to(ROOT).as_posix() for path in WALK_THROUGHS)
}


NOT_RUN = {
    "sets up an environment, which the tests run in": (
        "make install",
        "make paper DRY=1",
        "make install && source .venv/bin/activate",
        ". .venv/bin/activate",
        "pip install dist/gedbd-*.whl",
        "pipx install dist/gedbd-*.whl",
        "uv pip install --constraint constraints.txt dist/gedbd-*.whl",
        "uvx --constraints constraints.txt --from dist/gedbd-*.whl gedbd --help",
        "pip install 'gedbd[serve]'",
        "pip install 'gedbd[mcp]'",
        "pip install 'gedbd[export]'",
        "pip install 'gedbd[postgres]'",
    ),
    "runs these tests and the checks beside them": (
        "make test",
        "make integration",
        "make test-all",
        "make slow",
        "make attack",
        "make check",
    ),
    "needs the network: to download the project's code or its build tools": (
        "git clone https://github.com/OWNER/gedbd && cd gedbd",
        "make dist",
    ),
    "needs the network: asks a tracker; fetching is tested against a local server": (
        "gh issue list --state all --limit 10000 --json number,title,body,createdAt,updatedAt,closedAt,url,labels,"
        "state,stateReason,comments > issues.json",
        "gedbd fetch tracker=github project=owner/repo out=folder",
        "gedbd sync index=my-index tracker=github project=owner/repo",
    ),
    "needs the network: downloads a corpus": ("gedbd download dataset=eclipse",),
    "needs the network: downloads an encoder, which the second line trains": (
        "python benchmarks/mpnet.py mpnet",
        "gedbd train dataset=csv dataset.path=bugs.csv encoder=mpnet encoder.model=mpnet",
    ),
    "needs a checkout; a test estimates all rows of the page's table": (
        "python benchmarks/estimate.py encoder=roberta dataset=eclipse trainer=a100",
    ),
    "needs a GPU, weights and both corpora; a test runs this sweep with tiny encoders and made-up reports": (
        'make paper ARGS="matmul_precision=high"',
    ),
    "needs Docker": (
        "docker build -t gedbd .",
        "docker run --rm gedbd --help",
        'docker run -v "$PWD/my-index:/data/my-index" -p 127.0.0.1:8080:8080 -e GEDBD_TOKEN gedbd serve index=my-index'
        " host=0.0.0.0 proxy=true",
    ),
    "names a service outside of this machine; the tests set the same variables to a local one": (
        "export OPENAI_BASE_URL=https://api.openai.com/v1 OPENAI_API_KEY=...",
    ),
    "needs a PostgreSQL server; the tests in tests/triage/storage start one and run these commands": (
        "gedbd index store=postgresql://user@host/database run=outputs/TRACKER/backtest/RUN",
        "gedbd search store=postgresql://user@host/database file=report.txt",
        "gedbd serve store=postgresql://user@host/database index=my-service",
    ),
    "needs several machines": (
        "torchrun --nnodes=2 --node-rank=0 --master-addr=node0 --master-port=29500 --nproc-per-node=8 -m gedbd.train"
        " trainer=ddp",
        "srun python -m gedbd.train trainer=ddp trainer.num_nodes=2 trainer.devices=4",
        "gedbd encode dataset.path=bugs.csv out=vectors.npz backend=ray backend.workers=16 backend.address=auto",
    ),
    "needs the Hugging Face hub; uploading and loading are tested with a server on this machine": (
        "export HF_TOKEN=...",
        "gedbd export run=outputs/demo/minilm/RUN to=hub repo=OWNER/NAME license=apache-2.0",
        "gedbd encode dataset=csv dataset.path=bugs.csv out=vectors.npz encoder.model=OWNER/NAME",
    ),
}
REASONS = {line: reason for reason, lines in NOT_RUN.items() for line in lines}
