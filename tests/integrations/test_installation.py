"""`install`: programs of Praval's run unchanged on a registry of ours, and `uninstall` leaves nothing behind."""

from __future__ import annotations

import asyncio
import copy
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from praval_rig import MCPClient, MCPServerConfig, Model, clean, fresh, get_reef, praval, scripted  # noqa: F401
from praval_rig import praval_registry as module

import praval_tools
from praval_tools import DuplicateToolError, Tool, ToolRegistry, ToolUsageError
from praval_tools.compat import praval as compat
from praval_tools.integrations.praval import TESTED, attach, install, uninstall


@pytest.fixture
def registry() -> Iterator[ToolRegistry]:
    """An empty registry."""
    with ToolRegistry(name="main") as made:
        yield made


def add(x: int, y: int) -> int:
    """Add."""
    return x + y


PROGRAM = '''
import praval
from praval import agent, chat, tool, get_tool_registry, ToolRegistry, Tool, ToolMetadata, InterventionRequired

said = []

@tool("add_numbers", owned_by="calculator", category="math", tags=["sum"])
def add(x: float, y: float) -> float:
    """Add two numbers."""
    return x + y

@tool("logger", shared=True)
def log(message: str) -> str:
    return "logged " + message

@tool("my tool", category="math")
def odd(x: int) -> int:
    return -x

@tool("Logger", owned_by="calculator")
def near_clash(x: int) -> int:
    return x

@agent("calculator", provider="script", memory=True, tool_categories=["math"], tools=["len", "logger"])
def calculator(spore):
    """Calculate."""
    calculator.remember("asked " + str(spore.knowledge["n"]))
    praval.broadcast({"type": "sum", "sum": chat("add"), "seen": len(calculator.recall("asked"))})

@agent("reporter", provider="script", responds_to=["sum"])
def reporter(spore):
    """Report."""
    said.append(("reported", spore.knowledge["sum"], spore.knowledge["seen"]))

@calculator.tool
def double(x: int) -> int:
    """Double."""
    return 2 * x

@agent("calculator two", provider="script")
def other(spore):
    """Other."""

@other.tool
def double(x: int) -> str:
    """Another one of this name."""
    return "other"

pay_spec = praval.ToolSpec(
    name="pay", parameters={"type": "object", "properties": {"n": {"type": "integer"}}},
    requires_approval=True, risk_level="high", approval_reason="money",
)
calculator._praval_agent.add_tool_spec(pay_spec, lambda n: f"paid {n}")
calculator._praval_agent.configure_hitl(enabled=True, db_path=DB)

registry = get_tool_registry()
said.append((isinstance(registry, ToolRegistry), isinstance(registry.get_tool("logger"), Tool)))
said.append(sorted(calculator.list_tools()))
said.append({name: sorted(one) for name, one in calculator._praval_agent.tools.items()})
said.append(sorted(t.metadata.tool_name for t in registry.list_all_tools()))
said.append(registry.get_registry_stats())
said.append(registry.get_tool("double").func is calculator._praval_agent.tools["double"]["function"])
said.append(registry.get_tool("pay").to_dict())
said.append(registry.assign_tool_to_agent("my tool", "reporter"))
said.append(registry.remove_tool_from_agent("logger", "reporter"))

from praval import start_agents, get_reef
start_agents(calculator, reporter, initial_data={"type": "ask", "n": 1}, channel="sums")
get_reef().wait_for_completion(timeout=10)

try:
    calculator._praval_agent.chat("pay")
except InterventionRequired as waiting:
    said.append(("waiting", waiting.tool_name, waiting.reason))
    intervention = calculator.get_pending_interventions()[0]
    calculator.approve_intervention(intervention.id, edited_args={"n": 7})
    said.append(calculator.resume_run(waiting.run_id))
said.append(sorted(t["tool_name"] for t in praval.list_tools(agent_name="reporter")))
calculator._praval_agent.close()
said.append(sorted(t.metadata.tool_name for t in registry.list_all_tools()))
praval.reset_tool_registry()
said.append((get_tool_registry() is registry, registry.list_all_tools(), get_tool_registry().list_all_tools()))
'''
"""Everything that Praval's own tools do: two agents, spores, memory, categories, a spec with approval, a reset."""


def run_program(path: Path) -> Any:
    """Run the program with a model that follows a script; returns what it says and what the model was reported."""
    path.mkdir()
    model = scripted(
        "script", [("add", {"x": 1, "y": 2}), ("add_numbers", {"x": 1, "y": 2})], "three", [("pay", {"n": 1})], "done"
    )
    scope: dict[str, Any] = {"DB": str(path / "hitl.db"), "__name__": "program"}
    exec(compile(PROGRAM, "program", "exec", dont_inherit=True), scope)
    return scope["said"], model.received, model.errors, [sorted(one) for one in model.offered]


class TestUnchanged:
    def test_a_program_says_the_same(self, tmp_path: Path, registry: ToolRegistry) -> None:
        """`@tool`, `@agent`, `agent.tool`, specs, HITL, spores, memory, lists and a reset: no difference."""
        plain = run_program(tmp_path / "plain")
        with clean(), install(registry):
            ours = run_program(tmp_path / "ours")

        assert plain == ours
        assert any(one[0] == "reported" for one in plain[0] if isinstance(one, tuple))

    def test_what_it_declares_is_in_the_registry(self, registry: ToolRegistry) -> None:
        """Tools of `@tool`, `agent.tool` and `add_tool_spec` have owners, sharing and approvals here."""
        with install(registry):

            @praval.tool("shared one", shared=True, requires_approval=True, risk_level="critical")
            def one(x: int) -> int:
                """One."""
                return x

            theirs = praval.Agent("ann", provider="script")
            theirs.tool(add)

        assert ["add"] == [tool.name for tool in registry if tool.metadata.owned_by == "ann"]
        shared = registry.get_shared_tools()[0]
        assert (True, "critical", "shared one") == (
            shared.metadata.requires_approval, shared.metadata.risk_level, shared.metadata.extra["declared_as"]
        )  # fmt: skip
        assert 3 == registry.agent("ann").call("add", x=1, y=2)

    def test_tools_of_an_mcp_client(self, registry: ToolRegistry) -> None:
        """What Praval's MCP client registers has its schema, approval and async handler after `attach`."""

        class Session:
            async def list_tools(self, cursor: Any = None) -> Any:
                """Return one tool."""
                schema = {"type": "object", "properties": {"q": {"type": "integer"}}, "required": ["q"]}
                return SimpleNamespace(tools=[SimpleNamespace(name="find", description="Find.", inputSchema=schema)])

            async def call_tool(self, name: str, arguments: Any) -> Any:
                """Echo."""
                content = [SimpleNamespace(type="text", text=f"{name} {arguments}")]
                return SimpleNamespace(content=content, isError=False, structuredContent=None)

        client = MCPClient(MCPServerConfig(name="far", transport="stdio", command="none", require_approval=False))
        client._session = Session()

        async def main() -> Model:
            model = scripted("script", [("far__find", {"q": "3"}), ("far__find", {"q": "x"})], "done")
            theirs = praval.Agent("ann", provider="script")
            with install(registry), attach(theirs):
                await client.register_tools(theirs)
                await theirs.agenerate("go")
            return model

        model = asyncio.run(main())
        assert "find {'q': 3}" == model.received[0]
        assert [False, True] == model.errors
        assert ["q"] == list(registry.get_tool("far__find").parameters["properties"])  # type: ignore[union-attr]

    def test_agents_by_spores_are_journaled_when_attached(self, registry: ToolRegistry) -> None:
        """A handler that a spore starts chats through the registry: its calls carry its agent's name."""
        registry.journal = "memory"
        scripted("script", [("add", {"x": 1, "y": 2})], "three")
        heard = []

        @praval.agent("adder", provider="script", auto_broadcast=False)
        async def adder(spore: Any) -> None:
            """Add."""
            heard.append(await praval.achat("add"))

        adder.tool(add)
        with install(registry), attach(adder):
            get_reef().system_broadcast({"type": "go"}, adder._praval_channel)
            get_reef().wait_for_completion(timeout=10)

        assert ["three"] == heard
        assert registry.journal is not None
        assert {("adder", "add")} == {
            (one.agent, one.tool_name) for one in registry.journal.events() if hasattr(one, "tool_name")
        }


class TestInstalling:
    def test_uninstall_restores_exactly(self, registry: ToolRegistry) -> None:
        """The objects that were in Praval's module before are there again, and unchanged."""
        before_tools = praval.get_tool_registry()
        praval.tool("old", owned_by="ann")(copy.copy(add))
        names = dict(vars(module))
        state = copy.deepcopy(
            {key: value for key, value in vars(before_tools).items() if key not in ("_lock", "_tools")}
        )

        with install(registry) as held:
            praval.tool("new", owned_by="ann")(add)
            assert held.active
            assert ["old", "new"] == [one.name for one in registry]
        held.uninstall()

        assert names == vars(module)
        assert before_tools is praval.get_tool_registry()
        assert ["old"] == [one.metadata.tool_name for one in praval.get_tool_registry().list_all_tools()]
        assert state == {key: value for key, value in vars(before_tools).items() if key in state}
        assert not held.active
        assert not uninstall()

    def test_what_praval_has_comes_along(self, registry: ToolRegistry) -> None:
        """Tools, assignments and removals of Praval's registry count here."""

        def declare(name: str, **fields: Any) -> None:
            def work(x: int) -> int:
                """Work."""
                return x

            praval.tool(name, **fields)(work)

        declare("owned", owned_by="ann")
        declare("given", owned_by="ann")
        declare("taken", owned_by="ann")
        declare("shared", shared=True)
        praval.register_tool_with_agent("given", "bob")
        praval.unregister_tool_from_agent("taken", "ann")

        with install(registry):
            for agent in ("ann", "bob"):
                assert {"ann": ["owned", "given", "shared"], "bob": ["given", "shared"]}[agent] == [
                    one["tool_name"] for one in praval.list_tools(agent_name=agent)
                ]

    def test_a_clash_installs_nothing(self, registry: ToolRegistry) -> None:
        """Another tool has the name: an error that names both, nothing installed, nothing brought; or as output."""
        registry.register_tool(Tool.from_function(add, name="second", owned_by="host"))
        for name in ("first", "second"):
            praval.tool(name, owned_by="ann")(copied(add))
        before = praval.get_tool_registry()

        with pytest.raises(DuplicateToolError, match=r"'host'.*'ann' \(Praval's registry\)"):
            install(registry)
        assert before is praval.get_tool_registry()
        assert ["second"] == [one.name for one in registry]

        with install(registry, collisions="rename"):
            assert ["second", "first", "ann-second"] == [one.name for one in registry]

    def test_a_reset_is_survived(self, registry: ToolRegistry) -> None:
        """After `reset_tool_registry()` a new, empty registry object follows, and it is ours again; in threads, too."""
        registry.register_tool(Tool.from_function(add, name="host", owned_by="host"))
        with install(registry):
            first = praval.get_tool_registry()
            praval.tool("one", owned_by="ann")(copied(add))
            praval.unregister_tool_from_agent("one", "ann")
            praval.reset_tool_registry()
            assert first is not praval.get_tool_registry()
            assert ["host"] == [one["tool_name"] for one in praval.list_tools()]
            praval.tool("one", owned_by="ann")(copied(add))
            assert ["one"] == [one["tool_name"] for one in praval.list_tools(agent_name="ann")]

            strange: list[Any] = []
            gate = threading.Barrier(4)

            def work(resets: bool) -> None:
                gate.wait()
                for _ in range(300):
                    if resets:
                        praval.reset_tool_registry()
                    elif getattr(praval.get_tool_registry(), "registry", None) is not registry:
                        strange.append(praval.get_tool_registry())

            threads = [threading.Thread(target=work, args=(at % 2 == 0,)) for at in range(4)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
            assert [] == strange

    def test_users_that_replace_the_registry(self, registry: ToolRegistry) -> None:
        """Who puts a registry of his own in the place is served by that; what he put there is not taken away."""
        with install(registry):
            mine = module._global_registry = praval.ToolRegistry()
            praval.tool("elsewhere")(copied(add))
            assert mine is praval.get_tool_registry()
            assert [] == list(registry)
            module._global_registry = None
            praval.tool("here")(copied(add))
            assert ["here"] == [one.name for one in registry]
            module._global_registry = mine
        assert mine is praval.get_tool_registry()

    def test_twice_and_two(self, registry: ToolRegistry) -> None:
        """The same registry twice is once; another one is refused with the fix; two threads agree on one."""
        with install(registry) as first:
            install(registry)
            with pytest.raises(ToolUsageError, match="'main'.*uninstall"):
                install(ToolRegistry(name="other"))
            assert first.registry is registry
            assert uninstall()
            assert not uninstall()

        gate, made, refused = threading.Barrier(4), [], []

        def work(one: ToolRegistry) -> None:
            gate.wait()
            try:
                made.append(install(one).registry)
            except ToolUsageError:
                refused.append(one)

        threads = [threading.Thread(target=work, args=(ToolRegistry(name=str(at)),)) for at in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert (1, 3) == (len(made), len(refused))
        assert praval.get_tool_registry().registry is made[0]

    def test_ours_tools_are_offered_to_plain_agents(self, registry: ToolRegistry) -> None:
        """A plain Praval agent gets what it may call at its creation, with the present approval."""
        registry.register_tool(Tool.from_function(add, name="host", owned_by="ann"))
        registry.configure("host", requires_approval=True, risk_level="high")
        with install(registry):

            @praval.agent("ann", provider="script")
            def ann(spore: Any) -> None:
                """Ann."""

        entry = ann.get_tool("host")
        assert (True, "high", 3) == (entry["requires_approval"], entry["risk_level"], entry["function"](1, 2))

    def test_the_default_registry_and_compat(self) -> None:
        """Without a registry the default one is installed; `compat.praval` shows the same tools."""
        with install():
            praval.tool("one", owned_by="ann")(copied(add))
            assert ["one"] == [one.name for one in praval_tools.get_tool_registry()]
            assert compat.get_tool_registry().get_tool("one") is praval.get_tool_registry().get_tool("one")


def copied(function: Any) -> Any:
    """Return a function of its own."""

    def work(x: int, y: int) -> int:
        """Work."""
        return int(function(x, y))

    return work


class TestExtra:
    def run(self, program: str, *options: str) -> str:
        """Run a program in a process of its own; returns what it prints, warnings and errors too."""
        done = subprocess.run([sys.executable, *options, "-c", program], capture_output=True, text=True)
        return done.stdout + done.stderr

    def test_without_praval(self) -> None:
        """The module can be imported; each function says what to install."""
        program = (
            "import sys; sys.modules['praval'] = None\n"
            "from praval_tools import MissingExtraError\n"
            "import praval_tools.integrations.praval as ours\n"
            "for one in (ours.install, ours.uninstall, ours.migrate, lambda: ours.attach(print)):\n"
            "    try: one()\n"
            "    except MissingExtraError as error: print(error.extra, error)\n"
        )
        text = "praval praval_tools.integrations.praval needs an extra: pip install 'praval-tools[praval]'.\n"
        assert text * 4 == self.run(program, "-W", "error")

    def test_another_version_is_warned_of_once(self) -> None:
        """A Praval that was not tested is named together with the one that was; only the first time."""
        program = (
            "import praval; praval.__version__ = '0.9.1'\n"
            "from praval_tools.integrations.praval import install, uninstall, migrate\n"
            "for _ in range(3):\n    install()\n    migrate()\n    uninstall()\n"
        )
        said = self.run(program, "-W", "always")
        assert 1 == said.count("praval 0.9.1 is installed; praval_tools.integrations.praval is tested with")
        assert TESTED == praval.__version__

    def test_praval_is_not_imported_by_importing(self) -> None:
        """Neither `praval_tools` nor the modules of the integration import Praval."""
        program = (
            "import sys, praval_tools, praval_tools.compat.praval, praval_tools.integrations.praval\n"
            "print([one for one in sys.modules if one == 'praval' or one.startswith('praval.')])"
        )
        assert "[]\n" == self.run(program, "-W", "error")
