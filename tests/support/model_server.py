"""A server on the loopback that speaks the protocols of three model APIs, whole and streamed, by a test's script."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = dict[str, Any]
"""
`text`, `calls` (name, arguments, and maybe an id), `status` with `headers` and `body`, `cut` (pieces), `raw`.

In Responses a call of `tool_search` is a search for tools that the client executes.
"""


class ModelServer(ThreadingHTTPServer):
    """
    Replies by the script, one a request; a function in the script is asked with the request's body.

    Args:
        script: What is replied.
        on_request: Called with each body before the reply.
    """

    daemon_threads = True

    def __init__(self, script: list[Any], on_request: Callable[[Any], None] = lambda body: None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script, self.on_request = script, on_request
        self.requests: list[Any] = []
        self.paths: list[str] = []
        self.lost = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._clients: list[Any] = []

    def close_at_end(self, client: Any) -> Any:
        """Close a client of an SDK, a sync one, when the server ends; returns it."""
        self._clients.append(client)
        return client

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()
        self.shutdown()
        self.server_close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def next(self, path: str, body: Any) -> Reply:
        """Note a request and return its reply."""
        self.on_request(body)
        with self._lock:
            at = len(self.requests)
            self.requests.append(body)
            self.paths.append(path)
        reply = self.script[at] if at < len(self.script) else {"text": "The script is over."}
        return reply(body) if callable(reply) else reply

    def handle_error(self, *_: object) -> None:
        """A client that went away is counted, not printed."""
        self.lost += 1


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        reply = self.server.next(self.path, body)
        if "status" in reply:
            text = json.dumps(reply.get("body", {"error": {"message": "scripted"}})).encode()
            self._send(reply["status"], "application/json", text, reply.get("headers", {}))
        elif "raw" in reply:
            self._send(200, reply.get("type", "application/json"), reply["raw"])
        elif body.get("stream"):
            self._stream(list(_WRITERS[self.path][1](reply)), reply.get("cut"), reply.get("wait"))
        else:
            self._send(200, "application/json", json.dumps(_WRITERS[self.path][0](reply)).encode())

    def _send(self, status: int, kind: str, text: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response_only(status)  # without a date of its own
        for name, value in {"content-type": kind, "content-length": str(len(text)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def _stream(self, events: list[tuple[str, Any]], cut: int | None, wait: Any) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for at, (name, event) in enumerate(events[:cut]):
            head = f"event: {name}\n" if name else ""
            self.wfile.write(f"{head}data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode())
            self.wfile.flush()
            if wait is not None and at == 1:
                wait.wait(30)
        self.close_connection = True


def calls_of(reply: Reply) -> list[tuple[str, str, str]]:
    """Return id, name and arguments as text of a reply's calls."""
    made = []
    for at, one in enumerate(reply.get("calls", ())):
        arguments = one[1] if isinstance(one[1], str) else json.dumps(one[1])
        made.append((one[2] if len(one) > 2 else f"call_{at}", one[0], arguments))
    return made


def _halves(text: str) -> list[str]:
    return [text[: len(text) // 2], text[len(text) // 2 :]]


# ── Chat Completions ─────────────────────────────────────────────────────────────────────────────


def _chat(reply: Reply) -> Any:
    calls = [{"id": one, "type": "function", "function": {"name": name, "arguments": text}}
             for one, name, text in calls_of(reply)]  # fmt: skip
    message = {"role": "assistant", "content": reply.get("text"), "refusal": reply.get("refusal"),
               **({"tool_calls": calls} if calls else {})}  # fmt: skip
    finish = reply.get("finish", "tool_calls" if calls else "stop")
    return {
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
    }  # fmt: skip


def _chat_stream(reply: Reply) -> Iterator[tuple[str, Any]]:
    def chunk(delta: Any, finish: Any = None) -> tuple[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return "", {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in _halves(reply.get("text") or ""):
        yield chunk({"content": piece})
    for at, (one, name, _) in enumerate(calls_of(reply)):
        yield chunk({"tool_calls": [{"index": at, "id": one, "type": "function",
                                     "function": {"name": name, "arguments": ""}}]})  # fmt: skip
    for half in (0, 1):  # the pieces of parallel calls, mixed
        for at, (_, _, text) in enumerate(calls_of(reply)):
            yield chunk({"tool_calls": [{"index": at, "function": {"arguments": _halves(text)[half]}}]})
    yield chunk({}, reply.get("finish", "tool_calls" if reply.get("calls") else "stop"))
    yield "", "[DONE]"


# ── Responses ────────────────────────────────────────────────────────────────────────────────────


def _response(reply: Reply) -> Any:
    output: list[Any] = [{"type": "reasoning", "id": "rs_1", "summary": []}]
    if reply.get("text"):
        output.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [
            {"type": "output_text", "text": reply["text"], "annotations": []}]})  # fmt: skip
    for one, name, text in calls_of(reply):
        if name == "tool_search":  # one that the client executes
            output.append({"type": "tool_search_call", "id": f"tsc_{one}", "call_id": one, "execution": "client",
                           "arguments": json.loads(text), "status": "completed"})  # fmt: skip
            continue
        output.append({"type": "function_call", "id": f"fc_{one}", "call_id": one, "name": name, "arguments": text,
                       "status": "completed"})  # fmt: skip
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": output,
        "status": reply.get("finish", "completed"), "error": None, "incomplete_details": None, "instructions": None,
        "metadata": {}, "parallel_tool_calls": True, "temperature": 1.0, "top_p": 1.0, "tool_choice": "auto",
        "tools": [], "usage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7,
                               "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                               "output_tokens_details": {"reasoning_tokens": 0}},
    }  # fmt: skip


def _response_stream(reply: Reply) -> Iterator[tuple[str, Any]]:
    whole, at = _response(reply), iter(range(1_000_000))

    def event(kind: str, **more: Any) -> tuple[str, Any]:
        return kind, {"type": kind, "sequence_number": next(at), **more}

    yield event("response.created", response={**whole, "output": [], "status": "in_progress"})
    for index, item in enumerate(whole["output"]):
        bare = {**item, **({"arguments": ""} if item["type"] == "function_call" else {}),
                **({"content": []} if item["type"] == "message" else {})}  # fmt: skip
        yield event("response.output_item.added", output_index=index, item=bare)
        for piece in _halves(item["arguments"]) if item["type"] == "function_call" else ():
            yield event("response.function_call_arguments.delta", output_index=index, item_id=item["id"], delta=piece)
        for piece in _halves(item["content"][0]["text"]) if item["type"] == "message" else ():
            yield event("response.output_text.delta", output_index=index, item_id=item["id"], content_index=0,
                        delta=piece, logprobs=[])  # fmt: skip
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=whole)


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────


def _message(reply: Reply) -> Any:
    content: list[Any] = [{"type": "text", "text": reply["text"]}] if reply.get("text") else []
    for one, name, text in calls_of(reply):
        content.append({"type": "tool_use", "id": one, "name": name, "input": json.loads(text)})
    finish = reply.get("finish", "tool_use" if reply.get("calls") else "end_turn")
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": finish, "stop_sequence": None, "usage": {"input_tokens": 5, "output_tokens": 2},
    }  # fmt: skip


def _message_stream(reply: Reply) -> Iterator[tuple[str, Any]]:
    finish = reply.get("finish", "tool_use" if reply.get("calls") else "end_turn")
    blocks: list[tuple[Any, list[Any]]] = []
    if reply.get("text"):
        deltas = [{"type": "text_delta", "text": one} for one in _halves(reply["text"])]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for one, name, text in calls_of(reply):
        deltas = [{"type": "input_json_delta", "partial_json": half} for half in _halves(text)]
        blocks.append(({"type": "tool_use", "id": one, "name": name, "input": {}}, deltas))
    empty = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
             "stop_sequence": None, "usage": {"input_tokens": 5, "output_tokens": 0}}  # fmt: skip
    yield "message_start", {"type": "message_start", "message": empty}
    for at, (block, deltas) in enumerate(blocks):
        yield "content_block_start", {"type": "content_block_start", "index": at, "content_block": block}
        for delta in deltas:
            yield "content_block_delta", {"type": "content_block_delta", "index": at, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": at}
    yield "message_delta", {"type": "message_delta", "delta": {"stop_reason": finish, "stop_sequence": None},
                            "usage": {"output_tokens": 2}}  # fmt: skip
    yield "message_stop", {"type": "message_stop"}


_WRITERS: dict[str, tuple[Any, Any]] = {
    "/v1/chat/completions": (_chat, _chat_stream), "/v1/responses": (_response, _response_stream),
    "/v1/messages": (_message, _message_stream),
}  # fmt: skip
