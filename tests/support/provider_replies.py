"""Replies of providers with the same two calls in every format, as dicts and as objects of the SDKs."""

from __future__ import annotations

import json
from typing import Any

from format_rig import sdk

from praval_tools import ToolCall

NAMES = ["openai-chat", "openai-responses", "anthropic", "gemini", "mcp"]
WEATHER, TIME = '{"city": "Oslo"}', '{"zone": "CET"}'

CHAT = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{
        "index": 0, "finish_reason": "tool_calls",
        "message": {
            "role": "assistant", "content": None, "refusal": None,
            "tool_calls": [
                {"id": "call_a", "type": "function", "function": {"name": "weather", "arguments": WEATHER}},
                {"id": "call_b", "type": "function", "function": {"name": "time", "arguments": TIME}},
            ],
        },
    }],
}  # fmt: skip
RESPONSE = {
    "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed", "error": None,
    "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "incomplete_details": None, "instructions": None,
    "metadata": {}, "temperature": 1.0, "top_p": 1.0,
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "weather", "arguments": WEATHER,
         "status": "completed"},
        {"type": "function_call", "id": "fc_2", "call_id": "call_b", "name": "time", "arguments": TIME,
         "status": "completed"},
    ],
}  # fmt: skip
MESSAGE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
    "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
    "content": [
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "call_a", "name": "weather", "input": {"city": "Oslo"}},
        {"type": "tool_use", "id": "call_b", "name": "time", "input": {"zone": "CET"}},
    ],
}  # fmt: skip
GEMINI = {
    "candidates": [{
        "content": {
            "role": "model",
            "parts": [
                {"functionCall": {"id": "call_a", "name": "weather", "args": {"city": "Oslo"}}},
                {"functionCall": {"id": "call_b", "name": "time", "args": {"zone": "CET"}}},
            ],
        },
    }],
}  # fmt: skip
REQUESTS = [
    {"jsonrpc": "2.0", "id": "call_a", "method": "tools/call",
     "params": {"name": "weather", "arguments": {"city": "Oslo"}}},
    {"jsonrpc": "2.0", "id": "call_b", "method": "tools/call",
     "params": {"name": "time", "arguments": {"zone": "CET"}}},
]  # fmt: skip
REPLIES: dict[str, Any] = {
    "openai-chat": CHAT, "openai-responses": RESPONSE, "anthropic": MESSAGE, "gemini": GEMINI, "mcp": REQUESTS,
}  # fmt: skip


def read_calls(calls: list[ToolCall]) -> list[tuple[Any, str, Any]]:
    """Return calls as plain values, arguments that are JSON text parsed."""
    return [
        (one.tool_call_id, one.name, json.loads(one.arguments) if isinstance(one.arguments, str) else one.arguments)
        for one in calls
    ]


BOTH = [("call_a", "weather", {"city": "Oslo"}), ("call_b", "time", {"zone": "CET"})]


def as_object(api_format: str) -> Any:
    """Return the reply as the provider's SDK gives it."""
    match api_format:
        case "openai-chat":
            return sdk("openai").types.chat.ChatCompletion.model_validate(CHAT)
        case "openai-responses":
            return sdk("openai").types.responses.Response.model_validate(RESPONSE)
        case "anthropic":
            return sdk("anthropic").types.Message.model_validate(MESSAGE)
        case "gemini":
            return sdk("google.genai.types").GenerateContentResponse.model_validate(GEMINI)
        case _:
            kind = sdk("mcp.types").CallToolRequest
            return [kind.model_validate({key: one[key] for key in ("method", "params")}) for one in REQUESTS]
