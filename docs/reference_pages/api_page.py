"""The page of the Python interface: what ``gedbd/__init__.py`` offers, described by its docstrings."""

import ast

from reference_pages.docstrings import ROOT

INTRODUCTION = """
# Python interface

```python
import gedbd
```

Names are imported when they are used first, so that `import gedbd` is quick. Everything that is not on this page is
private, and may change with any version.
""".strip()


def api_page() -> str:
    """The page in Markdown; mkdocstrings puts the docstrings in the place of the lines with ``:::``."""
    lines = [INTRODUCTION, ""]
    for name, module in public_names().items():
        shown = f"gedbd.{name}"
        lines += [f"::: {module}.{name}", f"    options: {{ heading: {shown}, toc_label: {shown} }}", ""]
    return "\n".join(lines)


def public_names() -> dict[str, str]:
    """The public names and the modules that define them: ``gedbd`` imports them for type checkers alone."""
    tree = ast.parse((ROOT / "gedbd" / "__init__.py").read_text(encoding="utf-8"))
    imports = [
        node
        for branch in tree.body
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
    ]
    return {alias.name: str(node.module) for node in imports for alias in node.names}
