"""The reference of the manual is complete: options, commands, the HTTP API, run folders and index files."""

import ast
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import yaml
from reference_pages.api_page import api_page, public_names
from reference_pages.commands_page import command_options, commands_page
from reference_pages.docstrings import parameters_of
from reference_pages.groups import GROUPS
from reference_pages.http_page import http_page
from reference_pages.markdown import prose
from reference_pages.option_files import CONF, description_of, option_files, read_option_file
from reference_pages.options_page import options_page
from reference_pages.paper_options import PAGE as PAPERS
from reference_pages.paper_options import with_table

import gedbd
from gedbd.__main__ import command_names, config_name
from gedbd.configuration.help import NOT_CHOICES, read_command
from gedbd.configuration.options import compose_options
from gedbd.corpora.bug_report import Report
from gedbd.corpora.feedback import SCHEMA as FEEDBACK_SCHEMA
from gedbd.experiments import sweep_jobs
from gedbd.experiments.run_folder import (
    CAPTIONS,
    CONFIG,
    MATCHING,
    OWN_PAGE,
    PREDICTIONS,
    PROTOCOLS,
    SCHEMA,
    TSNE,
    VERSIONS,
)
from gedbd.experiments.run_results import PREDICTION_COLUMNS
from gedbd.retrieval.report_ranking.feature_store import FIELDS, TERM_KINDS, FeatureStore
from gedbd.retrieval.report_ranking.term_index import TermIndex
from gedbd.service.event_table import SCHEMA as WEBHOOK_SCHEMA
from gedbd.triage.storage import folder_store
from gedbd.triage.storage import index_store as index_schema
from gedbd.triage.storage.in_memory import InMemoryIndex
from gedbd.triage.storage.stored_model import REQUIRED

ROOT = Path(__file__).parents[2]
RUN_FOLDER = INDEX_FILE = (ROOT / "docs" / "reference" / "files.md").read_text()
FILES = [pytest.param(file, id=f"{file.group}/{file.name}".strip("/")) for file in option_files()]


def named(text: str) -> set[str]:
    """All that is written as code in a page."""
    return set(re.findall(r"`([^`\n]+)`", text))


def leaves(content: object, above: str = "") -> set[str]:
    """Dotted names of all values below some options, but for what Hydra reads."""
    if not isinstance(content, dict) or not content:
        return {above.removeprefix(".")}
    names = {name for name in content if not str(name).startswith("_") and (above or name not in ("defaults", "hydra"))}
    return {leaf for name in names for leaf in leaves(content[name], f"{above}.{name}")}


def test_the_description_of_options_is_that_of_all_files():
    files = {(file.group, file.name) for file in option_files()}
    assert files == {
        (path.parent.relative_to(CONF).as_posix().removeprefix("."), path.stem) for path in CONF.rglob("*.yaml")
    }
    assert {group for group, _ in files if group} == set(GROUPS)


@pytest.mark.parametrize("file", FILES)
def test_every_option_of_a_file_is_there_and_described(file):
    path = CONF / file.group / f"{file.name}.yaml"
    content = yaml.safe_load(path.read_text())
    given = {option.name for option in file.options if option.default}
    prefixes = ("", f"{file.group.replace('/', '.')}.", "ranking.")  # as the package of the file says
    assert any(given == {prefix + name for name in leaves(content) if name} for prefix in prefixes)
    missing = [option.name for option in file.options if not description_of(option)]
    assert not missing, f"{path}: say what these options do, in a comment or in the docstring of what they build"


def test_all_options_are_on_the_pages():
    options = options_page()
    shown = named(options)
    commands = named(commands_page())
    for file in option_files():
        is_listed = (file.group, file.name) not in NOT_CHOICES and (file.group, file.name) != ("", "shared")
        if is_listed and file.group:
            assert {file.name, f"{file.group}={file.name}"} & shown, file
        for option in file.options:
            page = shown if file.group or option.name.startswith("baselines.") else commands
            # Sections have .* in the place of a value; that of a baseline is the heading's.
            names = {option.name, f"{option.name}.*", option.name.replace("baselines.", "name=", 1)}
            assert names & page, option.name


def first_column(page: str, heading: str = "") -> set[str]:
    """What is written as code in the first cells of the tables of a page, of those below a heading."""
    text = (ROOT / "docs" / page).read_text().partition(heading or "# ")[2]
    rows = re.findall(r"^\|([^|\n]*)\|", text, flags=re.MULTILINE)
    return {name for row in rows for name in named(row)}


def test_every_dataset_and_loss_has_a_row():
    datasets, losses = ({path.stem for path in (CONF / group).glob("*.yaml")} for group in ("dataset", "loss"))
    assert first_column("reference/groups.md", "\n## Datasets\n") - {"dataset="} == datasets
    assert losses <= first_column("guides/training.md")


def test_all_that_leaves_is_listed():
    listed = " ".join(first_column("security.md"))
    address = re.compile(r"^ *(base_url|api_url|address|store|tracking_uri|entity): ", re.MULTILINE)
    sending = {path: address.search(path.read_text()) for path in CONF.rglob("*.yaml")}
    found = {path.relative_to(CONF).with_suffix("").as_posix(): match[1] for path, match in sending.items() if match}
    assert {"logger/wandb", "llm/openai", "captioner/openai", "tracker/jira", "backend/ray", "index"} <= set(found)
    for file, option in found.items():
        group, _, name = file.rpartition("/")
        if group != "dataset" and (group, option) != ("", "entity"):  # gedbd download; of gedbd dashboard
            assert {f"{group}={name}", name, f"{option}=postgresql://..."} & set(re.split(r"[ ,]+", listed)), file


def test_the_table_of_the_papers_options_is_that_of_the_composed_configurations():
    page = PAPERS.read_text()
    assert with_table(page) == page, "run: PYTHONPATH=docs python -m reference_pages.paper_options"
    plain, paper = (
        compose_options("train", [*words, "encoder=roberta", "dataset=eclipse"])
        for words in ([], ["experiment=paper_text"])
    )
    training = " ".join((ROOT / "docs" / "guides" / "training.md").read_text().split())
    for cfg, told in (
        (plain, "gedbd's defaults**"),
        (paper, "follows the paper on the"),
    ):
        said = training.partition(told)[2].partition(f"patience {cfg.patience}")[0]
        reports = cfg.dataset.rows["reports" if cfg.dataset.subset == "all" else cfg.dataset.subset]
        assert f"{reports:,} reports" in said
        assert f"{cfg.batch_size} pairs a step" in said
        assert cfg.monitor.removeprefix("val/").replace("_", " ") in said
        assert f"{cfg.pairs.random_negatives:,} random negatives" in said or not cfg.pairs.random_negatives
        assert ("BERT" if cfg.graph.titles else "RoBERTa") in said


def test_all_commands_are_on_their_page():
    page = commands_page()
    for command in command_names():
        assert f"\n## `gedbd {command}`\n" in page
        assert all(f"\n{example}\n" in page for example in read_command(config_name(command)).examples)
        assert command == "judge" or command_options(command)


def test_descriptions_come_from_comments_docstrings_and_other_options(tmp_path):
    (tmp_path / "conf.yaml").write_text(
        "# What it is.\n# gedbd train loss=conf\n_target_: gedbd.losses.TripletLoss\n"
        "margin: 0.5  # own words\np: 2.0\nother: ${seed}\nsection:  # a section\n  text: >-\n    two\n    lines\n"
    )
    file = read_option_file(tmp_path / "conf.yaml", tmp_path)
    assert (file.about, file.examples) == (["What it is."], ["gedbd train loss=conf"])
    found = {option.name: (option.default, description_of(option)) for option in file.options}
    assert found["margin"] == ("0.5", "own words")
    assert found["p"] == ("2.0", "Degree of the norm, above 0.")
    assert found["other"] == ("${seed}", "As `seed`, unless another value is given.")
    assert found["section"] == ("", "a section")
    assert found["section.text"] == ("two lines", "")


def test_docstrings_are_found_through_imports_methods_and_references():
    assert parameters_of("hydra_plugins.gedbd.optuna_sweeper.OptunaSweeper") is not None
    assert "top_k" in parameters_of("gedbd.api.report_index.Index.search")
    whole = parameters_of("gedbd.encoders.loaded_encoder.TextEncoder")["pooling"]
    assert parameters_of("gedbd.encoders.loaded_encoder.load_encoder")["pooling"] == whole
    assert parameters_of("pytorch_lightning.Trainer") == {}


def test_comments_become_markdown():
    assert prose("see dataset=csv, or ``x``") == "see dataset=csv, or `x`"
    assert prose("see dataset=csv, a_b [x] <folder>") == "see `dataset=csv`, a\\_b \\[x\\] &lt;folder&gt;"


def test_every_request_is_on_the_page_of_the_http_api():
    page = http_page()
    routes = ROOT.joinpath("gedbd", "service").glob("*.py")
    asked = {
        found for path in routes for found in re.findall(r"(?<!pages_)router\.(\w+)\(\"(/[^\"]+)\"", path.read_text())
    }
    assert len(asked) > 8
    for method, path in asked:
        assert f"## `{method.upper()} {path.replace(':path', '')}`" in page
    bodies = set(re.findall(r"\]\(#(\w+)\)", page))
    assert bodies <= {name.lower() for name in re.findall(r"^### (\w+)$", page, re.MULTILINE)}


def test_every_public_name_is_on_the_page_of_the_python_interface():
    page = api_page()
    assert set(getattr(gedbd, "__all__", ())) <= {*public_names(), "__version__"}
    assert all(f"heading: gedbd.{name}," in page for name in public_names())


def test_the_page_of_run_folders_names_files_columns_and_schema():
    files = {CONFIG, VERSIONS, PREDICTIONS, PROTOCOLS, MATCHING, OWN_PAGE, TSNE, Path(CAPTIONS).name}
    assert files | {"SHA256SUMS", "best.ckpt", "last.ckpt", f"<job>/{sweep_jobs.STATUS_FILE}"} <= named(RUN_FOLDER)
    assert f'"schema": {SCHEMA}`' in RUN_FOLDER
    assert set(PREDICTION_COLUMNS) <= named(RUN_FOLDER)
    states = {getattr(sweep_jobs, name) for name in ("WAITING", "RUNNING", "FINISHED", "PRUNED", "FAILED")}
    assert states <= named(RUN_FOLDER)


@pytest.mark.parametrize("schema", [index_schema.SCHEMA, FEEDBACK_SCHEMA, WEBHOOK_SCHEMA])
def test_the_page_of_index_files_names_every_table(schema):
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(schema)
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        for table in tables:
            assert table in named(INDEX_FILE) | {"sqlite_sequence"}
            columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
            if schema != WEBHOOK_SCHEMA and table != "sqlite_sequence":
                assert columns <= named(INDEX_FILE), table


def test_the_page_of_index_files_names_facts_and_formats():
    assert set(REQUIRED) | {"model", "boilerplate", "calibration", "url_template"} <= named(INDEX_FILE)
    assert f"number {index_schema.FORMAT}," in INDEX_FILE
    assert f"of version {folder_store.FORMAT}," in INDEX_FILE


def test_docstrings_name_the_arrays_of_the_cache_of_an_index(tmp_path):
    with closing(index_schema.IndexStore(tmp_path / "index.sqlite")) as store:
        with store.transaction():
            store.write_model({"model": "m", "dim": "2"}, b"")
            store.write_reports([Report(title="a b", issue_id="1")], [np.array([1.0, 0.0], dtype=np.float32)])
        arrays, facts = folder_store.write_cache(store).as_arrays()
    described = (InMemoryIndex.as_arrays, FeatureStore.of_arrays, TermIndex.of_arrays)
    text = " ".join(where.__doc__ or "" for where in described)
    quoted = {name.partition(" (")[0] for name in re.findall(r"``([^`]+)``", text)}
    assert set(facts) <= quoted
    kinds = "|".join((*TERM_KINDS, "field"))
    assert {re.sub(rf"^(?:{kinds}) ", "", name) for name in arrays} <= quoted | set(FIELDS)


def texts_of(path: Path) -> list[str]:
    """All string literals of a module; a value in an f-string becomes the text of its syntax tree."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    joined = [node.values for node in nodes if isinstance(node, ast.JoinedStr)]
    return plain + ["".join(str(getattr(part, "value", "")) for part in parts) for parts in joined]


def test_the_page_on_troubleshooting_quotes_messages_of_the_code():
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    quoted = set(re.findall(r"^\*\*`([^`]+)`\*\*", page, re.MULTILINE)) - {"Killed"}
    assert len(quoted) >= 12
    texts = [text for path in (ROOT / "gedbd").rglob("*.py") for text in texts_of(path)]
    for message in quoted:
        fixed = re.split(r"<[^>]+>", message)  # the words between values
        pattern = re.compile(".+".join(map(re.escape, fixed)))
        assert any(pattern.search(text) for text in texts), message
