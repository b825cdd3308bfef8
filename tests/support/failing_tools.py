"""Functions that raise what holds marked fields, in a module that another process can import."""

from __future__ import annotations

from collections import ChainMap, OrderedDict, UserDict, UserList, deque
from types import MappingProxyType, SimpleNamespace
from typing import Annotated

import attrs
from engine_tools import OPENED, PIN, Account, Login

from praval_tools import Secret, ToolCall, current_agent


class AccountError(Exception):
    """Holds an object that its text quotes."""

    def __init__(self, account: Account) -> None:
        super().__init__(f"{account} is locked")
        self.account = account


class DeclaredError(Exception):
    """Holds an object in an attribute of `__slots__`."""

    __slots__ = ("account",)


class EndlessError(Exception):
    """Says of itself that each has another cause."""

    __cause__ = property(lambda self: EndlessError())  # type: ignore[assignment]


@attrs.frozen
class FrozenAccount:
    """May be the key of a dict."""

    pin: Annotated[str, Secret]


@attrs.define(auto_exc=True)
class PinError(Exception):
    """Marks its own field."""

    pin: Annotated[str, Secret]


def raise_marked(kind: str) -> None:
    """Raise an error with marked fields."""
    account = Account("ann", PIN, OPENED)
    errors = {
        "argument": ValueError(account), "model": ValueError([Login(owner="ann", pin=PIN)]), "own": PinError(PIN),
        "attribute": AccountError(account), "in an error": ValueError(KeyError(account)),
        "in a list": RuntimeError([{"error": ValueError(account)}]), "declared attribute": DeclaredError(f"{account}"),
        "group": ExceptionGroup("several", [AccountError(account)]),
        "in a deque": ValueError(deque([account])), "in a key": ValueError({(FrozenAccount(PIN),): 1}),
        "in values": ValueError(OrderedDict(ann=account).values()), "in items": ValueError({"ann": account}.items()),
        "in keys": ValueError({FrozenAccount(PIN): 1}.keys()), "in a proxy": ValueError(MappingProxyType({1: account})),
        "in a UserDict": ValueError(UserDict(ann=account)), "in a UserList": ValueError(UserList([account])),
        "in a ChainMap": ValueError(ChainMap({1: account})), "in a namespace": ValueError(SimpleNamespace(a=account)),
        "in its keys": ValueError(UserDict({FrozenAccount(PIN): 1}).keys()),
        "in its values": ValueError(ChainMap({1: account}).values()),
        "in its items": ValueError(UserDict(ann=account).items()),
    }  # fmt: skip
    errors["declared attribute"].account = account  # type: ignore[attr-defined]
    if kind in errors:
        raise errors[kind]
    try:
        raise KeyError(account)
    except KeyError as error:
        raise ValueError(f"refused: {error}") from (error if kind == "cause" else None)


def raise_marked_of_other(name: str, kind: str) -> None:
    """Raise what another tool raised, in other words."""
    result = current_agent().execute(ToolCall("inner", name, {"kind": kind}))
    raise ValueError(f"It did not work: {result.error}")
