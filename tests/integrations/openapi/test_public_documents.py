"""Large documents that public packages ship: every operation is a tool, or is refused with its place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx")

from praval_tools import ToolRegistry
from praval_tools.integrations.openapi.loading import parse_document
from praval_tools.integrations.openapi.shapes import METHODS
from praval_tools.schema.supplied_schema import check_supplied_schema

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / ".openapi-documents"
FILES = {
    "GitHub REST": "github.json", "Directus": "directus.json", "Apache Airflow": "airflow.yaml",
    "Star Trek (STAPI)": "star-trek.json", "Figma": "figma.yaml", "ReadMe": "readme.json",
}  # fmt: skip


def read_table() -> dict[str, tuple[str, str, int]]:
    """Return what the page says of each document: its package, its version, and how many operations it has."""
    page = (ROOT / "docs" / "reference" / "openapi.md").read_text(encoding="utf-8")
    section = page.partition("## Documents of packages")[2]
    rows = re.findall(r"^\| ([^|`]+) \| (\w+ `[^`]+` [\d.]+) \| ([\d.]+) \| ([\d,]+) \|$", section, re.MULTILINE)
    return {name: (package, version, int(count.replace(",", ""))) for name, package, version, count in rows}


def test_are_those_of_the_page() -> None:
    """The page names the package of each document that is tested, as the script that fetches them does."""
    script, table = (ROOT / ".ci" / "openapi-documents").read_text(encoding="utf-8"), read_table()

    assert FILES.keys() == table.keys()
    for package, _, _ in table.values():
        registry, name, version = package.split(" ")
        assert f"{name.strip('`')}{'@' if registry == 'npm' else '=='}{version} " in script


@pytest.mark.parametrize("name", FILES)
def test_every_operation_is_a_tool(name: str) -> None:
    """Each operation is listed, with a schema that can be checked; the page says how many there are."""
    file = FOLDER / FILES[name]
    if not file.exists():
        pytest.skip("the documents are fetched by: make openapi-documents")
    root: Any = parse_document(file.read_bytes())
    operations = [(path, method) for path, item in root["paths"].items() for method in METHODS if method in item]
    with ToolRegistry() as registry:
        source = registry.register_openapi(file, namespace="x", base_url="https://service.example")
        problems = [problem for problem in source.list_problems() if problem.kind != "openapi-auth"]
        requests = {tool.metadata.extra["openapi"]["request"] for tool in registry}

        assert [] == problems
        assert {f"{method.upper()} https://service.example{path}" for path, method in operations} == requests
        assert all(() == check_supplied_schema(tool.parameters)[1] for tool in registry)
    assert read_table()[name][1:] == (root["openapi"], len(operations))
