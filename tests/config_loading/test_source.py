"""Configurations that are loaded again: all of the change counts, or nothing of it, and what was done since stays."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from importlib import invalidate_caches
from pathlib import Path

import pytest
from config_rig import load, write

from praval_tools import ConfigError, Outcome, ToolCall, ToolRegistry
from praval_tools.config_loading import source as loaded
from praval_tools.config_loading.source import ConfigurationSource, ConfigWarning

# Tests of: change, watcher, source

ENTRY = "  - {{name: {}, module: sums, function: add{}}}\n"


def text(*tools: str, more: str = "", **fields: str) -> str:
    """Return a configuration with these tools; fields of a tool by its name."""
    return "tools:\n" + "".join(ENTRY.format(tool, fields.get(tool, "")) for tool in tools) + more


def reload(folder: Path, source: ConfigurationSource, content: str) -> None:
    """Change the file, and load it again."""
    write(folder, content)
    source.refresh()


class TestReload:
    def test_what_is_gone_leaves_and_what_is_new_comes(self, folder: Path) -> None:
        """Tools, agents, blocks, limits and disabled categories follow the file; what is the same is left alone."""
        more = (
            "agents: {ann: {tools: [a, b]}, bob: {}}\nblocks: [{tool: a, agent: ann}]\n"
            "limits: [{agent: ann, per_minute: 1}]\ncategories: {x: {enabled: false}}\n"
        )
        registry, source = load(folder, text("a", "b", more=more))
        kept = registry.get_tool("b")
        reload(folder, source, text("b", "c", more="agents: {ann: {tools: [b, c]}}\nblocks: [{tool: b, agent: ann}]\n"))

        assert (["b", "c"], ["ann"], ["c"]) == (
            [tool.name for tool in registry], registry.agents, registry.agent("ann").list_tools()
        )  # fmt: skip
        assert kept.implementation is registry.get_tool("b").implementation
        assert ({}, []) == (dict(registry.state.disabled), registry.limits.all())

    def test_a_changed_entry_replaces_its_tool_in_place(self, folder: Path) -> None:
        """Owner and sharing follow the file; grants stay, where the tool says the same of its safety."""
        registry, source = load(folder, text("a", "b"))
        registry.grant("a", "ann")
        for field, held_by in (("category: sums", ["ann"]), ("risk_level: high", [])):
            reload(folder, source, text("a", "b", a=f", shared: true, owned_by: zoe, {field}"))
            metadata = registry.get_tool("a").metadata
            name, value = field.split(": ")

            assert (True, "zoe", value) == (metadata.shared, metadata.owned_by, getattr(metadata, name))
            assert held_by == [grant.agent for grant in registry.grants()]
            assert registry.explain("ann", "a").allowed
            assert ["a", "b"] == [tool.name for tool in registry]

    @pytest.mark.parametrize(
        "bad",
        ["tools: [", "tools: []\nagnts: {}\n", "agents: {ann: {tools: [zz]}}\ngrants: [{tool: zz, agent: ann}]\n"],
    )
    def test_a_bad_file_changes_nothing(self, folder: Path, bad: str) -> None:
        """What was in force stays so; the problem is among those of the registry until it is corrected."""
        registry, source = load(folder, text("a", more="agents: {ann: {tools: [a]}}\nexecution: {timeout: 5}\n"))
        before = registry.state
        with pytest.raises(ConfigError):
            reload(folder, source, bad)

        assert before == registry.state
        assert ["configuration"] == [one.kind for one in registry.problems()]
        reload(folder, source, text("a", more="agents: {ann: {tools: [a]}}\n"))
        assert [] == registry.problems()

    @pytest.mark.parametrize("schema", ["", "    parameters_schema: {type: object, properties: {x: {type: number}}}\n"])
    def test_a_function_that_was_missing_is_looked_for_again(self, folder: Path, schema: str) -> None:
        """Once its module is there, loading the same file again brings it."""
        module = f"later_{len(schema)}"
        fields = f"    description: D.\n    shared: true\n    module: {module}\n    function: f\n{schema}"
        registry, source = load(folder, f"tools:\n  - name: t\n{fields}")
        before = registry.execute(ToolCall(None, "t", {}, "ann")).outcome
        (folder / f"{module}.py").write_text("def f(x: float = 1) -> float:\n    return x\n")
        invalidate_caches()
        source.refresh()

        assert [Outcome.TOOL_ERROR, Outcome.OK] == [
            before,
            registry.execute(ToolCall(None, "t", {"x": 1}, "ann")).outcome,
        ]

    def test_registry_refresh_reloads(self, folder: Path) -> None:
        """`registry.refresh()` asks all sources, configurations among them."""
        registry, _ = load(folder, text("a"))
        write(folder, text("b"))
        registry.refresh()

        assert ["b"] == [tool.name for tool in registry]

    def test_two_configurations_of_one_name_are_distinguished(self, folder: Path) -> None:
        """What one brings, the other does not take away."""
        registry, _ = load(folder, text("a", more="grants: [{tool: a, agent: ann}]\n"))
        (folder / "other").mkdir()
        (folder / "other" / "c.yml").write_text(text("b", more="grants: [{tool: b, agent: ann}]\n"))
        registry.configure_from("other/c.yml")

        assert ["a", "b"] == registry.agent("ann").list_tools()


class TestChangesAtRunTime:
    def test_what_was_done_beats_what_is_declared(self, folder: Path) -> None:
        """A revoked grant, a transferred tool, one that is not shared any more and a retired agent stay so."""
        more = "grants: [{tool: a, agent: bob}]\nagents: {bob: {}, ann: {tools: [b]}, eve: {}}\n"
        content = text("a", "b", more=more, a=", owned_by: zoe", b=", shared: true")
        registry, source = load(folder, content)
        registry.revoke(registry.grants()[0])
        registry.transfer_ownership("a", "ann")
        registry.unshare_tool("b")
        registry.remove_tool_from_agent("b", "ann")
        registry.retire_agent("eve")
        reload(
            folder,
            source,
            content.replace("owned_by: zoe", "owned_by: zoe, tags: [t]").replace("true}", "true, tags: [t]}"),
        )
        a, b = registry.get_tool("a").metadata, registry.get_tool("b").metadata

        assert [] == registry.grants()
        assert ("ann", False, ("t",), ("t",)) == (a.owned_by, b.shared, a.tags, b.tags)
        assert not registry.agent("ann").tool_exists("b")
        assert registry.state.get_profile("eve").retired

    def test_a_tool_that_an_agent_was_given_since_stays_on_its_list(self, folder: Path) -> None:
        """Whatever else its entry lists by now; what the entry alone listed goes."""

        def look(x: float) -> float:
            """Look."""
            return x

        def write_agent(*tools: str) -> str:
            return text(
                "a", "b", more=f"agents: {{ann: {{tools: [{', '.join(tools)}], auto_discover_tools: false}}}}\n"
            )

        registry, source = load(folder, write_agent("a"))
        registry.agent("ann").add_tool(look)
        for tools in (["a", "b"], ["b"], ["b", "a"]):
            reload(folder, source, write_agent(*tools))
            assert {*tools, "look"} == set(registry.agent("ann").list_tools())

    def test_a_grant_follows_the_file(self, folder: Path) -> None:
        """One that is taken out ends, one whose terms change is another one, and one that comes back is new."""
        one, other = (text("a", more=f"grants: [{{tool: a, agent: ann, max_calls: {calls}}}]\n") for calls in (1, 2))
        registry, source = load(folder, one)
        outcomes = [registry.execute(ToolCall(None, "a", {"x": 1}, "ann")).outcome for _ in range(2)]
        assert [Outcome.OK, Outcome.FORBIDDEN] == outcomes
        source.refresh()
        assert [] == registry.grants()
        for content, uses in ((other, [2]), (text("a"), []), (other, [2]), (one, [1])):
            reload(folder, source, content)
            assert uses == [registry.uses_left(grant) for grant in registry.grants()]

    def test_grants_follow_the_file_from_start_to_start(self, folder: Path) -> None:
        """With a journal: what is left stays, what was revoked stays revoked, what is not declared any more ends."""
        journal = "journal: {path: runs.db}\n"
        grants = (
            "grants:\n  - {tool: a, agent: ann, max_calls: 3}\n  - {tool: a, agent: bob}\n  - {tool: a, agent: eve}\n"
        )
        with ToolRegistry.from_config(write(folder, text("a", more=journal + grants))) as registry:
            registry.execute(ToolCall(None, "a", {"x": 1}, "ann"))
            registry.remove_tool_from_agent("a", "bob")
        fewer = grants.replace("  - {tool: a, agent: eve}\n", "")
        with ToolRegistry.from_config(write(folder, text("a", more=journal + fewer))) as registry:
            assert [("ann", 2)] == [(grant.agent, registry.uses_left(grant)) for grant in registry.grants()]
        with ToolRegistry.from_config(write(folder, text("a", more=journal + grants))) as registry:
            assert ["ann", "eve"] == [grant.agent for grant in registry.grants()]

    def test_blocks_follow_the_file_from_start_to_start(self, folder: Path) -> None:
        """A block that is not declared any more is lifted at the next start; those of others stay."""
        journal = "journal: {path: runs.db}\n"
        blocks = "blocks: [{tool: a, agent: ann}]\n"
        with ToolRegistry.from_config(write(folder, text("a", more=journal + blocks, a=", shared: true"))) as registry:
            registry.block("a", "bob")
        with ToolRegistry.from_config(write(folder, text("a", more=journal, a=", shared: true"))) as registry:
            assert [True, False] == [registry.explain(agent, "a").allowed for agent in ("ann", "bob")]

    def test_a_block_of_the_operator_stops_no_start(self, folder: Path) -> None:
        """
        Who was blocked at run time stays so; the rest of the file counts, and its grant once the block is lifted.

        A block of the night before kept the program from starting, and a reload from taking anything away.
        """
        journal = "journal: {path: runs.db}\n"
        grants = "grants:\n  - {tool: a, agent: ann, max_calls: 2}\n  - {tool: a, agent: bob}\n"
        content = text("a", more=journal + grants)
        with ToolRegistry.from_config(write(folder, content)) as registry:
            registry.execute(ToolCall(None, "a", {"x": 1}, "ann"))
            registry.block("a", "ann")
        with pytest.warns(ConfigWarning, match="'a' to 'ann' is not made: a block"):
            registry = ToolRegistry.from_config(write(folder, content))
        with registry:
            assert [False, True] == [registry.explain(agent, "a").allowed for agent in ("ann", "bob")]
            assert "grant" in [problem.kind for problem in registry.problems()]
            registry.unblock("a", "ann")
            registry.refresh()
            assert "grant" not in [problem.kind for problem in registry.problems()]
            outcomes = [registry.execute(ToolCall(None, "a", {"x": 1}, "ann")).outcome for _ in range(2)]
            assert [Outcome.OK, Outcome.FORBIDDEN] == outcomes

    def test_a_block_of_the_operator_stops_no_reload(self, folder: Path) -> None:
        """What a file takes away counts, also where somebody whom it grants a tool is blocked, by itself too."""
        more = "grants:\n  - {tool: a, agent: ann}\n  - {tool: a, agent: bob}\n"
        registry, source = load(folder, text("a", more=more))
        registry.block("a", "ann")
        with pytest.warns(ConfigWarning, match="'ann' is not made"):
            reload(folder, source, text("a", more="grants: [{tool: a, agent: ann}]\n"))
        assert not registry.explain("bob", "a").allowed
        registry.unblock("a", "ann")
        assert registry.explain("ann", "a").allowed
        with pytest.warns(ConfigWarning, match="'ann' is not made"):
            reload(folder, source, text("a", more="grants: [{tool: a, agent: ann}]\nblocks: [{tool: a, agent: ann}]\n"))
        assert not registry.explain("ann", "a").allowed


class TestCallers:
    def test_no_caller_sees_a_mixture(self, folder: Path) -> None:
        """While a file changes to and fro, each look sees the tools of one version or of the other, never of both."""
        old, new = ["a", "b", "c"], ["d", "e", "f"]
        versions = [text(*names, more=f"agents: {{ann: {{tools: [{', '.join(names)}]}}}}\n") for names in (old, new)]
        registry, source = load(folder, versions[0])
        seen: set[tuple[str, ...]] = set()
        stopped = threading.Event()

        def look() -> None:
            while not stopped.is_set():
                tools = tuple(registry.agent("ann").tools)
                seen.add(tools)
                registry.execute(ToolCall(None, tools[0] if tools else "a", {"x": 1}, "ann"))

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        for version in range(20):
            reload(folder, source, versions[(version + 1) % 2])
            seen.add(tuple(registry.agent("ann").tools))  # the threads may have had no turn meanwhile
        stopped.set()
        for thread in threads:
            thread.join()

        assert {tuple(old), tuple(new)} == seen

    def test_what_was_read_earlier_never_replaces_what_was_read_later(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A slow reload that read the old file does not take back what a later one brought."""
        registry, source = load(folder, text("a"))
        has_read, may_go_on, read = threading.Event(), threading.Event(), loaded.read_configuration

        def read_slowly(paths: Sequence[str | os.PathLike[str]]) -> loaded.Reading:
            reading = read(paths)
            if threading.current_thread().name == "slow":
                has_read.set()
                may_go_on.wait(10)
            return reading

        monkeypatch.setattr(loaded, "read_configuration", read_slowly)
        slow = threading.Thread(target=source.refresh, name="slow")
        slow.start()
        assert has_read.wait(10)
        quick = threading.Thread(target=reload, args=(folder, source, text("a", "b")))
        quick.start()
        quick.join(0.5)
        may_go_on.set()
        slow.join()
        quick.join()

        assert ["a", "b"] == [tool.name for tool in registry]

    def test_files_that_are_put_into_force_again_are_in_force(self, folder: Path) -> None:
        """The error of a reload is gone once `configure_from` brought the corrected files."""
        registry, source = load(folder, text("a"))
        with pytest.raises(ConfigError):
            reload(folder, source, "agnets: {}")
        registry.configure_from(write(folder, text("b")))

        assert source.reload_error is None


class TestWatch:
    @pytest.fixture
    def watched(self, folder: Path) -> ToolRegistry:
        """A registry whose file is watched."""
        return ToolRegistry.from_config(write(folder, text("a")), watch=True)

    def test_files_that_are_written_or_replaced_are_loaded(self, folder: Path, watched: ToolRegistry) -> None:
        """Written in place, replaced by another file as editors do, removed and made again: each counts."""
        with watched:
            write(folder, text("a", "b"))
            wait_until(lambda: 2 == len(watched))
            (folder / "c.yml~").write_text(text("a", "b", "c"))
            os.replace(folder / "c.yml~", folder / "c.yml")
            wait_until(lambda: 3 == len(watched))
            (folder / "c.yml").unlink()
            time.sleep(0.3)
            assert 3 == len(watched)
            write(folder, text("d"))
            wait_until(lambda: ["d"] == [tool.name for tool in watched])

    def test_a_half_written_file_changes_nothing(self, folder: Path, watched: ToolRegistry) -> None:
        """It is a problem for as long as it is there, and the whole file is loaded once it is."""
        whole = text("a", "b", more="agents: {ann: {tools: [a, b]}}\n")
        with watched:
            write(folder, whole[:-7])
            wait_until(lambda: watched.problems() and watched.problems()[-1].kind == "configuration")
            assert ["a"] == [tool.name for tool in watched]
            write(folder, whole)
            wait_until(lambda: ["ann"] == watched.agents)
            assert [] == watched.problems()

    def test_whatever_goes_wrong_the_watching_goes_on(
        self, folder: Path, watched: ToolRegistry, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An error of a kind that nobody foresaw is a problem as well, until the file is right."""
        read = loaded.read_configuration

        def fail(paths: object) -> loaded.Reading:
            raise IndexError

        monkeypatch.setattr(loaded, "read_configuration", fail)
        with watched:
            write(folder, text("b"))
            wait_until(lambda: "IndexError" in str(watched.problems()))
            monkeypatch.setattr(loaded, "read_configuration", read)
            write(folder, text("b", "c"))
            wait_until(lambda: 2 == len(watched))
            assert "IndexError" not in str(watched.problems())

    def test_closing_ends_the_thread(self, folder: Path, watched: ToolRegistry) -> None:
        """No thread is left of a registry that is closed."""
        assert [thread for thread in threading.enumerate() if "c.yml" in thread.name]
        watched.close()

        assert [] == [thread for thread in threading.enumerate() if "c.yml" in thread.name]


def wait_until(holds: Callable[[], object]) -> None:
    """Wait until something holds that a thread brings about."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.01)
