"""The lines of the manual that no test runs, by the reason."""

NOT_RUN = {
    "sets up an environment, which the tests run in": (
        "make install",
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
        "gedbd encode dataset=csv dataset.path=bugs.csv out=vectors.npz encoder.model=OWNER/NAME"
        " encoder.max_tokens=128",
    ),
}
REASONS = {line: reason for reason, lines in NOT_RUN.items() for line in lines}
