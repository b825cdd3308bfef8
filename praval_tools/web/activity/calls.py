"""The views of calls: the latest ones, runs, one run, and the whole content of a call."""

from __future__ import annotations

from attrs import evolve, frozen
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from praval_tools.journal.history import History, HistoryCall
from praval_tools.journal.index.run_pages import (
    RunSummary,
    find_run,
    list_runs,
    read_call_page,
    read_latest_calls,
)
from praval_tools.report.markup import Markup, build_element, build_row, join_markup
from praval_tools.report.run_charts import render_timeline
from praval_tools.report.text import sanitize_text
from praval_tools.web.activity import parts
from praval_tools.web.activity.activity import Activity, write_json
from praval_tools.web.activity.host import Host

_LATEST_EVENTS, _LATEST_ROWS, _TIMELINE_CALLS, _TIMELINE_AGENTS, _TIMELINE_ROW = 400, 50, 120, 12, 30
_PAGE_SIZE = 50
_CALL_TITLES = ("time (UTC)", "agent", "tool", "arguments", "rule", "outcome", "took", "result", "afterwards", "run")


@frozen
class CallViews:
    """The views of calls."""

    activity: Activity
    host: Host

    async def show_latest(self, request: Request) -> Response:
        """Show the latest calls of all runs, and follow them."""
        content = await run_in_threadpool(self._build_latest)
        return self.host.render_page(request, "Live calls", content)

    def _build_latest(self) -> Markup:
        history, seq = read_latest_calls(self.activity.journal, limit=_LATEST_EVENTS)
        rows = [parts.build_call_row(call) for call in reversed(history.calls[-_LATEST_ROWS:])]
        if rows:
            shown = join_markup(
                render_latest_timeline(history, process_end=None),
                parts.build_table(_CALL_TITLES, rows, class_="calls", caption="The latest calls, the newest first"),
            )
        else:
            shown = parts.build_note("No call is recorded yet. Calls appear here as soon as an agent makes one.")
        text = "What agents call now, in every process that uses this journal."
        region = parts.build_live_region("calls", shown)
        return parts.build_section("Live calls", text, region, stream=parts.build_stream("calls", seq))

    async def show_runs(self, request: Request) -> Response:
        """Show the runs, a page of them."""
        words, before = request.query_params.get("words", "")[:200], parse_number(request, "before")
        content = await run_in_threadpool(self._build_runs, words, before)
        return self.host.render_page(request, "Runs", content)

    def _build_runs(self, words: str, before: int | None) -> Markup:
        index = self.activity.index
        runs = list_runs(index, before=before, words=words, limit=_PAGE_SIZE + 1)
        shown = runs[:_PAGE_SIZE]
        field = build_element("input", type="search", name="words", value=words, id="words", maxlength=200)
        label = build_element("label", "Id begins with ", field)
        form = build_element(
            "form", label, build_element("button", "Search", type="submit"), method="get", action="/runs", role="search"
        )
        titles = ("run", "first (UTC)", "last (UTC)", "calls", "failed", "refused", "without a result")
        table = parts.build_table(titles, list(map(_build_run_row, shown)), caption="Runs, the latest first")
        older = parts.build_link("Older runs", "/runs", words=words, before=shown[-1].latest_seq if shown else None)
        return parts.build_section(
            "Runs",
            "A run is what a program records under one id; opened again, it repeats no call that has a result.",
            None if index.is_ready else parts.build_progress_note(index.progress.percent),
            form,
            table if shown else parts.build_note("There are no such runs."),
            build_element("p", older) if len(runs) > _PAGE_SIZE else None,
        )

    async def show_run(self, request: Request) -> Response:
        """Show one run: its calls with arguments, results, replays and doubt."""
        run_id, start = request.query_params.get("id", ""), parse_number(request, "start") or 0
        run = await run_in_threadpool(find_run, self.activity.index, run_id)
        if run is None:
            text = "No run of this id is recorded."
            if not self.activity.index.is_ready:
                text = "This run is not read yet: the journal is being read for the first time. Reload the page."
            back = build_element("p", parts.build_link("The runs that are recorded", "/runs"))
            message = parts.build_message(text, "message problem")
            content = parts.build_section("No such run", "", message, back)
            return self.host.render_page(request, "No such run", content, status=404)
        content = await run_in_threadpool(self._build_run, run, start)
        return self.host.render_page(request, f"Run {sanitize_text(run_id, max_length=80)}", content)

    def _build_run(self, run: RunSummary, start: int) -> Markup:
        page = read_call_page(self.activity.index, self.activity.journal, run, start=start, limit=_PAGE_SIZE)
        calls = page.history.calls
        rows = [
            row for before, call in zip((None, *calls), calls, strict=False)
            for row in (_build_process_row(before, call), _build_run_call_row(run.run_id, call)) if row is not None
        ]  # fmt: skip
        titles = (*(title for title in _CALL_TITLES if title != "run"), "all of it")
        earlier = parts.build_link(
            "Earlier calls", "/runs/show", id=run.run_id, start=max(start - _PAGE_SIZE, 0)
        ) if start else None  # fmt: skip
        later = parts.build_link("Later calls", "/runs/show", id=run.run_id, start=page.next_start)
        shown = join_markup(
            _build_tiles(run),
            render_latest_timeline(page.history, process_end="next process") if calls else None,
            parts.build_table(titles, rows, class_="calls", caption="The calls, in order")
            if calls else parts.build_note("No calls are recorded here."),
        )  # fmt: skip
        return parts.build_section(
            f"Run {sanitize_text(run.run_id, max_length=parts.MAX_NAME)}",
            "Arguments are shown as they are recorded: without secrets.",
            parts.build_live_region("run", shown),
            build_element("p", earlier, " ", later if page.next_start is not None else None),
            stream=parts.build_stream(f"run:{run.run_id}", run.latest_seq),
        )

    async def show_content(self, request: Request) -> Response:
        """Return the arguments, the result or the error of a call as plain text, however long it is."""
        run_id, call_id = request.query_params.get("run", ""), request.query_params.get("call", "")
        call = await run_in_threadpool(self.activity.find_call, run_id, call_id)
        if call is None:
            return PlainTextResponse("No such call is recorded.\n", 404)
        value = {"arguments": call.arguments, "result": call.result, "error": call.error}
        return make_text_response(write_json(value))


def make_text_response(text: str) -> Response:
    """Return a text that no browser takes for a page."""
    safe = sanitize_text(text, keep_line_breaks=True)
    return PlainTextResponse(safe, headers={"x-content-type-options": "nosniff", "cache-control": "no-store"})


def parse_number(request: Request, name: str) -> int | None:
    """Return a number of the address; None where there is none, or something else."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def render_latest_timeline(history: History, *, process_end: str | None) -> Markup:
    """Return the latest calls of the agents that called last, from left to right; see `render_timeline`."""
    calls = history.calls[-_TIMELINE_CALLS:]
    agents = list(dict.fromkeys(call.agent for call in reversed(calls)))[:_TIMELINE_AGENTS]
    shown = tuple(call for call in calls if call.agent in agents)
    return render_timeline(evolve(history, calls=shown), process_end=process_end, row_height=_TIMELINE_ROW)


def _build_run_row(run: RunSummary) -> Markup:
    open_calls = build_element("span", f"{run.open_calls:,}", class_="doubtful") if run.open_calls else "–"
    return build_row(
        parts.build_run_cell(run.run_id),
        parts.build_time(run.first),
        parts.build_time(run.last),
        *(
            build_element("td", f"{number:,}", class_="number")
            for number in (run.calls + run.refused, run.failed, run.refused)
        ),
        build_element("td", open_calls, class_="number"),
    )


def _build_tiles(run: RunSummary) -> Markup:
    return parts.build_tiles(
        (run.calls + run.refused, "calls", None, None), (run.failed, "failed", "failed", None),
        (run.refused, "refused", "bad", None),
        (run.open_calls, "without a result", "ask", "/doubts" if run.open_calls else None),
    )  # fmt: skip


def _build_process_row(before: HistoryCall | None, call: HistoryCall) -> Markup | None:
    """Return a row that says that another process went on with the run; None where it is the same one."""
    if before is None or before.process_number == call.process_number:
        return None
    text = "Another process opened the run again here; what had a result by then was not run again."
    return build_row(build_element("th", text, scope="row", colspan=len(_CALL_TITLES)), class_="break")


def _build_run_call_row(run_id: str, call: HistoryCall) -> Markup:
    details = build_element(
        "a", "text", href=parts.build_url("/calls/content", run=run_id, call=call.record.tool_call_id),
        aria_label=f"Arguments and result of call {call.number} as text",
    )  # fmt: skip
    row = parts.build_call_row(call, has_run=False)
    return Markup(row.removesuffix("</tr>") + build_element("td", details) + "</tr>")
