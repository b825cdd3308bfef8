"""The pipeline of a call with a journal around it: found or begun, written ahead, run, written down."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from typing import Any, Literal

from msgspec.structs import replace

from praval_tools.access import events
from praval_tools.access.records import Principal
from praval_tools.errors import JournalError, JournalWarning, outside
from praval_tools.execution.context import SITE, frame_of, running
from praval_tools.execution.effects import Append, Approve, Run, Steps
from praval_tools.execution.failures import said, type_name
from praval_tools.execution.pipeline import Course
from praval_tools.execution.results import broke, ended_badly
from praval_tools.execution.runtime import Runtime
from praval_tools.journal.redaction.redactor import Redactor
from praval_tools.journal.replay import FINAL, Entry
from praval_tools.journal.stats import UsageStats
from praval_tools.journal.storage.protocol import INTENT, Answer, Item, Status, Store
from praval_tools.runs import call_records
from praval_tools.runs.event_writer import Book, Met, Scribe, unsettled, warn_lost
from praval_tools.runs.fast_recording import Place, Roads, Short
from praval_tools.runs.fast_replay import recalled
from praval_tools.runs.matching import Finder, check_fingerprint, placed
from praval_tools.runs.open_run import OpenRun, within
from praval_tools.schema.json_input import SCALARS
from praval_tools.tools.approval import Allow, ApprovalRequest
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.decision import Deny
from praval_tools.tools.implementation import MISS
from praval_tools.tools.tool import Tool

Durability = Literal["full", "intent"]


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
        self.finder = Finder(runtime, redactor)
        self._roads = Roads(runtime, self.finder)
        self.runs = self.finder.runs

    # ── finding ──────────────────────────────────────────────────────────────────────────────────

    def recorded(self, course: Course, steps: Steps) -> Steps:
        """Drive *steps*, the pipeline of one call, with everything written down; or give the recorded result back."""
        self.runtime.ledger.refuse_calls()
        course.renewed, given = self._renewed, course.call
        call = course.call = call_records.writable(given)
        short = None if self._eager else self._roads.short(call, course.who, awaited=course.awaited)
        run = self.finder.run_of(self, call)
        if run is None:
            result: ToolResult = yield from self._alone(course, steps, short)
        else:
            try:
                run.inside.append(None)
                run.entered()
                result = yield from self._found(course, steps, short, run)
            finally:
                run.inside.pop()
                run.left()
        if call is given or given.tool_call_id is None:
            return result
        return replace(result, tool_call_id=given.tool_call_id)

    def recalled(self, call: ToolCall, who: Principal | None, *, awaited: bool) -> ToolResult | None:
        """Return the recorded result of a call that repeats one of its run; None: see `recorded`."""
        return recalled(self, self._roads, call, who, awaited=awaited)

    def _alone(self, course: Course, steps: Steps, short: Short | None) -> Steps:
        """Drive a call outside of runs."""
        course.call = call = placed(course.call.with_id())
        if short is not None:
            return (yield from self._shortly(course, steps, short, Place()))
        plan = self.finder.plan(self.finder.tool(call))
        return (yield from self._written(course, steps, Book(call_records.Note(call, plan, self.runtime.clock))))

    def _found(self, course: Course, steps: Steps, short: Short | None, run: OpenRun) -> Steps:
        """Give the recorded result of a call of *run* back, or drive *steps* for one that has none."""
        call, mended = course.call, None
        if short is not None:
            tool: Tool[..., Any] | None = short.road.tool
            request = short.request(call)
        else:
            tool = self.finder.tool(call)
            request, mended = self.finder.request(call, tool)
        held: list[Entry] = []
        try:
            entry = run.recording.find(request, self.runtime.clock.new_id, held=held)
            if not held:
                yield from self.finder.turn(run, entry, held=held)
            if run.strict_fingerprint:
                check_fingerprint(run, entry, request)
            before, own = entry.status, call.tool_call_id or entry.call_id
            if before == "done":
                return call_records.replayed(entry, own, tool, None if tool is None else self.runtime.most(tool))
            course.call = ToolCall(
                entry.call_id, call.name, call.arguments, call.agent, run.run_id, call.on_behalf_of, request.parent,
                call.reason, call.engine,
            )  # fmt: skip
            place = Place(run, entry, request)
            if short is not None and before == "new":
                result: ToolResult = yield from self._shortly(course, steps, short, place)
            else:
                course.mended = mended
                result = yield from self._anew(course, steps, place, tool)
            if unsettled(before, entry.status):
                run.recording.put_back(entry)
            return result if own == entry.call_id else replace(result, tool_call_id=own)
        finally:
            for one in held:
                run.recording.settle(one)

    def _anew(self, course: Course, steps: Steps, place: Place, tool: Tool[..., Any] | None) -> Steps:
        """Drive a call that has no result yet, unless it is in doubt."""
        note = call_records.Note(course.call, self.finder.plan(tool), self.runtime.clock, place.request)
        entry = place.entry
        if entry is None:
            raise AssertionError("a call of a run has its entry")
        book = Book(note, place.run, entry, before=entry.status)
        if entry.status == "doubt" and not (tool is not None and tool.metadata.idempotent is True):
            doubtful = call_records.in_doubt(entry, course.call)
            yield from self._refused(book, doubtful)
            return doubtful
        book.began = entry.attempts >= INTENT
        return (yield from self._written(course, steps, book))

    def _renewed(self) -> bool:
        """Take over what other processes changed, before a call is refused by what is old; False: nothing."""
        try:
            if self.store.revision() == self.runtime.ledger.state.revision:
                return False
            self.runtime.ledger.absorb()
        except JournalError:  # writing the refusal down will say so
            return False
        return True

    # ── the short road ───────────────────────────────────────────────────────────────────────────

    def _shortly(self, course: Course, steps: Steps, short: Short, place: Place) -> Steps:
        """Write, run and write one call; where something unusual happens, *steps* take over."""
        call, entry = course.call, place.entry
        record = short.began(call, place.request)
        if record is None:
            return (yield from self._written(course, steps, self._opened(course, short, place)))
        met: Any = None
        item = Item((record,), short.road.state.revision)
        try:
            met = yield Append(item)
        except BaseException as error:  # looked at below
            met = error
        if type(met) is not Answer or met.status is not Status.DONE:
            return (yield from self._held_up(course, steps, short, place, item, met))
        if entry is not None:
            entry.began(record)
        started, failed = self.runtime.clock.monotonic(), None
        try:
            with within(place.run):
                value = yield short.enter(call)
        except BaseException as error:  # looked at below
            value, failed = None, error
        if failed is not None or value is MISS:
            return (yield from self._missed(course, steps, short, place, failed, started))
        result = short.result(call, value, self.runtime.clock.monotonic() - started)
        record = short.ended(call, result)
        if record is None:
            return (yield from self._result(self._opened(course, short, place, short.run(call, 1)), result))
        item = Item((record,))
        try:
            met = yield Append(item)
        except BaseException as error:  # looked at below
            met = error
        if type(met) is not Answer or met.status is not Status.DONE:
            book = self._opened(course, short, place, short.run(call, 1))
            return (yield from self._closed(book, result, item, met))
        self._scribe.count(Outcome.OK, record, result.latency_ms)
        if entry is not None:
            entry.ended(record, Outcome.OK)
        return result

    def _opened(self, course: Course, short: Short, place: Place, run: Run | None = None) -> Book:
        """Return the book of a call that leaves the short road, after its start was written where there is a *run*."""
        course.mended = short.road.definition, short.arguments, ()
        note = call_records.Note(course.call, short.road.plan, self.runtime.clock, place.request)
        return Book(note, place.run, place.entry, began=run is not None, last=run)

    def _held_up(self, course: Course, steps: Steps, short: Short, place: Place, item: Item, met: Any) -> Steps:
        """Go on with a call whose start was not simply written."""
        book, run = self._opened(course, short, place), short.run(course.call, 0)
        if (yield from self._handed_over(book, run, item, met=met)):
            book.last = run
        return (yield from self._written(course, steps, book))

    def _missed(
        self, course: Course, steps: Steps, short: Short, place: Place, error: BaseException | None, started: float
    ) -> Steps:
        """Go on with a call that was not admitted, or whose function did not return."""
        run = short.run(course.call, 0 if error is None else 1)
        book = self._opened(course, short, place, run)
        if error is None:
            return (yield from self._written(course, steps, book))
        if isinstance(error, Exception | SystemExit):
            return (yield from self._result(book, ended_badly(run, error, started)))
        yield from self._stopped(book, run, error, entered=True)
        raise error

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
        record = call_records.stopped(book.note, run, entered, error)
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
        record = call_records.began(book.note, run, attempt)
        if self._eager and run.tool.metadata.read_only is True and not owed and run.attempts == 0:
            if self.store.revision() != run.state.revision:
                self.runtime.ledger.absorb()
                return False
            book.held = record
            return True
        item = Item((record,), run.state.revision, tuple(sorted(owed)))
        return (yield from self._handed_over(book, run, item, owed))

    def _handed_over(
        self, book: Book, run: Run, item: Item, owed: frozenset[str] = frozenset(), met: Met = None
    ) -> Generator[Any, Any, bool]:
        """Have the start written, unless somebody has *met* the answer already; see `_may_start`."""
        try:
            answer = yield from self._scribe.landed(book, item, "Nothing was run.", met=met)
        except (JournalError, GeneratorExit):
            raise
        except BaseException as error:
            yield from self._stopped(book, run, error, entered=run.attempts > 0)
            raise
        if answer is None:
            book.held = book.held or item.records[0]  # goes with the result
        if answer is None or answer.status is Status.DONE:
            book.began, book.spent = True, book.spent | owed
            book.settled |= owed if answer is not None else frozenset()
            return True
        if answer.status is Status.EXHAUSTED:
            gone = {answer.grant or "": 0}
            self.runtime.ledger.commit(lambda _: [events.GrantsCounted(left=gone)], at_once=True)
        elif answer.status is Status.STALE:
            self.runtime.ledger.absorb()
        else:
            raise JournalError(
                self.store.name, f"call {book.note.call.tool_call_id!r} is recorded there already", "Open the run anew."
            )
        return False

    def _approval(self, book: Book, step: Approve) -> Generator[Any, Any, Allow | Deny | None]:
        known = call_records.known_answer(book.note, book.entry, step.request)
        if known is not None:
            return known
        yield from self._scribe.durable(book, Item((call_records.asked(book.note, step.request),)), "Nothing was run.")
        answer: Allow | Deny | None = yield step
        if answer is not None:
            record = call_records.answered(book.note, step.request, answer)
            yield from self._scribe.durable(book, Item((record,)), "Nothing was run.")
        return answer

    def _result(self, book: Book, result: ToolResult) -> Generator[Any, Any, ToolResult]:
        if (book.again and not book.ran) or (not book.began and book.held is None):
            yield from self._refused(book, result)
            return result
        value, result = self._encoded(book, result)
        attempt = self._attempt(book) if result.outcome in FINAL else None
        record = call_records.ended(book.note, result, value, self._detail(book, result), attempt)
        item = Item((record,) if book.held is None else (book.held, record))
        if self._eager and book.held is None:
            self._scribe.submit(item)
            self._scribe.count(result.outcome, record, result.latency_ms)
            self._scribe.all_noticed(book, item, result.outcome)
            return result
        return (yield from self._closed(book, result, item))

    def _closed(self, book: Book, result: ToolResult, item: Item, met: Met = None) -> Generator[Any, Any, ToolResult]:
        """Have the end written, unless somebody has *met* the answer already; return what holds then."""
        call, attempt = book.note.call, item.records[-1].attempt
        lost = f"Tool {call.name!r} ran; the result of call {call.tool_call_id!r} is not recorded: it is in doubt."
        answer = yield from self._scribe.ended(book, item, lost, result.outcome, latency=result.latency_ms, met=met)
        if answer is None or answer.status is not Status.EXISTS or book.entry is None:
            return result
        book.entry.add(next(one for one in answer.found if one.attempt == attempt))  # an earlier life got so far
        tool = None if book.last is None else book.last.tool
        most = None if tool is None else self.runtime.most(tool)
        return call_records.replayed(book.entry, call.tool_call_id, tool, most)

    def _refused(self, book: Book, result: ToolResult) -> Generator[Any, Any, None]:
        final = result.outcome in FINAL and book.run is not None and not book.again
        record = call_records.refused(book.note, result, 1 if final else None)
        yield from self._scribe.ended(book, Item((record,)), "Nothing was run.", result.outcome)

    def _attempt(self, book: Book) -> int:
        return max(1, book.entry.attempts + 1) if book.entry is not None else 1

    def _encoded(self, book: Book, result: ToolResult) -> tuple[Any, ToolResult]:
        """Return the value as JSON; a result that says so where it has no JSON form."""
        run = book.last
        if result.outcome is not Outcome.OK or run is None:
            return None, result
        compiled = run.tool.definition_.compiled
        try:
            if type(result.result) in SCALARS:  # no code of its own can run
                return compiled.encode_result(result.result), result
            with running(frame_of(run.frame[SITE])):
                return compiled.encode_result(result.result), result
        except (Exception, SystemExit) as error:  # the tool seam: what it returned may run code of its own
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
                except (Exception, SystemExit) as wrong:  # the tool seam, as above
                    error, kind = said(wrong), type_name(wrong)
            else:
                error, kind = said(job.error), type_name(job.error)
            record = call_records.late(book.note, value, error, kind)
            self._scribe.submit(Item((record,)))

        job.when_done(tell)

    # ── approvals that are answered later ────────────────────────────────────────────────────────

    def answered(self, request: ApprovalRequest, answer: Allow | Deny) -> None:
        """Write down the answer to a call that waits, before it counts."""
        call = ToolCall(request.tool_call_id, request.tool, None, request.agent, request.run_id, request.chain)
        plan = self.finder.plan(self.finder.tool(call))
        note = call_records.Note(call, plan, self.runtime.clock, None, plan.arguments(request.arguments)[1])
        record = call_records.answered(note, request, answer)
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
