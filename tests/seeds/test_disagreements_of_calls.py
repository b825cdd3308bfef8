"""Where the seeds disagree, or can't hold as printed, on calls, records and schemas: one class per row of the table."""

import asyncio
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import praval_tools
from praval_tools import (
    Agent,
    Outcome,
    Tool,
    ToolCall,
    ToolDefinitionError,
    ToolDefinitionWarning,
    ToolRegistry,
    tool,
)
from praval_tools.formats import parse_tool_calls
from praval_tools.journal.events import AgentToolCall


@dataclass
class Node:
    """A word, and those below it."""

    word: str
    below: "list[Node]"


def count_words(tree: Node, depth: int | str = 1) -> int:
    """Count the words of a tree."""
    return 1


@pytest.fixture
def journaled(tmp_path: Path) -> ToolRegistry:
    """A registry with a journal."""
    return ToolRegistry(journal=tmp_path / "runs.db")


class TestCallsInDoubt:
    """Row: in PyWorkflow a call without a recorded result runs again."""

    @pytest.mark.parametrize(("idempotent", "outcome"), [(None, Outcome.IN_DOUBT), (True, Outcome.OK)])
    def test_in_doubt_unless_idempotent(
        self, idempotent: bool | None, outcome: Outcome, journaled: ToolRegistry
    ) -> None:
        """
        A call that began and was cut is in doubt when it is asked for again; an idempotent one runs again.
        """
        begun: list[str] = []

        @journaled.tool("pay", shared=True, idempotent=idempotent)
        async def pay() -> str:
            """Pay."""
            begun.append("")
            if len(begun) == 1:
                await asyncio.sleep(3600)
            return "paid"

        async def main() -> Outcome:
            call = ToolCall("1", "pay", {})
            with journaled.run("r"):
                task = asyncio.create_task(Agent("ann", registry=journaled).aexecute(call))
                while not begun:
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            with journaled.run("r"):
                return (await journaled.agent("ann").aexecute(call)).outcome

        assert outcome is asyncio.run(main())
        assert (2 if idempotent else 1) == len(begun)


class TestOneFormOfExecute:
    """Row: PyWorkflow's diagram has `execute(name=…, **args)`, its code `execute(id, name, arguments)`."""

    def test_keywords_are_execute_tool(self, tool_registry: ToolRegistry) -> None:
        """
        `execute` takes id, name and arguments; the keywords of the diagram are those of `execute_tool`.
        """

        @tool_registry.tool("search")
        def search(query: str) -> str:
            """Search."""
            return query

        assert "cats" == tool_registry.execute("1", "search", {"query": "cats"}).result
        assert "cats" == tool_registry.execute_tool("search", query="cats")
        with pytest.raises(TypeError):
            tool_registry.execute(name="search", query="cats")  # type: ignore[call-arg]


class TestEventFields:
    """Row: PyWorkflow's events keep their fields in `.data`, with a `timestamp`."""

    def test_fields_are_attributes(self, journaled: ToolRegistry) -> None:
        """
        Tool name, arguments and call id are attributes of the event, and `time` is when it happened.
        """
        journaled.tool("count")(count_words)
        journaled.execute("1", "count", {"tree": {"word": "a", "below": []}})
        assert journaled.journal is not None
        (event,) = [one for one in journaled.journal.events() if isinstance(one, AgentToolCall)]

        assert ("1", "count") == (event.tool_call_id, event.tool_name)
        assert event.time.tzinfo is not None
        assert not hasattr(event, "data")


class TestIdsOutsideOfRuns:
    """Row: in PyWorkflow an id identifies a call everywhere."""

    def test_within_a_run(self, journaled: ToolRegistry) -> None:
        """
        The same call twice is one call in a run, and two outside of runs.
        """
        ran: list[str] = []

        @journaled.tool("ping", shared=True)
        def ping() -> int:
            """Ping."""
            ran.append("")
            return len(ran)

        call = ToolCall("1", "ping", {}, "ann")
        assert [1, 2] == [journaled.execute(call).result for _ in range(2)]
        results = []
        for _ in range(2):
            with journaled.run("r"):
                results.append(journaled.execute(call).result)
        assert [3, 3] == results


class TestTimeoutsAreRetriedIfIdempotent:
    """Row: in Agentic-AI every time-out is tried again."""

    @pytest.mark.parametrize(("idempotent", "attempts"), [(None, 1), (True, 2)])
    def test_only_idempotent_tools(self, idempotent: bool | None, attempts: int) -> None:
        """
        A tool that may have done its work before the time was over is not entered again, unless it is idempotent.
        """
        registry, entered = ToolRegistry(retry_wait=0), list[str]()

        @registry.tool("slow", shared=True, timeout=0.02, retries=1, idempotent=idempotent)
        async def slow() -> None:
            """Take for ever."""
            entered.append("")
            await asyncio.sleep(3600)

        result = asyncio.run(registry.agent("ann").aexecute(ToolCall("1", "slow", {})))

        assert (Outcome.TIMEOUT, attempts) == (result.outcome, len(entered))


class TestNoRetriesByDefault:
    """Row: Agentic-AI tries again three times by default."""

    def test_none_unless_asked_for(self) -> None:
        """
        Nothing is tried again unless the tool or the registry says how often.
        """
        for registry, attempts in ((ToolRegistry(), 1), (ToolRegistry(retries=3, retry_wait=0), 4)):
            entered: list[str] = []

            @registry.tool("busy", shared=True)
            def busy() -> None:
                """Be busy."""
                entered.append("")
                raise praval_tools.RetryableToolError("busy")

            registry.agent("ann").execute(ToolCall("1", "busy", {}))
            assert attempts == len(entered)


class TestSchemasKeepReferences:
    """Row: ToolRegistry strips `$ref`, `anyOf` and `$schema` from schemas."""

    @pytest.mark.parametrize("api_format", ["openai-chat", "anthropic", "gemini"])
    def test_references_and_unions_stay(self, api_format: str) -> None:
        """
        A recursive class and a union are in the exported schema, since the providers read them.
        """
        schema = str(Tool.from_function(count_words).get_schema(api_format))

        assert "$ref" in schema and "$defs" in schema
        assert "anyOf" in schema or "['integer', 'string']" in schema


class TestToolsAreFunctions:
    """Row: tinyAgent checks the source of tool classes, and has a tool that runs code."""

    def test_a_class_is_refused(self) -> None:
        """
        A class is not a tool; the signature of a function is what is checked.
        """
        with pytest.raises(ToolDefinitionError):
            tool(register=False)(Node)  # type: ignore[call-overload]

    def test_no_tool_comes_with_the_package(self) -> None:
        """
        A new registry is empty: nothing that runs code, or anything else, is there unasked.
        """
        assert [] == ToolRegistry().list_all_tools()


class TestRawArguments:
    """Row: Agentic-AI keeps arguments that are not JSON in a field `_raw_args`."""

    def test_in_their_place(self) -> None:
        """
        They stay in `arguments`, as text.
        """
        call = {"id": "1", "function": {"name": "a", "arguments": '{"b": '}}

        assert ['{"b": '] == [
            one.arguments for one in parse_tool_calls({"tool_calls": [call]})]  # fmt: skip


class TestFileSystemTag:
    """Row: `file_system` is one of ToolRegistry's predefined tags."""

    def test_is_written_and_not_derived(self, tool_registry: ToolRegistry) -> None:
        """
        Five tags come from what a tool declares; `file_system` is there where it is written, and found like the others.
        """
        everything = {"destructive": True, "open_world": True, "speed": "slow", "requires_approval": True}
        declared = tool_registry.tool("declared", **everything)(count_words)
        tool_registry.tool("read", read_only=True, tags=["file_system"])(count_words)

        assert {"destructive", "network", "slow", "privileged"} == set(declared.metadata.all_tags)
        assert {"read_only", "file_system"} == set(tool_registry.get_tool("read").metadata.all_tags)
        assert ["read"] == [one.name for one in tool_registry.search_tools(tags=["file_system"])]
        assert ["read"] == tool_registry.disable_by_tags(any=["file_system"])


class TestMissingDescription:
    """Row: in PyWorkflow a tool without a docstring is described as "No description"."""

    def test_empty_with_a_warning(self) -> None:
        """
        Its description is empty, and the program is warned.
        """

        def bare(query: str) -> str:
            return query

        with pytest.warns(ToolDefinitionWarning):
            assert "" == Tool.from_function(bare).description


class TestOrderOfLists:
    """Row: Praval's registry lists tools in the order of a set."""

    def test_registration_order(self, tool_registry: ToolRegistry) -> None:
        """
        Lists come in the order of registration.
        """
        for name in ("b", "c", "a"):
            tool_registry.tool(name, shared=True)(count_words)

        assert ["b", "c", "a"] == [one.name for one in tool_registry.list_all_tools()]
        assert ["b", "c", "a"] == [one.name for one in tool_registry.get_tools_for_agent("ann")]


class TestChangesCountAtOnce:
    """Row: Praval changes permissions for agents that are made later only."""

    def test_a_change_counts_at_once(self, tool_registry: ToolRegistry) -> None:
        """
        A running agent loses a tool with the next call, in every thread.
        """
        tool_registry.tool("count", shared=True)(count_words)
        agent, outcomes = Agent("ann"), list[Any]()
        call = ToolCall("1", "count", {"tree": {"word": "a", "below": []}})
        assert agent.execute(call).success
        tool_registry.block("count", "ann")
        thread = threading.Thread(target=lambda: outcomes.append(agent.execute(call).outcome))
        thread.start()
        thread.join(20)

        assert [Outcome.FORBIDDEN] == outcomes
