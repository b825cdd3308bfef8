"""The view of calls without a result: which run, which are in doubt, and the forms that resolve them."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from praval_tools.errors import RunBusyError, ToolUsageError
from praval_tools.journal.index.run_pages import OpenCall, count_open_calls, list_open_calls
from praval_tools.journal.journal import RecordedCall
from praval_tools.names import OPERATOR
from praval_tools.report.markup import Markup, build_code, build_element, build_row
from praval_tools.schema.json_input import parse_typed_json
from praval_tools.web.activity import parts
from praval_tools.web.activity.activity import Activity, StaleFormError
from praval_tools.web.activity.calls import parse_number
from praval_tools.web.activity.forms import read_operator_form
from praval_tools.web.activity.host import Host
from praval_tools.web.activity.typed import build_area, build_input, build_typed_list

_PAGE_SIZE = 50
_MAX_ERROR = 20_000


@frozen
class DoubtViews:
    """The views of calls without a result."""

    activity: Activity
    host: Host

    async def show_calls(self, request: Request) -> Response:
        """List the calls of runs that started and have no result."""
        content = await run_in_threadpool(
            self._build_list, parse_number(request, "before"), request.query_params.get("done", "")
        )
        return self.host.render_page(request, "In doubt", content)

    def _build_list(self, before: int | None, done: str) -> Markup:
        index = self.activity.index
        seq, calls = index.progress.seq, list_open_calls(index, before=before, limit=_PAGE_SIZE + 1)
        shown, count = calls[:_PAGE_SIZE], count_open_calls(index)
        titles = ("started (UTC)", "run", "agent", "tool", "process", "state", "")
        words = {"result": "its result is recorded", "error": "its error is recorded", "rerun": "it may run again"}
        table = parts.build_table(titles, list(map(_build_row, shown)), caption="Calls without a result, latest first")
        older = parts.build_link("Older ones", "/doubts", before=shown[-1].seq if shown else None)
        return parts.build_section(
            "In doubt",
            "These calls of runs started, and have no result. Where the process is gone, nobody knows whether the tool "
            "did its work: find out, and say so. Then the run goes on.",
            None if index.is_ready else parts.build_progress_note(index.progress.percent),
            parts.build_message(f"Resolved: {words[done]}.") if done in words else None,
            parts.build_live_region(
                "doubts",
                parts.build_note(f"{parts.count_words(count, 'call')} without a result.") if count else None,
                table if shown else parts.build_note("No call is in doubt."),
                build_element("p", older) if len(calls) > _PAGE_SIZE else None,
            ),
            stream=parts.build_stream("calls", seq),
        )

    async def show_call(self, request: Request) -> Response:
        """Show one call in doubt, with the form that resolves it."""
        run_id, call_id = request.query_params.get("run", ""), request.query_params.get("call", "")
        return await self._show(request, run_id, call_id)

    async def _show(
        self, request: Request, run_id: str, call_id: str, *, sent: Mapping[str, str] | None = None, note: str = "",
        status: int = 200,
    ) -> Response:  # fmt: skip
        call = await run_in_threadpool(self.activity.find_call, run_id, call_id)
        if call is None or not call.in_doubt:
            text, title = note or "This call is not in doubt: it has a result, or is not recorded.", "Not in doubt"
            typed = build_typed_list(sent or {}, {"result": "result", "error": "error"})
            back = build_element("p", parts.build_link("What is in doubt now", "/doubts"))
            content = parts.build_section(title, "", parts.build_message(text, "message problem"), typed, back)
            return self.host.render_page(request, title, content, status=404 if sent is None else status)
        operator = self.host.find_operator(request)
        token = self.host.build_form_token(request) if operator is not None else None
        content = _build_call(call, token, note, sent or {})
        return self.host.render_page(request, "Call in doubt", content, status=status)

    async def resolve_call(self, request: Request) -> Response:
        """Record what came of a call."""
        operator, fields = await read_operator_form(request, self.host)
        try:
            await run_in_threadpool(self._resolve, operator, fields)
        except StaleFormError as error:
            return await self._refuse(request, fields, f"{error} Nothing was changed by your form.", 409)
        except RunBusyError as error:
            text = f"{error} The call may be running there: wait for its end, or end that process. Nothing was changed."
            return await self._refuse(request, fields, text, 409)
        except (ValueError, ToolUsageError) as error:
            text = f"{error} Nothing was changed: correct the form and send it again."
            return await self._refuse(request, fields, text, 400)
        return RedirectResponse(parts.build_url("/doubts", done=fields["answer"]), 303)

    def _resolve(self, operator: str, fields: dict[str, str]) -> None:
        seq = fields.get("seq", "")
        if not (seq.isascii() and seq.isdigit() and len(seq) < 19):
            raise ValueError("The form does not say which start of the call it is about.")
        place = parts.read_hidden(fields, "run"), parts.read_hidden(fields, "call"), int(seq)
        match fields.get("answer"):
            case "result":
                self.activity.resolve_call(*place, operator, result=_parse_result(fields.get("result", "")))
            case "error":
                text = fields.get("error", "").strip()
                if not text:
                    raise ValueError("The text of the error is missing.")
                self.activity.resolve_call(*place, operator, error=text[:_MAX_ERROR])
            case "rerun":
                self.activity.resolve_call(*place, operator, rerun=True)
            case _:
                raise ValueError("The form does not say what came of the call.")

    async def _refuse(self, request: Request, fields: Mapping[str, str], text: str, status: int) -> Response:
        """Show the call as it is now; the form that was refused holds what was typed."""
        place = parts.read_hidden(fields, "run"), parts.read_hidden(fields, "call")
        return await self._show(request, *place, sent=fields, note=text, status=status)


def _parse_result(text: str) -> object:
    try:
        return parse_typed_json(text)
    except ValueError as error:
        raise ValueError(f'The result is not JSON: {error}. A text needs quotes: "done".') from error


def _build_row(call: OpenCall) -> Markup:
    state, class_ = ("running", "calm") if call.is_running else ("in doubt", "doubt")
    resolve = parts.build_link("Resolve", "/doubts/show", run=call.run_id, call=call.call_id)
    return build_row(
        parts.build_time(call.started),
        parts.build_run_cell(call.run_id),
        parts.shorten(call.agent or OPERATOR),
        build_code(parts.shorten(call.tool)),
        parts.shorten(call.process),
        build_element("span", state, class_=f"chip {class_}"),
        "–" if call.is_running else resolve,
    )


def _build_call(call: RecordedCall, token: Markup | None, note: str, sent: Mapping[str, str]) -> Markup:
    content_url = parts.build_url("/calls/content", run=call.run_id, call=call.tool_call_id)
    facts = build_element(
        "p", build_element("b", parts.shorten(call.agent or OPERATOR)), " → ",
        build_code(parts.shorten(call.tool_name)), ", started ", parts.build_time(call.started), " in run ",
        parts.build_link(call.run_id, "/runs/show", id=call.run_id), ", call ",
        build_code(parts.shorten(call.tool_call_id)), ".",
    )  # fmt: skip
    return parts.build_section(
        "Call in doubt",
        "Its tool started, and no result was recorded. Find out whether it did its work.",
        parts.build_message(note, "message problem") if note else None,
        facts,
        parts.build_values(call.arguments, content_url),
        build_element("p", parts.shorten(call.error, 2_000), class_="fine") if call.error else None,
        None if token is None else _build_forms(call, token, sent),
    )


def _build_forms(call: RecordedCall, token: Markup, sent: Mapping[str, str]) -> Markup:
    result = build_area(sent.get("result", ""), name="result", id="result", rows=3, required="")
    error = build_input(sent.get("error", ""), name="error", id="error", required="")
    return build_element(
        "div",
        _build_form(call, token, "result", "It did its work, and returned (as JSON)", result, "Record the result"),
        _build_form(call, token, "error", "It failed, with this message", error, "Record the error"),
        _build_form(call, token, "rerun", "It did not do its work", None, "Let it run again"),
        class_="choices",
    )


def _build_form(
    call: RecordedCall, token: Markup, answer: str, label: str, field: Markup | None, button: str
) -> Markup:
    hidden = {"run": call.run_id, "call": call.tool_call_id, "seq": call.seq, "answer": answer}
    return build_element(
        "form",
        token,
        *(parts.build_hidden(name, str(value)) for name, value in hidden.items()),
        build_element("label", label, for_=answer) if field is not None else build_element("p", label),
        field,
        build_element("button", button, type="submit"),
        method="post",
        action="/doubts/resolve",
    )
