"""What serializers write where a class marks a secret is hidden, whatever they make of it."""

# Tests of: schema/written_secrets, runs/call_writer, runs/conversation_secrets, execution/described_results

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import attrs
import engine_tools
import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    RootModel,
    SecretStr,
    computed_field,
    field_serializer,
    model_serializer,
)
from record_texts import read_journal
from telemetry_rig import RECORD_ALL, Collector, collector  # noqa: F401  # a fixture

from praval_tools import Outcome, Secret, ToolCall, ToolInDoubtError, ToolRegistry
from praval_tools.loop import ToolLoop
from praval_tools.testing import fake_model

Key = Annotated[str, Secret]
NUMBERS = itertools.count(100_000)
WRITTEN = re.compile(r"written-\d{6}")


def write(value: object = None) -> str:
    """Return what a serializer makes: another text each time."""
    return f"written-{next(NUMBERS)}"


class Hinted(BaseModel):
    owner: str = "ann-marie"
    key: Key = "zq7x"

    @field_serializer("key")
    def write_key(self, value: str) -> str:
        """Write the key."""
        return write()


class ForJson(BaseModel):
    owner: str = "ann-marie"
    key: SecretStr = SecretStr("zq7x")

    @field_serializer("key", when_used="json")
    def write_key(self, value: SecretStr) -> str:
        """Write the key."""
        return write()


class Empty(BaseModel):
    owner: str = "ann-marie"
    key: Annotated[Key | None, PlainSerializer(write, return_type=str)] = None


class Whole(BaseModel):
    owner: str = "ann-marie"
    key: Key = "zq7x"

    @model_serializer
    def write_all(self) -> dict[str, str]:
        """Write all."""
        return {"owner": self.owner, "key": write()}


class Pages(BaseModel):
    """Is written with its dict in another form."""

    owner: str = "ann-marie"
    form: str = "list"
    inners: dict[str, Any] = Field(default_factory=lambda: {"a": Whole()})

    @field_serializer("inners")
    def write_inners(self, value: dict[str, Any]) -> Any:
        """Write the dict."""
        made = [write() for _ in value]
        return {"list": made, "keys": {"A": made[0]}, "envelope": {"items": made}}[self.form]


class Tagged(BaseModel):
    """Is written with its kind."""

    number: int = 12
    pin: Annotated[str | None, Secret] = None

    @model_serializer(mode="wrap")
    def write_all(self, handler: Any) -> Any:
        """Add the kind."""
        return {"kind": "invoice", **handler(self)}


class Computed(BaseModel):
    owner: str = "ann-marie"

    @computed_field  # type: ignore[prop-decorator]
    @property
    def key(self) -> Key:
        """Make a key."""
        return write()


class Aliased(BaseModel):
    model_config = ConfigDict(alias_generator=str.upper)

    owner: str = Field("ann-marie", serialization_alias="owned_by")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def key(self) -> Key:
        """Make a key."""
        return write()


class AsText(BaseModel):
    """Is written as a text, beside one that is not."""

    owner: str = "ann-marie"
    computed: Computed = Computed()

    @field_serializer("computed")
    def write_computed(self, value: Computed) -> str:
        """Write the inner model as a text."""
        return write()


class Outer(BaseModel):
    owner: str = "ann-marie"
    inner: Any = Field(default_factory=Computed)


class MakesOuter(BaseModel):
    owner: str = "ann-marie"

    @computed_field  # type: ignore[prop-decorator]
    @property
    def inners(self) -> list[Any]:
        """Make models."""
        return [Outer()]


class Keys(RootModel[dict[int, Outer]]):
    pass


@dataclass
class Data:
    owner: str = "ann-marie"
    inner: Any = field(default_factory=Computed)


@attrs.define
class Attrs:
    owner: str = "ann-marie"
    inner: Any = attrs.Factory(Hinted)


class Row(NamedTuple):
    owner: str = "ann-marie"
    inner: Any = Hinted()


class Frozen(Computed):
    model_config = ConfigDict(frozen=True)


KINDS = [Hinted, ForJson, Empty, Whole, Pages, Computed, Aliased, AsText, Outer, MakesOuter, Data, Attrs, Row]
each_kind = pytest.mark.parametrize("kind", KINDS)
HOLDERS = {
    "own": lambda kind: kind(),
    "any": lambda kind: kind(),
    "list": lambda kind: [kind(), {"inner": kind()}],
    "dict": lambda kind: {1: kind(), "two": (kind(),), Outcome.OK: kind()},
    "iterator": lambda kind: iter([kind()]),
}


def declare(registry: ToolRegistry, kind: Any, holder: str) -> None:
    """Declare a tool that gives what a holder makes of a kind."""

    def give() -> Any:
        """Give."""
        return HOLDERS[holder](kind)

    give.__annotations__["return"] = kind if holder == "own" else Any
    registry.tool("give", shared=True)(give)


class TestResults:
    @each_kind
    @pytest.mark.parametrize("holder", HOLDERS)
    def test_are_recorded_without_them(self, kind: Any, holder: str, collector: Collector) -> None:
        """Broken promise: the journal and spans had what a serializer made of a marked field, or a new value of it."""
        with ToolRegistry(journal="memory", telemetry=collector.make_telemetry(**RECORD_ALL)) as registry:
            declare(registry, kind, holder)
            result = registry.execute(ToolCall("1", "give", {}, "ann"))
            records, spans = read_journal(registry), collector.read_spans()

        assert Outcome.OK is result.outcome
        assert WRITTEN.search(result.for_model())
        for recorded in (records, spans):
            assert not WRITTEN.search(recorded)
            assert "ann-marie" in recorded

    def test_in_sets_and_by_numbers(self) -> None:
        """Sets are written in another order, and keys as texts."""
        with ToolRegistry(journal="memory") as registry:

            @registry.tool(shared=True)
            def give() -> Any:
                """Give."""
                return [{Frozen(owner="ann-marie"), Frozen(owner="bob-albert")}, Keys({1: Outer()})]

            assert registry.execute(ToolCall("1", "give", {}, "ann")).success
            records = read_journal(registry)

        assert not WRITTEN.search(records)
        assert "ann-marie" in records and "bob-albert" in records

    @pytest.mark.parametrize("form", ["list", "keys", "envelope"])
    def test_of_dicts_in_another_form(self, form: str) -> None:
        """What is written of a dict whose keys it has not is hidden as a whole."""
        with ToolRegistry(journal="memory") as registry:

            @registry.tool(shared=True)
            def give() -> Pages:
                """Give."""
                return Pages(form=form)

            assert WRITTEN.search(registry.execute(ToolCall("1", "give", {}, "ann")).for_model())
            assert not WRITTEN.search(read_journal(registry))

    @pytest.mark.parametrize("pin", [None, "1234-5678"])
    def test_a_key_that_a_serializer_adds_stays(self, pin: str | None) -> None:
        """What is read back is of its class: the name of its kind is not hidden."""
        with ToolRegistry(journal="memory") as registry:

            @registry.tool(shared=True)
            def give() -> Tagged:
                """Give."""
                return Tagged(pin=pin)

            for _ in range(2):
                with registry.run("r"):
                    result = registry.execute(ToolCall("1", "give", {}, "ann")).result
            assert type(result) is Tagged
            assert "invoice" in read_journal(registry) and "1234-5678" not in read_journal(registry)

    @pytest.mark.parametrize("is_known", [False, True], ids=["json", "object"])
    def test_of_other_processes(self, *, is_known: bool) -> None:
        """A function in another process writes its result there, and it may be written again here."""
        function = engine_tools.give_session if is_known else engine_tools.give_any_session
        with ToolRegistry(journal="memory") as registry:
            registry.tool("give", engine="process", shared=True)(function)
            result = registry.execute(ToolCall("1", "give", {}, "ann"))
            records = read_journal(registry)

        assert WRITTEN.search(result.for_model())
        assert not WRITTEN.search(records)
        assert "ann-marie" in records

    @each_kind
    def test_of_calls_in_doubt(self, kind: Any) -> None:
        """What a person gives as the result of a call is written as that of a tool."""
        with ToolRegistry(journal="memory") as registry:

            @registry.tool(shared=True)
            def give() -> Any:
                """Give."""
                raise ToolInDoubtError("Nobody knows.")

            with registry.run("r") as run:
                registry.execute(ToolCall("1", "give", {}, "ann"))
                run.resolve("1", result=[kind()])
            records = read_journal(registry)

        assert not WRITTEN.search(records)
        assert "ann-marie" in records


class TestReplies:
    @each_kind
    @pytest.mark.parametrize("api_format", ["openai-chat", "anthropic", "gemini", "openai-responses"])
    def test_that_quote_what_was_shown(self, kind: Any, api_format: str) -> None:
        """Broken promise: a recorded reply quoted what the model had been shown of a field that is new each time."""

        def quote(request: Any) -> str:
            return f"The key is {WRITTEN.findall(str(request.messages))[-1]}."

        with ToolRegistry(journal="memory") as registry:
            declare(registry, kind, "list")
            model = fake_model([ToolCall("c", "give", {})], quote, api_format=api_format)
            text = ToolLoop(registry.agent("ann"), model).run("Go.").text
            records = read_journal(registry)

        assert WRITTEN.search(text)
        assert not WRITTEN.search(records)
