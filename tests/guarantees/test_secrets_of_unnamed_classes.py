"""A secret that a class marks is hidden, also where no hint names the class: in a default, a base class or `Any`."""

# Tests of: schema/marked_values, schema/model_marks, schema/json_schema, runs/call_secrets

from __future__ import annotations

import json
import typing
import weakref
from dataclasses import dataclass, field, make_dataclass
from functools import cached_property
from typing import Annotated, Any, Generic, TypeVar

import attrs
import pytest
from approval_answers import execute_answered
from pydantic import BaseModel, Field, PrivateAttr, computed_field, create_model
from pydantic.dataclasses import dataclass as pydantic_dataclass
from record_texts import read_journal
from telemetry_rig import RECORD_ALL, Collector, collector  # noqa: F401  # a fixture

from praval_tools import Allow, ApprovalRequest, Secret, ToolCall, ToolError, ToolRegistry
from praval_tools.formats import FORMATS

HIDDEN = "zq7x-made-by-the-class"
Value = TypeVar("Value")


@dataclass
class Login:
    scheme: str = "none"


@dataclass
class TokenLogin(Login):
    token: Annotated[str, Secret] = HIDDEN


class TokenModel(BaseModel):
    token: Annotated[str, Secret] = HIDDEN


@dataclass
class Made:
    user: str
    login: Login = field(init=False, default_factory=TokenLogin)


@dataclass
class Default:
    user: str
    login: Any = field(default_factory=TokenLogin)


@attrs.define
class Attrs:
    user: str
    login: Any = attrs.field(init=False, factory=TokenLogin)


class Model(BaseModel):
    user: str
    login: Login = Field(default_factory=TokenLogin)


class ModelWithAny(BaseModel):
    user: str
    login: Any = Field(default_factory=TokenModel)


class Private(BaseModel):
    user: str
    _login: Login = PrivateAttr(default_factory=TokenLogin)

    @property
    def login(self) -> Any:
        return self._login


class Computed(BaseModel):
    user: str

    @computed_field
    @property
    def login(self) -> TokenLogin:
        return TokenLogin()


class ComputedAny(BaseModel):
    user: str

    @computed_field
    @property
    def logins(self) -> list[Any]:
        return [TokenModel()]

    @property
    def login(self) -> Any:
        return self.logins[0]


KINDS = [Made, Default, Attrs, Model, ModelWithAny, Private, Computed, ComputedAny]
TAKEN_APART = [Default, Model, ModelWithAny]
"""Objects of these are written as JSON, and made again with the base class of the login, which has no token."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_object", [False, True], ids=["json", "object"])
def test_records_quote_none(kind: Any, collector: Collector, *, is_object: bool) -> None:
    """Broken promise: the journal and spans had it where arguments came as JSON and no hint marked anything."""
    with ToolRegistry(journal="memory", telemetry=collector.make_telemetry(**RECORD_ALL)) as registry:

        def take(record: Any) -> str:
            """Take."""
            raise ValueError(f"login of {record.user} with {record.login.token} in full")

        take.__annotations__ |= {"record": kind}
        registry.tool(owned_by="ann")(take)
        record = kind(user="ann") if is_object else {"user": "ann"}
        with pytest.raises(ToolError) as raised:
            registry.toolset("ann").call("take", record=record)
        records, spans = read_journal(registry), collector.read_spans()

    assert HIDDEN not in records + spans
    if not (is_object and kind in TAKEN_APART):
        assert HIDDEN in str(raised.value)
        assert "login of ann with [secret " in records
        assert "login of ann with [secret " in spans


@pytest.mark.parametrize("kind", [Computed, ComputedAny])
@pytest.mark.parametrize("is_declared", [False, True], ids=["any", "declared"])
def test_results_have_none(kind: Any, *, is_declared: bool) -> None:
    """Broken promise: instances that a computed field gives were recorded with what they mark."""
    with ToolRegistry(journal="memory") as registry:

        def give() -> Any:
            """Give."""
            return kind(user="ann")

        give.__annotations__ |= {"return": kind if is_declared else Any}
        registry.tool(owned_by="ann")(give)
        result = registry.execute(ToolCall("c", "give", {}, "ann"))
        written = read_journal(registry)

    assert result.success and HIDDEN not in written and "[secret " in written


@pytest.mark.parametrize("kind", [Made, Attrs])
@pytest.mark.parametrize("is_later", [False, True], ids=["handler", "later"])
def test_requests_of_approvals_have_none(kind: Any, *, is_later: bool) -> None:
    """Broken promise: it stood in its own place in the request that was recorded."""
    with ToolRegistry(journal="memory") as registry:

        def take(record: Any) -> str:
            """Take."""
            return f"login of {record.user} with {record.login.token}"

        def answer(request: ApprovalRequest) -> Allow:
            return Allow(reason=f"with {request.arguments['record']['login']['token']}")

        take.__annotations__ |= {"record": kind}
        registry.tool(owned_by="ann", requires_approval=True)(take)
        call = ToolCall("c", "take", {"record": {"user": "ann"}}, "ann")
        result = execute_answered(registry, call, answer, is_later=is_later)
        written = read_journal(registry)

    assert HIDDEN in str(result.result)
    assert HIDDEN not in written and "with [secret " in written


class Request(BaseModel):
    user: str = "ann"
    login: Any = None


class RequestWithDefault(BaseModel):
    user: str = "ann"
    login: Any = TokenLogin()


DataRequest = make_dataclass("DataRequest", [("user", str), ("login", Any)])
DEFAULTS: dict[str, tuple[Any, Any]] = {
    "model": (Request, Request(login=TokenLogin())),
    "dataclass": (DataRequest, DataRequest("ann", TokenModel())),
    "any": (Any, TokenLogin()),
    "list": (list, [TokenLogin()]),
    "dict": (dict[str, Any], {"a": TokenModel()}),
    "base": (Login, TokenLogin()),
    "bases": (dict[str, Login], {"a": TokenLogin()}),
    "inside": (RequestWithDefault, RequestWithDefault()),
    "inside of another": (list[RequestWithDefault], []),
}


@pytest.mark.parametrize("case", DEFAULTS)
def test_no_model_is_shown_one_in_a_default(case: str) -> None:
    """Broken promise: schemas and descriptions of parameters had defaults that hold what their classes mark."""
    hint, default = DEFAULTS[case]
    with ToolRegistry() as registry:

        def get(record: Any = default) -> Any:
            """Get."""
            return record

        get.__annotations__ |= {"record": hint, "return": hint}
        registry.tool(owned_by="ann")(get)
        shown = [json.dumps(registry.schemas("ann", name)) for name in FORMATS]
        described = repr(registry.get_tool_info("get"))
        result = registry.execute(ToolCall("c", "get", {}, "ann"))

    assert result.success
    assert HIDDEN not in described + "".join(shown)


@dataclass
class Proxy:
    host: str
    client: Any = field(init=False, repr=False, compare=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)


@dataclass
class Unconnected:
    host: str
    client: Any = field(init=False, repr=False, compare=False)

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("not connected")


@pytest.mark.parametrize("kind", [Proxy, Unconnected])
@pytest.mark.parametrize("is_first", [False, True], ids=["last", "first"])
def test_a_field_that_is_not_set_loses_no_marks(kind: Any, *, is_first: bool) -> None:
    """Broken promise: where reading it raised, the secrets of all other arguments were recorded."""
    with ToolRegistry(journal="memory") as registry:

        def take(record: Any, connection: Any) -> str:
            """Take."""
            return f"login of {record.user} with {record.login.token}"

        take.__annotations__ |= {"record": Private, "connection": kind}
        registry.tool(owned_by="ann")(take)
        arguments = {"record": {"user": "ann"}, "connection": {"host": "h"}}
        if is_first:
            arguments = dict(reversed(arguments.items()))
        result = registry.execute(ToolCall("c", "take", arguments, "ann"))
        written = read_journal(registry)

    assert HIDDEN in str(result.result) and HIDDEN not in written


@pytest.mark.parametrize("kind", [Proxy, Unconnected])
@pytest.mark.parametrize("is_declared", [False, True], ids=["any", "declared"])
def test_a_result_with_a_field_that_is_not_set_is_recorded(kind: Any, *, is_declared: bool) -> None:
    """Broken promise: with a journal it was an error of the tool, after its effect."""
    with ToolRegistry(journal="memory") as registry:

        def connect() -> Any:
            """Connect."""
            return kind("h")

        connect.__annotations__ |= {"return": kind if is_declared else Any}
        registry.tool(owned_by="ann")(connect)
        result = registry.execute(ToolCall("c", "connect", {}, "ann"))

    assert result.success and result.result == kind("h")


class Box(BaseModel, Generic[Value]):
    user: str
    _pin: Value = PrivateAttr(HIDDEN)  # type: ignore[arg-type]  # of whatever type


class SecretBox(Box[Annotated[str, Secret]]):
    pass


@pytest.mark.parametrize("kind", [Box[Annotated[str, Secret]], SecretBox])
def test_private_attributes_of_generic_models(kind: Any) -> None:
    """Broken promise: a mark that a type argument brings did not count."""
    with ToolRegistry(journal="memory") as registry:

        def take(record: Any) -> str:
            """Take."""
            return f"login of {record.user} with {record._pin}"

        take.__annotations__ |= {"record": kind}
        registry.tool(owned_by="ann")(take)
        result = registry.execute(ToolCall("c", "take", {"record": {"user": "ann"}}, "ann"))
        written = read_journal(registry)

    assert HIDDEN in str(result.result) and HIDDEN not in written


class Day(BaseModel):
    number: int = 1

    @computed_field
    @property
    def next(self) -> Day:
        return Day(number=self.number + 1)

    @computed_field
    @property
    def others(self) -> list[Day]:
        return [Day(number=self.number + 2)]


@pytest.mark.parametrize("is_result", [False, True], ids=["argument", "result"])
def test_computed_fields_without_end(*, is_result: bool) -> None:
    """
    Broken promise: with a journal, a call with a model that makes the next one each time never ended.

    As a result it has no JSON form, so that the call is an error of the tool.
    """
    with ToolRegistry(journal="memory") as registry:

        def take(day: Day = Day()) -> Any:
            """Take."""
            return day if is_result else day.number

        registry.tool(owned_by="ann")(take)
        result = registry.execute(ToolCall("c", "take", {"day": {"number": 3}}, "ann"))

    assert result.success is not is_result
    assert (result.result, result.error_type) == ((None, "ValueError") if is_result else (3, None))


class Noted(BaseModel):
    user: str

    @computed_field
    @property
    def note(self) -> Annotated[str, {"a": 1}]:
        return "note"


def test_hints_without_a_hash() -> None:
    """Broken promise: with a journal, a computed field with such a hint ended each call as an error of the tool."""
    with ToolRegistry(journal="memory") as registry:
        registry.tool("give", owned_by="ann", description="Give.")(lambda: Noted(user="ann"))
        assert registry.execute(ToolCall("c", "give", {}, "ann")).success


BARE = {
    name: eval(name, vars(typing)) for name in ("List", "Dict", "Tuple", "Annotated[List, 'x']", "Optional[List]")
}  # the old names say nothing of what is in them


def make_odd_neighbour(kind: str) -> Any:
    """Return a value beside a secret, which raises where it is looked at."""

    class Parent:
        pass

    class Nameless:
        @property
        def __class__(self) -> type:
            raise ValueError

        @__class__.setter
        def __class__(self, kind: type) -> None: ...

    class Ending(BaseModel):
        @computed_field  # type: ignore[prop-decorator]
        @property
        def end(self) -> Any:
            raise SystemExit(3)

    return {"dead proxy": lambda: weakref.proxy(Parent()), "nameless": Nameless, "ending": Ending}[kind]()


@pytest.mark.parametrize("hint", BARE)
def test_beside_computed_fields_of_bare_containers(hint: str) -> None:
    """What such a field may hold is not known; the other members are read all the same."""

    class Order(BaseModel):
        login: Any = Field(default_factory=TokenLogin)

        @computed_field  # type: ignore[prop-decorator]
        @property
        def lines(self) -> BARE[hint]:  # type: ignore[valid-type]
            return []

    check_is_hidden(Order)


@pytest.mark.parametrize("kind", ["dead proxy", "nameless", "ending"])
def test_beside_values_that_raise(kind: str) -> None:
    """Broken promise: a value that raises where it is looked at hid the marks beside it, or ended the program."""

    @dataclass
    class Order:
        login: Any = field(default_factory=TokenLogin)
        parent: Any = field(default_factory=lambda: make_odd_neighbour(kind))

    check_is_hidden(Order)


def check_is_hidden(kind: Any) -> None:
    """Check that no record of a call with an argument of this class quotes its token."""
    with ToolRegistry(journal="memory") as registry:

        def take(order: Any) -> str:
            """Take an order."""
            raise ValueError(f"login with {order.login.token} in full")

        take.__annotations__["order"] = kind
        registry.tool(owned_by="ann")(take)
        result = registry.execute(ToolCall("c", "take", {"order": {}}, "ann"))
        assert result.outcome.value == "tool_error"
        assert registry.journal is not None
        assert HIDDEN not in "\n".join(map(str, registry.journal.events()))


class Wallet(BaseModel):
    number: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def phrase(self) -> Annotated[str, Secret]:
        return f"phrase-of-wallet-{self.number}"


@pytest.mark.parametrize("depth", [0, 1])
def test_computed_fields_of_many_models(depth: int) -> None:
    """Broken promise: the secrets of a model after the first ten thousand were recorded."""

    class Purse(BaseModel):
        @computed_field  # type: ignore[prop-decorator]
        @property
        def wallets(self) -> list[Wallet]:
            return [Wallet(number=number) for number in range(10_050)]

    with ToolRegistry(journal="memory") as registry:

        @registry.tool(owned_by="ann")
        def give() -> Any:
            """Give."""
            return Purse() if depth else [Wallet(number=number) for number in range(10_050)]

        assert registry.execute(ToolCall("c", "give", {}, "ann")).success
        assert registry.journal is not None
        assert "phrase-of-wallet" not in str(list(registry.journal.events()))


def give_token(_: object) -> Annotated[str, Secret]:
    """Give what a computed field gives, which its hint marks."""
    return HIDDEN


def give_plain_token(_: object) -> str:
    """Give what a computed field gives, which only its declaration marks."""
    return HIDDEN


COMPUTED_TOKENS = {
    "property": computed_field(property(give_token)),
    "cached": computed_field(cached_property(give_token)),
    "return type": computed_field(return_type=Annotated[str, Secret])(property(give_plain_token)),
    "schema": computed_field(json_schema_extra={"writeOnly": True})(property(give_plain_token)),
}


def make_key(decorate: Any, computed: Any) -> Any:
    """Return a dataclass with a marked field that pydantic computes."""
    return decorate(type("Key", (), {"token": computed}))


@pytest.mark.parametrize("computed", COMPUTED_TOKENS.values(), ids=COMPUTED_TOKENS)
@pytest.mark.parametrize("decorate", [dataclass, pydantic_dataclass], ids=["plain", "pydantic"])
def test_computed_fields_of_dataclasses(decorate: Any, computed: Any) -> None:
    """Broken promise: what pydantic computes for them was recorded, and shown where such an object is a default."""
    key = make_key(decorate, computed)
    kind = create_model("Order", login=(key, Field(default_factory=key)))
    check_is_hidden(kind)
    registry = ToolRegistry()

    def take(order: Any = kind()) -> None:
        """Take an order."""

    take.__annotations__["order"] = kind
    registry.tool("take", owned_by="ann")(take)
    assert HIDDEN not in json.dumps(registry.schemas("ann"))
