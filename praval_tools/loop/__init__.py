"""
The loop between a model and an agent's tools: `ToolLoop(agent, model).run("…")`.

Imports no SDK; the ready-made models take a client that you made.
"""

from praval_tools.loop.loop import ToolLoop
from praval_tools.loop.models import AnthropicMessages, OpenAIChat, OpenAIResponses
from praval_tools.loop.tool_search import ToolSearch
from praval_tools.loop.values import (
    CallsEnded,
    LoopEnded,
    LoopEvent,
    LoopResult,
    Model,
    ModelAnswered,
    ModelReply,
    ModelRequest,
    ModelRetried,
    StopReason,
    TextPiece,
)

__all__ = [
    "AnthropicMessages", "CallsEnded", "LoopEnded", "LoopEvent", "LoopResult", "Model", "ModelAnswered", "ModelReply",
    "ModelRequest", "ModelRetried", "OpenAIChat", "OpenAIResponses", "StopReason", "TextPiece", "ToolLoop",
    "ToolSearch",
]  # fmt: skip
