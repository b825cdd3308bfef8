"""A secret that its type or class spells in another way is hidden in that spelling, too: in the journal, in spans."""

# Tests of: runs/call_secrets

from __future__ import annotations

import html
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar
from uuid import UUID

import attrs
import pytest
from approval_answers import execute_answered
from pydantic import AfterValidator, BaseModel, Field, RootModel, SecretStr, StringConstraints
from record_texts import read_journal
from telemetry_rig import RECORD_ALL, Collector, collector  # noqa: F401  # a fixture

from praval_tools import Allow, ApprovalRequest, Ask, Deny, Outcome, Secret, ToolCall, ToolRegistry

UPPER_ID = "ABCDEFAB-CDEF-4BCD-ABCD-ABCDEFABCDEF"


class Stripped(BaseModel):
    pin: Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True), Secret]


class Renamed(BaseModel):
    pin: Annotated[str, StringConstraints(to_upper=True), Secret] = Field(alias="thePin")


class Reversed(BaseModel):
    pin: Annotated[str, AfterValidator(lambda text: text[::-1]), Secret]


@attrs.define
class Cleaned:
    pin: Annotated[str, Secret] = attrs.field(converter=lambda text: text.replace("-", ""))


class Wallet(BaseModel):
    """Has a field that only its own code can read beside one that its type spells anew."""

    account: Annotated[UUID, Secret]
    password: SecretStr
    opened: Annotated[str, AfterValidator(lambda _: object())] = ""


class Sealed(BaseModel):
    password: Annotated[SecretStr, AfterValidator(lambda value: SecretStr(value.get_secret_value().upper()))]


class Half(BaseModel):
    """Gets one of its members without all fields."""

    account: Annotated[UUID, Secret]
    other: Annotated[Stripped, AfterValidator(lambda _: Stripped.model_construct())] | None = None


class Lasting(BaseModel):
    span: Annotated[timedelta, Secret]


class Appointment(BaseModel):
    at: Annotated[datetime, Secret]


class Account(RootModel[Annotated[UUID, Secret]]):
    pass


@attrs.define
class Node:
    """Contains itself."""

    account: Annotated[UUID, Secret]
    children: list[Node] = attrs.Factory(list)
    parent: Any = None

    def __attrs_post_init__(self) -> None:
        for child in self.children:
            child.parent = self


@attrs.define
class Queue:
    accounts: list[Annotated[UUID, Secret]] = attrs.field(converter=deque)


@attrs.define
class Fixed:
    accounts: dict[str, Annotated[UUID, Secret]] = attrs.field(converter=MappingProxyType)


def refuse_value(value: Any) -> Any:
    raise ValueError(f"no such account: {value}")


class RefusedModel(BaseModel):
    account: Annotated[UUID, Secret, AfterValidator(refuse_value)]


class RefusedText(BaseModel):
    pin: Annotated[str, AfterValidator(str.upper), AfterValidator(refuse_value), Secret]


@attrs.define
class RefusedAttrs:
    account: Annotated[UUID, Secret] = attrs.field(validator=lambda *args: refuse_value(args[2]))


@dataclass
class RefusedData:
    token: UUID

    def __post_init__(self) -> None:
        refuse_value(self.token)


REFUSED: dict[str, tuple[Any, Any]] = {
    "pydantic": (RefusedModel, {"account": UPPER_ID}),
    "pydantic text": (RefusedText, {"pin": "zq7xsecretvalue"}),
    "attrs": (RefusedAttrs, {"account": UPPER_ID}),
    "dataclass": (RefusedData, {"token": UPPER_ID}),
    "list": (list[RefusedAttrs], [{"account": UPPER_ID}]),
}

KINDS: dict[str, tuple[Any, Any, Callable[[Any], str]]] = {
    "uuid": (Annotated[UUID, Secret], UPPER_ID, str),
    "path": (Annotated[Path, Secret], "/srv//keys/./of-the-bank", str),
    "moment": (Annotated[datetime, Secret], "2026-01-02T03:04:05Z", str),
    "moment as ISO 8601": (Annotated[datetime, Secret], "2026-01-02T03:04:05Z", datetime.isoformat),
    "pydantic": (Stripped, {"pin": "  Zq7xSecretValue  "}, lambda value: value.pin),
    "pydantic alias": (Renamed, {"thePin": "zq7xsecretvalue"}, lambda value: value.pin),
    "pydantic validator": (Reversed, {"pin": "zq7xsecretvalue"}, lambda value: value.pin),
    "attrs converter": (Cleaned, {"pin": "4929-1234-5678-9012"}, lambda value: value.pin),
    "name of a key": (dict[str, UUID], {"token": UPPER_ID}, lambda value: str(value["token"])),
    "root model": (Account, UPPER_ID, lambda value: str(value.root)),
    "span of time": (Annotated[timedelta, Secret], "P1DT2H", str),
    "years in pydantic": (Lasting, {"span": "P400DT0.5S"}, lambda value: value.model_dump_json().split('"')[3]),
    "without an offset": (Appointment, {"at": "2026-01-02T03:04:05"}, lambda value: str(value.at)),
    "numbers": (Appointment, {"at": "2026-01-02T03:04:05"}, lambda value: repr(value.at)[18:-1]),
    "time of day": (Annotated[time, Secret], "03:04:05Z", str),
    "representation": (Annotated[datetime, Secret], "2026-01-02T03:04:05Z", repr),
    "beside others": (Wallet, {"account": UPPER_ID, "password": "open-sesame"}, lambda value: str(value.account)),
    "of pydantic": (Sealed, {"password": "open-sesame"}, lambda value: value.password.get_secret_value()),
    "half a model": (Half, {"account": UPPER_ID, "other": {"pin": "zq7xsecret"}}, lambda value: str(value.account)),
    "part of itself": (
        Node,
        {"account": UPPER_ID, "children": [{"account": UPPER_ID}]},
        lambda value: str(value.account),
    ),
    "queue": (Queue, {"accounts": [UPPER_ID]}, lambda value: str(value.accounts[0])),
    "fixed dict": (Fixed, {"accounts": {"a": UPPER_ID}}, lambda value: str(value.accounts["a"])),
    "list": (list[Annotated[UUID, Secret]], [UPPER_ID], lambda value: str(value[0])),
}
EndCall = Callable[[str], str]


def return_quote(secret: str) -> str:
    return f"It was {secret} in full"


def raise_quote(secret: str) -> str:
    raise ValueError(f"wrong: {secret}")


def raise_passing_quote(secret: str) -> str:
    raise ConnectionError(f"no answer for {secret}")


ENDS: dict[str, EndCall] = {"result": return_quote, "error": raise_quote, "retry": raise_passing_quote}
each_kind = pytest.mark.parametrize("kind", KINDS)
UNJUDGED = {"beside others", "of pydantic", "half a model", "part of itself", "queue", "fixed dict"}
each_kind_that_is_judged = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in UNJUDGED])
each_moment = pytest.mark.parametrize("is_later", [False, True], ids=["at once", "later"])


def declare(registry: ToolRegistry, kind: str, end: EndCall) -> list[str]:
    """Declare the tool `take`; return the list to which it appends what it read of its argument."""
    hint, _, read = KINDS[kind]
    spellings: list[str] = []

    def take(value: Any) -> str:
        """Take."""
        spellings.append(read(value))
        return end(spellings[-1])

    take.__annotations__ |= {"value": hint}
    registry.tool(owned_by="ann", idempotent=True, retry_on=(ConnectionError,), retries=1)(take)
    return spellings


@each_kind
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("in_run", [False, True], ids=["alone", "run"])
def test_the_journal_quotes_none(kind: str, end: str, in_run: bool) -> None:
    """Broken promise: a marked UUID that came in upper case stood in the journal where the tool quoted it."""
    with ToolRegistry(journal="memory", retry_wait=0) as registry:
        spellings = declare(registry, kind, ENDS[end])
        call = ToolCall("c", "take", {"value": KINDS[kind][1]}, "ann")
        if in_run:
            with registry.run("r"):
                registry.execute(call)
        else:
            registry.execute(call)
        written = read_journal(registry)

    assert spellings and "[secret " in written
    assert spellings[0] not in written


def find_spelling(arguments: dict[str, Any]) -> str:
    """Return the secret as policies and approvers see it."""
    shown = arguments["value"]
    while not isinstance(shown, str):
        (shown,) = shown.values() if isinstance(shown, dict) else shown
    return shown


@each_kind_that_is_judged
def test_reasons_of_policies_quote_none(kind: str) -> None:
    """Policies see what the tool will get, and their reasons may quote it."""
    with ToolRegistry(journal="memory") as registry:
        spellings, seen = declare(registry, kind, return_quote), list[str]()

        def refuse(agent: str | None, tool: str, arguments: dict[str, Any]) -> Deny:
            seen.append(find_spelling(arguments))
            return Deny(f"not with {seen[0]}")

        registry.add_policy(refuse)
        registry.execute(ToolCall("c", "take", {"value": KINDS[kind][1]}, "ann"))
        written = read_journal(registry)

    assert not spellings and "not with [secret " in written
    assert seen[0] not in written


@each_kind_that_is_judged
@each_moment
def test_answers_of_persons_quote_none(kind: str, collector: Collector, *, is_later: bool) -> None:
    """Approvers see what the tool will get, and their answers may quote it, also in spans."""
    with ToolRegistry(journal="memory", telemetry=collector.make_telemetry(**RECORD_ALL)) as registry:
        spellings, seen = declare(registry, kind, return_quote), list[str]()

        def refuse(request: ApprovalRequest) -> Deny:
            seen.append(find_spelling(dict(request.arguments)))
            return Deny(f"not with {seen[0]}")

        registry.add_policy(lambda *_: Ask("large"))
        execute_answered(registry, ToolCall("c", "take", {"value": KINDS[kind][1]}, "ann"), refuse, is_later=is_later)
        records, spans = read_journal(registry), collector.read_spans()

    assert not spellings
    for written in (records, spans):
        assert "not with [secret " in written
        assert seen[0] not in written


@each_kind_that_is_judged
@each_moment
def test_edited_arguments_quote_none(kind: str, collector: Collector, *, is_later: bool) -> None:
    """Approvers may write what they saw into another argument, and leave the secret itself out."""
    with ToolRegistry(journal="memory", telemetry=collector.make_telemetry(**RECORD_ALL)) as registry:

        def take(value: Any = None, note: str = "") -> str:
            """Take."""
            return note

        take.__annotations__ |= {"value": KINDS[kind][0] | None}
        registry.tool(owned_by="ann", requires_approval=True)(take)
        call, seen = ToolCall("c", "take", {"value": KINDS[kind][1]}, "ann"), list[str]()

        def edit(request: ApprovalRequest) -> Allow:
            seen.append(find_spelling(dict(request.arguments)))
            return Allow({"note": f"it was {seen[0]}"})

        result = execute_answered(registry, call, edit, is_later=is_later).result
        assert f"it was {seen[0]}" == result
        records, spans = read_journal(registry), collector.read_spans()

    for written in (records, spans):
        assert "it was [secret " in written
        assert seen[0] not in written


@each_kind
@pytest.mark.parametrize("end", ENDS)
def test_spans_quote_none(kind: str, end: str, collector: Collector) -> None:
    """A span that records arguments and results has the values of the journal, and hides the same."""
    with ToolRegistry(telemetry=collector.make_telemetry(**RECORD_ALL), retry_wait=0) as registry:
        spellings = declare(registry, kind, ENDS[end])
        registry.execute(ToolCall("c", "take", {"value": KINDS[kind][1]}, "ann"))
    written = collector.read_spans()

    assert spellings and "[secret " in written
    assert spellings[0] not in written


@each_kind
def test_other_arguments_quote_none(kind: str, collector: Collector) -> None:
    """Broken promise: the start of a call had a marked UUID in lower case, which another argument quoted."""
    with ToolRegistry(journal="memory", telemetry=collector.make_telemetry(**RECORD_ALL)) as registry:
        (hint, given, read), spellings = KINDS[kind], list[str]()

        def take(value: Any, note: str = "") -> None:
            """Take."""
            spellings.append(read(value))

        take.__annotations__ |= {"value": hint}
        registry.tool(owned_by="ann")(take)
        registry.execute(ToolCall("c", "take", {"value": given}, "ann"))
        registry.execute(ToolCall("d", "take", {"value": given, "note": f"for {spellings[0]}"}, "ann"))
        records, spans = read_journal(registry), collector.read_spans()

    for written in (records, spans):
        assert re.search(r"for [\w.(]*\[secret ", written)
        assert spellings[0] not in written


def test_other_arguments_quote_no_default_of_a_class() -> None:
    """A secret that nobody gives, and that the class of a parameter has by itself, is hidden where a text quotes it."""

    class Login(BaseModel):
        password: SecretStr = SecretStr("open-sesame")

    with ToolRegistry(journal="memory") as registry:

        def take(value: Any, note: str = "") -> None:
            """Take."""

        take.__annotations__ |= {"value": Login}
        registry.tool(owned_by="ann")(take)
        registry.execute(ToolCall("c", "take", {"value": {}, "note": "for open-sesame"}, "ann"))
        written = read_journal(registry)

    assert "for [secret " in written and "open-sesame" not in written


@pytest.mark.parametrize("kind", ["uuid", "path", "moment", "span of time", "time of day", "list"])
@pytest.mark.parametrize(
    "more", [{"agent": "bob"}, {"arguments": {"count": "many"}}, {"arguments": {"unknown": 1}}], ids=str
)
def test_refused_calls_quote_none(kind: str, more: dict[str, Any], collector: Collector) -> None:
    """Broken promise: a refused call was recorded with a marked UUID in lower case, which another argument quoted."""
    with ToolRegistry(journal="memory", telemetry=collector.make_telemetry(**RECORD_ALL)) as registry:
        (hint, given, read), spellings = KINDS[kind], list[str]()

        def take(value: Any, note: str = "", count: int = 0) -> None:
            """Take."""
            spellings.append(read(value))

        take.__annotations__ |= {"value": hint}
        registry.tool(owned_by="ann")(take)
        registry.execute(ToolCall("c", "take", {"value": given}, "ann"))
        arguments = {"value": given, "note": f"for {spellings[0]}", **more.get("arguments", {})}
        refused = registry.execute(ToolCall("d", "take", arguments, more.get("agent", "ann"), reason=spellings[0]))
        records, spans = read_journal(registry), collector.read_spans()

    assert not refused.success and "for [secret " in records and "for [secret " in spans
    assert spellings[0] not in records and spellings[0] not in spans


@pytest.mark.parametrize("kind", REFUSED)
def test_classes_that_refuse_values_quote_none(kind: str, collector: Collector) -> None:
    """Broken promise: the journal had what the class of a parameter said of a marked UUID before it refused it."""
    hint, value = REFUSED[kind]
    with ToolRegistry(journal="memory", telemetry=collector.make_telemetry(**RECORD_ALL)) as registry:

        def take(value: Any) -> str:
            """Take."""
            return "never"

        take.__annotations__ |= {"value": hint}
        registry.tool(owned_by="ann")(take)
        refused = registry.execute(ToolCall("c", "take", {"value": value}, "ann"))
        records, spans = read_journal(registry), collector.read_spans()

    assert "no such account" in str(refused.error)
    for written in (records, spans):
        assert "refused by its class" in written
        assert "no such account" not in written


def test_classes_without_secrets_are_quoted() -> None:
    """What a class says of its values is recorded where nothing is secret."""

    @attrs.define
    class Order:
        count: int = attrs.field(validator=lambda *args: refuse_value(args[2]))

    with ToolRegistry(journal="memory") as registry:

        def take(value: Any) -> str:
            """Take."""
            return "never"

        take.__annotations__ |= {"value": Order}
        registry.tool(owned_by="ann")(take)
        registry.execute(ToolCall("c", "take", {"value": {"count": 3}}, "ann"))
        written = read_journal(registry)

    assert "no such account: 3" in written


@attrs.define
class Fickle:
    """Is refused when it is made a second time."""

    made: ClassVar[list[str]] = []
    token: UUID

    def __attrs_post_init__(self) -> None:
        self.made.append(str(self.token)[::-1])
        if len(self.made) == 2:
            refuse_value(self.made[0])


def test_a_class_that_refuses_a_retry_quotes_none() -> None:
    Fickle.made.clear()
    with ToolRegistry(journal="memory", retry_wait=0) as registry:

        @registry.tool("take", owned_by="ann", idempotent=True, retry_on=(ConnectionError,), retries=2)
        def take(value: Fickle) -> str:
            """Take."""
            raise ConnectionError("again")

        refused = registry.execute(ToolCall("c", "take", {"value": {"token": UPPER_ID}}, "ann"))
        written = read_journal(registry)

    assert Outcome.INVALID_ARGUMENTS is refused.outcome
    assert "was refused by its class" in written and "no such account" not in written


def test_the_reason_of_a_call_quotes_none() -> None:
    with ToolRegistry(journal="memory") as registry:
        declare(registry, "uuid", return_quote)
        registry.execute(ToolCall("c", "take", {"value": UPPER_ID}, "ann", reason=f"for {UPPER_ID.lower()}"))
        written = read_journal(registry)

    assert "for [secret " in written and UPPER_ID.lower() not in written


def test_words_of_python_are_no_secrets() -> None:
    """Broken promise: an error lost "datetime" and "date", since they are in what Python writes of a moment."""
    text = "The datetime of the last update is no UUID, PosixPath or Decimal: seconds, tzinfo"
    with ToolRegistry(journal="memory") as registry:

        @registry.tool("take", owned_by="ann")
        def take(
            moment: Annotated[datetime, Secret], account: Annotated[UUID, Secret], path: Annotated[Path, Secret],
            span: Annotated[timedelta, Secret] = timedelta(0),
        ) -> str:  # fmt: skip
            """Take."""
            raise ValueError(text)

        arguments = {"moment": "1999-07-08T03:04:05Z", "account": UPPER_ID, "path": "/srv//bank"}
        registry.execute(ToolCall("c", "take", arguments, "ann"))
        assert text in read_journal(registry)


@pytest.mark.parametrize(
    ("hint", "given", "write"),
    [
        (str, "Kx9f 'Qz&7W=m<Lp", html.escape),
        (str, "Kx9f 'Qz&7W=m<Lp", lambda text: html.escape(text, quote=False)),
        (UUID, "abcdefab-cdef-4bcd-abcd-abcdefabcdef", lambda value: value.hex),
    ],
    ids=["HTML", "HTML of an element", "digits of a UUID"],
)
def test_secrets_in_html_and_digits_of_a_uuid_are_found(hint: Any, given: str, write: Callable[[Any], str]) -> None:
    """Broken promise: a service that sends a secret back in HTML, or a UUID without its hyphens, had it recorded."""
    with ToolRegistry(journal="memory") as registry:

        def show(value: Any) -> str:
            """Show it."""
            return f"<p>{write(value)}</p>"

        show.__annotations__["value"] = Annotated[hint, Secret]
        registry.tool("show", shared=True)(show)
        result = registry.execute(ToolCall("1", "show", {"value": given}, "ann"))

        assert result.result.removeprefix("<p>").removesuffix("</p>") not in read_journal(registry)
