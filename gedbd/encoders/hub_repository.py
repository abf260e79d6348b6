"""A model repository on the Hugging Face hub, to which an exported encoder is uploaded."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gedbd.encoders.model_files import hub_problem


class HubRepository:
    """A repository, which need not exist yet, on a hub that answers and accepts the token of this machine.

    Args:
        name: ``owner/name``; a name alone belongs to the account of the token.
        public: Whether everybody may read it.

    Attributes:
        name: ``owner/name``.
        address: Address of its page.

    Raises:
        ValueError: If the name is invalid, there is no token, or the hub does not answer or refuses the token.
    """

    def __init__(self, name: str, public: bool) -> None:
        from huggingface_hub import HfApi, constants, get_token
        from huggingface_hub.errors import HFValidationError
        from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

        self.name = name
        self.public = public
        try:
            validate_repo_id(name)
        except HFValidationError as error:
            raise ValueError(f"repo={name} is not a repository name, such as owner/name: {_line(error)}") from error
        token = get_token()
        if not token:
            raise ValueError(
                f"repo={name}: there is no token for the hub: set HF_TOKEN, or run `hf auth login` (a token with write"
                f" access, from {constants.ENDPOINT}/settings/tokens)"
            )
        problem = hub_problem()
        if problem is not None:
            raise ValueError(f"repo={name}: {problem}: export to a folder with to=folder out=...")
        self.api = HfApi(token=token)
        with self._hub_errors():
            account = self.api.whoami()["name"]
        if "/" not in name:
            self.name = f"{account}/{name}"
        self.address = f"{constants.ENDPOINT}/{self.name}"

    def create(self, license: str | None = None) -> None:
        """Creates the repository, if there is none, and checks that an upload would be accepted.

        Args:
            license: The hub's identifier of the licence that the model card names.

        Raises:
            ValueError: If the hub refuses the licence or the repository, or it exists with the other visibility.
        """
        from huggingface_hub import ModelCard, ModelCardData

        with self._hub_errors():
            if license is not None:
                ModelCard(f"---\n{ModelCardData(license=license).to_yaml()}\n---\n").validate()
            self.api.create_repo(self.name, private=not self.public, exist_ok=True)
            # An existing repository may belong to another account, and keeps its visibility.
            self.api.auth_check(self.name, write=True)
            is_private = bool(self.api.model_info(self.name).private)
        if is_private == self.public:
            visibility = "private" if is_private else "public"
            raise ValueError(
                f"repo={self.name} exists and is {visibility}: set public={str(not self.public).lower()}, name another"
                f" repository, or change its visibility at {self.address}/settings"
            )

    def upload(self, folder: Path) -> list[str]:
        """Uploads all files of a folder; other files of the repository stay.

        Returns:
            The uploaded files, relative to the folder.

        Raises:
            ValueError: If the hub refuses them or does not answer.
        """
        with self._hub_errors():
            self.api.upload_folder(
                repo_id=self.name, folder_path=folder, commit_message="Upload an encoder trained with gedbd"
            )
        return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())

    @contextmanager
    def _hub_errors(self) -> Iterator[None]:
        """Turns errors of the hub's client into ValueErrors of one line."""
        # HTTPError is that of httpx or httpx2, whichever the installed version uses.
        from huggingface_hub.errors import HfHubHTTPError, HTTPError  # type: ignore[attr-defined]

        try:
            yield
        except HfHubHTTPError as error:
            status = error.response.status_code
            cure = "give a token with write access" if status in (401, 403) else "see the hub's status and settings"
            reason = error.server_message or _line(error)
            raise ValueError(f"repo={self.name}: the hub refuses ({status}): {reason}: {cure}") from error
        except ValueError as error:
            raise ValueError(f"repo={self.name}: {_line(error)}") from error
        except HTTPError as error:
            raise ValueError(f"repo={self.name}: the hub does not answer ({_line(error)}): try again later") from error


def _line(error: Exception) -> str:
    """An error's message on one line, without its full stop."""
    return " ".join(str(error).split()).rstrip(".")
