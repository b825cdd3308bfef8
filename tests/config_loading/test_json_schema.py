"""The JSON Schema that editors use and the reader agree, on all configurations that there are to read."""

# Tests of: config/json_schema, config/plugins

from __future__ import annotations

import re
from pathlib import Path

import pytest
from config_rig import find_schema_problems

from praval_tools.config.files import ConfigDocument, read_document
from praval_tools.config_loading.declarations import TOP_KEYS
from praval_tools.config_loading.source import read_configuration

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r'^```(yaml|toml)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
FAULTY_EXAMPLE = "broken.yml"
"""The file of the documentation that has mistakes, which `check` reports there."""
PLUGIN = "plugins: {acme: {enabled: false%s}}"


def read_text(suffix: str, text: str, folder: Path) -> ConfigDocument:
    """Return a document of this text."""
    path = folder / f"c.{suffix}"
    path.write_text(text, encoding="utf-8")
    return read_document(path)


class TestFilesOfTheRepository:
    def test_those_of_the_documentation(self, tmp_path: Path) -> None:
        """Each block that is a configuration, and the one with mistakes is refused."""
        count = 0
        for page in sorted((ROOT / "docs").rglob("*.md")):
            for kind, title, text in FENCE.findall(page.read_text(encoding="utf-8")):
                document = read_text("yml" if kind == "yaml" else kind, text, tmp_path)
                if document.data.keys() <= set(TOP_KEYS):
                    count += 1
                    assert (title == FAULTY_EXAMPLE) is bool(find_schema_problems(document.data)), (page.name, text)
        assert count >= 7

    def test_those_of_examples_and_seeds(self) -> None:
        """Each file of them that is YAML or TOML."""
        folders = (ROOT / "examples", ROOT / "tests" / "seeds")
        files = [
            path for folder in folders for suffix in ("yml", "yaml", "toml") for path in folder.rglob(f"*.{suffix}")
        ]
        assert 2 <= len(files)
        assert {} == {
            path.name: problems for path in files if (problems := find_schema_problems(read_document(path).data))
        }


@pytest.mark.parametrize(
    "text",
    [
        "openapi: []",
        "openapi: [{document: shop.json, namespace: shop}]",
        "openapi: [{document: shop.json, namespace: shop, include: [GET /a], names: {a: b}, auth_env: {k: PATH}}]",
        "openapi: [{document: shop.json, namespace: shop, base_url: 'http://127.0.0.1:1', max_document_bytes: 9}]",
        "openapi: {document: shop.json, namespace: shop}",
        "openapi: [shop.json]",
        "openapi: [{document: shop.json}]",
        "openapi: [{namespace: shop}]",
        "openapi: [{document: 3, namespace: shop}]",
        "openapi: [{document: shop.json, namespace: shop, include: GET /a}]",
        "openapi: [{document: shop.json, namespace: shop, timeout: soon}]",
        "openapi: [{document: shop.json, namespace: shop, max_document_bytes: 1.5}]",
        "openapi: [{document: shop.json, namespace: shop, auth_env: {k: 3}}]",
        "openapi: [{document: shop.json, namespace: shop, names: [a]}]",
        "openapi: [{document: shop.json, namespace: shop, tools: []}]",
        "sources: []",
        "sources: [{kind: acme}, {kind: acme, anything: {of: [it]}}]",
        "sources: {kind: acme}",
        "sources: acme",
        "sources: [acme]",
        "sources: [{}]",
        "sources: [{kind: 3}]",
        "sources: [{kind: acme}, {knd: acme}]",
        "sources:\nplugins: {}",
        "sources: []\nplugins:",
        "plugins: {}",
        PLUGIN % "",
        PLUGIN % ", settings: {any: [thing]}, shared: [a], allow: [], namespace: n, owned_by: ann, trust: true",
        PLUGIN % ", trust: 1",
        PLUGIN % ", trusted: true",
        PLUGIN % ", shared: a",
        PLUGIN % ", settings: []",
        PLUGIN.replace("false", "no") % "",
        "plugins: []",
        "plugins: {acme: }",
        "plugins: {acme: true}",
        "plugins: {autoload: false}",
        "plugins: {autoload: {enabled: false}}",
        "plugins: {autoload: {enabled: false, trusted: true}}",
        "plugins: {autoload: 3}",
    ],
)
def test_sections_of_others(text: str, tmp_path: Path) -> None:
    """A section for OpenAPI documents, sources or plugins is refused by both, or by neither."""
    document = read_text("yml", text, tmp_path)
    problems = read_configuration([document.file]).problems

    assert bool(problems) is bool(find_schema_problems(document.data)), problems
