"""Secrets that are marked in pydantic models are hidden as those of all other classes are."""

# Tests of: schema/model_marks, schema/marked_values, schema/secret_marks

from __future__ import annotations

import base64
import json
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import attrs
import pydantic
import pytest
from pydantic import BaseModel, Field, RootModel, SecretBytes, SecretStr, WithJsonSchema, computed_field
from record_texts import read_journal
from typing_extensions import TypedDict

from praval_tools import Outcome, Secret, ToolCall, ToolInDoubtError, ToolRegistry, ToolUsageError

HIDDEN = "Zq7xSECRETvalue99"


class Login(BaseModel):
    user: str
    pin: Annotated[str, Secret] = "default-of-a-secret"


class Aliased(BaseModel):
    user: str
    pin: Annotated[str, Secret] = Field("", alias="thePin")


class AliasedOnceEach(BaseModel):
    user: str = ""
    taken: Annotated[str, Secret] = Field("", validation_alias="toTake")
    written: Annotated[str, Secret] = Field("", serialization_alias="toWrite")


class AliasedHolder(BaseModel):
    members: list[AliasedOnceEach] = Field([], validation_alias="toHold")


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


class Extra(BaseModel):
    word: str = Field(json_schema_extra={"writeOnly": True})


class Format(BaseModel):
    word: str = Field(json_schema_extra={"format": "password"})


class Call(BaseModel):
    word: str = Field(json_schema_extra=lambda schema: schema.update(writeOnly=True))


class Said(BaseModel):
    word: Annotated[str, WithJsonSchema({"type": "string", "format": "password"})]


class SaidOfAll(BaseModel, json_schema_extra={"properties": {"word": {"type": "string", "writeOnly": True}}}):
    word: str


class Whole(BaseModel, json_schema_extra={"writeOnly": True}):
    word: str


class Text(BaseModel):
    word: SecretStr


class Bytes(BaseModel):
    word: SecretBytes


class Texts(BaseModel):
    word: list[SecretStr]


class MaybeText(BaseModel):
    word: SecretStr | None


class OwnSecret(BaseModel):
    word: pydantic.Secret[str]


class RootText(RootModel[SecretStr]):
    pass


class Open(BaseModel, extra="allow"):
    __pydantic_extra__: dict[str, Annotated[str, Secret]]


class Loose(BaseModel, extra="allow"):
    pass


class ExtraAlias(BaseModel):
    word: str = Field(validation_alias="given", serialization_alias="written", json_schema_extra={"writeOnly": True})


class Computed(BaseModel):
    @computed_field(json_schema_extra={"writeOnly": True})  # type: ignore[prop-decorator]
    @property
    def word(self) -> str:
        """Make a secret."""
        return HIDDEN


class Again(BaseModel):
    word: str = Field(json_schema_extra={"writeOnly": True})
    inner: Again | None = None


class Entry(TypedDict):
    word: Annotated[str, Secret]


class HoldsEntry(BaseModel):
    entry: Entry


class RootEntry(RootModel[Entry]):
    pass


class Unknown:
    """Has no schema."""


class NoSchema(BaseModel, arbitrary_types_allowed=True):
    word: str = Field(json_schema_extra={"writeOnly": True})
    unknown: Unknown | None = None


class Plain(NamedTuple):
    word: str


@dataclass
class MarksPlain:
    plain: Annotated[Plain, Secret]


@attrs.define
class MayMarkPlain:
    plain: Annotated[Plain, Secret] | None


class ModelMarksPlain(BaseModel):
    plain: Annotated[Plain, Secret]


@dataclass
class HoldsNoSchema:
    model: NoSchema


MARKED: list[Any] = [
    Extra(word=HIDDEN), Format(word=HIDDEN), Call(word=HIDDEN), Said(word=HIDDEN), SaidOfAll(word=HIDDEN),
    Whole(word=HIDDEN), Text(word=SecretStr(HIDDEN)), Bytes(word=SecretBytes(HIDDEN.encode())),
    Texts(word=[SecretStr(HIDDEN)]), MaybeText(word=SecretStr(HIDDEN)), OwnSecret(word=pydantic.Secret(HIDDEN)),
    RootText(SecretStr(HIDDEN)), Open(word=HIDDEN), Loose(more=[Extra(word=HIDDEN)]), ExtraAlias(given=HIDDEN),
    Computed(), Again(word="other", inner=Again(word=HIDDEN)), HoldsEntry(entry={"word": HIDDEN}),
    RootEntry({"word": HIDDEN}), NoSchema(word=HIDDEN), HoldsNoSchema(NoSchema(word=HIDDEN)),
    MarksPlain(Plain(HIDDEN)), MayMarkPlain(Plain(HIDDEN)), ModelMarksPlain(plain=Plain(HIDDEN)),
    deque([Extra(word=HIDDEN)]), MappingProxyType({"a": Extra(word=HIDDEN)}),
]  # fmt: skip
"""Values with a secret that their classes mark."""
UNMARKED: list[Any] = [
    RootModel[list[str]](["seen-value"]), Loose(more="seen-value"),
    Login(user="seen-value", pin=HIDDEN), Again(word=HIDDEN).model_dump(include={"inner"}) | {"a": "seen-value"},
]  # fmt: skip


def record_result(hint: Any, value: Any) -> str:
    """Return what the journal has of the result of a tool that returns *value*, which it quotes besides."""

    def give() -> Any:
        """Give."""
        return {"value": value, "text": f"for {HIDDEN}"} if hint is not list else [value, f"for {HIDDEN}"]

    give.__annotations__["return"] = hint
    with ToolRegistry(journal="memory") as registry:
        registry.tool(owned_by="ann")(give)
        assert Outcome.OK is registry.execute(ToolCall("1", "give", {}, "ann")).outcome
        return read_journal(registry)


class TestMarksOfReturnedModels:
    @pytest.mark.parametrize("hint", [Any, dict[str, Any], list], ids=str)
    @pytest.mark.parametrize("value", MARKED, ids=lambda value: type(value).__name__)
    def test_are_hidden_where_no_hint_names_the_class(self, hint: Any, value: Any) -> None:
        """Broken promise: what only the schema of a class marks stood in the journal where the tool returns `Any`."""
        assert HIDDEN not in record_result(hint, value)

    @pytest.mark.parametrize("value", UNMARKED, ids=lambda value: type(value).__name__)
    def test_hide_nothing_else(self, value: Any) -> None:
        """What is beside a marked field, and in classes that mark nothing, is recorded."""
        assert "seen-value" in record_result(Any, value)


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


@pytest.mark.parametrize("key", ["toTake", "taken", "toWrite", "written"])
@pytest.mark.parametrize("holder", ["none", "list", "taken", "written"])
@pytest.mark.parametrize("way", ["returned", "resolved", "resolved in the journal"])
def test_of_a_result_that_is_a_dict(key: str, holder: str, way: str) -> None:
    """Broken promise: a dict with the keys that a class takes, and writes otherwise, was recorded as it was."""
    member = {key: HIDDEN}
    hint, given = {
        "none": (AliasedOnceEach, member), "list": (list[AliasedOnceEach], [member]),
        "taken": (AliasedHolder, {"toHold": [member]}), "written": (AliasedHolder, {"members": [member]}),
    }[holder]  # fmt: skip
    with ToolRegistry(journal="memory") as registry:

        def give() -> Any:
            """Give it."""
            if way != "returned":
                raise ToolInDoubtError("no answer")
            return given

        give.__annotations__["return"] = hint
        registry.tool("give", owned_by="ann")(give)
        with registry.run("r") as run:
            result = registry.execute(ToolCall("1", "give", {}, "ann"))
            if way == "resolved":
                with suppress(ToolUsageError):  # a key that the class does not take
                    run.resolve("1", result=given)
        if way == "resolved in the journal" and key in ("toTake", "written"):
            assert registry.journal is not None
            registry.journal.resolve("r", "1", result=given)

        assert result.outcome in (Outcome.OK, Outcome.TOOL_ERROR, Outcome.IN_DOUBT)
        assert HIDDEN not in read_journal(registry)
