"""What is shipped: the wheel, the container's description, the workflows and the forms for issues."""

import ast
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions, version
from io import BytesIO
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from gedbd.corpora.readers.github import read_github
from gedbd.io.files import CONF_DIR
from gedbd.service.middleware import PUBLIC_PATHS

ROOT = Path(CONF_DIR).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*_re*.yml"))


def copied_tree(folder):
    """The project as git would give it to somebody, files that are not committed yet included."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tree:
        for name in filter(None, names.split("\0")):
            tree.add(ROOT / name, name)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as tree:
        tree.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    source = copied_tree(tmp_path_factory.mktemp("source"))
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", out, source]
    subprocess.run(command, check=True)
    (built,) = out.glob("*.whl")
    return built


def test_versions_and_extras_are_those_that_exist():
    assert version("gedbd") == PROJECT["version"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == PROJECT["version"]
    extras = PROJECT["optional-dependencies"]
    for needs in extras.values():
        for need in needs:
            inner = re.fullmatch(r"gedbd\[(.*)\]", need)
            assert inner is None or set(inner[1].split(",")) <= set(extras)
    matrix = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]["test"]["strategy"]
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert matrix["matrix"]["python"] == named


def test_one_command_names_the_owner_in_all_files(tmp_path):
    tree = copied_tree(tmp_path)
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    subprocess.run(["git", "add", "-A"], cwd=tree, check=True)

    def set_owner(name):
        done = subprocess.run(["make", f"owner={name}"], cwd=tree, capture_output=True, text=True)
        found = subprocess.run(["git", "grep", "-hoP", r"[\w-]+/gedbd(?=\W)"], cwd=tree, capture_output=True, text=True)
        return done.returncode, found.stdout.split()

    _, before = set_owner("OWNER")
    owned = [position for position, name in enumerate(before) if name == "OWNER/gedbd"]
    assert len(owned) > 10
    for name in ("ann-lee", "bob"):
        assert set_owner(name) == (0, [f"{name}/gedbd" if at in owned else old for at, old in enumerate(before)])
    assert "bob is the GitHub account" in " ".join((tree / "README.md").read_text().split())
    assert yaml.safe_load((tree / "CITATION.cff").read_text())["repository-code"] == "https://github.com/bob/gedbd"
    assert set_owner("a;b")[0] == 2


def test_make_install_has_what_the_package_imports_at_the_top_of_its_files():
    extras = PROJECT["optional-dependencies"]
    (chosen,) = extras["commands"]
    needs = [*PROJECT["dependencies"], *(need for name in chosen[6:-1].split(",") for need in extras[name])]
    installed = {re.match(r"[\w.-]+", need)[0].replace("_", "-").lower() for need in needs}
    installed |= {"anyio", "pydantic", "pyyaml", "starlette", "tokenizers"}  # by way of others: fastapi, transformers
    trees = [ast.parse(path.read_text()) for path in (ROOT / "gedbd").rglob("*.py")]
    statements = [statement for tree in trees for statement in tree.body]
    names = {name.name for node in statements if isinstance(node, ast.Import) for name in node.names}
    names |= {str(node.module) for node in statements if isinstance(node, ast.ImportFrom)}
    names = {name.partition(".")[0] for name in names}
    owners = packages_distributions()
    missing = {
        name
        for name in names - sys.stdlib_module_names - {"gedbd", "hydra_plugins"}
        if not {owner.replace("_", "-").lower() for owner in owners[name]} & installed
    }
    assert not missing


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package(wheel):
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = {path for folder in ("gedbd", "hydra_plugins") for path in (ROOT / folder).rglob("*") if path.is_file()}
    ours = {path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts}
    conf = {f"gedbd/conf/{path.relative_to(CONF_DIR).as_posix()}" for path in Path(CONF_DIR).rglob("*.yaml")}
    assert packed == {name for name in ours if not name.endswith(".pyc")} | conf


@pytest.mark.slow
def test_the_wheel_works_from_any_folder(wheel, tmp_path):
    target = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, wheel], check=True
    )
    # The libraries of this environment without its editable installation of the project, which a .pth file adds.
    path = os.pathsep.join([str(target), sysconfig.get_paths()["purelib"]])
    work = tmp_path / "elsewhere"
    work.mkdir()

    def gedbd(*words):
        return python("from gedbd.__main__ import main; main()", *words)

    def python(code, *words):
        command = [sys.executable, "-S", "-c", code, *words]
        done = subprocess.run(command, cwd=work, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert python("import gedbd; print(gedbd.__file__)").startswith(str(target))
    assert gedbd("--version") == f"gedbd {PROJECT['version']}\n"
    assert "425" in gedbd("describe", "dataset=demo")
    gedbd("baseline", "name=bm25", "dataset=demo", "hydra.run.dir=run")
    assert (work / "run" / "config.yaml").is_file()


def test_the_container_copies_what_exists_and_runs_without_root():
    for line in re.findall(r"^COPY (?!--from)(.*)", DOCKERFILE, flags=re.MULTILINE):
        *sources, _ = line.split()
        allowed = (ROOT / ".dockerignore").read_text()
        for source in sources:
            assert (ROOT / source).exists(), source
            assert re.search(rf"^!{re.escape(source)}(/\*\*)?$", allowed, flags=re.MULTILINE), source
    assert re.findall(r"^USER (.*)", DOCKERFILE, flags=re.MULTILINE)[-1] not in ("root", "0")


def test_the_container_asks_for_health_where_the_service_answers():
    port = OmegaConf.load(Path(CONF_DIR) / "serve.yaml").port
    assert re.search(r"^EXPOSE (\d+)", DOCKERFILE, flags=re.MULTILINE)[1] == str(port)
    asked, path = re.search(r"http://127\.0\.0\.1:(\d+)(/[\w/]+)", DOCKERFILE).groups()
    assert asked == str(port)
    assert path in PUBLIC_PATHS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_there_is(path):
    workflow = yaml.safe_load(path.read_text())
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert "permissions" in workflow
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert "${{ github.event" not in step.get("run", "")
            assert set(re.findall(r"^make ([\w-]+)", step.get("run", ""), flags=re.MULTILINE)) <= set(targets)
            scripts = re.findall(r"^bash (\S+)", step.get("run", ""), flags=re.MULTILINE)
            assert all((ROOT / script).is_file() for script in scripts)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_an_issue_of_a_form_reads_as_its_fault(path, tmp_path):
    """GitHub writes a form as headings with what was filled in; an encoder reads the beginning of the text."""
    fields = [field for field in yaml.safe_load(path.read_text())["body"] if field["type"] != "markdown"]
    first, *others = [field["attributes"]["label"] for field in fields]
    said = "The search stops at the second page and prints nothing."
    body = "\n\n".join([f"### {first}\n\n{said}", *(f"### {label}\n\n_No response_" for label in others)])
    issue = {"number": 1, "title": "Search stops", "body": body, "createdAt": "2026-01-02T03:04:05Z", "state": "OPEN"}
    export = tmp_path / "issues.json"
    export.write_text(json.dumps([issue, issue | {"number": 2}]))
    assert fields[0]["validations"]["required"] is True
    text = read_github(None, str(export)).reports["description"][0]
    assert text.index(said) < len(f"### {first}") + 4
