"""What a module declares that fails inside of another one, which catches its error, is left out."""

# Tests of: discovery, access/pending_change

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from praval_tools import Allow, DiscoveryError, Outcome, ToolCall, ToolRegistry, discover_tools

OPTIONAL = """
from praval_tools import Agent, Allow, get_tool_registry, tool

@tool("extra", shared=True)
def extra() -> str:
    "Do more."
    return "extra"

@tool("pay", shared=True, requires_approval=True)
def pay() -> str:
    "Pay."
    return "paid"

Agent("{name}", tools=["base"])
get_tool_registry().assign_tool_to_agent("base", "guest", key="{name}")
get_tool_registry().set_approval_handler(lambda request: Allow(by="{name}"))
{end}
"""
MAIN = """
from praval_tools import Agent, tool

@tool("main", shared=True)
def main() -> str:
    "Be there."
    return "main"

Agent("host", tools=["base"])
try:
    import optional
except ImportError:
    pass
"""
COMPANY = """
from praval_tools import get_tool_registry, tool

def company_tool(function):
    get_tool_registry().assign_tool_to_agent("base", "guest", key="company")
    return tool(function.__name__, shared=True)(function)
"""
BY_COMPANY = """
from company import company_tool

@company_tool
def refund() -> str:
    "Refund."
    return "refunded"

import not_there
"""
IN_A_TASK = """
import asyncio
from datetime import timedelta
from praval_tools import get_tool_registry, tool

async def declare() -> None:
    get_tool_registry().approvals.lifetime = timedelta(days=1)
    @tool("refund", shared=True)
    def refund() -> str:
        "Refund."
        return "refunded"

asyncio.run({way})
import not_there
"""
FAILING = "import optional\nraise RuntimeError('no licence')\n"


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ToolRegistry]:
    """A registry with a tool, in a folder on the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with ToolRegistry(journal=tmp_path / "runs.db") as made:

        @made.tool("base", owned_by="ann")
        def base() -> str:
            """Be the base."""
            return "base"

        yield made


def discover(registry: ToolRegistry, around: str, *names: str) -> list[str]:
    """Discover modules, maybe inside a change; return the names of those that failed."""
    context: AbstractContextManager[object] = registry.change() if around == "change" else nullcontext()
    failed = []
    with context:
        for name in names:
            try:
                discover_tools(name, registry=registry)
            except DiscoveryError:
                failed.append(name)
    return failed


def reach(registry: ToolRegistry, tool: str, agent: str) -> Outcome:
    return registry.execute(ToolCall(None, tool, {}, agent)).outcome


@pytest.mark.parametrize("around", ["alone", "change"])
class TestFailingModules:
    @pytest.mark.parametrize("end", ["import not_there", "raise ImportError('no licence')"])
    def test_inside_of_one_that_goes_on(self, end: str, around: str, registry: ToolRegistry, tmp_path: Path) -> None:
        """
        Nothing of it stays: no tool, agent, grant or approval handler; all of the other one does.

        The promise was broken: each agent could call the tools of the module that had failed.
        """
        (tmp_path / "optional.py").write_text(OPTIONAL.format(name="helper", end=end), encoding="utf-8")
        (tmp_path / "host.py").write_text(MAIN, encoding="utf-8")

        assert [] == discover(registry, around, "host")
        assert ["base", "main"] == sorted(tool.name for tool in registry)
        assert ["host"] == registry.agents
        assert ("base", Outcome.OK) == (registry.agent("host").call("base"), reach(registry, "main", "guest"))
        assert Outcome.FORBIDDEN is reach(registry, "base", "guest")
        assert registry.approvals.handler is None

    @pytest.mark.parametrize("is_caught", [True, False])
    def test_that_declares_by_a_function_of_another_module(
        self, is_caught: bool, around: str, registry: ToolRegistry, tmp_path: Path
    ) -> None:
        """The promise was broken: what it declared by a decorator of its own project stayed."""
        (tmp_path / "company.py").write_text(COMPANY, encoding="utf-8")
        (tmp_path / "optional.py").write_text(BY_COMPANY, encoding="utf-8")
        (tmp_path / "host.py").write_text(MAIN if is_caught else FAILING, encoding="utf-8")

        assert ([] if is_caught else ["host"]) == discover(registry, around, "company", "host")
        assert is_caught == ("main" in registry)
        assert "refund" not in registry
        assert Outcome.FORBIDDEN is reach(registry, "base", "guest")

    def test_with_a_sound_one_inside(self, around: str, registry: ToolRegistry, tmp_path: Path) -> None:
        """What a sound module declares stays, though the one that imported it failed; inside a change, too."""
        (tmp_path / "optional.py").write_text(OPTIONAL.format(name="helper", end=""), encoding="utf-8")
        (tmp_path / "broken.py").write_text(FAILING, encoding="utf-8")

        assert ["broken"] == discover(registry, around, "broken")
        assert ["base", "extra", "pay"] == sorted(tool.name for tool in registry)
        assert [Outcome.OK] * 3 == [reach(registry, *one) for one in
                                    (("base", "guest"), ("base", "helper"), ("pay", "ann"))]  # fmt: skip

    def test_on_which_the_other_one_relies(self, around: str, registry: ToolRegistry, tmp_path: Path) -> None:
        """Then that one cannot stand without it, and fails, too; nothing stays, and all else of the change does."""
        (tmp_path / "optional.py").write_text(OPTIONAL.format(name="helper", end="import not_there"), encoding="utf-8")
        grant = "\nfrom praval_tools import get_tool_registry\nget_tool_registry().grant('extra', 'guest')\n"
        (tmp_path / "host.py").write_text(MAIN + grant, encoding="utf-8")
        (tmp_path / "other.py").write_text(MAIN.replace("main", "other").replace("host", "other"), encoding="utf-8")

        assert ["host"] == discover(registry, around, "other", "host")
        assert ["base", "other"] == sorted(tool.name for tool in registry)
        assert ["other"] == registry.agents


def test_a_change_that_is_undone_leaves_nothing(registry: ToolRegistry, tmp_path: Path) -> None:
    """Nor does what discovery brought into it."""
    (tmp_path / "optional.py").write_text(OPTIONAL.format(name="helper", end=""), encoding="utf-8")
    with suppress(ZeroDivisionError), registry.change():
        discover_tools("optional", registry=registry)
        registry.set_approval_handler(lambda request: Allow(by="nobody"))
        raise ZeroDivisionError

    assert ["base"] == [tool.name for tool in registry]
    assert registry.approvals.handler is None


@pytest.mark.parametrize(
    ("way", "around"),
    [("declare()", "alone"), ("declare()", "change"), ("asyncio.to_thread(asyncio.run, declare())", "alone")],
)
def test_what_a_module_declares_in_a_task(way: str, around: str, registry: ToolRegistry, tmp_path: Path) -> None:
    """In an event loop of its own, or in a thread of that: it fails with the module; inside a change it is refused."""
    (tmp_path / "host.py").write_text(IN_A_TASK.format(way=way), encoding="utf-8")

    assert ["host"] == discover(registry, around, "host")
    assert "refund" not in registry
    assert timedelta(hours=1) == registry.approvals.lifetime


@pytest.mark.parametrize("around", ["alone", "change"])
def test_a_file_that_a_module_runs_is_not_one_that_failed(around: str, registry: ToolRegistry, tmp_path: Path) -> None:
    """`runpy` takes its module out again at the end; the promise was broken that what it declares counts."""
    (tmp_path / "optional.py").write_text(OPTIONAL.format(name="helper", end=""), encoding="utf-8")
    (tmp_path / "host.py").write_text("import runpy\nrunpy.run_path('optional.py')\n", encoding="utf-8")

    assert [] == discover(registry, around, "host")
    assert ["base", "extra", "pay"] == sorted(tool.name for tool in registry)
    assert Outcome.OK is reach(registry, "base", "guest")
