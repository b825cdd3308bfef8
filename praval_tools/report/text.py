"""Formats text, call arguments, times (UTC) and durations for display; spells out control characters for a terminal."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

UNSAFE_CHARACTERS: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]|(?<![\u203c-\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f]"
)
"""
Control characters, halves of pairs, and what shows nothing: `Default_Ignorable_Code_Point` of Unicode.

The marks by which a symbol is shown as text or in colours stay after a symbol.
"""


def sanitize_text(text: object, *, keep_line_breaks: bool = False, max_length: int | None = None) -> str:
    """
    Return *text* safe for a terminal: control characters, escape sequences and invisible marks are spelled out.

    Args:
        text: Anything; names and descriptions may come from untrusted code.
        keep_line_breaks: Keep line breaks; otherwise they become spaces.
        max_length: Cut the text to this many characters.
    """
    plain = str(text) if keep_line_breaks else " ".join(str(text).split())
    safe = UNSAFE_CHARACTERS.sub(lambda match: match[0] if match[0] == "\n" else _escape_character(match[0]), plain)
    return safe if max_length is None or len(safe) <= max_length else f"{safe[: max_length - 1]}…"


def _escape_character(character: str) -> str:
    code = ord(character)
    if code < 256:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 65_536 else f"\\U{code:08x}"


def format_arguments(arguments: object) -> str:
    """Return the recorded arguments of a call as in a call: `to="ann", amount=3`, also where it is JSON text."""
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):  # a text that is no JSON is shown as it is
            parsed = json.loads(arguments)
            arguments = parsed if isinstance(parsed, dict) else arguments
    if not isinstance(arguments, dict):
        return json.dumps(arguments, default=str)
    return ", ".join(f"{name}={json.dumps(value, default=str)}" for name, value in arguments.items())


def format_time(time: datetime) -> str:
    """Return *time* in UTC to the second, for people."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def format_iso_time(time: datetime) -> str:
    """Return *time* in UTC to the second, for programs."""
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def format_duration(milliseconds: float | None) -> str:
    """Return a duration in the unit that suits it; an empty text for None."""
    if milliseconds is None:
        return ""
    if 0 <= milliseconds < 0.095:
        return f"{milliseconds * 1_000:.0f} µs"
    if milliseconds < 1_000:
        return f"{milliseconds:.1f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3_600 else f"{seconds / 3_600:.1f} h"
