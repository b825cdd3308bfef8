"""Advice says what was not needed, with evidence and commands, and refuses none of the calls that were made."""

# Tests of: advice, call_patterns

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
from clocks import HandClock
from hypothesis import given, settings
from hypothesis import strategies as st

from praval_tools import Agent, Allow, Outcome, Secret, ToolCall, ToolRegistry
from praval_tools.registry.registry import get_runtime
from praval_tools.report.advice import Advice, collect_advice
from praval_tools.report.call_patterns import MIN_CALLS_FOR_BOUNDS, CallPattern


def pay(amount: int, to: str = "ann", note: str = "") -> int:
    """Pay."""
    return amount


def look(place: str) -> str:
    """Look."""
    return place


def unlock(password: Annotated[str, Secret]) -> int:
    """Unlock."""
    return len(password)


def make_registry() -> ToolRegistry:
    """Return a registry with owned, shared and categorised tools, and a journal in memory."""
    registry = ToolRegistry(journal="memory", clock=HandClock())
    registry.tool(owned_by="bank")(pay)
    registry.tool(shared=True, category="reading")(look)
    registry.tool(owned_by="bank", category="reading", name="peek")(look)
    registry.tool(owned_by="bank")(unlock)
    Agent("ann", registry=registry)
    Agent("bob", registry=registry, tool_categories=["reading"], auto_discover_tools=False)
    return registry


@pytest.fixture
def registry() -> Iterator[ToolRegistry]:
    """Such a registry."""
    with make_registry() as registry:
        yield registry


def move_clock(registry: ToolRegistry, time: timedelta) -> None:
    """Let time pass."""
    get_runtime(registry).clock.moment += time  # type: ignore[attr-defined]


def advise(registry: ToolRegistry) -> list[Advice]:
    """Return the advice from all that is in the journal."""
    assert registry.journal is not None
    return collect_advice(registry, registry.journal.store.read())


def find(registry: ToolRegistry, kind: str) -> list[Advice]:
    """Return the advice of one kind."""
    return [advice for advice in advise(registry) if advice.kind == kind]


def call(registry: ToolRegistry, agent: str, tool: str, *chain: str, **arguments: Any) -> Outcome:
    """Make a call; return its outcome."""
    return registry.execute(ToolCall(None, tool, arguments, agent, on_behalf_of=chain)).outcome


WRITTEN = {
    "moment": (datetime, "2026-01-01T00:00:00+00:00"), "time": (time, "01:02:03.000"), "span": (timedelta, "PT90S"),
    "path": (Path, "./notes"), "id": (UUID, "00000000-0000-0000-0000-00000000000A"), "bytes": (bytes, "YR=="),
}  # fmt: skip
"""Types whose values may be written in several ways, each with a way that is not the one in which it is judged."""


class TestUnused:
    def test_permissions_by_which_an_approval_was_asked(self, registry: ToolRegistry) -> None:
        """Broken promise: what is advised was not needed. A grant by which a call waits was said to be never used."""
        registry.configure("pay", requires_approval=True)
        registry.configure("look", requires_approval=True)
        registry.grant("pay", "ann")
        assert Outcome.APPROVAL_REQUIRED is call(registry, "ann", "pay", amount=1)
        assert Outcome.APPROVAL_REQUIRED is call(registry, "ann", "look", place="here")

        assert [] == find(registry, "unused-grant") + find(registry, "narrower-grant") + find(registry, "unused-share")

    def test_grants(self, registry: ToolRegistry) -> None:
        """A grant without a call is advised to be revoked; one that was used is not."""
        unused, used = registry.grant("pay", "ann"), registry.grant("peek", "ann")
        call(registry, "ann", "peek", place="x")
        (advice,) = find(registry, "unused-grant")
        assert (unused.id, "pay", "ann") == (advice.grant, advice.tool, advice.agent)
        assert (f"praval-tools revoke {unused.id}",) == advice.commands
        assert used.id != advice.grant

    def test_grants_of_those_on_whose_behalf_a_call_was_made(self, registry: ToolRegistry) -> None:
        """Every member of a chain needs its permission, so all of them count as used."""
        for agent in ("ann", "bob"):
            registry.grant("pay", agent)
        assert Outcome.OK is call(registry, "ann", "pay", "bob", amount=1)
        assert [] == find(registry, "unused-grant")

    def test_shares_categories_and_tools(self, registry: ToolRegistry) -> None:
        """What nobody used; what was used by another rule does not keep it."""
        kinds = {advice.kind: advice for advice in advise(registry)}
        assert ("praval-tools unshare look",) == kinds["unused-share"].commands
        assert ("praval-tools unassign look bob", "praval-tools unassign peek bob") == kinds["unused-category"].commands
        call(registry, "bob", "peek", place="x")
        call(registry, "ann", "look", place="x")
        assert {"pay", "unlock"} == {advice.tool for advice in advise(registry)}


class TestNarrowerGrants:
    def use(
        self, registry: ToolRegistry, times: int, make: Callable[[int], dict[str, Any]], tool: str = "pay"
    ) -> Advice:
        """Make calls, and return the advice on the grant that they used."""
        registry.grant(tool, "ann")
        for number in range(times):
            move_clock(registry, timedelta(hours=1))
            assert Outcome.OK is call(registry, "ann", tool, **make(number))
        (advice,) = find(registry, "narrower-grant")
        return advice

    def test_ranges_values_and_prefixes(self, registry: ToolRegistry) -> None:
        """From twenty calls on; of arguments that each call gave."""
        advice = self.use(registry, 20, lambda n: {"amount": n + 5, "to": f"team/{n}.x", "note": "ab"[n % 2]})
        expected = {
            "amount": {"minimum": 5, "maximum": 24}, "to": {"pattern": "^team/"}, "note": {"enum": ["a", "b"]},
        }  # fmt: skip
        assert (expected, 20, 20) == (advice.terms["where"], advice.terms["max_calls"], advice.calls)
        words = shlex.split(advice.commands[0])
        assert ["praval-tools", "assign", "pay", "ann"] == words[:4]
        assert ["--expires", "1d", "--where"] == words[4:7]

    def test_bounds_are_not_concluded_from_few_calls(self, registry: ToolRegistry) -> None:
        """Nineteen are too few; a count and an expiry are said all the same."""
        advice = self.use(registry, MIN_CALLS_FOR_BOUNDS - 1, lambda n: {"amount": n})
        assert {"max_calls", "expires"} == set(advice.terms)

    def test_bounds_are_not_concluded_of_what_is_not_always_there(self, registry: ToolRegistry) -> None:
        """A bound makes its argument required."""
        advice = self.use(registry, 20, lambda n: {"amount": 1, **({"to": "bob"} if n else {})})
        assert {"amount": {"minimum": 1, "maximum": 1}} == advice.terms["where"]

    @pytest.mark.parametrize("kind", WRITTEN)
    def test_bounds_are_of_what_is_judged(self, registry: ToolRegistry, kind: str) -> None:
        """
        Broken promise: what is advised refuses none of the calls. It did where a value was written in another way.
        """
        hint, text = WRITTEN[kind]

        def take(value: Any) -> None:
            """Take a value."""

        take.__annotations__ = {"value": hint, "return": None}
        registry.tool("take", owned_by="bank")(take)
        registry.grant("take", "ann")
        for _ in range(MIN_CALLS_FOR_BOUNDS):
            assert Outcome.OK is call(registry, "ann", "take", value=text)
        (advice,) = find(registry, "narrower-grant")
        registry.grant("take", "cid", where=advice.terms["where"])  # type: ignore[arg-type]

        assert Outcome.OK is call(registry, "cid", "take", value=text)

    def test_bounds_are_not_concluded_of_edited_arguments(self, registry: ToolRegistry) -> None:
        """
        Broken promise: what is advised refuses none of the calls. Bounds of what approvers wrote refuse what is asked.
        """
        registry.configure("pay", requires_approval=True)
        registry.approvals.handler = lambda request: Allow({"amount": 5})
        registry.grant("pay", "ann")
        for _ in range(MIN_CALLS_FOR_BOUNDS):
            assert Outcome.OK is call(registry, "ann", "pay", amount=5_000)
        (advice,) = find(registry, "narrower-grant")

        assert "where" not in advice.terms

    def test_bounds_are_not_concluded_of_secrets(self, registry: ToolRegistry) -> None:
        """Neither from their markers."""
        advice = self.use(registry, 20, lambda n: {"password": "hunter2"}, "unlock")
        assert "where" not in advice.terms
        assert "hunter2" not in repr(advice)

    def test_an_expiry_is_counted_from_when_the_grant_was_made(self, registry: ToolRegistry) -> None:
        """Broken promise: what is said would have sufficed. Counted from the first call, the expiry came before it."""
        registry.grant("pay", "ann")
        move_clock(registry, timedelta(days=5))
        assert Outcome.OK is call(registry, "ann", "pay", amount=1)
        (advice,) = find(registry, "narrower-grant")

        assert "an expiry after 6 days" in advice.text
        assert "--expires 6d" in advice.commands[0]

    def test_terms_that_are_there_stay(self, registry: ToolRegistry) -> None:
        """
        Bounds are added to those of the grant; its expiry stays, and the calls that it has left.

        Broken promise: the advice is narrower. The command for it gave no expiry, and all calls again.
        """
        registry.grant("pay", "ann", where={"amount": {"maximum": 10}}, max_calls=99, expires=timedelta(days=9))
        for _ in range(20):
            call(registry, "ann", "pay", amount=1, to="bob")
        (advice,) = find(registry, "narrower-grant")
        assert {"where": {"amount": {"maximum": 10}, "to": {"enum": ["bob"]}}} == advice.terms
        words = shlex.split(advice.commands[0])
        expires = datetime.fromisoformat(words[words.index("--expires") + 1])
        assert ("79", registry.grants()[0].expires) == (words[words.index("--max-calls") + 1], expires)

    def test_are_not_of_grants_that_an_agent_lent(self, registry: ToolRegistry) -> None:
        """Broken promise: the advice is narrower. It had the operator grant what ends with the lender's own grant."""
        registry.grant("pay", "ann", delegable=True)
        registry.grant("pay", "bob", by="ann")
        assert Outcome.OK is call(registry, "bob", "pay", amount=1)

        assert [] == find(registry, "narrower-grant")


class TestWantedGrants:
    def test_are_refusals_that_repeat(self, registry: ToolRegistry) -> None:
        """Three of them, with the evidence; a block is another matter."""
        registry.block("unlock", "ann")
        for _ in range(3):
            call(registry, "ann", "pay", amount=1)
            call(registry, "ann", "unlock", password="x")
        (advice,) = find(registry, "wanted-grant")
        assert ("pay", "ann", 3) == (advice.tool, advice.agent, advice.calls)
        assert ("praval-tools assign pay ann --max-calls 3",) == advice.commands
        assert advice.first is not None

    def test_are_not_wider_than_bounds_that_refused(self, registry: ToolRegistry) -> None:
        """What bounds refused is looked at first; from twenty calls on there are bounds that permit these alone."""
        registry.grant("pay", "ann", where={"amount": {"maximum": 10}})
        for _ in range(MIN_CALLS_FOR_BOUNDS - 1):
            call(registry, "ann", "pay", amount=40)
        (advice,) = find(registry, "wanted-grant")
        assert ("praval-tools audit --agent=ann --tool=pay --outcome=forbidden",) == advice.commands
        assert ({}, True) == (advice.terms, "outside of the bounds" in advice.text)

        call(registry, "ann", "pay", amount=41)
        (advice,) = find(registry, "wanted-grant")
        assert {"amount": {"minimum": 40, "maximum": 41}} == advice.terms["where"]
        assert advice.commands[0].startswith("praval-tools assign pay ann --max-calls 20 --where ")


def test_commands_are_for_a_shell(registry: ToolRegistry) -> None:
    """Names of agents may hold anything, and be no options of the command, which would be about another agent."""
    for name in ("-x", "--reason", "a b", "$(reboot)", "'; rm -rf /"):
        grant = registry.grant("pay", name)
        for _ in range(2):
            call(registry, name, "pay", amount=1)
        (advice,) = [one for one in find(registry, "narrower-grant") if one.grant == grant.id]
        words = shlex.split(advice.commands[0])
        assert name in words
        assert not name.startswith("-") or ["--", "pay", name] == words[-3:]


def test_memory_does_not_grow_with_the_values() -> None:
    """Of many values a few are kept, and of long ones the beginning."""
    pattern = CallPattern()
    for number in range(1_000):
        arguments = {
            "id": f"order-{number}",
            "data": {"n": number},
            "text": "x" * 100_000,
            "few": "y" * (number % 2 + 1),
        }
        pattern.add(datetime(2026, 1, 1, tzinfo=UTC), arguments)
    bounds = pattern.build_bounds()
    assert ({"pattern": "^order-"}, {"enum": ["y", "yy"]}) == (bounds.pop("id"), bounds.pop("few"))
    assert {"text": {"pattern": "^" + "x" * 200}} == bounds
    assert len(pattern._arguments["id"].values) <= 12


# ── nothing that was allowed would have been refused ─────────────────────────────────────────────

_AMOUNTS = st.one_of(st.integers(-5, 30), st.just(7))
_CALLS = st.tuples(
    st.sampled_from(["ann", "bob", "cid"]), st.sampled_from(["pay", "pay", "look", "peek"]), _AMOUNTS,
    st.sampled_from(["", "team/a", "team/b.c", "x"]), st.lists(st.sampled_from(["bob", "cid"]), max_size=1),
)  # fmt: skip
_GRANTS = st.tuples(
    st.sampled_from(["ann", "bob", "cid"]), st.sampled_from(["pay", "pay", "look", "peek"]),
    st.sampled_from([None, 3, 50]), st.booleans(),
)  # fmt: skip


def make_arguments(tool: str, amount: int, text: str) -> dict[str, Any]:
    """Return arguments of a tool."""
    if tool != "pay":
        return {"place": text}
    return {"amount": amount, **({"to": text} if text else {})}


@pytest.mark.filterwarnings("ignore::praval_tools.AccessWarning")  # some of the grants narrow nothing
@settings(deadline=None)
@given(st.lists(_GRANTS, max_size=6), st.lists(st.tuples(_CALLS, st.integers(1, 30)), max_size=12))
def test_what_was_allowed_is_allowed_under_what_is_advised(
    grants: list[tuple[str, str, int | None, bool]], calls: list[tuple[Any, int]]
) -> None:
    """The same calls in the same order, with the narrower grants, and without what was unused."""
    made = [one for one, times in calls for _ in range(times)]
    with make_registry() as before:
        ids = []
        for agent, tool, max_calls, is_bounded in grants:
            bounds = {"where": {"amount": {"maximum": 20}}} if is_bounded and tool == "pay" else {}
            ids.append(before.grant(tool, agent, max_calls=max_calls, **bounds).id)  # type: ignore[arg-type]
        outcomes = []
        for agent, tool, amount, text, chain in made:
            move_clock(before, timedelta(minutes=20))
            outcomes.append(call(before, agent, tool, *chain, **make_arguments(tool, amount, text)))
        given_grants = [next(one for one in before.grants(ended=True) if one.id == key) for key in ids]
        advised = advise(before)
    by_grant = {advice.grant: advice for advice in advised}
    with make_registry() as after:
        for words in (shlex.split(one) for each in advised if each.kind == "unused-category" for one in each.commands):
            after.remove_tool_from_agent(*words[-2:])
        for grant in given_grants:
            advice = by_grant.get(grant.id)
            if advice is None or advice.kind != "unused-grant":
                terms: dict[str, Any] = {"max_calls": grant.max_calls, "where": grant.where}
                terms |= {} if advice is None else advice.terms
                if "expires" in terms:
                    terms["expires"] += timedelta(seconds=1)
                after.grant(grant.tool, grant.agent, **{name: one for name, one in terms.items() if one is not None})
        for advice in advised:
            if advice.kind == "unused-share":
                after.unshare_tool(advice.tool)
            elif advice.kind == "unused-tool":
                after.disable(advice.tool)
        for (agent, tool, amount, text, chain), outcome in zip(made, outcomes, strict=True):
            move_clock(after, timedelta(minutes=20))
            if outcome is Outcome.OK:
                assert Outcome.OK is call(after, agent, tool, *chain, **make_arguments(tool, amount, text))
