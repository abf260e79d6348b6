"""The page of the service's HTTP API, from the schema that it serves as ``/openapi.json``."""

import json
from typing import Any

from reference_pages.markdown import code, prose, table

INTRODUCTION = """
# HTTP API

`gedbd serve` answers these requests; its page and this list are at the same address, `/` and `/docs`, and the schema
is `/openapi.json`. Bodies are JSON. Where the service has a token, requests bring it as `Authorization: Bearer TOKEN`.
Unknown fields are refused, so that a misspelt one is noticed.

```bash
curl http://127.0.0.1:8080/api/search --json '{"title": "Saving twice loses the last line", "top_k": 3}'
```

| status | what it means |
| --- | --- |
""".strip()
BOUNDS = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minimum": "{} or more",
    "maximum": "{} or less",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "pattern": "pattern `{}`",
}


def http_page() -> str:
    """The page in Markdown."""
    schema = _schema()
    operations = [
        (f"{method.upper()} {path}", operation)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    statuses: dict[str, str] = {}
    for _, operation in operations:
        for status, response in operation["responses"].items():
            if status not in ("200", "404"):
                statuses.setdefault(status, response["description"])
    lines = [INTRODUCTION, "| 200 | The answer |"]
    lines += [f"| {status} | {meaning} |" for status, meaning in sorted(statuses.items())]
    lines += ["", "Errors have the field `detail`, which says in words what is wrong.", ""]
    for name, operation in operations:
        lines += _operation(name, operation)
    lines += ["## Bodies", ""]
    for name, body in schema["components"]["schemas"].items():
        if "ValidationError" not in name:  # FastAPI's own, which the service replaces by ErrorResponse
            about, _, _ = body.get("description", "").partition("\n\nAttributes:")
            lines += [f"### {name}", "", prose(" ".join(about.split())), "", *_fields(body)]
    return "\n".join(lines)


def _schema() -> dict[str, Any]:
    """The schema of a service with all routes: those of a repository and of GitHub's events too."""
    from fastapi import FastAPI

    from gedbd.service.app import locate_router, public_router, router, suggestions_router
    from gedbd.service.webhook import webhook_router

    app = FastAPI(title="gedbd", version="1")
    for part in (router, public_router, locate_router, suggestions_router, webhook_router):
        app.include_router(part)
    return app.openapi()


def _operation(name: str, operation: dict[str, Any]) -> list[str]:
    """The section of one request."""
    lines = [f"## `{name}`", "", prose(operation.get("description", operation["summary"])), ""]
    rows = [
        (code(one["name"]), one["in"], _type_of(one["schema"]), "yes" if one.get("required") else "")
        for one in operation.get("parameters", [])
    ]
    lines += table(("parameter", "in", "type", "required"), rows) if rows else []
    body = operation.get("requestBody")
    if body:
        lines += [f"Body: {_type_of(body['content']['application/json']['schema'])}.", ""]
    answer = operation["responses"].get("200", {}).get("content", {}).get("application/json", {}).get("schema")
    if answer:
        lines += [f"Answer: {_type_of(answer)}.", ""]
    if "404" in operation["responses"]:
        lines += [f"Status 404: {operation['responses']['404']['description']}.", ""]
    return lines


def _fields(body: dict[str, Any]) -> list[str]:
    """The table of the fields of a body."""
    required = body.get("required", [])
    rows = []
    for name, field in body.get("properties", {}).items():
        default = "required" if name in required else code(json.dumps(field.get("default")))
        rows.append((code(name), _type_of(field), default, prose(field.get("description", ""))))
    return table(("field", "type", "default", "description"), rows) if rows else []


def _type_of(schema: dict[str, Any]) -> str:
    """A type in words, with its bounds and a link where it is a body."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return " or ".join(_type_of(choice) for choice in choices)
    if "prefixItems" in schema:
        return f"list of {' and '.join(_type_of(item) for item in schema['prefixItems'])}"
    if "enum" in schema:
        return " or ".join(code(json.dumps(value)) for value in schema["enum"])
    bounds = [words.format(_number(schema[key])) for key, words in BOUNDS.items() if key in schema]
    kind = schema.get("format") or schema.get("type", "any value")
    if kind == "array":
        kind = f"list of {_type_of(schema['items'])}"
    elif kind == "object":
        values = schema.get("additionalProperties")
        kind = f"object of {_type_of(values)}" if isinstance(values, dict) and values else "object"
    return ", ".join([kind, *bounds])


def _number(bound: Any) -> str:
    """A bound as text: 1.0 as 1, 10000 as 10,000."""
    return f"{bound:,.10g}" if isinstance(bound, int | float) else str(bound)
