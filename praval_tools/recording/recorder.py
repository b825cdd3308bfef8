"""The pipeline of a call with a journal around it: found or begun, written ahead, run, written down."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from praval_tools import facts
from praval_tools.errors import (
    JournalError,
    JournalWarning,
    ReplayMismatchError,
    ToolArgumentsError,
    ToolUsageError,
    outside,
)
from praval_tools.execution.failures import said, type_name
from praval_tools.execution.frames import SITE, call_of, calls_inside, current_call, frame_of, running
from praval_tools.execution.pipeline import Course
from praval_tools.execution.results import broke
from praval_tools.execution.runtime import Runtime
from praval_tools.execution.steps import Approve, Run, Steps, Wait
from praval_tools.journal.echoes import NO_SECRETS
from praval_tools.journal.protocol import INTENT, Item, Status, Store
from praval_tools.journal.redact import Plan, Redactor
from praval_tools.journal.replay import FINAL, Entry, Request, digest_of
from praval_tools.journal.stats import UsageStats
from praval_tools.model.approval import Allow, ApprovalRequest
from praval_tools.model.calls import Outcome, ToolCall, ToolResult
from praval_tools.model.decision import Deny
from praval_tools.model.definition import Definition
from praval_tools.model.form import Unencodable
from praval_tools.model.repair import Repair
from praval_tools.model.tool import Tool
from praval_tools.naming import shorten
from praval_tools.recording import noting
from praval_tools.recording.openrun import OpenRun, current_run, within
from praval_tools.recording.scribe import Book, Scribe, warn_lost

Durability = Literal["full", "intent"]

_SCALARS: Final = frozenset({type(None), bool, int, float, str})


class Recorder:
    """
    Writes what happens to the calls of one registry, and gives recorded results back.

    Args:
        runtime: The registry's.
        store: Where to; None: calls are only counted.
        redactor: What is secret.
        stats: Counts the calls.
        durability: `intent`: results are not waited for.
        lenient: Go on where the store fails, with a warning.
    """

    def __init__(
        self, runtime: Runtime, store: Store, redactor: Redactor, stats: UsageStats,
        *, durability: Durability, lenient: bool,
    ) -> None:  # fmt: skip
        self.runtime, self.store, self.stats = runtime, store, stats
        self._redactor, self._eager, self._lenient = redactor, durability == "intent", lenient
        self._scribe = Scribe(store, stats, lenient=lenient)
        self._plans: WeakKeyDictionary[Definition, Plan] = WeakKeyDictionary()
        self._plain = redactor.plan()
        self.runs: dict[str, OpenRun] = {}

    # ── finding ──────────────────────────────────────────────────────────────────────────────────

    def recorded(self, course: Course, steps: Steps) -> Steps:
        """Drive *steps*, the pipeline of one call, with everything written down; or give the recorded result back."""
        self.runtime.ledger.refuse_calls()
        course.renewed, given = self._renewed, course.call
        call = course.call = noting.writable(given)
        result: ToolResult = yield from self._driven(course, steps)
        known = call is given or given.tool_call_id is None
        return result if known else replace(result, tool_call_id=given.tool_call_id)

    def _driven(self, course: Course, steps: Steps) -> Steps:
        call, tool = course.call, self._tool(course.call)
        run = self._run_of(call)
        if run is None:
            course.call = call = self._placed(call.with_id(), None)
            book = Book(noting.Note(call, self._plan(tool), self.runtime.clock, None, NO_SECRETS))
            return (yield from self._written(course, steps, book))
        try:
            return (yield from self._found(course, steps, run, tool))
        finally:
            run.leave()

    def _found(self, course: Course, steps: Steps, run: OpenRun, tool: Tool[..., Any] | None) -> Steps:
        """Give the recorded result of a call of *run* back, or drive *steps* for one that has none."""
        call = course.call
        request, mended = self._request(call, tool)
        entry = run.recording.find(request, self.runtime.clock.new_id())
        while (settling := run.recording.begin(entry)) is not None:
            with entry.awaited_by(list(self._callers())) as free:
                if not free:
                    raise ToolUsageError(
                        f"Call {entry.call_id!r} is made from inside of itself, or waits for the call that this one "
                        f"is made from: both would wait for ever. Give this call another id."
                    )
                yield Wait(settling, entry.call_id)
        try:
            mine = replace(call, tool_call_id=call.tool_call_id or entry.call_id, run_id=run.run_id)
            self._check_fingerprint(run, entry, request)
            if entry.status == "done":
                return noting.replayed(entry, mine, tool, None if tool is None else self.runtime.most(tool))
            own = mine if mine.tool_call_id == entry.call_id else replace(mine, tool_call_id=entry.call_id)
            course.call, course.mended = self._placed(own, request), mended
            note = noting.Note(course.call, self._plan(tool), self.runtime.clock, request, NO_SECRETS)
            book = Book(note, run, entry, before=entry.status)
            if entry.status == "doubt" and not (tool is not None and tool.metadata.idempotent is True):
                doubtful = noting.in_doubt(entry, mine)
                yield from self._refused(book, doubtful)
                run.recording.put_back(entry)
                return doubtful
            book.began = entry.attempts >= INTENT
            result = yield from self._written(course, steps, book)
            if book.unsettled(entry.status):
                run.recording.put_back(entry)
            return result if mine.tool_call_id == entry.call_id else replace(result, tool_call_id=mine.tool_call_id)
        finally:
            run.recording.settle(entry)

    def _tool(self, call: ToolCall) -> Tool[..., Any] | None:
        record = self.runtime.ledger.state.record(call.name) if isinstance(call.name, str) else None
        return None if record is None else record.tool

    def _renewed(self) -> bool:
        """Take over what other processes changed, before a call is refused by what is old; False: nothing."""
        try:
            if self.store.revision() == self.runtime.ledger.state.revision:
                return False
            self.runtime.ledger.absorb()
        except JournalError:  # writing the refusal down will say so
            return False
        return True

    def _run_of(self, call: ToolCall) -> OpenRun | None:
        if call.run_id is not None:
            run = self.runs.get(call.run_id)
            if run is None:
                raise ToolUsageError(
                    f"The call names run {shorten(call.run_id)}, which is not open here; open it around the call: "
                    f"with registry.run({shorten(call.run_id)}): …",
                    "run-closed",
                )
        else:
            run = current_run.get()
            while run is not None and run.recorder is not self:
                run = run.outer
            if run is None:
                return None
        run.enter()
        return run

    def _placed(self, call: ToolCall, request: Request | None) -> ToolCall:
        """Return *call* with the id of that inside which it is made."""
        if call.parent_id is not None:
            return call
        parent = request.parent if request is not None else _parent()
        return call if parent is None else replace(call, parent_id=parent)

    def _request(
        self, call: ToolCall, tool: Tool[..., Any] | None
    ) -> tuple[Request, tuple[Definition, dict[str, Any], tuple[Repair, ...]] | None]:
        """Return what the call is looked for by, and its arguments, mended, where they fit the tool."""
        name = call.name if noting.is_text(call.name) else shorten(call.name)
        options, given, mended = self.runtime.options, noting.json_of(call.arguments), None
        arguments = given
        if tool is not None and tool.definition_.usable:
            strict = tool.metadata.strict_arguments
            try:
                arguments, repairs = tool.definition_.mended(
                    call.arguments, strict=options.strict_arguments if strict is None else strict,
                    max_bytes=options.max_argument_bytes, max_depth=options.max_argument_depth,
                )  # fmt: skip
                mended = tool.definition_, arguments, repairs
            except ToolArgumentsError:  # the call will say so; it is looked for as it was given
                pass
        plan = self._plan(tool)
        clean = plan.arguments(arguments, bound=mended is not None)[0]
        digest = digest_of(clean)
        other = digest if arguments == given else digest_of(plan.arguments(given, bound=False)[0])
        request = Request(
            call.tool_call_id, call.agent, name, call.parent_id or _parent(), clean, digest,
            "" if other == digest else other, "" if mended is None or tool is None else tool.fingerprint,
        )  # fmt: skip
        return request, mended

    def _plan(self, tool: Tool[..., Any] | None) -> Plan:
        if tool is None or not tool.definition_.usable:
            return self._plain
        plan = self._plans.get(tool.definition_)
        if plan is None:
            compiled = tool.definition_.compiled
            plan = self._plans[tool.definition_] = self._redactor.plan(
                compiled.parameters_schema, compiled.result_schema
            )
        return plan

    def _callers(self) -> Iterator[Entry]:
        """Yield the calls of open runs that this one is made from; they wait as long as it does."""
        for frame in calls_inside(self.runtime.home):
            call = call_of(frame)
            run = self.runs.get(call.run_id or "")
            entry = None if run is None else run.recording.entries.get(call.tool_call_id or "")
            if entry is not None:
                yield entry

    def _check_fingerprint(self, run: OpenRun, entry: Entry, request: Request) -> None:
        if run.strict_fingerprint and entry.fingerprint and entry.fingerprint != request.fingerprint:
            now = f"fingerprint {request.fingerprint[:12]}" if request.fingerprint else "gone"
            raise ReplayMismatchError(
                run.run_id, entry.call_id, f"{entry} with fingerprint {entry.fingerprint[:12]}",
                f"{request}, where the tool is {now}",
            )  # fmt: skip

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def _written(self, course: Course, steps: Steps, book: Book) -> Steps:
        """Drive *steps*, and write down what they come to."""
        answer: Any = None
        try:
            while True:
                try:
                    step = steps.send(answer)
                except StopIteration as end:
                    result: ToolResult = end.value
                    break
                if isinstance(step, Run):
                    answer = yield from self._run(book, step)
                elif isinstance(step, Approve):
                    answer = yield from self._approval(book, step)
                else:
                    answer = yield step
        finally:
            steps.close()
        if course.call.tool_call_id == result.tool_call_id and book.last is not None:
            self._follow(book, book.last, result)
        return (yield from self._result(book, result))

    def _run(self, book: Book, run: Run) -> Generator[Any, Any, ToolResult | None]:
        if not (yield from self._may_start(book, run)):
            return None
        before, book.last, run.settled = run.attempts, run, book.settled
        try:
            with within(book.run):
                result: ToolResult | None = yield run
        except BaseException as error:
            yield from self._stopped(book, run, error, entered=run.attempts > before or run.job is not None)
            raise
        return result

    def _stopped(self, book: Book, run: Run, error: BaseException, *, entered: bool) -> Generator[Any, Any, None]:
        """Write down that something stopped the caller; where nobody entered the function, it stands as before."""
        if not entered and book.before == "doubt":
            return
        record = noting.stopped(book.note, run, entered, error)
        item = Item((record,) if book.held is None else (book.held, record))
        if isinstance(error, GeneratorExit):  # nothing can be waited for
            self._scribe.submit(item)
            if entered:
                self._scribe.count(Outcome.CANCELLED, record)
            self._scribe.all_noticed(book, item)
            return
        try:
            if entered:
                yield from self._scribe.ended(book, item, "It was stopped.", Outcome.CANCELLED)
            else:
                yield from self._scribe.durable(book, item, "It was stopped.")
        except JournalError as failed:  # what stopped the caller is what it is to learn
            warn_lost(failed)

    def _may_start(self, book: Book, run: Run) -> Generator[Any, Any, bool]:
        """Make the start durable; False: what decided has changed, the call is to be decided again."""
        counted = (one.grant.id for one in run.path.grants if one.grant.max_calls is not None and one.stored)
        owed = frozenset(counted) - book.spent if run.path.grants else frozenset[str]()
        if book.began and run.attempts == 0 and book.last is not None and not owed:
            return True
        attempt = None if book.began or run.attempts else INTENT
        record = noting.began(book.note, run, attempt)
        if self._eager and run.tool.metadata.read_only is True and not owed and run.attempts == 0:
            if self.store.revision() != run.state.revision:
                self.runtime.ledger.absorb()
                return False
            book.held = record
            return True
        item = Item((record,), run.state.revision, tuple(sorted(owed)))
        try:
            answer = yield from self._scribe.landed(book, item, "Nothing was run.")
        except (JournalError, GeneratorExit):
            raise
        except BaseException as error:
            yield from self._stopped(book, run, error, entered=run.attempts > 0)
            raise
        if answer is None:
            book.held = book.held or record  # goes with the result
        if answer is None or answer.status is Status.DONE:
            book.began, book.spent = True, book.spent | owed
            book.settled |= owed if answer is not None else frozenset()
            return True
        if answer.status is Status.EXHAUSTED:
            gone = {answer.grant or "": 0}
            self.runtime.ledger.commit(lambda _: [facts.GrantsCounted(left=gone)], at_once=True)
        elif answer.status is Status.STALE:
            self.runtime.ledger.absorb()
        else:
            raise JournalError(
                self.store.name, f"call {book.note.call.tool_call_id!r} is recorded there already", "Open the run anew."
            )
        return False

    def _approval(self, book: Book, step: Approve) -> Generator[Any, Any, Allow | Deny | None]:
        known = noting.known_answer(book.note, book.entry, step.request)
        if known is not None:
            return known
        yield from self._scribe.durable(book, Item((noting.asked(book.note, step.request),)), "Nothing was run.")
        answer: Allow | Deny | None = yield step
        if answer is not None:
            record = noting.answered(book.note, step.request, answer)
            yield from self._scribe.durable(book, Item((record,)), "Nothing was run.")
        return answer

    def _result(self, book: Book, result: ToolResult) -> Generator[Any, Any, ToolResult]:
        if (book.again and not book.ran) or (not book.began and book.held is None):
            yield from self._refused(book, result)
            return result
        value, result = self._encoded(book, result)
        attempt = self._attempt(book) if result.outcome in FINAL else None
        record = noting.ended(book.note, result, value, self._detail(book, result), attempt)
        item = Item((record,) if book.held is None else (book.held, record))
        if self._eager and book.held is None:
            self._scribe.submit(item)
            self._scribe.count(result.outcome, record, result.latency_ms)
            self._scribe.all_noticed(book, item, result.outcome)
            return result
        call = book.note.call
        lost = f"Tool {call.name!r} ran; the result of call {call.tool_call_id!r} is not recorded: it is in doubt."
        answer = yield from self._scribe.ended(book, item, lost, result.outcome, result.latency_ms)
        if answer is None or answer.status is not Status.EXISTS or book.entry is None:
            return result
        book.entry.add(next(one for one in answer.found if one.attempt == attempt))  # an earlier life got so far
        tool = None if book.last is None else book.last.tool
        return noting.replayed(book.entry, call, tool, None if tool is None else self.runtime.most(tool))

    def _refused(self, book: Book, result: ToolResult) -> Generator[Any, Any, None]:
        final = result.outcome in FINAL and book.run is not None and not book.again
        record = noting.refused(book.note, result, 1 if final else None)
        yield from self._scribe.ended(book, Item((record,)), "Nothing was run.", result.outcome)

    def _attempt(self, book: Book) -> int:
        return max(1, book.entry.attempts + 1) if book.entry is not None else 1

    def _encoded(self, book: Book, result: ToolResult) -> tuple[Any, ToolResult]:
        """Return the value as JSON; a result that says so where it has no JSON form."""
        run = book.last
        if result.outcome is not Outcome.OK or run is None:
            return None, result
        compiled = run.tool.definition_.compiled
        if type(result.result) in _SCALARS:  # no code of its own can run
            return compiled.encode_result(result.result), result
        try:
            with running(frame_of(run.frame[SITE])):
                return compiled.encode_result(result.result), result
        except Unencodable as error:
            return None, replace(broke(run, error, 0.0), tool_call_id=result.tool_call_id, latency_ms=result.latency_ms)

    def _detail(self, book: Book, result: ToolResult) -> str | None:
        run, error = book.last, result.exception
        if run is None or error is None or result.outcome is not Outcome.TOOL_ERROR:
            return None
        if (run.tool.metadata.errors or self.runtime.options.errors) != "masked":
            return None
        with running(frame_of(run.frame[SITE])):
            told = said(error)
        return None if told == result.error else told

    # ── what comes late ──────────────────────────────────────────────────────────────────────────

    def _follow(self, book: Book, run: Run, result: ToolResult) -> None:
        """See that the end of a function that was given up is written down, too."""
        job = run.job
        if result.outcome is not Outcome.TIMEOUT or job is None:
            return

        def tell() -> None:
            value = error = kind = None
            if job.error is None:
                try:
                    value = run.tool.definition_.compiled.encode_result(job.value)
                except Unencodable as wrong:
                    error, kind = str(wrong), type_name(wrong)
            else:
                error, kind = said(job.error), type_name(job.error)
            record = noting.late(book.note, value, error, kind)
            self._scribe.submit(Item((record,)))

        job.when_done(tell)

    # ── approvals that are answered later ────────────────────────────────────────────────────────

    def answered(self, request: ApprovalRequest, answer: Allow | Deny) -> None:
        """Write down the answer to a call that waits, before it counts."""
        call = ToolCall(request.tool_call_id, request.tool, None, request.agent, request.run_id, request.chain)
        plan = self._plan(self._tool(call))
        note = noting.Note(call, plan, self.runtime.clock, None, plan.arguments(request.arguments)[1])
        record = noting.answered(note, request, answer)
        try:
            (told,) = self.store.append([Item((record,))])
            if told.error is not None:
                raise told.error
        except JournalError as error:
            if not self._lenient:
                raise
            warnings.warn(f"{error} The answer counts all the same.", JournalWarning, stacklevel=outside())
        run = self.runs.get(request.run_id or "")
        if run is not None:
            run.recording.add(record)


def _parent() -> str | None:
    above = current_call()
    return None if above is None else above.tool_call_id


