"""Secrets that only the hints of a function mark, or that are its defaults: no byte of them is in the store."""

# Tests of: tools/mark_schemas, schema/secret_marks

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import BaseModel, SecretStr

from praval_tools import Outcome, Secret, Tool, ToolCall, ToolDefinition, ToolRegistry
from praval_tools.schema.secret_marks import contains_secret_mark

SECRET = "kT7vQ2xW9zRfoo"
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"user": {"type": "string"}, "pin": {"type": "string"}}}


@dataclass
class Login:
    """Who logs in."""

    user: str
    pin: Annotated[str, Secret] = SECRET


class Account(BaseModel):
    """Who logs in."""

    user: str
    pin: SecretStr


def log_in(user: str, pin: Annotated[str, Secret]) -> str:
    """Log in."""
    return f"{user} came with {pin}"


def log_in_by_any_name(user: str, **others: Annotated[str, Secret]) -> str:
    """Log in."""
    return f"{user} came with {others}"


def log_in_later(user: Missing, pin: Annotated[str, Secret]) -> str:  # type: ignore[name-defined] # noqa: F821
    """Log in."""
    return user + pin


def log_in_much_later(user: str, pin: Annotated[Missing, Secret]) -> str:  # type: ignore[name-defined] # noqa: F821
    """Log in."""
    return user + str(pin)


def log_in_by_class(who: Login, later: Missing) -> str:  # type: ignore[name-defined] # noqa: F821
    """Log in."""
    return f"{who} {later}"


def _supply(schema: dict[str, Any], function: Callable[..., Any] = log_in) -> Callable[[ToolRegistry], object]:
    return lambda registry: registry.register_tool(Tool("login", "d", schema, function, owned_by="ann"))


def _read(function: Callable[..., Any]) -> Callable[[ToolRegistry], object]:
    return lambda registry: registry.register_tool(Tool.from_function(function, "login", owned_by="ann"))


def _define(registry: ToolRegistry) -> None:
    registry.register("login", log_in, ToolDefinition("login", "d", SCHEMA))
    registry.grant("login", "ann")


DECLARATIONS: dict[str, Callable[[ToolRegistry], object]] = {
    "schema": _supply(SCHEMA), "types": _supply({"user": "string", "pin": "string"}),
    "open schema": _supply({"type": "object", "properties": {"user": {}}}), "definition": _define,
    "any name": _supply(SCHEMA, log_in_by_any_name), "unresolved": _read(log_in_later),
    "unresolved mark": _read(log_in_much_later),
}  # fmt: skip

CALLS = {
    "right": ToolCall("1", "login", {"user": "bo", "pin": SECRET}, "ann"),
    "text": ToolCall("1", "login", '{"user": "bo", "pin": "' + SECRET + '"}', "ann"),
    "forbidden": ToolCall("1", "login", {"user": "bo", "pin": SECRET}, "bob"),
    "another name": ToolCall("1", "logen", {"user": "bo", "pin": SECRET}, "ann"),
    "misspelled": ToolCall("1", "login", {"user": "bo", "pni": SECRET}, "ann"),
    "wrong": ToolCall("1", "login", {"user": "bo", "pin": [SECRET]}, "ann"),
}


def _record(folder: Path, declare: Callable[[ToolRegistry], object], call: ToolCall) -> tuple[Outcome, bytes]:
    """Make a call with a journal; return its outcome, and all that the store holds then."""
    registry = ToolRegistry(journal=folder / "runs.db")
    declare(registry)
    outcome = registry.execute(call).outcome
    registry.close()
    return outcome, b"".join(path.read_bytes() for path in folder.iterdir() if path.name.startswith("runs.db-wal")) + (
        folder / "runs.db"
    ).read_bytes()


class TestMarksOfHints:
    @pytest.mark.parametrize("call", CALLS)
    @pytest.mark.parametrize("declaration", DECLARATIONS)
    def test_count_besides_the_schema_of_the_tool(self, tmp_path: Path, declaration: str, call: str) -> None:
        """
        Broken promise: what is marked as secret is not in the journal.

        The schema was supplied, or could not be made of hints that do not resolve yet, and the mark was forgotten.
        """
        _, data = _record(tmp_path, DECLARATIONS[declaration], CALLS[call])

        assert str(CALLS[call].name).encode() in data
        assert SECRET.encode() not in data

    def test_count_in_classes(self, tmp_path: Path) -> None:
        """Of a tool that cannot run yet, the fields of classes that are marked are hidden, and the others are not."""
        call = ToolCall("1", "login", {"who": {"user": "marianne", "pin": SECRET}}, "ann")

        outcome, data = _record(tmp_path, _read(log_in_by_class), call)

        assert outcome is Outcome.TOOL_ERROR
        assert SECRET.encode() not in data
        assert b"marianne" in data

    def test_of_a_module_that_a_configuration_names(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Those of a function that is imported at the first call count for that call."""
        module = ModuleType("functions_with_marks")
        module.log_in = log_in  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        tool = {"name": "login", "module": module.__name__, "function": "log_in", "description": "d"}
        config = tmp_path / "tools.yaml"
        config.write_text(json.dumps({"tools": [{**tool, "parameters_schema": SCHEMA, "owned_by": "ann"}]}))

        outcome, data = _record(tmp_path, lambda registry: registry.configure_from(config), CALLS["right"])

        assert outcome is Outcome.OK
        assert SECRET.encode() not in data


def say_default(user: str, pin: Annotated[str, Secret] = SECRET) -> str:
    """Say it."""
    return f"{user} came with {pin}"


def say_named_default(user: str, password: str = SECRET) -> str:
    """Say it."""
    return f"{user} came with {password}"


def say_inner_default(user: str, who: Login = Login("bo")) -> str:
    """Say it."""
    return f"{user} came with {who.pin}"


def raise_default(user: str, pin: Annotated[str, Secret] = SECRET) -> str:
    """Raise it."""
    raise ValueError(pin)


class TestDefaults:
    @pytest.mark.parametrize("function", [say_default, say_named_default, say_inner_default, raise_default])
    @pytest.mark.parametrize("is_supplied", [True, False])
    @pytest.mark.parametrize("is_refused", [True, False])
    def test_are_hidden_where_the_tool_quotes_them(
        self, tmp_path: Path, function: Callable[..., Any], is_supplied: bool, is_refused: bool
    ) -> None:
        """Broken promise: what is marked as secret is not in the journal; it was where nobody had given it."""

        def declare(registry: ToolRegistry) -> None:
            _supply({"type": "object", "properties": {"user": {}}}, function)(registry) if is_supplied else _read(
                function
            )(registry)
            if is_refused:
                registry.add_policy(lambda agent, tool, arguments: f"not with {arguments}")

        outcome, data = _record(tmp_path, declare, ToolCall("1", "login", {"user": "bo"}, "ann"))

        assert (outcome is Outcome.FORBIDDEN) is is_refused
        assert SECRET.encode() not in data

    @pytest.mark.parametrize("function", [say_default, say_inner_default])
    def test_are_shown_to_nobody(self, function: Callable[..., Any]) -> None:
        """Broken promise: neither a schema nor the metadata of a tool shows the default of what is secret."""
        registry = ToolRegistry()
        tool = Tool.from_function(function, "login", owned_by="ann")
        registry.register_tool(tool)

        shown = repr(
            [tool.metadata.parameters, tool.parameters, registry.get_tool_info("login"), registry.schemas("ann")]
        )

        assert "came" not in shown
        assert SECRET not in shown

    def test_are_not_hidden_where_they_are_short(self, tmp_path: Path) -> None:
        """A default of few characters hides nothing else: it would be everywhere."""

        def log_in(user: str, pin: Annotated[str, Secret] = "bo") -> str:
            """Log in."""
            return f"{user} the boss"

        _, data = _record(tmp_path, _read(log_in), ToolCall("1", "login", {"user": "bo"}, "ann"))

        assert b"bo the boss" in data


class Ticket(BaseModel):
    """What a login gives."""

    user: str
    key: Annotated[str, Secret]


class TestResults:
    @pytest.mark.parametrize("value", [Login("bo"), Ticket(user="bo", key=SECRET)], ids=["dataclass", "model"])
    @pytest.mark.parametrize("hint", [Any, list, dict], ids=repr)
    def test_of_classes_that_no_hint_names(self, tmp_path: Path, value: object, hint: Any) -> None:
        """Broken promise: what a class marks is not in the journal; it was where the result was any value."""

        def find() -> Any:
            """Find it."""
            return {"found": [value]} if hint is dict else [value]

        find.__annotations__["return"] = hint

        outcome, data = _record(tmp_path, _read(find), ToolCall("1", "login", {}, "ann"))

        assert outcome is Outcome.OK
        assert b"found" in data or hint is not dict
        assert SECRET.encode() not in data


class Pair(NamedTuple):
    """Two values."""

    user: str
    logins: dict[str, list[Login]]


class TestContainsSecretMark:
    @pytest.mark.parametrize("hint", [
        Annotated[str, Secret], list[Annotated[str, Secret()]], dict[str, Annotated[str, Secret] | None], Login,
        tuple[int, Pair], Account, list[Account] | None, "Missing",
    ], ids=repr)  # fmt: skip
    def test_finds_a_mark_at_any_depth(self, hint: Any) -> None:
        """In containers, unions, and the fields of classes; what is not resolved may be marked."""
        assert contains_secret_mark(hint)

    @pytest.mark.parametrize(
        "hint", [str, None, Any, list[int], Annotated[str, "a text"], dict[str, list[int]]], ids=repr
    )
    def test_finds_none_elsewhere(self, hint: Any) -> None:
        """Other annotations are no marks."""
        assert not contains_secret_mark(hint)
