"""Secrets that the answer of an approval quotes: no byte of them is in the journal, and the tool gets them."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Annotated, Any

import pytest

from praval_tools import Allow, ApprovalRequest, Outcome, Secret, ToolCall, ToolRegistry, ToolResult
from praval_tools.registry.registry import get_runtime

SECRET = "hunter22-top"
OTHER = "new-pass-77x"
CALL = ToolCall("c", "pay", {"note": "n", "password": SECRET}, "boss")
EDITS = (
    {"note": f"the password was {SECRET}"},
    {"note": f"it was {SECRET}", "password": SECRET},
    {"note": f"{SECRET}, now {OTHER}", "password": OTHER},
    {"note": "plain", "more": {"deep": [f"was {SECRET}"], f"key {SECRET}": 1}},
    {"note": f'{{"text": "{SECRET}"}}', "password": ""},
)


class Payments:
    """A registry with a tool that needs an approval, and a journal in a file or in memory."""

    def __init__(self, folder: Path, storage: str, is_async: bool) -> None:
        self.folder, self.is_async = folder, is_async
        self.got = list[dict[str, object]]()
        self.registry = ToolRegistry(journal="memory" if storage == "memory" else folder / "runs.db")

        def save(**arguments: object) -> str:
            self.got.append(arguments)
            return f"saved {arguments['note']}"

        if is_async:

            @self.registry.tool("pay", owned_by="boss", requires_approval=True)
            async def apay(note: str, password: str = "", more: dict[str, Any] | None = None) -> str:
                """Pay."""
                return save(note=note, password=password, more=more)

        else:

            @self.registry.tool("pay", owned_by="boss", requires_approval=True)
            def pay(note: str, password: str = "", more: dict[str, Any] | None = None) -> str:
                """Pay."""
                return save(note=note, password=password, more=more)

    def send(self, run: str | None) -> ToolResult:
        """Send the call, in *run* or outside of runs."""
        if self.is_async:
            return asyncio.run(self._asend(run))
        with self.registry.run(run) if run else contextlib.nullcontext():
            return self.registry.execute(CALL)

    async def _asend(self, run: str | None) -> ToolResult:
        async with self.registry.run(run) if run else contextlib.nullcontext():
            return await self.registry.aexecute(CALL)

    def read_all(self) -> bytes:
        """Return all that the journal holds."""
        journal = self.registry.journal
        assert journal is not None
        shown = repr(list(journal.events())).encode()
        bodies = b"".join(record.body for record in journal.store.read())
        rows = b"".join(row.body or b"" for row in journal.store.state(0).rows)
        return shown + bodies + rows + b"".join(one.read_bytes() for one in self.folder.rglob("*") if one.is_file())


@pytest.fixture(params=["memory", "sqlite"])
def storage(request: pytest.FixtureRequest) -> str:
    """Where the journal is."""
    return str(request.param)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("run", [None, "r1"], ids=["outside", "in-run"])
@pytest.mark.parametrize("later", [False, True], ids=["handler", "later"])
@pytest.mark.parametrize("edit", EDITS, ids=["quoted", "both", "new", "deep", "json"])
def test_edited_arguments_quote_no_secret(
    tmp_path: Path, storage: str, edit: dict[str, object], later: bool, run: str | None, is_async: bool
) -> None:
    """A secret of the request is in no event of the call, also where the edited arguments of the answer quote it."""
    payments = Payments(tmp_path, storage, is_async)
    answer = Allow(edit, "ann", f"{SECRET} is known")
    if later:
        assert Outcome.APPROVAL_REQUIRED is payments.send(run).outcome
        payments.registry.approvals.answer("c", answer)
    else:
        payments.registry.set_approval_handler(lambda request: answer)

    result = payments.send(run)

    assert Outcome.OK is result.outcome, result.error
    assert [{"password": "", "more": None, **edit}] == payments.got
    if run is not None:
        again = payments.send(run)
        assert Outcome.OK is again.outcome and again.replayed
        assert 1 == len(payments.got)
    data = payments.read_all()
    assert b"approval_answered" in data
    assert b"agent_tool_call" in data
    assert SECRET.encode() not in data
    assert OTHER.encode() not in data


@pytest.mark.parametrize("later", [False, True], ids=["handler", "later"])
def test_edited_arguments_that_do_not_fit(tmp_path: Path, storage: str, later: bool) -> None:
    """Edited arguments that the tool refuses show no secret either: not the request's, and not their own."""
    payments = Payments(tmp_path, storage, is_async=False)
    answer = Allow({"note": [SECRET], "password": {"text": OTHER}}, "ann")
    if later:
        payments.send(None)
        payments.registry.approvals.answer("c", answer)
    else:
        payments.registry.set_approval_handler(lambda request: answer)

    assert Outcome.OK is not payments.send(None).outcome
    data = payments.read_all()
    assert SECRET.encode() not in data
    assert OTHER.encode() not in data


def test_answer_that_no_journal_keeps(tmp_path: Path) -> None:
    """An answer given while a lenient journal failed is used once the journal works again: it shows no secret."""
    payments = Payments(tmp_path, "sqlite", is_async=False)
    approvals, requests = get_runtime(payments.registry).approvals, list[ApprovalRequest]()
    payments.registry.set_approval_handler(requests.append)
    payments.send(None)
    approvals.add_pending(requests[0])
    approvals.store, store = None, approvals.store
    approvals.answer(requests[0].id, Allow({"note": f"was {SECRET}"}, "ann"))
    approvals.store = store
    payments.registry.set_approval_handler(None)

    assert Outcome.OK is payments.send(None).outcome
    assert f"was {SECRET}" == payments.got[0]["note"]
    assert SECRET.encode() not in payments.read_all()


class TestTexts:
    def test_a_request_and_an_answer_show_the_names_of_arguments(self) -> None:
        """A handler that logs what it is asked, or its answer, logs no secret; nor does `rich`."""
        registry, texts = ToolRegistry(), list[str]()

        @registry.tool("pay", owned_by="boss", requires_approval=True)
        def pay(note: str, password: Annotated[str, Secret] = "") -> str:
            """Pay."""
            return password

        def approve(request: ApprovalRequest) -> Allow:
            answer = Allow(dict(request.arguments), by="eve")
            fields = [*request.__rich_repr__(), *answer.__rich_repr__()]
            texts.extend([repr(request), str(answer), f"{[request, answer]}", repr(fields)])
            return answer

        registry.execute(CALL)
        texts.append(repr(registry.approvals.pending()))
        registry.approvals.handler = approve
        assert SECRET == registry.execute(CALL).result
        assert 5 == len(texts)
        assert all("'password': …" in text and SECRET not in text for text in texts)
