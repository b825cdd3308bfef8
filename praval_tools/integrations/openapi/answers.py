"""Converts the answer of a service into the value of a tool, or into its error."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Final

from praval_tools.integrations.foreign_text import (
    clean_text,
    remove_secret_bytes,
    remove_secrets,
    replace_surrogates,
)
from praval_tools.integrations.openapi.errors import OpenApiStatusError, RetryableStatusError
from praval_tools.integrations.openapi.http_client import ServiceAnswer
from praval_tools.integrations.openapi.parameters import is_json_type
from praval_tools.schema.json_input import MalformedArgumentsError, parse_json
from praval_tools.tools.content import Content

_MAX_ERROR_TEXT: Final = 1_000
_TEXT_TYPES: Final = ("application/xml", "application/yaml", "application/javascript", "application/x-ndjson",
                      "application/x-www-form-urlencoded", "application/graphql", "")  # fmt: skip
_HIDDEN_HEADERS: Final = ("set-cookie", "www-authenticate", "proxy-authenticate")
_TRANSIENT: Final = (408, 425, 429, 500, 502, 503, 504)
_CHARSETS: Final = {"utf-8": "utf-8", "utf8": "utf-8", "us-ascii": "ascii", "iso-8859-1": "latin-1",
                    "latin1": "latin-1", "windows-1252": "cp1252", "utf-16": "utf-16", "utf-16le": "utf-16-le",
                    "utf-16be": "utf-16-be", "utf-32": "utf-32", "utf-32le": "utf-32-le",
                    "utf-32be": "utf-32-be"}  # fmt: skip
_BYTE_ORDER_MARKS: Final = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
                            (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip
"""Byte order mark and its charset; the first that fits counts, since that of UTF-32 begins like that of UTF-16."""


def read_answer(answer: ServiceAnswer, *, call: str, method: str, is_safe: bool, secrets: Sequence[str]) -> object:
    """
    Return the value of a call: JSON as it is, text as text, media as `Content`; of HEAD the headers.

    Args:
        answer: The answer.
        call: What errors say of the request.
        method: Its method.
        is_safe: Whether it changes nothing.
        secrets: What must not be in the value, nor in an error.

    Raises:
        OpenApiStatusError: The answer is an error.
    """
    if not 200 <= answer.status < 300:
        raise _make_status_error(answer, call, is_safe, secrets)
    if method == "HEAD":
        headers = {name: clean_text(text) for name, text in answer.headers.items() if name not in _HIDDEN_HEADERS}
        return remove_secrets(headers, [*secrets, *map(str.lower, secrets)])  # names of headers have no case
    if not answer.content:
        return None
    return remove_secrets(replace_surrogates(_read_value(answer, secrets)), secrets)


def _read_value(answer: ServiceAnswer, secrets: Sequence[str]) -> object:
    media_type = answer.media_type
    if is_json_type(media_type):
        try:
            return parse_json(answer.content, max_bytes=len(answer.content))
        except MalformedArgumentsError:
            return _decode(answer)  # the service did its work, and said so in a way of its own
    if media_type.startswith("text/") or media_type in _TEXT_TYPES or media_type.endswith("+xml"):
        return _decode(answer)
    data = remove_secret_bytes(answer.content, secrets)
    media_type = str(remove_secrets(media_type, [secret.lower() for secret in secrets]))
    if media_type.startswith("image/"):
        return Content.image(data, media_type)
    if media_type.startswith("audio/"):
        return Content.audio(data, media_type)
    return Content.resource(answer.url, data=data, mime_type=media_type)


def _decode(answer: ServiceAnswer) -> str:
    """Return the text, by the charset of its byte order mark, else by the one that the service names, else by UTF-8."""
    _, _, parameter = answer.headers.get("content-type", "").lower().partition("charset=")
    named_charset = _CHARSETS.get(parameter.partition(";")[0].strip(" \"'"), "utf-8")
    marked = (charset for mark, charset in _BYTE_ORDER_MARKS if answer.content.startswith(mark))
    charset = next(marked, named_charset)
    return answer.content.decode(charset, "replace")


def _make_status_error(answer: ServiceAnswer, call: str, is_safe: bool, secrets: Sequence[str]) -> OpenApiStatusError:
    """Return the error of an answer, whose texts are cut once they hold no secret, so that none is cut in two."""
    is_text = is_json_type(answer.media_type) or answer.media_type.startswith("text/") or not answer.media_type
    begun = str(remove_secrets(_decode(answer), secrets))[: 4 * _MAX_ERROR_TEXT] if is_text else ""
    content = str(remove_secrets(clean_text(" ".join(begun.split())), secrets))
    if len(content) > _MAX_ERROR_TEXT:
        content = f"{content[: _MAX_ERROR_TEXT - 1]}…"
    texts = answer.reason, answer.headers.get("retry-after", "")
    reason, wait = (str(remove_secrets(clean_text(text), secrets)) for text in texts)
    text = f"{call} was answered with the status {answer.status}{f' {reason[:100]}' if reason else ''}"
    if wait:
        text += f" (the service asks to wait: Retry-After: {wait[:50]})"
    text = str(remove_secrets(f"{text}: {content}" if content else f"{text}.", secrets))
    is_retryable = is_safe and answer.status in _TRANSIENT
    return (RetryableStatusError if is_retryable else OpenApiStatusError)(text, answer.status)
