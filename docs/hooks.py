"""What mkdocs calls while it builds the manual: adds the pages that are made from the code, and mends links."""

from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from reference_pages.api_page import api_page
from reference_pages.commands_page import commands_page
from reference_pages.http_page import http_page
from reference_pages.options_page import options_page
from reference_pages.repository_links import linked_outside, with_site_links

GENERATED = {
    "reference/api.md": api_page,
    "reference/commands.md": commands_page,
    "reference/options.md": options_page,
    "reference/http_api.md": http_page,
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages, and the files of the repository that pages link to."""
    for place, make in GENERATED.items():
        files.append(File.generated(config, place, content=make()))
    for place, path in linked_outside().items():
        files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Lets links to files of the repository lead to their copies on the site."""
    return with_site_links(markdown, page.file.src_uri)
