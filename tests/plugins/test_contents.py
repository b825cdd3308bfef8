"""The engines, journal stores, formats and sources that plugins bring."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hook_rig import HEAD, TRUSTED, call, log, registry  # noqa: F401
from plugin_rig import Site, loaded, names, site  # noqa: F401

from praval_tools import (
    Outcome,
    PluginWarning,
    ToolCall,
    ToolRegistry,
    ToolUsageError,
    UnknownFormatError,
    load_plugins,
)


class TestEngines:
    SOURCE = (
        HEAD
        + """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(2, thread_name_prefix="acme-pool")
class Broken:
    def submit(self, work): raise OSError("no workers")
@hookimpl
def praval_tools_engines():
    return {"acme.pool": pool, "acme.broken": Broken()}
"""
    )

    @pytest.mark.parametrize("is_async", [False, True])
    def test_tools_run_there(self, site: Site, registry: ToolRegistry, is_async: bool) -> None:
        """A tool that names the engine runs in its thread, with the context of its call."""
        import threading

        from praval_tools import current_agent

        site.install("acme", self.SOURCE)
        load_plugins(registry)

        @registry.tool("where", shared=True, engine="acme.pool")
        def where() -> list[str]:
            """Where."""
            return [threading.current_thread().name[:9], current_agent().name]

        request = ToolCall("1", "where", {}, "ann")
        result = asyncio.run(registry.aexecute(request)) if is_async else registry.execute(request)

        assert ["acme-pool", "ann"] == result.result
        registry.close()
        assert sys.modules["acme"].pool._shutdown

    def test_one_that_hangs_is_given_up(self, site: Site, registry: ToolRegistry) -> None:
        """The tool's time-out counts there, too."""
        import threading

        go = threading.Event()
        site.install("acme", self.SOURCE)
        load_plugins(registry)
        registry.tool("wait", shared=True, engine="acme.pool", timeout=0.05)(lambda_of(go))

        assert Outcome.TIMEOUT is registry.execute(ToolCall("1", "wait", {}, "ann")).outcome
        go.set()

    def test_one_that_is_broken_or_unknown(self, site: Site, registry: ToolRegistry) -> None:
        """The result says which engine, and what to do; a name without a dot is refused where the tool is declared."""
        site.install("acme", self.SOURCE)
        load_plugins(registry)
        registry.tool("one", shared=True, engine="acme.broken")(_one)
        registry.tool("two", shared=True, engine="acme.other")(_one)
        broken, unknown = (registry.execute(ToolCall(name, name, {}, "ann")) for name in ("one", "two"))

        assert (Outcome.ENGINE_LOST, "engine-lost") == (broken.outcome, broken.error_type)
        assert "no workers" in broken.error
        assert (Outcome.TOOL_ERROR, "unknown-engine") == (unknown.outcome, unknown.error_type)
        with pytest.raises(ValueError, match="did you mean 'thread'"):
            registry.tool("three", engine="thred")(_one)

    @pytest.mark.parametrize("error", ["ValueError", "SystemExit"])
    @pytest.mark.parametrize("is_async", [False, True])
    def test_one_that_fails_once_the_tool_has_ended(
        self, site: Site, registry: ToolRegistry, error: str, is_async: bool
    ) -> None:
        """The call ended as its tool did, whatever its engine raises then."""
        source = "class Late:\n    def submit(self, work):\n        work()\n        raise {}('late')\n"
        hook = "@hookimpl\ndef praval_tools_engines():\n    return {'acme.late': Late()}\n"
        site.install("acme", HEAD + source.format(error) + hook)
        load_plugins(registry)
        registry.tool("one", shared=True, engine="acme.late")(_one)
        request = ToolCall("1", "one", {}, "ann")
        result = asyncio.run(registry.aexecute(request)) if is_async else registry.execute(request)

        assert (Outcome.OK, 1) == (result.outcome, result.result)

    def test_one_that_ends_the_program(self, site: Site, registry: ToolRegistry) -> None:
        """What it raises before the tool runs is the failure of the engine."""
        source = "class Ends:\n    def submit(self, work):\n        raise SystemExit('over')\n"
        hook = "@hookimpl\ndef praval_tools_engines():\n    return {'acme.ends': Ends()}\n"
        site.install("acme", HEAD + source + hook)
        load_plugins(registry)
        registry.tool("one", shared=True, engine="acme.ends")(_one)
        result = registry.execute(ToolCall("1", "one", {}, "ann"))

        assert (Outcome.ENGINE_LOST, "engine-lost") == (result.outcome, result.error_type)
        assert "SystemExit" in result.error

    @pytest.mark.parametrize("idempotent", [False, True])
    def test_what_one_lost_is_in_doubt(self, site: Site, registry: ToolRegistry, idempotent: bool) -> None:
        """Nobody knows whether it ran: in its run opened again it is in doubt, and goes to the engine if idempotent."""
        site.install("acme", self.SOURCE)
        load_plugins(registry)
        registry.journal = "memory"
        registry.tool("one", shared=True, engine="acme.broken", idempotent=idempotent)(_one)
        call = ToolCall("1", "one", {}, "ann")
        with registry.run("r"):
            assert Outcome.ENGINE_LOST is registry.execute(call).outcome
        with registry.run("r") as run:
            again = registry.execute(call)

            assert (Outcome.ENGINE_LOST if idempotent else Outcome.IN_DOUBT, False) == (again.outcome, again.replayed)
            assert ["1"] == [one.tool_call_id for one in run.in_doubt]


class TestJournals:
    SOURCE = (
        HEAD
        + """
from praval_tools.journal import MemoryStore
@hookimpl
def praval_tools_journals():
    def opened(url):
        log.append(url)
        return MemoryStore()
    return {"acme": opened}
"""
    )

    def test_a_scheme_of_a_plugin(self, site: Site, registry: ToolRegistry) -> None:
        """`registry.journal = "acme://…"` opens the plugin's store, and calls are written to it."""
        site.install("acme", self.SOURCE)
        with pytest.raises(ToolUsageError, match="to use 'acme', load a plugin for it first"):
            registry.journal = "acme://somewhere"
        load_plugins(registry)
        registry.journal = "acme://somewhere"
        call(registry)

        assert ["acme://somewhere"] == log()
        assert ["agent_tool_call", "agent_tool_result"] == [one.type.value for one in registry.journal.read()]


class TestFormats:
    SOURCE = (
        HEAD
        + """
import attrs
from praval_tools.formats import FORMATS
def export(offer):
    return {"tool": offer.name, "says": offer.description}
@hookimpl
def praval_tools_formats():
    return {"acme": attrs.evolve(FORMATS["openai-chat"], name="acme", export=export)}
"""
    )

    def test_a_format_of_a_plugin(self, site: Site, registry: ToolRegistry) -> None:
        """Schemas come in it, where the plugin is loaded; elsewhere it is unknown, and the list says what there is."""
        site.install("acme", self.SOURCE)
        with pytest.raises(UnknownFormatError):
            registry.schemas("ann", "acme")
        load_plugins(registry)

        assert {"tool": "add", "says": "Add."} == registry.schemas("ann", "acme")[0]
        assert b'"tool":"wire"' in registry.toolset("ann").schemas_json("acme")
        assert "function" == registry.schemas("ann", "openai-chat")[0]["type"]
        with pytest.raises(UnknownFormatError, match="acme"):
            registry.schemas("ann", "acmee")
        with pytest.raises(UnknownFormatError, match="openai-chat"):
            ToolRegistry().schemas("ann", "acme")

    def test_loaded_again_it_is_the_new_one(self, site: Site, registry: ToolRegistry) -> None:
        """Nothing that was written in the old one is given out."""
        site.install("acme", self.SOURCE)
        load_plugins(registry)
        assert "says" in registry.schemas("ann", "acme")[0]
        site.remove("acme")
        site.install("acme", self.SOURCE.replace("says", "tells"), version="2.0")
        load_plugins(registry)

        assert "tells" in registry.schemas("ann", "acme")[0]

    def test_two_plugins_of_one_format(self, site: Site, registry: ToolRegistry) -> None:
        """The first by name brings it; the other is kept out whole."""
        site.install("acme", self.SOURCE)
        site.install("zzz", self.SOURCE + "@tool\ndef of_z() -> int:\n    'Z.'\n    return 1\n")
        reports = loaded(registry)

        assert ("clash", ["add", "wire"]) == (reports["zzz"].stage, names(registry))
        assert "which acme brings already" in str(reports["zzz"].error)


class TestSources:
    SOURCE = (
        HEAD
        + """
@hookimpl
def praval_tools_sources():
    return {"acme": load}
def load(table):
    log.append(table)
    def made() -> str:
        "Made."
        return table["word"]
    yield Tool.from_function(made, table["name"])
    if table["word"] == "bad":
        raise ValueError("bad word")
"""
    )

    def test_a_kind_of_source(self, site: Site, registry: ToolRegistry) -> None:
        """Each `[[sources]]` table of the kind is loaded by the plugin; one that fails leaves nothing."""
        site.install("acme", self.SOURCE)
        config = {"sources": [
            {"kind": "acme", "name": "hello", "word": "good"}, {"kind": "acme", "name": "not", "word": "bad"},
            {"kind": "other"},
        ]}  # fmt: skip
        with pytest.warns(PluginWarning):
            reports = load_plugins(registry, config=config)

        assert [True, True, False, False] == [one.loaded for one in reports]
        assert "good" == registry.execute_tool("hello")
        assert ["add", "wire", "hello"] == names(registry)
        source = registry.get_tool("hello").metadata.source
        assert ("config", "acme", "plugin:acme") == (
            source.kind, source.distribution, registry.get_tool("hello").metadata.owned_by
        )  # fmt: skip
        assert "no loaded plugin brings kind 'other'; known are: acme" in str(reports[3])

    def test_has_no_rights(self, site: Site, registry: ToolRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
        """What a plugin does while it loads a table it does in its own name, also as its tools are read."""
        monkeypatch.setitem(sys.modules, "host_of_source", SimpleNamespace(registry=registry))
        body = """
from host_of_source import registry
from praval_tools import NotOwnerError
def try_to_grant():
    try:
        registry.assign_tool_to_agent("add", "acme")
    except NotOwnerError as error:
        log.append(str(error).split(" may not ")[0])
@hookimpl
def praval_tools_sources():
    return {"acme": load}
def load(table):
    try_to_grant()
    def made() -> str:
        "Made."
        return ""
    return read(Tool.from_function(made, "made"))
def read(tool):
    try_to_grant()
    yield tool
    try_to_grant()
"""
        site.install("acme", HEAD + body)
        load_plugins(registry, config={"sources": [{"kind": "acme"}]})

        assert ["'plugin:acme'"] * 3 == log()
        assert "made" in names(registry)

    def test_loaded_again(self, site: Site, registry: ToolRegistry) -> None:
        """The tools of a table take the place of those that it gave before."""
        site.install("acme", self.SOURCE)
        for word in ("one", "two"):
            load_plugins(registry, config={"sources": [{"kind": "acme", "name": "hello", "word": word}]})

        assert "two" == registry.execute_tool("hello")


def lambda_of(event: Any) -> Any:
    """Return a tool's function that waits for *event*."""

    def wait() -> int:
        """Wait."""
        event.wait(60)
        return 1

    return wait


def _one() -> int:
    """One."""
    return 1
