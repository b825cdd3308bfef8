# Tests of: integrations/langchain_parameters
"""Functions of every kind that LangChain takes are judged and hidden as those of the registry's own tools."""

from __future__ import annotations

import functools
import inspect
from functools import partial
from typing import Annotated, Any

import pytest

pytest.importorskip("langchain")

from langchain_core.tools import BaseTool, StructuredTool, Tool
from langchain_rig import WORDS, judge, record, registry  # noqa: F401
from pydantic import BaseModel, create_model
from wrapped_tools import OTHER, WRAPPED, pay, wrap_any, wrap_fixed, wrap_named

from praval_tools import Secret, ToolDefinitionError, ToolRegistry
from praval_tools.integrations.langchain import import_tools


class Login(BaseModel):
    to: str
    words: str


class Shout:
    """An object that can be called."""

    def __call__(self, text: str, times: int = 2) -> str:
        return text.upper() * times


def shout(text: str, times: int = 1) -> str:
    """Shout."""
    return text.upper() * times


TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


class TestFunctionsOfOtherKinds:
    def test_that_mark_any_argument(self, registry: ToolRegistry) -> None:
        """Broken promise: what a function marks is in no record. The mark of `**given` was not read."""

        def log_in(to: str, **given: Annotated[str, Secret()]) -> str:
            """Log in."""
            return to

        tool = StructuredTool.from_function(log_in, args_schema=Login)

        recorded = record(registry, tool, to="castle-of-ann", words=WORDS)
        assert "bottles" not in recorded and "castle-of-ann" in recorded

    @pytest.mark.parametrize("name", ["args", "kwargs", "config", "run_manager"])
    def test_whose_defaults_have_names_of_langchain(self, registry: ToolRegistry, name: str) -> None:
        """Broken promise: approvers are shown what the tool gets. LangChain fills in no default of such a name."""
        names = {"to": (str, ...), **({name: (int, 7)} if name in ("args", "kwargs") else {})}
        scope = dict[str, Any]()
        exec(f"def pay(to, {name}=5000): return f'{{{name}}} to {{to}}'", scope)
        tool = StructuredTool.from_function(
            scope["pay"], name="pay", description="Pay.", args_schema=create_model("Arguments", **names)
        )

        assert ({"to": "ann", name: 5000}, "5000 to ann") == judge(registry, tool, to="ann")

    def test_that_take_any_argument(self, registry: ToolRegistry) -> None:
        """Broken promise: a tool of LangChain works as it does there. Each call failed for LangChain's own default."""

        def shout_all(text: str, *args: str, **kwargs: str) -> str:
            """Shout all."""
            return " ".join((text, *args)).upper()

        tool = StructuredTool.from_function(shout_all)

        assert tool.run({"text": "a"}) == judge(registry, tool, text="a")[1] == "A"

    def test_of_one_input(self, registry: ToolRegistry) -> None:
        """Broken promise: a `Tool` without a class of arguments was always refused, for LangChain's own `config`."""
        tool = Tool(name="shout", description="Shout.", func=shout)

        assert ({"tool_input": "a", "times": 1}, "A") == judge(registry, tool, tool_input="a")

    def test_of_one_input_that_is_marked(self, registry: ToolRegistry) -> None:
        """What the function marks is hidden, whatever LangChain calls it."""

        def log_in(words: Annotated[str, Secret()]) -> str:
            return words

        assert "bottles" not in record(registry, Tool(name="log_in", description="L.", func=log_in), tool_input=WORDS)

    @pytest.mark.parametrize("function", [partial(shout, times=2), Shout()])
    def test_are_taken(self, registry: ToolRegistry, function: Any) -> None:
        """Broken promise: what is wrong with a tool is a `ToolDefinitionError`; partials and objects work."""
        tool = StructuredTool.from_function(function, name="shout", description="Shout.", args_schema=TEXT)

        assert "AA" == judge(registry, tool, text="a")[1]

    def test_show_what_they_bind_where_a_model_may_give_it(self, registry: ToolRegistry) -> None:
        """A default is shown to who judges; what a model cannot give stays the function's own."""
        schema = {**TEXT, "properties": {"text": {"type": "string"}, "times": {"type": "integer"}}}
        tools = [
            StructuredTool.from_function(partial(shout, times=2), name=name, description="S.", args_schema=arguments)
            for name, arguments in (("open", schema), ("closed", TEXT))
        ]

        assert {"text": "a", "times": 2} == judge(registry, tools[0], text="a")[0]
        assert {"text": "a"} == judge(registry, tools[1], text="a")[0]

    def test_whose_hints_do_not_resolve(self, registry: ToolRegistry) -> None:
        """Nobody could say what such a hint marks."""

        def late(text: NotThere) -> str:  # type: ignore[name-defined]  # noqa: F821
            return text

        tool = StructuredTool.from_function(late, name="late", description="Late.", args_schema=TEXT)

        with pytest.raises(ToolDefinitionError, match="'NotThere' is not defined"):
            import_tools(registry, [tool])


class Narrow(BaseModel):
    """Arguments without the amount."""

    to: str


class Wide(Narrow):
    """Arguments with the amount, by another default than the function's."""

    amount: int = 5


AMOUNT: dict[str, Any] = {
    "type": "object", "properties": {"to": {"type": "string"}, "amount": {"type": "integer"}}, "required": ["to"]
}  # fmt: skip
SCHEMAS = {
    "json": AMOUNT,
    "hidden": {**AMOUNT, "properties": {"to": {"type": "string"}}},
    "narrow": Narrow,
    "wide": Wide,
    "inferred": None,
}
CASES = [
    (name, schema)
    for name, function in sorted(WRAPPED.items())
    for schema in sorted(SCHEMAS)
    if schema != "inferred" or inspect.isroutine(function)  # LangChain reads no other function
]


class TestWrappedFunctions:
    @pytest.mark.parametrize("given", [{}, {"amount": 5}, {"amount": 7}], ids=str)
    @pytest.mark.parametrize(("name", "schema"), CASES)
    def test_get_what_was_judged(self, registry: ToolRegistry, name: str, schema: str, given: dict[str, Any]) -> None:
        """Broken promise: a wrapper paid 1000, where its caller had given 5, and 5 was judged and recorded."""
        hides_amount = schema in ("hidden", "narrow")
        given = {} if hides_amount else given
        arguments = {} if SCHEMAS[schema] is None else {"args_schema": SCHEMAS[schema]}
        made = StructuredTool.from_function(WRAPPED[name], **arguments, name="pay", description="Pay.")

        shown, result = judge(registry, made, to="ann", **given)

        is_own = hides_amount and name not in ("pay_named", "pay_partial_amount")
        assert {"to": "ann", "amount": OTHER if is_own else given.get("amount", 5)} == result
        assert ({"to": "ann"} if is_own or (hides_amount and name == "pay_partial_amount") else result) == shown

    @pytest.mark.parametrize("schema", sorted(SCHEMAS))
    def test_of_async_code_get_what_was_judged(self, registry: ToolRegistry, schema: str) -> None:
        """A coroutine may be wrapped, too."""

        @functools.wraps(pay)
        async def pay_later(to: str, amount: int = 1000) -> Any:
            return pay(to, amount)

        arguments = {} if SCHEMAS[schema] is None else {"args_schema": SCHEMAS[schema]}
        made = StructuredTool.from_function(coroutine=pay_later, **arguments, name="pay", description="Pay.")

        assert ({"to": "ann", "amount": 5},) * 2 == judge(registry, made, to="ann")

    def test_of_one_input_get_what_was_judged(self, registry: ToolRegistry) -> None:
        """Its other parameters have only defaults."""
        tool = Tool(name="pay", description="Pay.", func=wrap_named(pay))

        assert ({"tool_input": "ann", "amount": 5}, {"to": "ann", "amount": 5}) == judge(
            registry, tool, tool_input="ann"
        )

    @pytest.mark.parametrize("schema", ["json", "hidden", "narrow", "wide"])
    def test_show_a_default_that_only_the_wrapper_has(self, registry: ToolRegistry, schema: str) -> None:
        """Broken promise: it paid 1000, and nobody was shown that."""

        @functools.wraps(lambda to, amount: None)
        def generous(to: str, amount: int = 1000) -> int:
            return amount

        tool = StructuredTool.from_function(generous, name="pay", description="Pay.", args_schema=SCHEMAS[schema])

        amount = 5 if schema == "wide" else 1000
        assert ({"to": "ann", "amount": amount}, amount) == judge(registry, tool, to="ann")

    def test_keep_defaults_of_wrappers_that_are_no_arguments(self, registry: ToolRegistry) -> None:
        """Nobody can give how often it tries."""

        @functools.wraps(lambda to, amount: None)
        def wrapped(to: str, amount: int, tries: int = 3) -> int:
            return tries

        tool = StructuredTool.from_function(wrapped, name="pay", description="Pay.", args_schema=AMOUNT)

        assert ({"to": "ann", "amount": 1}, 3) == judge(registry, tool, to="ann", amount=1)

    @pytest.mark.parametrize("default", ["none", None, object()], ids=["text", "None", "object"])
    @pytest.mark.parametrize("schema", ["hidden", "narrow"])
    @pytest.mark.parametrize("place", ["first", "last", "beside another"])
    def test_that_hand_in_what_no_caller_gives_show_nothing_of_it(
        self, registry: ToolRegistry, schema: str, default: Any, place: str
    ) -> None:
        """Broken promise: a tool of LangChain works as it does there. A decorator for connections was given one."""

        def find(to: str, connection: Any = default) -> str:
            return f"{to} by {connection}"

        def find_for(reason: str, **given: Any) -> str:
            return find(**given)

        wrappers: dict[str, Any] = {
            "first": lambda **given: find(connection="pool" if given else None, **given),
            "last": lambda **given: find(**given, connection="pool"),
            "beside another": lambda **given: find_for(reason=str(given), connection="pool", **given),
        }
        tool = StructuredTool.from_function(
            functools.wraps(find)(wrappers[place]), name="find", description="F.", args_schema=SCHEMAS[schema]
        )

        assert ({"to": "ann"}, "ann by pool") == judge(registry, tool, to="ann")

    def test_that_take_no_such_name_show_nothing(self, registry: ToolRegistry) -> None:
        """What a wrapper gives its function itself, nobody can know."""
        tool = StructuredTool.from_function(wrap_fixed(pay), name="pay", description="Pay.", args_schema=Narrow)

        assert ({"to": "ann"}, {"to": "ann", "amount": 1000}) == judge(registry, tool, to="ann")

    def test_may_not_be_methods_with_defaults(self, registry: ToolRegistry) -> None:
        """LangChain calls the method of the class itself, so that nothing can be passed to it."""

        class Paying(BaseTool):
            name: str = "pay"
            description: str = "Pay."
            args_schema: Any = AMOUNT

            @wrap_any
            def _run(self, to: str, amount: int = 5) -> int:
                return amount

        with pytest.raises(ToolDefinitionError, match="the wrapper may have another default of 'amount'"):
            import_tools(registry, [Paying()])
