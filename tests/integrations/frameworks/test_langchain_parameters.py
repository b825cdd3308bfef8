# Tests of: integrations/langchain_parameters
"""Arguments of LangChain's tools are judged and hidden as those of the registry's own tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import pydantic
import pytest

pytest.importorskip("langchain")

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langchain_rig import WORDS, judge, record, registry  # noqa: F401
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    Field,
    SecretStr,
    create_model,
    field_validator,
    model_validator,
)

from praval_tools import Secret, ToolCall, ToolDefinitionError, ToolRegistry
from praval_tools.integrations.langchain import import_tools

PAYMENT = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "amount": {"type": "integer"}, "words": {"type": "string"}},
    "required": ["to"],
}


def pay(to: str, amount: int = 10, words: str = "") -> str:
    """Pay."""
    return f"{amount} to {to}"


async def pay_later(to: str, amount: int = 1000, words: Annotated[str, Secret()] = WORDS) -> str:
    """Pay later."""
    return f"{amount} to {to} by {words}"


class TestToolsOfTwoFunctions:
    def test_are_judged_by_the_one_that_runs(self, registry: ToolRegistry) -> None:
        """Broken promise: approvers were shown the default of the other function."""
        both = StructuredTool.from_function(pay, pay_later, name="pay", args_schema=PAYMENT)

        assert ({"to": "ann", "amount": 1000, "words": WORDS}, f"1000 to ann by {WORDS}") == judge(
            registry, both, to="ann"
        )

    @pytest.mark.parametrize("arguments", [{}, {"words": "nine-red-bottles"}])
    def test_hide_what_the_one_that_runs_marks(self, registry: ToolRegistry, arguments: dict[str, Any]) -> None:
        """Broken promise: what is marked as secret is in no record. The marks of the other function counted."""
        both = StructuredTool.from_function(pay, pay_later, name="pay", args_schema=PAYMENT)

        assert "bottles" not in record(registry, both, to="ann", **arguments)


class To(BaseModel):
    to: str


TO = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}


class Login(BaseModel):
    to: str
    words: str


class Payment(BaseTool):
    name: str = "pay"
    description: str = "Pay."

    def _run(self, to: str, amount: int = 1000, run_manager: Any = None) -> str:
        return f"{amount} to {to}"


def pay_much(to: str, amount: int = 1000, config: RunnableConfig | None = None) -> str:
    """Pay."""
    return f"{amount} to {to}"


def log_in(to: str, words: Annotated[str, Secret()] = "") -> str:
    """Log in."""
    return f"{words} at {to}"


class TestFunctionsWithAClass:
    @pytest.mark.parametrize("schema", [To, TO, PAYMENT], ids=["class", "JSON Schema", "JSON Schema with it"])
    @pytest.mark.parametrize(
        "make",
        [
            partial(StructuredTool.from_function, pay_much, name="pay"),
            partial(StructuredTool.from_function, coroutine=pay_later, name="pay"),
            Payment,
        ],
        ids=["function", "coroutine", "class"],
    )
    def test_are_judged_by_their_own_defaults(
        self, registry: ToolRegistry, make: Callable[..., BaseTool], schema: Any
    ) -> None:
        """Broken promise: nobody who judged a payment was shown its amount, a default that the schema lacks."""
        shown, result = judge(registry, make(args_schema=schema), to="ann")

        assert ("ann", 1000) == (shown["to"], shown["amount"])
        assert result.startswith("1000 to ann")

    def test_are_judged_by_the_defaults_of_the_class_before_theirs(self, registry: ToolRegistry) -> None:
        """LangChain passes the default of the class on."""

        class Arguments(BaseModel):
            to: str
            amount: int = 7

        tool = StructuredTool.from_function(pay_much, name="pay", args_schema=Arguments)

        assert ({"to": "ann", "amount": 7}, "7 to ann") == judge(registry, tool, to="ann")

    def test_hide_what_they_mark_themselves(self, registry: ToolRegistry) -> None:
        """Broken promise: what a function marks is in no record. Beside a class its marks were not read."""
        tool = StructuredTool.from_function(log_in, name="log_in", args_schema=Login)

        assert "bottles" not in record(registry, tool, to="ann", words=WORDS)

    def test_take_defaults_that_do_not_fit_their_hints(self, registry: ToolRegistry) -> None:
        """LangChain does not check a default."""

        def note(to: str, amount: int = None) -> str:  # type: ignore[assignment]
            """Note."""
            return f"{amount} to {to}"

        assert "None to ann" == judge(registry, StructuredTool.from_function(note), to="ann")[1]

    def test_may_not_make_defaults_at_each_call(self, registry: ToolRegistry) -> None:
        """What is made after a call was judged, nobody can judge."""

        class Arguments(BaseModel):
            to: str
            amount: int = Field(default_factory=lambda: 1000)
            words: list[str] = Field(default_factory=list)

        tool = StructuredTool.from_function(pay, args_schema=Arguments)

        with pytest.raises(ToolDefinitionError, match="'amount' is made anew for each call") as caught:
            import_tools(registry, [tool])
        assert "words" not in str(caught.value)


class TestMarksOfSchemas:
    def test_of_a_class_hide_what_they_mark(self, registry: ToolRegistry) -> None:
        """Broken promise: `writeOnly` of a class counts. LangChain's copy of the class does not have it."""

        class Arguments(BaseModel):
            to: str
            words: str = Field(json_schema_extra={"writeOnly": True})

        tool = StructuredTool.from_function(
            lambda to, words: words, name="log_in", description="Log in.", args_schema=Arguments
        )

        assert "bottles" not in record(registry, tool, to="ann", words=WORDS)


class Order(BaseModel):
    limit: int = Field(1000, validation_alias=AliasChoices("limit", AliasPath("tags", 0)))
    tags: list[int] = []
    words: Annotated[str, Secret()] = WORDS


class Orders(BaseModel):
    order: Order = Order()
    others: list[Order] = []

    @field_validator("order")
    @classmethod
    def _refuse_thirteen(cls, order: Order) -> Order:
        if order.limit == 13:
            raise ValueError("bad luck")
        return order


def buy(order: Order, others: list[Order]) -> str:
    """Buy."""
    return f"{order.limit} {[other.limit for other in others]} {order.words}"


async def buy_later(order: Order, others: list[Order]) -> str:
    """Buy later."""
    return buy(order, others)


class Buy(BaseTool):
    name: str = "buy"
    description: str = "Buy."
    args_schema: Any = Orders

    def _run(self, order: Order, others: list[Order], run_manager: Any = None) -> str:
        return buy(order, others)


BUYING = [
    StructuredTool.from_function(buy, args_schema=Orders),
    StructuredTool.from_function(coroutine=buy_later, name="buy", args_schema=Orders),
    Buy(),
]


@pytest.mark.parametrize("tool", BUYING, ids=["function", "coroutine", "class"])
class TestClassesInside:
    @pytest.mark.parametrize(
        "arguments",
        [
            {"order": {"limit": 5000}},
            {"order": {}},
            {"order": {"tags": [5000]}},
            {},
            {"order": {"limit": 1}, "others": [{"tags": [5000]}]},
        ],
    )
    def test_are_bounded_as_the_tool_gets_them(
        self, registry: ToolRegistry, tool: BaseTool, arguments: dict[str, Any]
    ) -> None:
        """Broken promise: bounds see what the tool gets. Defaults and aliases of classes inside were not read."""
        limited = {"properties": {"limit": {"maximum": 10}}}
        import_tools(registry, [tool])
        registry.grant("buy", "bob", where={"order": limited, "others": {"items": limited}})

        result = asyncio.run(registry.aexecute(ToolCall("1", "buy", arguments, "bob")))
        allowed = asyncio.run(registry.aexecute(ToolCall("2", "buy", {"order": {"limit": 7}}, "bob")))

        assert ("forbidden", "ok") == (result.outcome.value, allowed.outcome.value)

    def test_are_shown_as_the_tool_gets_them(self, registry: ToolRegistry, tool: BaseTool) -> None:
        """Broken promise: approvers are shown what the tool gets. Defaults of classes inside were left out."""
        shown, result = judge(registry, tool, others=[{"tags": [3]}])

        assert 1000 == shown["order"]["limit"] and [3] == [other["limit"] for other in shown["others"]]
        assert result.startswith("1000 [3]")

    @pytest.mark.parametrize("order", [{}, {"words": "nine-red-bottles"}])
    def test_hide_what_they_mark(self, registry: ToolRegistry, tool: BaseTool, order: dict[str, Any]) -> None:
        """Broken promise: what a class inside marks is in no record, also where it is its default."""
        assert "bottles" not in record(registry, tool, order=order)

    def test_are_checked_by_the_class_around_them(self, registry: ToolRegistry, tool: BaseTool) -> None:
        """Its own validators run as before."""
        import_tools(registry, [tool], owned_by="bob")
        call = ToolCall("1", "buy", {"order": {"limit": 13}}, "bob")

        assert "bad luck" in asyncio.run(registry.aexecute(call)).for_model()


class Doubled(BaseModel):
    amount: int

    @model_validator(mode="after")
    def _double(self) -> Doubled:
        self.amount *= 2
        return self


class Doubling(BaseModel):
    doubled: Doubled


class TestReadValues:
    def test_are_what_the_tool_gets(self, registry: ToolRegistry) -> None:
        """Validators of classes inside run before the call is judged, and not again."""
        tool = StructuredTool.from_function(
            lambda doubled: doubled.amount, name="double", description="Double.", args_schema=Doubling
        )

        assert ({"doubled": {"amount": 6}}, 6) == judge(registry, tool, doubled={"amount": 3})

    def test_of_a_tool_that_handles_its_errors(self, registry: ToolRegistry) -> None:
        """What LangChain handles is an error of the tool with its text."""

        def fail(doubled: Doubled) -> str:
            raise ToolException("failed")

        tool = StructuredTool.from_function(
            fail, description="Fail.", args_schema=Doubling, handle_tool_error="Try again."
        )
        import_tools(registry, [tool], owned_by="bob")
        result = registry.execute(ToolCall("1", "fail", {"doubled": {"amount": 3}}, "bob"))

        assert ("tool_error", "ToolException: Try again.") == (result.outcome.value, result.for_model())

    def test_need_a_field_for_each_default(self, registry: ToolRegistry) -> None:
        """A default that the class lacks stands in no schema, where the registry reads hints."""

        def double(doubled: Doubled, times: int = 2) -> int:
            return doubled.amount * times

        tool = StructuredTool.from_function(double, description="Double.", args_schema=Doubling)

        with pytest.raises(ToolDefinitionError, match="lacks the function's parameter 'times'"):
            import_tools(registry, [tool])

    @pytest.mark.parametrize(
        ("decorate", "mode", "is_refused"),
        [
            (model_validator, "before", True),
            (model_validator, "wrap", True),
            (partial(field_validator, "doubled"), "before", True),
            (partial(field_validator, "*"), "plain", True),
            (partial(field_validator, "times"), "before", True),
            (partial(field_validator, "*"), "after", False),
            (model_validator, "after", False),
        ],
    )
    def test_reach_no_validator_that_stands_before_them(
        self, registry: ToolRegistry, decorate: Callable[..., Any], mode: str, is_refused: bool
    ) -> None:
        """It awaits what a model gives, and would get what the registry has read: each call would fail."""

        def read(item: Any) -> Any:
            return item

        def read_around(item: Any, read_on: Callable[[Any], Any]) -> Any:
            return read_on(item)

        validator = decorate(mode=mode)(read_around if mode == "wrap" else read)
        arguments = create_model(
            "Arguments", __validators__={"read": validator}, doubled=(Doubled, ...), times=(int, 1)
        )
        tool = StructuredTool.from_function(
            lambda doubled, times: doubled.amount, name="double", description="Double.", args_schema=arguments
        )

        if is_refused:
            with pytest.raises(ToolDefinitionError, match="validator 'read' .* give it mode='after'"):
                import_tools(registry, [tool])
        else:
            assert 6 == judge(registry, tool, doubled={"amount": 3})[1]

    @pytest.mark.parametrize(
        ("config", "field", "said"),
        [
            ({"alias_generator": str.upper}, Field(1, alias="times"), "'alias_generator'"),
            ({"str_strip_whitespace": True}, 1, "'str_strip_whitespace'"),
            ({"validate_default": True}, 1, "'validate_default'"),
            ({"validate_assignment": True, "ser_json_bytes": "base64", "allow_inf_nan": True}, 1, None),
            ({"strict": True}, 1, "'strict'"),
            ({}, Field(1, validate_default=True), "validate_default of the field 'times'"),
            ({"extra": "allow", "frozen": True, "populate_by_name": True, "strict": False}, 1, None),
        ],
    )
    def test_reach_no_class_that_reads_in_another_way(
        self, registry: ToolRegistry, config: Any, field: Any, said: str | None
    ) -> None:
        """
        Broken promise: bounds see what the tool gets. With a generator of aliases it got its default instead.

        Settings of the class around would have to hold for what the registry has read by then.
        """
        arguments = create_model("Arguments", __config__=config, doubled=(Doubled, ...), times=(int, field))
        tool = StructuredTool.from_function(
            lambda doubled, times: doubled.amount * times, name="double", description="D.", args_schema=arguments
        )

        if said is None:
            assert 18 == judge(registry, tool, doubled={"amount": 3}, times=3)[1]
        else:
            with pytest.raises(ToolDefinitionError, match=said):
                import_tools(registry, [tool])

    @pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")
    @pytest.mark.parametrize(
        "decorate",
        [
            lambda read: pydantic.validator("doubled", pre=True)(read),
            lambda read: pydantic.root_validator(pre=True)(read),
        ],
        ids=["validator", "root_validator"],
    )
    def test_reach_no_validator_in_the_spelling_of_pydantic_1(
        self, registry: ToolRegistry, decorate: Callable[..., Any]
    ) -> None:
        """It stands before them, too."""

        class Arguments(BaseModel):
            doubled: Doubled

            @decorate
            def read(cls, item: Any) -> Any:
                return item

        tool = StructuredTool.from_function(
            lambda doubled: doubled.amount, name="double", description="D.", args_schema=Arguments
        )

        with pytest.raises(ToolDefinitionError, match="validator 'read'"):
            import_tools(registry, [tool])

    def test_whose_hints_do_not_work_are_found(self, registry: ToolRegistry) -> None:
        """The error says where the program's function stands."""

        class Arguments(BaseModel):
            doubled: Doubled
            words: SecretStr

        def double(doubled: Doubled, words: SecretStr) -> int:
            return doubled.amount

        tool = StructuredTool.from_function(double, description="Double.", args_schema=Arguments)

        with pytest.raises(ToolDefinitionError, match="/test_langchain_parameters.py:"):
            import_tools(registry, [tool])

    def test_of_classes_that_take_other_members_are_recorded(self, registry: ToolRegistry) -> None:
        """What such a class marks is hidden, and nothing else."""

        class Open(BaseModel, extra="allow"):
            to: str
            words: Annotated[str, Secret()] = WORDS

        class Arguments(BaseModel):
            login: Open

        tool = StructuredTool.from_function(
            lambda login: login.to, name="log_in", description="Log in.", args_schema=Arguments
        )
        recorded = record(registry, tool, login={"to": "castle-of-ann", "words": "nine-red-bottles"})

        assert "bottles" not in recorded and 2 == recorded.count("castle-of-ann")


class TestPydantic1:
    @pytest.mark.parametrize("hint", ["flat", "inside"])
    def test_is_refused(self, registry: ToolRegistry, hint: str) -> None:
        """The registry does not read its classes, and LangChain would fill in their defaults unseen."""
        v1 = pytest.importorskip("pydantic.v1")
        arguments = v1.create_model("Arguments", amount=(int, 1000))
        if hint == "inside":
            arguments = v1.create_model("Outer", inner=(arguments, ...))
        tool = StructuredTool.from_function(lambda **given: "", name="pay", description="P.", args_schema=arguments)

        with pytest.raises(ToolDefinitionError, match="Pydantic 2"):
            import_tools(registry, [tool])
