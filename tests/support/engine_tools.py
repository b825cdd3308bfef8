"""Functions that every engine must be able to run: those of a module, which another process can import."""

from __future__ import annotations

import asyncio
import enum
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from datetime import time as clock_time
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import attrs
from pydantic import BaseModel, Field, RootModel, SecretStr, SerializeAsAny, field_serializer

from praval_tools import (
    Content,
    RetryableToolError,
    Secret,
    ToolCall,
    ToolContext,
    ToolInDoubtError,
    current_agent,
    current_call,
    get_tool_registry,
)


class Own(LookupError):
    """An exception with a constructor and a text of its own."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(number)
        self.reason = reason

    def __str__(self) -> str:
        return f"own: {self.reason}"


class Point(NamedTuple):
    x: float
    y: float = 0.0


@dataclass
class Order:
    amount: Decimal
    at: datetime | None = None


@attrs.define
class Stamped:
    """Makes another value each time that it is made without one."""

    name: str
    number: int = attrs.field(factory=lambda: int.from_bytes(os.urandom(6)))


@dataclass
class Tenfold:
    """Makes another value of what it gets."""

    amount: int

    def __post_init__(self) -> None:
        self.amount *= 10


@dataclass
class Ticket:
    """Holds a seat that neither its constructor nor its JSON has."""

    name: str
    seat: str = field(init=False, default="")


class Member(BaseModel):
    """Writes no token."""

    name: str
    token: str = Field(default="", exclude=True)


@dataclass
class Cuboid:
    """Computes a field from the others."""

    sides: tuple[int, int, int]
    volume: int = field(init=False)

    def __post_init__(self) -> None:
        self.volume = self.sides[0] * self.sides[1] * self.sides[2]


class Unsteady(BaseModel):
    """Makes another value in each process."""

    amount: int

    def model_post_init(self, _: Any) -> None:
        self.amount += os.getpid()


@dataclass
class Placed:
    """Makes another value of a field that its constructor does not take in each process."""

    amount: int
    place: int = field(init=False, default_factory=os.getpid)


class Rights(enum.IntFlag):
    READ = 1
    WRITE = 2


class Event(BaseModel):
    """Holds what no model may give as an argument."""

    when: datetime = datetime(2026, 1, 2, 3, 4, 5)
    at: clock_time = clock_time(1, 2, 3)
    late: timedelta = timedelta(days=-1, seconds=3)
    rights: Rights = Rights.READ | Rights.WRITE


class Price(BaseModel):
    """Writes itself in a way in which nobody can give it."""

    amount: float

    @field_serializer("amount")
    def write_amount(self, amount: float) -> str:
        """Write the amount with its currency."""
        return f"{amount:.2f} EUR"


class Owner(BaseModel):
    owner: str


class Logins(BaseModel):
    last: SerializeAsAny[Owner]


class Login(Owner):
    pin: Annotated[str, Secret]


class Described(Owner):
    pin: str = Field(json_schema_extra={"writeOnly": True})


class Hidden(Owner):
    pin: SecretStr


class Pin(RootModel[Annotated[str, Secret]]):
    pass


@dataclass
class Account:
    owner: str
    pin: Annotated[str, Secret]
    opened: Annotated[datetime, Secret]


def add(x: int, y: int = 2) -> int:
    """Add two numbers."""
    return x + y


async def add_later(x: int, y: int = 2) -> int:
    """Add two numbers."""
    await asyncio.sleep(0)
    return x + y


def place() -> tuple[int, int]:
    """Tell in which process and thread this runs."""
    return os.getpid(), threading.get_ident()


def echo(value: Any) -> Any:
    """Return it."""
    return value


def give_point() -> Point:
    """Give a point."""
    return Point(1, 2.5)


def give_order() -> Order:
    """Give an order."""
    return Order(Decimal("1.50"), datetime(2026, 1, 1, tzinfo=UTC))


def give_orders() -> dict[str, list[Order]]:
    """Give orders."""
    return {"a": [give_order()], "b": []}


def give_ticket(seat: str) -> Ticket:
    """Give a ticket."""
    ticket = Ticket("ann")
    ticket.seat = seat
    return ticket


def give_members(token: str) -> list[Member]:
    """Give members."""
    return [Member(name="ann", token=token)]


def give_cuboid() -> Cuboid:
    """Give a cuboid."""
    return Cuboid((1, 2, 3))


def give_loose(kind: str) -> Any:
    """Give a value without a hint of its type."""
    return LOOSE[kind]


LOOSE: dict[str, Any] = {
    "none": None, "text": "ä\n", "float": 1.0, "large": 2**80, "list": [1, "a", {"b": None}], "bytes": b"\x00\xff",
    "tuple": (1, (2,)), "set": {1, 2}, "date": datetime(2026, 1, 1, tzinfo=UTC), "decimal": Decimal("1.50"),
    "path": Path("a/b"), "image": Content.image(b"\x89PNG", "image/png"), "empty": {}, "tagged": {"praval:tuple": [1]},
}  # fmt: skip


PIN = "zq7x-marked-value"
OPENED = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)


def give_marked(kind: str) -> Any:
    """Give an object with marked fields without a hint of its type."""
    account = Account("ann", PIN, OPENED)
    return {
        "object": account, "list": [account], "dict": {"a": (account,)}, "iterator": [iter([account])],
        "model": Login(owner="ann", pin=PIN), "scalar": Pin(PIN), "described": [Described(owner="ann", pin=PIN)],
        "hidden": [Hidden(owner="ann", pin=SecretStr(PIN)), f"pin {PIN}"],
    }[kind]  # fmt: skip


class Unwritable(BaseModel):
    pin: Annotated[str, Secret] = PIN

    @field_serializer("pin")
    def write_pin(self, pin: str) -> str:
        """Say what cannot be written."""
        raise ValueError(f"{pin} cannot be written")


def give_unwritable() -> Any:
    """Give it."""
    return [Unwritable()]


def give_marked_dict() -> dict[str, Any]:
    """Give one in a dict."""
    return {"a": Account("ann", PIN, OPENED)}


class Session(BaseModel):
    """Writes another key each time."""

    owner: str = "ann-marie"
    key: Annotated[str, Secret] = "zq7x"

    @field_serializer("key")
    def write_key(self, value: str) -> str:
        """Write a key."""
        return f"written-{time.perf_counter_ns() % 900_000 + 100_000}"


def give_session() -> Session:
    """Give a session."""
    return Session()


def give_any_session() -> Any:
    """Give one without a hint of its type."""
    return [Session()]


def give_wrong_type() -> dict[str, Any]:
    """Give another type than the hint says."""
    return Account("ann", PIN, OPENED)  # type: ignore[return-value]


def give_submodel() -> Owner:
    """Give a model with more fields than are declared."""
    return Login(owner="ann", pin=PIN)


def give_model_in_model() -> Logins:
    """Give a model with one that writes more fields than are declared."""
    return Logins(last=Login(owner="ann", pin=PIN))


def give_event() -> Event:
    """Give an event."""
    return Event()


def give_events() -> dict[str, list[Price | Event]]:
    """Give events."""
    return {"a": [Event()]}


def give_price() -> Price:
    """Give a price."""
    return Price(amount=1.5)


def generate_marked() -> Iterator[Any]:
    """Give objects with marked fields one by one."""
    yield Account("ann", PIN, OPENED)


def count_up(to: int) -> Iterator[int]:
    """Count."""
    yield from range(to)


async def count_later(to: int) -> AsyncIterator[int]:
    """Count."""
    for number in range(to):
        yield number


def give_thing() -> Any:
    """Give what has no JSON form."""
    return threading.Lock()


def forget_await() -> Any:
    """Return what only an await gives."""
    return add_later(1)


def order(order: Order, point: Point) -> list[Any]:
    """Tell what arrived."""
    return [type(order).__name__, str(order.amount), type(point).__name__, point.y]


def take_stamped(stamped: Stamped) -> list[Any]:
    """Tell what arrived."""
    return [stamped.name, stamped.number]


def take_tenfold(tenfold: Tenfold) -> int:
    """Tell what arrived."""
    return tenfold.amount


def take_placed(placed: Placed) -> list[int]:
    """Tell what arrived."""
    return [placed.amount, placed.place]


def take_unsteady(unsteady: Unsteady) -> int:
    """Tell what arrived."""
    return unsteady.amount


# ── failures ─────────────────────────────────────────────────────────────────────────────────────


def fail(kind: str) -> None:
    """Fail in a way that is asked for."""
    if kind == "exit":
        sys.exit(3)
    if kind == "file":
        open("/nowhere/at/all")
    if kind == "unicode":
        b"\xff".decode()
    if kind == "group":
        raise ExceptionGroup("several", [ValueError("one"), TypeError("two")])
    raise {
        "value": ValueError("not so"), "own": Own(5, "mine"), "key": KeyError("name"),
        "retry": RetryableToolError("later"), "doubt": ExceptionGroup("several", [KeyError(), ToolInDoubtError("?")]),
        "interrupt": KeyboardInterrupt(), "silent": ZeroDivisionError(), "inner": RuntimeError("outer"),
    }[kind]  # fmt: skip


async def cancel_itself() -> None:
    """Be cancelled by nobody."""
    raise asyncio.CancelledError


def note_and_fail(path: str, times: int, kind: str = "retry") -> int:
    """Leave a mark at each execution, and fail the first *times*."""
    marks = note(path)
    if marks <= times:
        fail(kind)
    return marks


def note(path: str) -> int:
    """Leave a mark in a file; return how many there are."""
    with open(path, "a") as file:
        file.write("x")
    return os.stat(path).st_size


def note_slowly(path: str, seconds: float) -> int:
    """Leave a mark, and another one after some time."""
    note(path)
    time.sleep(seconds)
    return note(path)


async def note_later(path: str, seconds: float) -> int:
    """Leave a mark, and another one after some time."""
    note(path)
    await asyncio.sleep(seconds)
    return note(path)


# ── context ──────────────────────────────────────────────────────────────────────────────────────


def who() -> list[Any]:
    """Tell who calls, and which call this is."""
    call = current_call()
    assert call is not None
    return [
        current_agent().name,
        call.tool_call_id,
        call.parent_id,
        call.run_id,
        call.name,
        call.agent,
        call.on_behalf_of,
    ]


def call_other(name: str, arguments: dict[str, Any] | None = None) -> Any:
    """Call a tool by the agent that runs."""
    return current_agent().call(name, **(arguments or {}))


def pass_marked(name: str, *, is_result: bool) -> Any:
    """Call another tool with an object with marked fields, by a call or as a request."""
    arguments = {"record": Account("ann", PIN, OPENED)}
    if is_result:
        return current_agent().execute(ToolCall("inner", name, arguments)).success
    return current_agent().call(name, **arguments)


async def call_others(name: str, times: int) -> list[Any]:
    """Call a tool several times at once."""
    return await asyncio.gather(*(current_agent().acall(name) for _ in range(times)))


def catch(name: str) -> list[str]:
    """Call a tool, and tell what it raises."""
    try:
        current_agent().call(name)
    except Exception as error:
        return [*(kind.__name__ for kind in type(error).__mro__ if kind.__module__ != "builtins"), str(error)]
    return []


def down(left: int) -> int:
    """Call itself."""
    return 0 if left == 0 else 1 + int(current_agent().call("down", left=left - 1))


def report(context: ToolContext, steps: int) -> list[Any]:
    """Report progress, write to the log, and tell what the context says."""
    for step in range(steps):
        context.progress(step, steps, f"step {step}")
    context.log("done", "notice")
    return [context.agent, list(context.chain), context.tool_call_id, context.idempotency_key, context.cancelled]


def needs_deps(context: ToolContext[dict[str, str]]) -> str:
    """Tell what the deps say."""
    return context.deps["name"]


def call_by_default_registry(name: str) -> Any:
    """Call a tool by the default registry."""
    return get_tool_registry().execute_tool(name)


def name_type(name: str) -> str:
    """Call a tool, and name the type of its value."""
    return type(current_agent().call(name)).__name__
