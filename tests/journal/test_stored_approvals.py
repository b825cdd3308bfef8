"""Approvals in a journal that several registries use, as processes would: each is asked, answered and used once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import pytest
from clocks import HandClock
from store_rig import make_location

from praval_tools import Allow, Deny, Outcome, Secret, ToolCall, ToolRegistry, ToolResult, ToolUsageError
from praval_tools.clock import SystemClock
from praval_tools.errors import JournalError, JournalWarning
from praval_tools.journal import open_store
from praval_tools.journal.stored_approvals import StoredApprovals

SECRET = "correct-horse-battery"
Open = Callable[[], "Host"]


class Host:
    """A registry of its own over the shared journal, with the tools that every process declares."""

    def __init__(self, journal: Any, clock: HandClock) -> None:
        self.registry = ToolRegistry(journal=journal, clock=clock)
        self.ran: list[Any] = []

        @self.registry.tool("pay", owned_by="ann", requires_approval=True, risk_level="high")
        def pay(to: str, amount: int = 1) -> int:
            """Pay."""
            self.ran.append((to, amount))
            return amount

        @self.registry.tool("login", owned_by="ann", requires_approval=True)
        def login(pin: Annotated[str, Secret], user: str = "ann", spare: Annotated[str, Secret] = "") -> str:
            """Log in."""
            self.ran.append((pin, user, spare))
            return "in"

        @self.registry.tool("configure", owned_by="ann", requires_approval=True)
        def configure(user: str, **options: Annotated[str, Secret]) -> None:
            """Configure."""
            self.ran.append((user, options))

    def pay(self, to: str = "bob", amount: int = 1, run: str | None = None) -> ToolResult:
        """Send a call."""
        return self.send("pay", {"to": to, "amount": amount}, run)

    def send(self, tool: str, arguments: Any, run: str | None = None) -> ToolResult:
        """Send a call under the id that all calls have, in a run or outside."""
        if run is None:
            return self.registry.execute(ToolCall("c1", tool, arguments, "ann"))
        with self.registry.run(run):
            return self.registry.execute(ToolCall("c1", tool, arguments, "ann"))

    def answer(self, name: str, answer: Allow | Deny) -> None:
        """Answer a request."""
        self.registry.approvals.answer(name, answer)

    @property
    def pending(self) -> list[Any]:
        """The requests that this host sees."""
        return self.registry.approvals.pending()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def open_host(request: pytest.FixtureRequest, tmp_path: Path, clock: HandClock) -> Iterator[Open]:
    """Opens one more host on the same journal."""
    hosts: list[Host] = []
    with make_location(request.param, tmp_path) as where:
        store = open_store("memory") if request.param == "memory" else where

        def open_next() -> Host:
            hosts.append(Host(store, clock))
            return hosts[-1]

        yield open_next
        for host in hosts:
            host.registry.close()


@pytest.fixture(autouse=True)
def _one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts over one memory store have the key of its markers in common, as those over one file do."""
    monkeypatch.setenv("PRAVAL_TOOLS_KEY", "k" * 32)


@pytest.mark.parametrize("run", [None, "r"], ids=["outside", "in a run"])
class TestSeveralHosts:
    def test_asked_here_and_answered_there(self, open_host: Open, run: str | None) -> None:
        """
        Broken was: `pending()` and `answer()` are those of the journal.

        Another process saw nothing, and its answer was not heard.
        """
        asker, other = open_host(), open_host()
        approval_id = asker.pay(run=run).approval_id
        (request,) = other.pending
        assert (approval_id, "c1", "pay", "ann", {"to": "bob", "amount": 1}, "high", run) == (
            request.id, request.tool_call_id, request.tool, request.agent, request.arguments, request.risk_level,
            request.run_id,
        )  # fmt: skip
        other.answer(request.id, Allow(by="eve"))
        assert ([], []) == (asker.pending, other.pending)

        assert Outcome.OK is asker.pay(run=run).outcome
        assert ([("bob", 1)], []) == (asker.ran, other.ran)

    def test_a_denial(self, open_host: Open, run: str | None) -> None:
        """A denial is heard as well, and outside of runs the next such call asks anew."""
        asker, other = open_host(), open_host()
        asker.pay(run=run)
        other.answer("c1", Deny("too much", by="eve"))
        result = asker.pay(run=run)
        assert (Outcome.APPROVAL_DENIED, []) == (result.outcome, asker.ran)
        assert "too much" in str(result.error)
        again = other.pay(run=run).outcome
        assert again is (Outcome.APPROVAL_REQUIRED if run is None else Outcome.APPROVAL_DENIED)

    def test_equal_calls_of_two_hosts_are_one_request(self, open_host: Open, run: str | None) -> None:
        """Two processes that send the same call wait for one answer; one of them can use it."""
        first, second = open_host(), open_host()
        assert first.pay(run=run).approval_id == second.pay(run=run).approval_id
        first.answer("c1", Allow())

        assert Outcome.OK is second.pay(run=run).outcome
        again = first.pay(run=run)
        assert again.outcome is Outcome.APPROVAL_REQUIRED if run is None else again.replayed
        assert [("bob", 1)] == first.ran + second.ran

    def test_it_is_used_after_a_restart(self, open_host: Open, run: str | None) -> None:
        """Request and answer are there for the process that comes after."""
        open_host().pay(run=run)
        open_host().answer("c1", Allow({"to": "eve", "amount": 2}))
        last = open_host()
        assert Outcome.OK is last.pay(run=run).outcome
        assert [("eve", 2)] == last.ran

    def test_other_calls_use_nothing_up(self, open_host: Open, run: str | None) -> None:
        """Another amount, or the same call in another run, is another request."""
        asker, other = open_host(), open_host()
        asker.pay(run=run)
        other.answer("c1", Allow())
        for call in (lambda: other.pay(amount=2), lambda: other.pay(amount=1, run="other")):
            assert Outcome.APPROVAL_REQUIRED is call().outcome
        assert Outcome.OK is asker.pay(run=run).outcome

    def test_it_expires(self, open_host: Open, run: str | None, clock: HandClock) -> None:
        """What has expired is not listed, not answered and not used, in no process; the next request removes it."""
        asker, other = open_host(), open_host()
        first = asker.pay(run=run).approval_id
        clock.moment += timedelta(hours=1)
        assert ([], []) == (asker.pending, other.pending)
        with pytest.raises(ToolUsageError, match="waits"):
            other.answer(str(first), Allow())

        second = asker.pay(run=run).approval_id
        assert first != second
        other.answer(str(second), Allow())
        clock.moment += timedelta(hours=1)
        assert Outcome.APPROVAL_REQUIRED is asker.pay(run=run).outcome
        assert [] == asker.ran
        assert 1 == len([row for row in asker.registry.journal.store.state().rows if row.kind.startswith("approval")])


class TestSingleUse:
    def test_one_answer_counts(self, open_host: Open) -> None:
        """Of two people that answer at the same time one is first, and the others learn who."""
        hosts = [open_host() for _ in range(4)]
        hosts[0].pay()

        def answer(host: Host, by: str) -> str:
            try:
                host.answer("c1", Allow(by=by))
            except ToolUsageError as error:
                return str(error)
            return by

        with ThreadPoolExecutor() as pool:
            said = list(pool.map(answer, hosts, "abcd"))
        (winner,) = [one for one in said if len(one) == 1]
        assert 3 == len([one for one in said if f"answered already, by {winner}" in one])

    def test_one_call_uses_it(self, open_host: Open) -> None:
        """However many processes send the approved call at once, one of them runs it."""
        hosts = [open_host() for _ in range(4)]
        with ThreadPoolExecutor() as pool:
            for round_number in range(5):
                list(pool.map(lambda host, amount=round_number: host.pay(amount=amount), hosts))
                hosts[0].answer("c1", Allow())
                outcomes = list(pool.map(lambda host, amount=round_number: host.pay(amount=amount).outcome, hosts))
                assert [1, 3] == [outcomes.count(one) for one in (Outcome.OK, Outcome.APPROVAL_REQUIRED)]
                hosts[0].answer("c1", Deny())
                hosts[1].pay(amount=round_number)
        assert [("bob", amount) for amount in range(5)] == sorted(sum((host.ran for host in hosts), []))

    def test_a_handler_ends_the_request(self, open_host: Open) -> None:
        """What a handler answers waits for nobody any more, in no process."""
        asker, other = open_host(), open_host()
        asker.pay()
        asker.registry.set_approval_handler(lambda _: Allow())
        assert Outcome.OK is asker.pay().outcome
        assert [] == other.pending

    def test_an_approval_that_the_access_rules_refuse(self, open_host: Open) -> None:
        """An approval allows nothing that is forbidden, and does not wait for better times."""
        asker, other = open_host(), open_host()
        asker.pay()
        other.answer("c1", Allow())
        other.registry.block("pay", "ann")
        assert Outcome.FORBIDDEN is asker.pay().outcome
        assert [] == asker.ran


class TestSecrets:
    ARGUMENTS = {"pin": SECRET}

    def test_another_host_is_shown_markers(self, open_host: Open) -> None:
        """Who asked shows the whole arguments; others show markers, and the answer is bound to the secret itself."""
        asker, other = open_host(), open_host()
        asker.send("login", self.ARGUMENTS)
        assert SECRET == asker.pending[0].arguments["pin"]
        assert other.pending[0].arguments["pin"].startswith("[secret ")
        other.answer("c1", Allow())

        assert Outcome.APPROVAL_REQUIRED is asker.send("login", {"pin": "another-secret"}).outcome
        assert Outcome.APPROVAL_REQUIRED is asker.send("login", other_markers(other)).outcome
        assert Outcome.OK is asker.send("login", self.ARGUMENTS).outcome
        assert [(SECRET, "ann", "")] == asker.ran

    def test_an_edit_keeps_the_secret(self, open_host: Open) -> None:
        """A marker that is left as it is stands for the secret of the call."""
        open_host().send("login", self.ARGUMENTS)
        other = open_host()
        other.answer("c1", Allow({**other.pending[0].arguments, "user": "bob"}))
        last = open_host()
        assert Outcome.OK is last.send("login", self.ARGUMENTS).outcome
        assert [(SECRET, "bob", "")] == last.ran

    @pytest.mark.parametrize(
        "edit", [{"pin": "new"}, {"pin": "[secret 0123]"}, {"spare": "new"}, {"password": "hunter2"}], ids=str
    )
    def test_an_edit_of_a_secret(self, open_host: Open, edit: dict[str, str]) -> None:
        """The journal does not keep a secret: another process refuses to set one, the process that asked may."""
        asker, other = open_host(), open_host()
        asker.send("login", self.ARGUMENTS)
        whole = {**other.pending[0].arguments, **edit}
        with pytest.raises(ToolUsageError, match=next(iter(edit))) as refused:
            other.answer("c1", Allow(whole))
        assert "secret-edit" == refused.value.code
        assert 1 == len(other.pending)

    def test_an_edit_that_adds_an_option(self, open_host: Open) -> None:
        """Options that a tool does not name are secret where they are marked, also those that a call leaves out."""
        asker, other = open_host(), open_host()
        asker.send("configure", {"user": "ann"})
        with pytest.raises(ToolUsageError, match="'extra' hold secrets"):
            other.answer("c1", Allow({"user": "ann", "extra": SECRET}))
        other.answer("c1", Allow({"user": "bob"}))

        assert Outcome.OK is asker.send("configure", {"user": "ann"}).outcome
        assert [("bob", {})] == asker.ran

    def test_the_host_that_asked_may_edit_it(self, open_host: Open) -> None:
        """There the answer keeps what the journal does not; no other process uses it then."""
        asker, other = open_host(), open_host()
        asker.send("login", self.ARGUMENTS)
        asker.answer("c1", Allow({"pin": "new-secret", "user": "ann"}))
        assert Outcome.APPROVAL_REQUIRED is other.send("login", {"pin": "unknown"}).outcome
        assert Outcome.OK is asker.send("login", self.ARGUMENTS).outcome
        assert [("new-secret", "ann", "")] == asker.ran
        assert not [row for row in asker.registry.journal.store.read() if b"new-secret" in row.body]


def other_markers(host: Host) -> dict[str, Any]:
    """Return arguments in which the marker itself is passed for the secret."""
    from praval_tools.journal.events import ApprovalAsked

    events = [event for event in host.registry.journal.events() if isinstance(event, ApprovalAsked)]
    return {"pin": events[0].arguments["pin"]}


class TestReading:
    def test_only_what_changed_is_read(self, open_host: Open) -> None:
        """Looking for an answer again and again reads the number of the state, not the state."""
        host = open_host()
        store = host.registry.journal.store
        reads: list[int] = []

        class Counting:
            def __getattr__(self, name: str) -> Any:
                return getattr(store, name)

            def state(self, since: int = 0) -> Any:
                reads.append(since)
                return store.state(since)

        approvals = StoredApprovals(Counting(), SystemClock())  # type: ignore[arg-type]
        for _ in range(3):
            assert [] == approvals.list_entries()
        assert 1 == len(reads)
        host.pay()
        approvals.list_entries()
        assert 2 == len(reads)


class TestStoresThatCannotBeRead:
    """A database that is cut off, with changes that were not read yet."""

    @pytest.mark.parametrize("goes_on", [True, False])
    def test_stop_no_call_of_a_registry_that_goes_on_without(
        self, goes_on: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An MCP server asks for the requests at each call; it answered none any more."""
        store = open_store(tmp_path / "runs.db")
        registry = ToolRegistry(journal=store, journal_errors="continue" if goes_on else "raise")

        def fail(*_: object) -> None:
            raise JournalError(store.name, "the database is cut off", "Connect it.")

        monkeypatch.setattr(store, "revision", fail)
        if goes_on:
            with pytest.warns(JournalWarning, match="cut off"):
                assert [] == registry.approvals.pending()
        else:
            with pytest.raises(JournalError, match="cut off"):
                registry.approvals.pending()
