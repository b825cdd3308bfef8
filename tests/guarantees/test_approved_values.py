# Tests of: execution/pipeline, execution/call_progress
"""What was approved is what every attempt of a call gets, also where classes make other values each time."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from plugin_rig import Site, loaded, site  # noqa: F401
from pydantic import BaseModel, Field

from praval_tools import Allow, Ask, Outcome, RetryableToolError, Tool, ToolCall, ToolRegistry

_numbers: Iterator[int] = itertools.count(1)


@attrs.define
class Order:
    amount: int
    fee: int = attrs.Factory(lambda: next(_numbers))


class OrderModel(BaseModel):
    amount: int
    fee: int = Field(default_factory=lambda: next(_numbers))


class Payments:
    """A registry with a tool that takes an order whose fee is another one each time that it is read."""

    def __init__(self, kind: Any, journal: str | None, *, failures: int = 0, fee: bool = True) -> None:
        self.registry = ToolRegistry(journal=journal, retry_wait=0)
        self.got = list[int]()
        self.shown = list[Any]()
        self.edit: dict[str, Any] | None = None

        def pay(order: Any) -> int:
            """Pay."""
            self.got.append(order.fee)
            if len(self.got) <= failures:
                raise RetryableToolError("again")
            return 1

        pay.__annotations__["order"] = kind
        self.registry.register_tool(Tool.from_function(pay))
        self.registry.configure("pay", retries=failures, requires_approval=True)
        self.registry.share_tool("pay")
        self.registry.set_approval_handler(self.answer)
        self.given: dict[str, Any] = {"amount": 1} if fee else {"amount": 1, "fee": 5}

    def answer(self, request: Any) -> Allow:
        """Allow a call, and note what was shown of it."""
        self.shown.append(request.arguments["order"]["fee"])
        return Allow(self.edit)

    def call(self) -> Any:
        """Make the call."""
        return self.registry.execute(ToolCall("1", "pay", {"order": self.given}, "ann"))


@pytest.fixture(params=[Order, OrderModel], ids=["attrs", "pydantic"])
def kind(request: pytest.FixtureRequest) -> Any:
    """A class with a factory."""
    return request.param


@pytest.fixture(params=[None, "memory"], ids=["plain", "journal"])
def journal(request: pytest.FixtureRequest) -> Any:
    """No journal, or one."""
    return request.param


class TestRetries:
    def test_with_other_values_are_not_made(self, kind: Any, journal: str | None) -> None:
        """Broken promise: the second attempt ran with a fee that nobody had approved."""
        payments = Payments(kind, journal, failures=2)

        result = payments.call()

        assert payments.shown == payments.got and 1 == len(payments.got)
        assert (Outcome.TOOL_ERROR, 1) == (result.outcome, result.attempts)
        assert "again" in str(result.error)

    def test_of_edited_arguments_with_other_values(self, kind: Any, journal: str | None) -> None:
        """The same for arguments that the approver wrote."""
        payments = Payments(kind, journal, failures=2)
        payments.edit = {"order": {"amount": 7}}

        assert Outcome.TOOL_ERROR is payments.call().outcome
        assert 1 == len(payments.got) == len(payments.shown)

    def test_with_the_same_values_are_made(self, kind: Any, journal: str | None) -> None:
        """A class that makes the same of the same arguments is entered again, and nobody is asked twice."""
        payments = Payments(kind, journal, failures=2, fee=False)

        result = payments.call()

        assert (Outcome.OK, 3) == (result.outcome, result.attempts)
        assert ([5], [5, 5, 5]) == (payments.shown, payments.got)

    def test_that_nobody_approved(self, kind: Any, journal: str | None) -> None:
        """Where nobody was asked, a retry may get other values, as a new call may."""
        payments = Payments(kind, journal, failures=1)
        payments.registry.configure("pay", requires_approval=False)

        assert (Outcome.OK, []) == (payments.call().outcome, payments.shown)
        assert 2 == len(set(payments.got))


ACME = """
from praval_tools import hookimpl
log = []
def change():
    pass
@hookimpl
def praval_tools_before_call(call, tool, arguments):
    log.append(arguments["order"]["fee"])
    change()
"""
"""A plugin that notes the fees of calls."""


class TestDecisionsTakenAnew:
    @pytest.mark.parametrize("edit", [None, {"order": {"amount": 7}}], ids=["as it is", "edited"])
    def test_keep_the_values(
        self,
        kind: Any,
        edit: dict[str, Any] | None,
        site: Site,
        journal: str | None,
    ) -> None:
        """Broken promise: where the registry changed between the approval and the call, its classes were made anew."""
        site.install("acme", ACME)
        payments = Payments(kind, journal)
        payments.edit = edit
        loaded(payments.registry)
        acme: Any = sys.modules["acme"]

        def change() -> None:
            acme.change = lambda: None
            adding = threading.Thread(target=payments.registry.add_policy, args=(lambda agent, tool, arguments: None,))
            adding.start()
            adding.join()

        acme.change = change

        assert Outcome.OK is payments.call().outcome
        assert acme.log == payments.got
        if edit is None:
            assert payments.shown == payments.got


class TestHooks:
    def test_are_notified_of_other_values(self, kind: Any, site: Site, journal: str | None) -> None:
        """Hooks are shown what each attempt gets where its values are others."""
        site.install("acme", ACME)
        payments = Payments(kind, journal, failures=1)
        payments.registry.configure("pay", requires_approval=False)
        loaded(payments.registry)

        assert Outcome.OK is payments.call().outcome
        assert sys.modules["acme"].log == payments.got


def test_a_default_that_changes_meanwhile_is_refused(journal: str | None) -> None:
    """Broken promise: a default of a class that somebody changed while a person thought ran as it was by then."""
    registry, default = ToolRegistry(journal=journal), Order(1, 5)
    got = list[int]()

    @registry.tool(owned_by="ann", requires_approval=True)
    def pay(times: int, order: Order = default) -> int:
        """Pay."""
        got.append(order.fee)
        return times

    def answer(request: Any) -> Allow:
        default.fee += 1
        return Allow()

    registry.set_approval_handler(answer)

    result = registry.execute(ToolCall("1", "pay", {"times": 1}, "ann"))

    assert (Outcome.FORBIDDEN, []) == (result.outcome, got)


def test_a_policy_that_asks_once_the_call_has_run(journal: str | None) -> None:
    """A retry for which a new policy wants an approval is not made: what ran is not asked about."""
    registry = ToolRegistry(journal=journal, retry_wait=0)
    ran = list[int]()

    @registry.tool(owned_by="ann", retries=1)
    def pay(amount: int) -> int:
        """Pay."""
        ran.append(amount)
        with registry.as_operator():
            registry.add_policy(lambda agent, tool, arguments: Ask("new"))
        raise RetryableToolError("again")

    result = registry.execute(ToolCall("1", "pay", {"amount": 1}, "ann"))

    assert (Outcome.TOOL_ERROR, [1]) == (result.outcome, ran)
