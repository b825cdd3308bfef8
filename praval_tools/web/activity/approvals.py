"""The view of approvals: calls that wait for a person, and the forms that answer them."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from praval_tools.errors import ToolUsageError
from praval_tools.names import OPERATOR
from praval_tools.report.markup import Markup, build_code, build_element, join_markup
from praval_tools.report.text import sanitize_text
from praval_tools.tools.decision import Allow, ApprovalAnswer, ApprovalRequest, Deny
from praval_tools.web.activity import parts
from praval_tools.web.activity.activity import (
    MAX_EDIT_LENGTH,
    Activity,
    StaleFormError,
    edit_arguments,
    write_json,
)
from praval_tools.web.activity.calls import make_text_response, parse_number
from praval_tools.web.activity.forms import read_operator_form
from praval_tools.web.activity.host import Host
from praval_tools.web.activity.paging import Paging
from praval_tools.web.activity.typed import build_area, build_input, build_typed_list

_PAGE_SIZE = 50
_MAX_REASON = 2_000
_MAX_START = 18
_RISK_CLASSES = {"low": "good", "medium": "doubt"}


@frozen
class ApprovalViews:
    """The views of approvals."""

    activity: Activity
    host: Host

    async def show_requests(self, request: Request) -> Response:
        """Show the calls that wait for a person, a page of them."""
        done = {"allow": "Approved.", "deny": "Denied."}.get(request.query_params.get("done", ""))
        return await self._show(request, parts.build_message(done) if done else None)

    async def _show(
        self, request: Request, note: Markup | None, *, sent: Mapping[str, str] | None = None, status: int = 200
    ) -> Response:
        seq = self.activity.index.progress.seq
        requests = await run_in_threadpool(self.activity.list_requests)
        operator = self.host.find_operator(request)
        start = 0 if sent else parse_number(request, "start") or 0
        token = self.host.build_form_token(request) if operator is not None else None
        hidden = None if token is None else join_markup(token, parts.build_hidden("start", str(start)))
        sent_id = parts.read_hidden(sent, "id") if sent else None
        requests.sort(key=lambda each: each.id != sent_id)  # the one of the form comes first, and is there in any case
        paging = Paging(start=start, size=_PAGE_SIZE, total=len(requests), word="call")
        cards = [
            _build_card(each, hidden, sent if sent is not None and each.id == sent_id else {})
            for each in requests[paging.slice]
        ]
        if sent and token is not None and sent_id not in [each.id for each in requests]:
            note = join_markup(note, build_typed_list(sent, {"reason": "reason", "arguments": "arguments"}))
        count = f"{parts.count_words(len(requests), 'call')} waiting, the oldest first."
        links = paging.build_links("/approvals", {})
        content = parts.build_section(
            "Approvals",
            "",
            note,
            parts.build_live_region("waiting", build_element("p", count, class_="lead") if requests else None, links),
            parts.build_live_region(
                "approvals",
                build_element("ul", *cards, class_="cards")
                if cards else parts.build_note("No call waits for an approval." if not requests else "None are here."),
            ),
            stream=parts.build_stream("approvals", seq),
        )  # fmt: skip
        return self.host.render_page(request, "Approvals", content, status=status)

    async def show_arguments(self, request: Request) -> Response:
        """Return all arguments of a request as plain text."""
        try:
            found = await run_in_threadpool(self.activity.find_request, request.query_params.get("id", ""))
        except StaleFormError as error:
            return PlainTextResponse(f"{error}\n", 410)
        return make_text_response(write_json(found.arguments))

    async def answer_request(self, request: Request) -> Response:
        """Record an answer."""
        operator, fields = await read_operator_form(request, self.host)
        try:
            await run_in_threadpool(self._answer, operator, fields)
        except StaleFormError as error:
            return await self._refuse(request, fields, f"{error} Nothing was changed by your form.", 409)
        except (ValueError, ToolUsageError) as error:
            text = f"{error} Nothing was changed: correct the form and send it again."
            return await self._refuse(request, fields, text, 400)
        start = fields.get("start", "")[:_MAX_START].lstrip("0")
        return RedirectResponse(parts.build_url("/approvals", done=fields["answer"], start=start), 303)

    def _answer(self, operator: str, fields: dict[str, str]) -> None:
        found = self.activity.find_request(parts.read_hidden(fields, "id"))
        reason = fields.get("reason", "").strip()[:_MAX_REASON]
        answer: ApprovalAnswer
        if fields.get("answer") == "deny":
            answer = Deny(reason, operator)
        elif fields.get("answer") == "allow":
            try:
                edited = edit_arguments(found, fields.get("arguments", ""), are_changes=fields.get("edit") == "changes")
            except ValueError as error:
                raise ValueError(f"The arguments are not a JSON object: {error}.") from error
            answer = Allow(edited, operator, reason)
        else:
            raise ValueError("The form neither approves nor denies.")
        self.activity.answer_request(found, answer)

    async def _refuse(self, request: Request, fields: Mapping[str, str], text: str, status: int) -> Response:
        """Show what waits now; the form that was refused holds what was typed."""
        return await self._show(request, parts.build_message(text, "message problem"), sent=fields, status=status)


def _build_card(request: ApprovalRequest, hidden: Markup | None, sent: Mapping[str, str]) -> Markup:
    caller = " for ".join(sanitize_text(name) for name in (request.agent or OPERATOR, *request.chain))
    title = build_element(
        "h3", parts.shorten(caller), " → ", build_code(parts.shorten(request.tool)), id=f"request-{request.id}"
    )
    risk = build_element("span", f"risk {request.risk_level}", class_=f"chip {_get_risk_class(request.risk_level)}")
    run = parts.build_link(request.run_id, "/runs/show", id=request.run_id) if request.run_id else "none"
    facts = build_element(
        "p", "Asked ", parts.build_time(request.asked), ", an answer counts until ", parts.build_time(request.expires),
        ". Call ", build_code(parts.shorten(request.tool_call_id)), ", run ", run, ".", class_="fine",
    )  # fmt: skip
    return build_element(
        "li",
        title,
        build_element("p", risk, " ", parts.shorten(request.reason, 1_000)),
        build_element("p", "It runs with:", class_="fine"),
        parts.build_values(
            request.arguments,
            parts.build_url("/approvals/arguments", id=request.id),
            label=f"Arguments of call {sanitize_text(request.tool_call_id, max_length=80)}",
        ),
        facts,
        None if hidden is None else _build_form(request, hidden, sent),
        class_="asked",
    )


def _get_risk_class(risk_level: str) -> str:
    return _RISK_CLASSES.get(risk_level, "bad")


def _build_form(request: ApprovalRequest, hidden: Markup, sent: Mapping[str, str]) -> Markup:
    text = write_json(request.arguments)
    is_short = len(text) <= MAX_EDIT_LENGTH and sanitize_text(text, keep_line_breaks=True) == text
    label = "Arguments, all of them, as JSON" if is_short else 'What is to change, as JSON: {"name": value}'
    reason_id, edit_id = f"reason-{request.id}", f"arguments-{request.id}"
    edit = build_element(
        "details",
        build_element("summary", "Edit the arguments"),
        build_element("label", label, for_=edit_id),
        build_area(sent.get("arguments", text if is_short else ""), name="arguments", id=edit_id, rows=4),
        open="" if sent else None,
    )
    return build_element(
        "form",
        hidden,
        parts.build_hidden("id", request.id),
        parts.build_hidden("edit", "all" if is_short else "changes"),
        build_element("label", "Reason, which is recorded", for_=reason_id),
        build_input(sent.get("reason", ""), name="reason", id=reason_id, maxlength=_MAX_REASON),
        edit,
        join_markup(
            _build_button("allow", "Approve", request.id),
            " ",
            _build_button("deny", "Deny", request.id),
        ),
        method="post",
        action="/approvals/answer",
    )


def _build_button(value: str, text: str, request_id: str) -> Markup:
    return build_element(
        "button", text, type="submit", name="answer", value=value, aria_describedby=f"request-{request_id}",
        class_="primary" if value == "allow" else "danger",
    )  # fmt: skip
