"""OpenAPI documents of configurations: read before anything changes, kept over a reload, replaced and taken out."""

# Tests of: services

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="needs a server")

from click.testing import CliRunner
from config_rig import load
from openapi_rig import Recorder, make_document, make_operation, make_parameter, recorder, server, service  # noqa: F401
from starlette.responses import PlainTextResponse

from praval_tools import ConfigError, Outcome, Tool, ToolCall, ToolRegistry
from praval_tools.cli.entry import root_command

SHOP = """
openapi:
  - document: shop.json
    namespace: shop
    owned_by: ops
"""


@pytest.fixture
def folder(folder: Path, server: str) -> Path:
    """The working directory, with a document."""
    schemes = {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}}
    paths = {"/a": {"get": make_operation("a", make_parameter("q")), "post": make_operation("b")}}
    document = make_document(paths, server=server, components=schemes, security=[{"key": []}, {}])
    (folder / "shop.json").write_text(json.dumps(document))
    return folder


def find_problems(folder: Path, text: str) -> list[str]:
    """Return what is wrong with a configuration; nothing of it is in force."""
    with pytest.raises(ConfigError) as caught:
        load(folder, text)
    return [str(problem) for problem in caught.value.problems]


class TestDocuments:
    def test_bring_tools(self, folder: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
        """With all that an entry says of them; agents and grants may name them."""
        monkeypatch.setenv("SHOP_KEY", "sesame-open")
        more = "    auth_env: SHOP_KEY\n    include: ['GET *']\n    names: {a: find}\n"
        more += "agents: {ann: {tools: [shop-find]}}\n"
        registry, _ = load(
            folder, f"{SHOP}{more}grants: [{{tool: shop-find, agent: bob, where: {{q: {{const: x}}}}}}]\n"
        )
        with registry:
            calls = [ToolCall(None, "shop-find", {"q": "x"}, agent) for agent in ("ann", "bob", "eve")]
            outcomes = [registry.execute(each).outcome for each in calls]

            assert ["shop-find"] == [tool.name for tool in registry]
            assert [Outcome.OK, Outcome.OK, Outcome.FORBIDDEN] == outcomes
        assert "sesame-open" == recorder.last["headers"]["x-key"]

    def test_in_toml(self, folder: Path) -> None:
        """The same as an array of tables, with the file seen from the folder of the configuration."""
        (folder / "settings").mkdir()
        (folder / "settings" / "c.toml").write_text('[[openapi]]\ndocument = "../shop.json"\nnamespace = "shop"\n')
        with ToolRegistry.from_config("settings/c.toml") as registry:
            assert ["shop-a", "shop-b"] == [tool.name for tool in registry]

    def test_from_urls(self, folder: Path, recorder: Recorder, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """An address may be filled in from the environment, and be where the document is served."""
        monkeypatch.setenv("SHOP", server)
        text = (folder / "shop.json").read_text()
        recorder.respond = lambda _: PlainTextResponse(text)
        registry, _ = load(folder, SHOP.replace("shop.json", "${SHOP}/api.json"))
        with registry:
            assert ["shop-a", "shop-b"] == [tool.name for tool in registry]

    def test_are_kept_where_nothing_changes(self, folder: Path) -> None:
        """A reload keeps the tools of an entry that is the same, replaces those of another, and takes the rest out."""
        registry, source = load(folder, SHOP)
        with registry:
            before = registry.get_tool("shop-a")
            (folder / "c.yml").write_text(SHOP + "name: other\n")
            source.refresh()
            assert before is registry.get_tool("shop-a")
            (folder / "c.yml").write_text(SHOP + "    exclude: [b]\n")
            source.refresh()
            assert ["shop-a"] == [tool.name for tool in registry]
            (folder / "c.yml").write_text("tools: []\n")
            source.refresh()
            assert [] == list(registry)

    @pytest.mark.parametrize("text", ["tools: []\n", SHOP.replace("ops", "others"), SHOP + "    exclude: [a]\n"])
    def test_leave_a_tool_alone_that_the_host_put_in_the_place_of_one(self, folder: Path, text: str) -> None:
        """Broken promise: a configuration touches what it declares. A reload took out whatever had the name."""
        registry, source = load(folder, SHOP)
        with registry:
            registry.register_tool(Tool.from_function(lambda: "own", "shop-a", "Own."), replace=True)
            (folder / "c.yml").write_text(text)
            with suppress(ConfigError):
                source.refresh()

            assert "own" == registry.execute(ToolCall(None, "shop-a", {}, "ops")).result

    def test_a_bad_reload_changes_nothing(self, folder: Path) -> None:
        """Neither a document that has become wrong, nor anything else that is wrong, takes tools away."""
        registry, source = load(folder, SHOP)
        with registry:
            (folder / "bad.json").write_text("{}")
            for text in (
                SHOP.replace("shop.json", "bad.json"),
                SHOP + "    exclude: [b]\ngrants: [{tool: nothing, agent: ann}]\n",
                SHOP.replace("namespace: shop", "namespace: other") + "limits: [{per_minute: -1}]\n",
            ):
                (folder / "c.yml").write_text(text)
                with pytest.raises(ConfigError):
                    source.refresh()
                tool = registry.get_tool("shop-b")
                assert tool is not None

                assert ["shop-a", "shop-b"] == [tool.name for tool in registry]
                assert registry.execute(ToolCall(None, "shop-b", {}, "ops")).outcome is Outcome.OK


class TestMistakes:
    def test_of_documents_have_their_places(self, folder: Path) -> None:
        """Each place in a document that is wrong is a problem of the entry."""
        operation = make_operation("a", {"$ref": "#/nothing"}, {"name": "x", "in": "nowhere", "schema": {}})
        (folder / "shop.json").write_text(
            json.dumps(make_document({"/a": {"get": operation}}, server="http://a.example"))
        )
        problems = find_problems(folder, SHOP)

        assert 2 == len(problems)
        assert all(
            line.startswith("c.yml, line 3: openapi[0].document: #/paths/~1a/get/parameters/") for line in problems
        )

    @pytest.mark.parametrize(
        ("entry", "problem"),
        [
            ("{namespace: x}", "line 1: openapi[0].document: missing"),
            ("{document: shop.json}", "line 1: openapi[0].namespace: missing"),
            (
                "{document: shop.json, namespace: x, includes: []}",
                "openapi[0].includes: unknown key; did you mean 'include'",
            ),
            ("{document: none.json, namespace: x}", "openapi[0].document: #: it cannot be read"),
            (
                "{document: shop.json, namespace: x, auth_env: NOT_SET_HERE}",
                "the environment variable NOT_SET_HERE is not set",
            ),
            (
                "{document: shop.json, namespace: x, auth_env: {a: 'my secret'}}",
                "expected the name of an environment variable",
            ),
            ("{document: shop.json, namespace: 'a b'}", "'a b' is not a valid tool name"),
            ("{document: shop.json, namespace: x, timeout: -1}", "openapi[0].timeout: expected a positive number"),
            (
                "{document: '${NOT_SET_HERE}/a', namespace: x}",
                "openapi[0].document: the environment variable NOT_SET_HERE",
            ),
            ("{document: shop.json, namespace: x, base_url: 'ftp://a'}", "is not an http:// or https:// URL"),
            ("{document: shop.json, namespace: x}, {document: shop.json, namespace: x}", "namespaces are unique"),
        ],
    )
    def test_of_entries(self, folder: Path, entry: str, problem: str) -> None:
        """Keys, values and variables are checked, each with its line and key; what may be secret is not repeated."""
        problems = find_problems(folder, f"openapi: [{entry}]")

        assert any(problem in line for line in problems), problems
        assert "my secret" not in str(problems)

    def test_a_check_sends_nothing(self, folder: Path, recorder: Recorder, server: str) -> None:
        """Documents that have URLs are not fetched by a check, and agents may name their tools all the same."""
        (folder / "c.yml").write_text(
            SHOP.replace("shop.json", f"{server}/api.json") + "agents: {ops: {}, ann: {tools: [shop-a]}}\n"
        )
        done = CliRunner().invoke(root_command, ["--config", "c.yml", "check"])

        assert 0 == done.exit_code, done.output
        assert [] == recorder.requests
