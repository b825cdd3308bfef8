"""Functions with defaults under wrappers of every kind, which may have other defaults; also for other processes."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from enum import Enum
from typing import Any

OTHER: int = 1000
"""What wrappers would pay by themselves."""


class Speed(Enum):
    """How fast is paid."""

    SLOW = "slow"
    UNSURE = str(os.getpid())


def pay(to: str, amount: int = 5) -> dict[str, Any]:
    """Pay."""
    return {"to": to, "amount": amount}


def pay_unevenly(to: str, amount: int = os.getpid()) -> dict[str, Any]:
    """Pay; in each process it has another default."""
    return {"to": to, "amount": amount}


def pay_slowly(to: str, speed: Speed = Speed.SLOW) -> dict[str, Any]:
    """Pay at a speed whose JSON is not what it is."""
    return {"to": to, "speed": speed.value}


def pay_unsure(to: str, speed: Speed = Speed.UNSURE) -> dict[str, Any]:
    """Pay at a speed which is another one in each process."""
    return {"to": to, "speed": speed.value}


def wrap_named(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* with another default."""

    @functools.wraps(function)
    def wrapped(to: str, amount: int = OTHER) -> Any:
        return function(to, amount)

    return wrapped


def wrap_any(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* with a default that no signature shows."""

    @functools.wraps(function)
    def wrapped(*args: Any, **given: Any) -> Any:
        given.setdefault("amount", OTHER)
        return function(*args, **given)

    return wrapped


def wrap_as_signed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* wrapped, with a signature that says what that wrapper takes."""
    wrapped: Any = wrap_any(function)
    wrapped.__signature__ = inspect.signature(function)
    return wrapped  # type: ignore[no-any-return]


def wrap_fixed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* without its `amount`, which is fixed."""

    @functools.wraps(function)
    def wrapped(to: str) -> Any:
        return function(to, OTHER)

    return wrapped


class Payer:
    """Pays by its methods, and when it is called."""

    @wrap_any
    def pay(self, to: str, amount: int = 5) -> dict[str, Any]:
        """Pay."""
        return {"to": to, "amount": amount}

    __call__ = pay


class Wrapper:
    """An object around a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, **given: Any) -> Any:
        """Call it."""
        given.setdefault("amount", OTHER)
        return self._function(**given)


@wrap_any
def pay_elsewhere(to: str, amount: int = 5) -> dict[str, Any]:
    """Pay, found by other processes under this name."""
    return {"to": to, "amount": amount}


pay_named = wrap_named(pay)
pay_any = wrap_any(pay)
pay_signed = wrap_as_signed(pay)
pay_twice_wrapped = wrap_any(wrap_named(pay))
pay_bound = Payer().pay
pay_object = Wrapper(pay)
pay_partial = functools.partial(pay_any)
pay_partial_amount = functools.partial(pay_any, amount=5)
pay_callable = Payer()

WRAPPED: dict[str, Callable[..., Any]] = {
    name: function
    for name, function in list(globals().items())
    if name.startswith("pay_") and name not in ("pay_unevenly", "pay_slowly", "pay_unsure")
}
