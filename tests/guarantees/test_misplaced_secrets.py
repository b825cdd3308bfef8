"""Secrets that a model puts in the wrong place are hidden as those in the right one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from praval_tools import Outcome, Secret, Tool, ToolCall, ToolRegistry
from praval_tools.loop import ToolLoop
from praval_tools.testing import fake_model

SECRET = "kT7#vQ2/xW9+zR"
MISPLACED: list[Any] = [
    [SECRET], (SECRET,), {SECRET}, [["password", SECRET]], json.dumps([SECRET]), json.dumps(SECRET), SECRET,
    f'["{SECRET}"', SECRET.encode(), b"\xff " + SECRET.encode(), bytearray(json.dumps(SECRET).encode()),
    {"passwort": SECRET}, {"input": SECRET}, {"args": [SECRET]}, {"kwargs": {"deep": [SECRET]}}, {1: SECRET},
    {None: SECRET}, json.dumps({"q": {"r": SECRET}}),
]  # fmt: skip


def login_marked(user: str, pin: Annotated[str, Secret]) -> str:
    """Log in."""
    return user


def login_named(user: str, password: str) -> str:
    """Log in."""
    return user


def login_several(user: str, credentials: dict[str, str]) -> str:
    """Log in."""
    return user


@pytest.fixture(params=[login_marked, login_named, login_several])
def registry(request: pytest.FixtureRequest) -> ToolRegistry:
    """A registry with a journal, and a tool that takes a secret by its mark, or by its name."""
    registry = ToolRegistry(journal="memory")
    function: Callable[..., str] = request.param
    registry.tool("login", owned_by="ann")(function)
    return registry


def read_store(registry: ToolRegistry) -> str:
    """Return all that was written down."""
    assert registry.journal is not None
    return "\n".join(str(record.body) for record in registry.journal.read_records())


@pytest.mark.parametrize("agent", ["ann", "eve"])
@pytest.mark.parametrize("arguments", MISPLACED, ids=repr)
def test_are_hidden(registry: ToolRegistry, arguments: Any, agent: str) -> None:
    """Broken promise: only the tools' marks hid what has the wrong place, not the names of their parameters."""
    result = registry.execute(ToolCall("1", "login", arguments, agent))

    assert result.outcome in (Outcome.INVALID_ARGUMENTS, Outcome.FORBIDDEN)
    assert SECRET not in read_store(registry)


def test_what_has_its_place_is_shown(registry: ToolRegistry) -> None:
    """The other arguments of such a call are readable."""
    registry.execute(ToolCall("1", "login", {"user": "bob", "pass": SECRET}, "ann"))

    assert "bob" in read_store(registry)


def test_amounts_are_no_secrets() -> None:
    """A number such as `max_tokens` hides nothing of the call."""
    registry = ToolRegistry(journal="memory")

    @registry.tool("ask", owned_by="ann")
    def ask(prompt: str, max_tokens: int = 5) -> str:
        """Ask."""
        return prompt

    registry.execute(ToolCall("1", "ask", {"promt": "hello"}, "ann"))

    assert "hello" in read_store(registry)


Pin = Annotated[str, Secret]


@dataclass
class Login:
    user: str
    phrase: Pin


@dataclass
class Profile:
    city: str
    tags: list[str]
    size: tuple[int, int] = (1, 1)


@dataclass
class Account:
    login: Login | None
    profile: Profile
    age: int | None = None
    more: Any = None
    text: Any | str = ""


PROFILE = {"city": "Rome", "tags": ["red"]}
ONE_LEVEL_TOO_MANY: list[tuple[Any, Any]] = [
    (Login, {"user": {"user": "bob", "phrase": SECRET}}),
    (Login, {"user": ["bob", SECRET]}),
    (Login, {"user": ("bob", {SECRET})}),
    (tuple[str, Pin], [["bob", SECRET]]),
    (tuple[str, Pin], [["bob", SECRET], "x"]),
    (tuple[str, Pin], [{"user": "bob", "v": SECRET}]),
    (tuple[str, Pin], ["bob", " ", SECRET]),
    (Account, {"login": {"user": ["bob", SECRET]}, "profile": PROFILE}),
    (Account, {"login": None, "profile": {"city": {"user": "bob", "phrase": SECRET}}}),
    (Account, {"login": None, "profile": {**PROFILE, "phrase": SECRET}}),
    (Account, {"login": None, "profile": {**PROFILE, "login": {"user": "bob", "phrase": SECRET}}}),
    (Account, {"login": None, "profile": {**PROFILE, "tags": [["bob", SECRET]]}}),
    (Account, {"login": None, "profile": {**PROFILE, "tags": {"phrase": SECRET}}}),
    (Account, {"login": None, "profile": {**PROFILE, "size": [1, 2, SECRET]}}),
    (Account, {"login": None, "profile": PROFILE, "age": [SECRET]}),
]


class TestOneLevelTooMany:
    @pytest.mark.parametrize("agent", ["ann", "eve"])
    @pytest.mark.parametrize("as_text", [False, True], ids=["dict", "text"])
    @pytest.mark.parametrize(("hint", "given"), ONE_LEVEL_TOO_MANY, ids=repr)
    def test_is_hidden(self, hint: Any, given: Any, agent: str, *, as_text: bool) -> None:
        """Broken promise: a secret that was a level too deep, or an item too many, was written down."""
        registry = ToolRegistry(journal="memory")

        def take(record: Any) -> str:
            """Take."""
            return "never"

        take.__annotations__ |= {"record": hint}
        registry.tool(owned_by="ann")(take)
        arguments = {"record": given}
        as_json = json.dumps(arguments, default=list)
        result = registry.execute(ToolCall("1", "take", as_json if as_text else arguments, agent))

        assert result.outcome in (Outcome.INVALID_ARGUMENTS, Outcome.FORBIDDEN)
        assert SECRET not in read_store(registry)

    def test_beside_a_parameter(self) -> None:
        """The same for the arguments themselves, where a schema was supplied, too."""
        registry = ToolRegistry(journal="memory")
        registry.tool("log_in", owned_by="ann")(login_marked)
        schema = {"type": "object", "properties": {"user": {"type": "string"}, "pin": {"type": "string"}}}
        registry.register_tool(Tool(name="log_on", parameters=schema, callable=login_marked, owned_by="ann"))

        for name in ("log_in", "log_on", "log_inn"):
            registry.execute(ToolCall(name, name, {"user": {"user": "bob", "pin": SECRET}}, "ann"))

        assert SECRET not in read_store(registry)

    @pytest.mark.parametrize(
        "shown",
        [
            {"profile": {"city": "hello", "tags": []}},
            {"profile": {"city": '{"a": "hello"}', "tags": []}},
            {"profile": {"city": "Rome", "tags": ["hello"]}},
            {"profile": {"city": "Rome", "tags": "hello"}},
            {"profile": '{"city": "hello", "tags": []}'},
            {"profile": PROFILE, "more": {"a": ["hello"]}},
            {"profile": PROFILE, "more": ["hello"]},
            {"profile": PROFILE, "text": {"a": ["hello"]}},
            {"profile": PROFILE, "age": "hello"},
        ],
        ids=repr,
    )
    def test_what_may_fit_is_shown(self, shown: dict[str, Any]) -> None:
        """Beside a secret, refused arguments are readable as far as their places are right."""
        registry = ToolRegistry(journal="memory")

        @registry.tool(owned_by="ann")
        def take(record: Account, number: int) -> str:
            """Take."""
            return "never"

        login = {"user": "bob", "phrase": SECRET}
        registry.execute(ToolCall("1", "take", {"record": {"login": login, **shown}, "number": "x"}, "ann"))
        written = read_store(registry)

        assert "hello" in written and "bob" in written
        assert SECRET not in written

    def test_containers_are_shown_where_nothing_is_secret(self) -> None:
        """A tool without secrets hides nothing of what does not fit."""
        registry = ToolRegistry(journal="memory")

        @registry.tool(owned_by="ann")
        def take(profile: Profile) -> str:
            """Take."""
            return "never"

        registry.execute(ToolCall("1", "take", {"profile": {"city": ["hello"], "town": "there"}}, "ann"))
        written = read_store(registry)

        assert "hello" in written and "there" in written


UNKNOWN = {
    "similar": ("log_in", "log_inn"),
    "different": ("sign_in", "authenticate"),
    "wire": ("bank.log_in", "bank_login"),
}


class TestUnknownTools:
    @pytest.mark.parametrize("names", UNKNOWN.values(), ids=UNKNOWN)
    @pytest.mark.parametrize("as_text", [False, True], ids=["dict", "text"])
    def test_hide_what_others_mark(self, names: tuple[str, str], as_text: bool) -> None:
        """Broken promise: a model that misspelled the name of a tool had its marked secrets written down."""
        registry, arguments = ToolRegistry(journal="memory"), {"user": "bob", "phrase": SECRET}

        @registry.tool(names[0], owned_by="ann")
        def log_in(user: str, phrase: Annotated[str, Secret]) -> str:
            """Log in."""
            return user

        with registry.run("r"):
            result = registry.execute(ToolCall("1", names[1], json.dumps(arguments) if as_text else arguments, "ann"))
        with registry.run("r"):
            again = registry.execute(ToolCall("1", names[1], json.dumps(arguments) if as_text else arguments, "ann"))

        assert Outcome.UNKNOWN_TOOL is result.outcome and again.replayed
        assert SECRET not in read_store(registry)
        assert "bob" in read_store(registry)

    def test_in_replies_of_models(self) -> None:
        """The same for the recorded reply in which a model made the call."""
        registry = ToolRegistry(journal="memory")

        @registry.tool("log_in", owned_by="ann")
        def log_in(user: str, phrase: Annotated[str, Secret]) -> str:
            """Log in."""
            return user

        reply = [ToolCall("c", "authenticate", {"user": "bob", "phrase": SECRET})]

        result = ToolLoop(registry.agent("ann"), fake_model(reply, "done")).run("Go.")

        assert [Outcome.UNKNOWN_TOOL] == [one.outcome for one in result.results]
        assert SECRET not in read_store(registry)

    def test_without_arguments_of_the_name(self) -> None:
        """Arguments that no tool marks are readable."""
        registry = ToolRegistry(journal="memory")

        @registry.tool("log_in", owned_by="ann")
        def log_in(user: str, phrase: Annotated[str, Secret]) -> str:
            """Log in."""
            return user

        registry.execute(ToolCall("1", "sing", {"phrases": "la la la"}, "ann"))

        assert "la la la" in read_store(registry)


class Label(TypedDict):
    """What other keys of an account hold."""

    text: str


class LabelledAccount(BaseModel):
    """Has a secret, and other keys whose values have a class of their own."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Label] = Field(init=False)
    phrase: Annotated[str, Secret]


def test_one_level_too_deep_beside_other_keys_of_a_class() -> None:
    """Broken promise: under another key, whose values have no secrets, it was recorded."""
    registry = ToolRegistry(journal="memory")

    @registry.tool("open", owned_by="ann")
    def open_account(account: LabelledAccount) -> None:
        """Open an account."""

    result = registry.execute(ToolCall("1", "open", {"account": {"account": {"phrase": SECRET}}}, "ann"))

    assert Outcome.INVALID_ARGUMENTS is result.outcome
    assert SECRET not in read_store(registry)
