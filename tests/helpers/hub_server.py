"""A Hugging Face hub on this machine: as much of it as it takes to make a repository, upload files and load them."""

import base64
import hashlib
import json
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from local_server import Answering, LocalServer

TOKEN = "hf_of_the_tests"
LICENSES = ("mit", "apache-2.0")


class Repository(NamedTuple):
    """Files by their path, and whether only the account may read them."""

    private: bool
    files: dict[str, bytes]


class Handler(Answering):
    server: "HubServer"

    def post(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        words = self.words()
        if words == ["api", "validate-yaml"]:
            self.validate(json.loads(body)["content"])
        elif not self.allowed():
            self.answer(401, {"error": "Invalid username or password."})
        elif words == ["api", "repos", "create"]:
            self.create(json.loads(body))
        elif words[-2:] == ["preupload", "main"]:
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            self.answer(200, {"files": files})
        elif words[-2:] == ["commit", "main"]:
            self.commit("/".join(words[2:4]), [json.loads(line) for line in body.splitlines()])

    def get(self) -> None:
        words = self.words()
        name = "/".join(words[2:4])
        if words == ["api", "whoami-v2"]:
            known = self.allowed()
            self.answer(200 if known else 401, {"name": "ann"} if known else {"error": "Invalid username or password."})
        elif words[:2] == ["api", "models"] and words[4:] == ["auth-check", "write"]:
            self.answer(
                200 if name.startswith("ann/") else 403, {} if name.startswith("ann/") else {"error": "Forbidden."}
            )
        elif words[:2] == ["api", "models"] and len(words) == 4 and name in self.server.repositories:
            self.answer(200, {"id": name, "private": self.server.repositories[name].private})
        elif words[2:3] == ["resolve"]:
            self.file("/".join(words[:2]), "/".join(words[4:]))
        else:
            self.answer(404 if words else 200, {})

    def words(self) -> list[str]:
        return [unquote(word) for word in urlsplit(self.path).path.split("/") if word]

    def allowed(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def validate(self, content: str) -> None:
        named = [line.removeprefix("license: ") for line in content.splitlines() if line.startswith("license: ")]
        wrong = [f'"license" must be one of {LICENSES}' for license in named if license not in LICENSES]
        told: object = {"errors": [{"message": line} for line in wrong], "warnings": []}
        if self.headers.get("Accept") == "text/plain":
            told = "\n".join(wrong).encode()
        self.answer(400 if wrong else 200, told)

    def create(self, wanted: dict[str, str]) -> None:
        name = f"{wanted['organization'] or 'ann'}/{wanted['name']}"
        url = f"{self.server.url}/{name}"
        if not name.startswith("ann/"):
            self.answer(403, {"error": "You don't have the rights to create a model under this namespace"})
        elif name in self.server.repositories:
            self.answer(409, {"error": "You already created this model repo", "url": url})
        else:
            self.server.repositories[name] = Repository(wanted.get("visibility") == "private", {})
            self.answer(200, {"url": url})

    def commit(self, name: str, lines: list[dict[str, dict[str, str]]]) -> None:
        for line in lines:
            if line["key"] == "file":
                self.server.repositories[name].files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        self.answer(200, {"commitUrl": f"{self.server.url}/{name}/commit/1", "commitOid": "1" * 40})

    def file(self, name: str, path: str) -> None:
        repository = self.server.repositories.get(name)
        if repository is None or (repository.private and not self.allowed()):
            self.answer(404, {}, {"X-Error-Code": "RepoNotFound"})
        elif path not in repository.files:
            self.answer(404, {}, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": "1" * 40})
        else:
            content = repository.files[path]
            self.answer(200, content, {"X-Repo-Commit": "1" * 40, "ETag": f'"{hashlib.sha1(content).hexdigest()}"'})

    def answer(self, status, content, headers=None, sent=None) -> None:
        error = {"X-Error-Message": content["error"]} if isinstance(content, dict) and "error" in content else {}
        super().answer(status, content, error | (headers or {}))


class HubServer(LocalServer):
    """A hub with one account, ``ann``, which may also read, but not write, what others have."""

    handler = Handler

    def __init__(self) -> None:
        super().__init__()
        self.repositories: dict[str, Repository] = {}
