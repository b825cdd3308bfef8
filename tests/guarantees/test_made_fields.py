"""Fields that the constructor of a class does not take are judged and compared with the others."""

# Tests of: schema/value_reader, execution/pipeline

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import attrs
import pytest
from approval_answers import execute_answered

from praval_tools import Allow, ApprovalRequest, Deny, Outcome, RetryableToolError, ToolCall, ToolRegistry, ToolResult

_numbers = itertools.count(1)


@dataclass
class Data:
    amount: int
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = self.amount * next(_numbers)


@attrs.define
class Attrs:
    amount: int
    total: int = attrs.field(init=False, factory=lambda: next(_numbers))


@dataclass
class Steady:
    """Makes the same of the same arguments."""

    amount: int
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = self.amount * 1000


@dataclass
class Loose:
    """Has fields that are not set, that only their own code can read, and that contain the instance."""

    amount: int
    unset: int = field(init=False)
    lock: Any = field(init=False, default_factory=object)
    whole: Any = field(init=False)
    both: Any = field(init=False)
    rate: int = field(init=False, default=7)

    def __post_init__(self) -> None:
        self.whole, self.both = self, [self, self]


class Payments:
    """A registry with a tool that takes an order."""

    def __init__(self, kind: Any, *, is_approved: bool = True, failures: int = 0) -> None:
        self.registry = ToolRegistry(journal="memory", retry_wait=0)
        self.got, self.shown = list[Any](), list[Any]()

        def pay(order: Any, note: str = "") -> Any:
            """Pay."""
            self.got.append(getattr(order, "total", None))
            if len(self.got) <= failures:
                raise RetryableToolError("again")
            return order

        pay.__annotations__ |= {"order": kind, "return": kind}
        self.registry.tool("pay", owned_by="ann", requires_approval=is_approved, retries=failures)(pay)

    def allow(self, request: ApprovalRequest) -> Allow:
        """Allow a call, and note what was shown of it."""
        self.shown.append(request.arguments["order"])
        return Allow()

    def call(self) -> ToolResult:
        """Make the call."""
        return self.registry.execute(make_call())


def make_call(agent: str = "ann") -> ToolCall:
    return ToolCall("1", "pay", {"order": {"amount": 1}}, agent)


@pytest.fixture(params=[Data, Attrs], ids=["dataclass", "attrs"])
def kind(request: pytest.FixtureRequest) -> Any:
    """A class that makes another value each time."""
    return request.param


class TestJudges:
    def test_of_policies(self, kind: Any) -> None:
        """Broken promise: a policy was shown an amount of 1, and the tool got a total of 1000 beside it."""
        payments = Payments(kind, is_approved=False)
        payments.registry.add_policy(lambda agent, tool, arguments: payments.shown.append(arguments["order"]))

        assert Outcome.OK is payments.call().outcome
        assert [{"amount": 1, "total": payments.got[0]}] == payments.shown

    def test_that_refuse_them(self) -> None:
        payments = Payments(Steady, is_approved=False)
        payments.registry.add_policy(
            lambda agent, tool, arguments: Deny("large") if arguments["order"]["total"] > 999 else None
        )

        assert (Outcome.FORBIDDEN, []) == (payments.call().outcome, payments.got)

    def test_of_approvals(self, kind: Any) -> None:
        payments = Payments(kind)
        payments.registry.set_approval_handler(payments.allow)

        assert Outcome.OK is payments.call().outcome
        assert [{"amount": 1, "total": payments.got[0]}] == payments.shown

    @pytest.mark.parametrize("is_later", [False, True], ids=["handler", "later"])
    def test_see_only_what_has_a_form(self, is_later: bool) -> None:
        """A field that is not set, or that nobody can read, refuses no call: it is left out."""
        payments = Payments(Loose)

        result = execute_answered(payments.registry, make_call(), payments.allow, is_later=is_later)

        assert Outcome.OK is result.outcome
        assert [{"amount": 1, "rate": 7}] == payments.shown

    @pytest.mark.parametrize(
        "bound", [{"enum": [{"amount": 1}]}, {"additionalProperties": False, "properties": {"amount": {"maximum": 1}}}]
    )
    def test_of_bounds(self, bound: dict[str, Any]) -> None:
        """Bounds speak of what the schema has: they go on to hold for the fields that callers can give."""
        payments = Payments(Steady, is_approved=False)
        payments.registry.grant("pay", to="bob", where={"order": bound})

        assert Outcome.OK is payments.registry.execute(make_call("bob")).outcome


class TestApprovedCalls:
    def test_of_other_values_are_asked_about_again(self, kind: Any) -> None:
        """Broken promise: after a later answer the tool got a total that was made after the approval."""
        payments = Payments(kind)

        result = execute_answered(payments.registry, make_call(), payments.allow, is_later=True)

        assert (Outcome.APPROVAL_REQUIRED, []) == (result.outcome, payments.got)

    def test_of_the_same_values_run(self) -> None:
        payments = Payments(Steady)

        result = execute_answered(payments.registry, make_call(), payments.allow, is_later=True)

        assert (Outcome.OK, [1000]) == (result.outcome, payments.got)

    def test_are_not_tried_again_with_other_values(self, kind: Any) -> None:
        payments = Payments(kind, failures=2)
        payments.registry.set_approval_handler(payments.allow)

        assert Outcome.TOOL_ERROR is payments.call().outcome
        assert [1, 1] == [len(payments.got), len(payments.shown)]

    @pytest.mark.parametrize(
        ("order", "outcome", "got"),
        [({"amount": 2}, Outcome.OK, [2000]), ({"amount": 2, "total": 5}, Outcome.INVALID_ARGUMENTS, [])],
        ids=["without", "with"],
    )
    def test_that_are_edited(self, order: dict[str, int], outcome: Outcome, got: list[int]) -> None:
        """An approver leaves such a field out of what it writes; it cannot be written."""
        payments = Payments(Steady)
        payments.registry.set_approval_handler(lambda request: Allow({"order": order}))

        assert (outcome, got) == (payments.call().outcome, payments.got)

    def test_that_are_edited_run_with_no_other_values(self, kind: Any) -> None:
        payments = Payments(kind)
        payments.registry.set_approval_handler(lambda request: Allow({"order": {"amount": 2}}))

        assert (Outcome.FORBIDDEN, []) == (payments.call().outcome, payments.got)


def test_schemas_and_results_have_none() -> None:
    """Nobody can give such a field: neither a schema nor a result that is written shows it."""
    payments = Payments(Steady, is_approved=False)

    assert "total" not in str(payments.registry.schemas("ann"))
    assert b'{"amount":1}' == payments.registry.toolset("ann").call_json("pay", '{"order": {"amount": 1}}')
