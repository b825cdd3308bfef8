# Tests of: integrations/langchain_imports
"""Tools of LangChain work in a registry as its own do."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import pytest

pytest.importorskip("langchain")

from langchain.tools import ToolRuntime
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, ToolException, tool
from langgraph.prebuilt import InjectedState
from langgraph.types import Command
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, RootModel, create_model, model_serializer

from praval_tools import (
    Agent,
    Content,
    DuplicateToolError,
    ToolAccessError,
    ToolArgumentsError,
    ToolCall,
    ToolDefinitionError,
    ToolRegistry,
)
from praval_tools.integrations.langchain import import_tools, tools_for
from praval_tools.tools.frames import get_current_actor


class Order(BaseModel):
    """What is ordered."""

    item: Literal["rope", "hook"]
    count: int = Field(default=1, ge=1)


@tool(args_schema=Order)
def order(item: str, count: int = 1) -> dict[str, Any]:
    """Order something."""
    return {"item": item, "count": count}


@tool
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}!"


class Shout(BaseTool):
    """A tool that is a class."""

    name: str = "shout"
    description: str = "Shout."

    def _run(self, text: str) -> str:
        return text.upper()


class Whisper(Shout):
    """One with code for both kinds of callers."""

    name: str = "whisper"

    async def _arun(self, text: str) -> str:
        return text.lower()


@pytest.fixture
def registry() -> ToolRegistry:
    """An empty registry."""
    return ToolRegistry()


def call(registry: ToolRegistry, tool_name: str, /, **arguments: Any) -> Any:
    """Call a tool of the clerk."""
    return registry.toolset("clerk").call(tool_name, **arguments)


class TestImportedTools:
    def test_keep_their_definition(self, registry: ToolRegistry) -> None:
        """Name, description and schema are those of LangChain; the owner is the one that was given."""
        (imported,) = import_tools(registry, [order], owned_by="clerk")

        assert ("order", "Order something.", "clerk") == (
            imported.name,
            imported.description,
            imported.metadata.owned_by,
        )
        assert ["item"] == imported.parameters["required"]
        assert {"rope", "hook"} == set(imported.parameters["properties"]["item"]["enum"])

    def test_answer_calls(self, registry: ToolRegistry) -> None:
        """Sync and async tools, and classes of tools, are called by sync and async programs."""
        import_tools(registry, [order, greet, Shout(), Whisper()], owned_by="clerk")
        clerk = Agent("clerk", registry=registry)
        calls = [("order", {"item": "rope"}), ("greet", {"name": "Ann"}), ("shout", {"text": "a"})]
        calls.append(("whisper", {"text": "B"}))

        async def main() -> list[Any]:
            return [await clerk.acall(name, **arguments) for name, arguments in calls]

        expected = [{"item": "rope", "count": 1}, "Hello Ann!", "A", "b"]
        assert expected == [clerk.call(name, **arguments) for name, arguments in calls]
        assert expected == asyncio.run(main())

    def test_are_owned_and_checked(self, registry: ToolRegistry) -> None:
        """Others may not call them, arguments are checked, and the code runs in the owner's name."""
        actors = []

        @tool
        def note() -> str:
            """Note who calls."""
            actors.append(get_current_actor())
            return "noted"

        import_tools(registry, [order, note], owned_by="clerk")
        with pytest.raises(ToolAccessError):
            Agent("boss", registry=registry).call("order", item="rope")
        with pytest.raises(ToolArgumentsError, match="count"):
            call(registry, "order", item="rope", count=0)
        call(registry, "note")
        assert ["clerk"] == actors

    def test_take_arguments_of_any_name(self, registry: ToolRegistry) -> None:
        """Arguments that look like a call of LangChain are arguments."""
        seen = []

        def note(**arguments: Any) -> str:
            seen.append(arguments)
            return "noted"

        values = {"type": "tool_call", "name": "other", "args": {"x": 1}, "id": "1"}
        schema = {"type": "object", "properties": {name: {} for name in values}}
        made = StructuredTool(name="note", description="Note.", args_schema=schema, func=note)
        import_tools(registry, [made], owned_by="clerk")
        call(registry, "note", **values)

        assert [values] == seen

    @pytest.mark.parametrize("alias", [{"alias": "sum"}, {"validation_alias": AliasChoices("sum", "amount")}])
    @pytest.mark.parametrize("extra", ["ignore", "allow"])
    def test_get_no_other_names_of_what_is_judged(
        self, registry: ToolRegistry, extra: Literal["ignore", "allow"], alias: dict[str, Any]
    ) -> None:
        """
        Broken promise: bounds see what the tool gets. They saw `amount`, and the class of the arguments read `sum`.
        """

        config = ConfigDict(populate_by_name=True, extra=extra)
        inner = create_model("Inner", __config__=config, amount=(int, Field(default=1, **alias)))
        payment = create_model("Payment", __base__=inner, inner=(inner, inner()))

        def pay(amount: int, inner: object) -> str:
            return str(amount)

        tools = [StructuredTool.from_function(pay, name="pay", description="Pay.", args_schema=payment)]
        import_tools(registry, tools, owned_by="clerk")
        registry.grant("pay", "intern", where={"amount": {"maximum": 5}})
        intern = registry.toolset("intern")

        assert "5" == intern.call("pay", amount=5)
        for arguments in ({"amount": 1, "sum": 999}, {"amount": 1, "inner": {"amount": 999}}):
            assert "invalid_arguments" == intern.execute(ToolCall(None, "pay", arguments)).outcome.value

    def test_get_a_config(self, registry: ToolRegistry) -> None:
        """A tool that takes LangChain's config gets one, and no model sees it."""

        @tool
        def read(key: str, config: RunnableConfig) -> str:
            """Read a setting."""
            return str(config["configurable"].get(key))

        (imported,) = import_tools(registry, [read], owned_by="clerk")
        assert ["key"] == list(imported.parameters["properties"])
        assert "None" == call(registry, "read", key="x")

    def test_fail_as_others_do(self, registry: ToolRegistry) -> None:
        """Exceptions, and errors that LangChain handles, are errors of the tool, with their text."""

        def fail(how: str) -> str:
            raise ToolException(f"failed {how}")

        tools = [
            StructuredTool.from_function(fail, name="plainly", description="Fail."),
            StructuredTool.from_function(fail, name="handled", description="Fail.", handle_tool_error="Try again."),
        ]
        import_tools(registry, tools, owned_by="clerk")
        toolset = registry.toolset("clerk")
        plainly, handled = (
            toolset.execute(ToolCall(name=name, arguments={"how": "x"})) for name in ("plainly", "handled")
        )

        assert ("tool_error", "ToolException: failed x") == (plainly.outcome, plainly.for_model())
        assert ("tool_error", "ToolException: Try again.") == (handled.outcome, handled.for_model())

    def test_return_content_without_artifacts(self, registry: ToolRegistry) -> None:
        """The content is the value, images in it are content; what the program alone would get is left out."""

        @tool(response_format="content_and_artifact")
        def draw() -> tuple[list[dict[str, str]], object]:
            """Draw."""
            image = {"type": "image", "base64": "cG5n", "mime_type": "image/png"}
            return [{"type": "text", "text": "a dot"}, image], object()

        import_tools(registry, [draw], owned_by="clerk")
        assert [Content.of_text("a dot"), Content.image(b"png", "image/png")] == call(registry, "draw")

    def test_return_rows_that_look_like_content(self, registry: ToolRegistry) -> None:
        """Broken promise: what else stood in a row of a type `text` was lost."""
        rows = [{"type": "text", "text": "hello", "row": 1}, {"type": "text", "text": "bye", "row": 2}]

        @tool
        def read() -> list[dict[str, Any]]:
            """Read."""
            return rows

        import_tools(registry, [read], owned_by="clerk")
        assert rows == call(registry, "read")

    def test_may_not_command_graphs(self, registry: ToolRegistry) -> None:
        """What only a graph could carry out is an error, not a success."""

        @tool
        def leave() -> Command[Any]:
            """Leave."""
            return Command(goto="elsewhere")

        import_tools(registry, [leave], owned_by="clerk")
        result = registry.toolset("clerk").execute(ToolCall(name="leave"))
        assert not result.success and "returned a Command" in result.for_model()

    def test_go_back_to_langchain(self, registry: ToolRegistry) -> None:
        """An imported tool is offered to agents of LangChain as any other."""
        import_tools(registry, [order], owned_by="clerk")
        (offered,) = tools_for(registry, "clerk")
        assert '{"item":"rope","count":2}' == offered.invoke({"item": "rope", "count": 2})


class TestNames:
    def test_are_repaired(self, registry: ToolRegistry) -> None:
        """What a registry does not take becomes an underscore; a namespace stands before it."""
        named = StructuredTool.from_function(lambda: "found", name="Web search!", description="Search.")
        (imported,) = import_tools(registry, [named], namespace="web")

        assert "web-Web_search" == imported.name
        assert imported.metadata.owned_by is None

    def test_that_are_taken_leave_all_out(self, registry: ToolRegistry) -> None:
        """Two tools of one name are refused, and none is registered."""
        with pytest.raises(DuplicateToolError):
            import_tools(registry, [greet, order, order], owned_by="clerk")
        assert 0 == len(registry)


class TestLostParameters:
    @pytest.mark.parametrize("name", ["config", "run_manager", "callbacks", "self"])
    @pytest.mark.parametrize("is_async", [False, True])
    def test_are_refused(self, registry: ToolRegistry, name: str, is_async: bool) -> None:
        """
        Broken promise: bounds see what the tool gets. LangChain passed a value of its own instead, or none.
        """

        def run(config: str = "live", run_manager: str = "live", callbacks: str = "live") -> str:
            return f"{config} {run_manager} {callbacks}"

        async def arun(config: str = "live", run_manager: str = "live", callbacks: str = "live") -> str:
            return run(config, run_manager, callbacks)

        schema = {"type": "object", "properties": {name: {"type": "string"}}}
        function: Any = {"coroutine": arun} if is_async else {"func": run}
        made = StructuredTool(name="deploy", description="Deploy.", args_schema=schema, **function)

        with pytest.raises(ToolDefinitionError, match=f"LangChain does not pass its parameter '{name}' on"):
            import_tools(registry, [made], owned_by="clerk")

    def test_that_a_class_leaves_out_are_refused(self, registry: ToolRegistry) -> None:
        """Broken promise: bounds see what the tool gets. It got its own default in place of an excluded field."""
        arguments = create_model("Arguments", amount=(int, Field(default=1, exclude=True)))

        @tool(args_schema=arguments)
        def pay(amount: int = 1000) -> int:
            """Pay."""
            return amount

        with pytest.raises(ToolDefinitionError, match="'amount'"):
            import_tools(registry, [pay], owned_by="clerk")

    def test_that_a_class_writes_itself_are_refused(self, registry: ToolRegistry) -> None:
        """LangChain passes on what the class writes, and nobody knows what that will be."""

        class Arguments(BaseModel):
            amount: int = 1

            @model_serializer
            def _write(self) -> dict[str, Any]:
                return {}

        made = StructuredTool.from_function(
            lambda amount=1000: amount, name="pay", args_schema=Arguments, description="P."
        )

        with pytest.raises(ToolDefinitionError, match="'amount'"):
            import_tools(registry, [made], owned_by="clerk")

    @pytest.mark.parametrize(
        ("config", "field"),
        [
            ({}, {"alias": "sum"}),
            ({}, {"validation_alias": AliasChoices("sum", AliasPath("amount", 0))}),
            ({"alias_generator": str.upper}, {}),
            ({"alias_generator": str.upper, "defer_build": True}, {}),
            ({"serialize_by_alias": True}, {"serialization_alias": "sum"}),
            ({}, {"validation_alias": AliasChoices(AliasPath("note", 0), "amount")}),
            ({}, {"validation_alias": AliasChoices("note", "amount")}),
        ],
    )
    def test_that_a_class_reads_by_aliases_are_refused(
        self, registry: ToolRegistry, config: Any, field: dict[str, Any]
    ) -> None:
        """Broken promise: bounds see what the tool gets. It got its default in place of what has another name."""
        arguments = create_model(
            "Arguments", __config__=config, amount=(int, Field(default=1, **field)), note=(Any, Field(default=None))
        )

        @tool(args_schema=arguments)
        def pay(amount: int = 1000, note: Any = None) -> int:
            """Pay."""
            return amount

        with pytest.raises(ToolDefinitionError, match="'amount'"):
            import_tools(registry, [pay], owned_by="clerk")

    def test_that_a_class_reads_as_a_whole_are_refused(self, registry: ToolRegistry) -> None:
        """The tool got all arguments in place of the one that has the name of the only field."""
        made = StructuredTool.from_function(
            lambda root: str(root), name="pay", description="Pay.", args_schema=RootModel[dict[str, Any]]
        )

        with pytest.raises(ToolDefinitionError, match="'root'"):
            import_tools(registry, [made], owned_by="clerk")

    @pytest.mark.parametrize(
        ("config", "field"),
        [
            ({"populate_by_name": True}, {"alias": "sum"}),
            ({"validate_by_name": True}, {"alias": "sum"}),
            ({"alias_generator": str.upper, "populate_by_name": True}, {}),
            ({}, {"alias": "amount"}),
            ({}, {"validation_alias": AliasChoices("sum", "amount")}),
            ({}, {"validation_alias": AliasPath("amount")}),
            ({}, {"serialization_alias": "sum"}),
        ],
    )
    def test_that_a_class_reads_by_their_names_are_taken(
        self, registry: ToolRegistry, config: Any, field: dict[str, Any]
    ) -> None:
        """Other names of what is read by its own name, too, are no harm."""
        arguments = create_model("Arguments", __config__=config, amount=(int, Field(default=1, **field)))

        @tool(args_schema=arguments)
        def pay(amount: int = 1000) -> int:
            """Pay."""
            return amount

        import_tools(registry, [pay], owned_by="clerk")

        assert 5 == call(registry, "pay", amount=5)

    def test_that_are_passed_on_are_taken(self, registry: ToolRegistry) -> None:
        """A class of tools, and a function of any arguments, get parameters of such names as they were given."""

        class Deploy(BaseTool):
            name: str = "deploy"
            description: str = "Deploy."

            def _run(self, config: str = "live") -> str:
                return config

        def note(**arguments: str) -> str:
            return str(arguments)

        schema = {"type": "object", "properties": {"callbacks": {"type": "string"}}}
        noted = StructuredTool(name="note", description="Note.", args_schema=schema, func=note)
        import_tools(registry, [Deploy(), noted], owned_by="clerk")

        assert "test" == call(registry, "deploy", config="test")
        assert "{'callbacks': 'test'}" == call(registry, "note", callbacks="test")


class TestInjectedParameters:
    def test_are_refused(self, registry: ToolRegistry) -> None:
        """A tool that needs what LangGraph injects is refused, with the parameter and the way out."""

        @tool
        def with_runtime(x: int, runtime: ToolRuntime) -> str:
            """Use the runtime."""
            return ""

        @tool
        def with_state(x: int, messages: Annotated[list[Any], InjectedState("messages")]) -> str:
            """Use the state."""
            return ""

        class Arguments(BaseModel):
            x: int
            user: Annotated[str, InjectedToolArg]

        @tool(args_schema=Arguments)
        def with_user(x: int, user: str) -> str:
            """Use the user."""
            return ""

        for made, name in ((with_runtime, "runtime"), (with_state, "messages"), (with_user, "user")):
            with pytest.raises(ToolDefinitionError, match=rf"parameter '{name}' is injected by LangGraph"):
                import_tools(registry, [greet, made])
        assert 0 == len(registry)

    def test_of_what_is_no_tool(self, registry: ToolRegistry) -> None:
        """A function is not a tool of LangChain: the error says how to make one."""
        function: Any = len
        with pytest.raises(ToolDefinitionError, match="@tool"):
            import_tools(registry, [function])
