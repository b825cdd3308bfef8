"""Secrets that are marked in pydantic models are hidden as those of all other classes are."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, RootModel

from praval_tools import Secret, ToolCall, ToolRegistry

HIDDEN = "Zq7xSECRETvalue99"


class Login(BaseModel):
    user: str
    pin: Annotated[str, Secret] = "default-of-a-secret"


class Aliased(BaseModel):
    user: str
    pin: Annotated[str, Secret] = Field("", alias="thePin")


class Nested(BaseModel):
    logins: dict[str, list[Login]]


class Logins(RootModel[list[Login]]):
    pass


@dataclass
class Pair:
    user: str
    pin: Annotated[str | None, Secret()] = None


class Holder(BaseModel):
    pair: Pair
    many: list[Annotated[str, Secret]] = []


LOGIN = {"user": "u", "pin": HIDDEN}
GIVEN: list[tuple[Any, Any]] = [
    (Login, LOGIN), (list[Login], [LOGIN]), (Login | None, LOGIN), (Aliased, {"user": "u", "thePin": HIDDEN}),
    (Nested, {"logins": {"a": [LOGIN]}}), (Logins, [LOGIN]), (Holder, {"pair": LOGIN}),
    (Holder, {"pair": {"user": "u"}, "many": [HIDDEN]}),
    (Login, json.dumps(LOGIN)), (Login, {**LOGIN, "more": HIDDEN}), (Login, [LOGIN]),
    (Login, {"user": 5, "pin": HIDDEN}),
    (dict[str, Annotated[str, Secret]], [HIDDEN]), (dict[str, Pair], [{"k": LOGIN}]),
    (dict[str, Login], [{"k": LOGIN}]),
]  # fmt: skip


def use(hint: Any, value: Any, path: Path, body: str) -> bytes:
    """Call a tool that fails, or returns its argument, and return all that the journal wrote."""
    with ToolRegistry(journal=path) as registry:

        def take(value: Any) -> Any:
            """Take."""
            if body == "raise":
                raise ValueError(f"wrong: {value!r}")
            return repr(value) if body == "text" else value

        take.__annotations__ |= {"value": hint, "return": Any if body == "text" else hint}
        registry.tool(owned_by="ann", requires_approval=body == "approval")(take)
        registry.execute(ToolCall("1", "take", {"value": value}, "ann"))
        registry.execute(ToolCall("2", "take", json.dumps({"value": value}), "ann"))
    return b"".join(part.read_bytes() for part in path.parent.glob("j.db*") if part.is_file() and part.suffix != ".key")


class TestMarksInModels:
    @pytest.mark.parametrize(("hint", "value"), GIVEN, ids=lambda one: str(one)[:50])
    @pytest.mark.parametrize("body", ["raise", "return", "text", "approval"])
    def test_nothing_of_a_call_quotes_them(self, hint: Any, value: Any, body: str, tmp_path: Path) -> None:
        """Broken promise: a marked field of a pydantic model was written to the journal as it was."""
        assert HIDDEN.encode() not in use(hint, value, tmp_path / "j.db", body)

    def test_models_are_shown_the_mark_and_no_default(self) -> None:
        """The schema says `writeOnly`, and nothing of what the secret is where none is given."""
        registry = ToolRegistry()

        @registry.tool(owned_by="ann")
        def enter(login: Login) -> str:
            """Enter."""
            return login.user

        shown = registry.get_tool("enter").parameters["properties"]["login"]["properties"]["pin"]

        assert {"type": "string", "writeOnly": True} == shown

    @pytest.mark.parametrize("body", ["raise", "text"])
    def test_bytes_are_hidden_as_their_text_too(self, body: str, tmp_path: Path) -> None:
        """A secret of type `bytes` comes as base64; an error of the tool quotes the bytes."""
        value = base64.b64encode(HIDDEN.encode()).decode()

        assert HIDDEN.encode() not in use(Annotated[bytes, Secret], value, tmp_path / "j.db", body)

    @pytest.mark.parametrize("body", ["raise", "text"])
    @pytest.mark.parametrize("end", [b"\xff\xfe", "\u00e9".encode()], ids=["no text", "text"])
    def test_bytes_are_hidden_as_python_writes_them(self, end: bytes, body: str, tmp_path: Path) -> None:
        """Broken promise: bytes that are no ASCII text were written down as a tool quoted them: `b'…\\xff'`."""
        value = base64.b64encode(HIDDEN.encode() + end).decode()

        assert HIDDEN.encode() not in use(Annotated[bytes, Secret], value, tmp_path / "j.db", body)
