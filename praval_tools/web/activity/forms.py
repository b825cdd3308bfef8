"""Reads forms that are sent: bounded, once per name, from a page of the session."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from praval_tools.web.activity.host import Host

MAX_FORM_SIZE: Final = 2_000_000
"""Bytes of a form: arguments may be long."""
MAX_FORM_SECONDS: Final = 30.0
"""How long a form may take to come: a connection that waits for the rest of one is not dropped before."""
_MAX_FIELDS: Final = 40
_FORM_TYPE: Final = "application/x-www-form-urlencoded"


async def read_operator_form(request: Request, host: Host) -> tuple[str, dict[str, str]]:
    """
    Return who sent a form that changes something, and its fields.

    Raises:
        HTTPException: 403: a viewer, or a form that does not come from a page of this session; 413: it is too long;
            400: it cannot be read.
    """
    operator = host.find_operator(request)
    if operator is None:
        raise HTTPException(403, "You may look, and change nothing: ask an operator.")
    fields = await read_form(request)
    if not host.is_form_genuine(request, fields):
        raise HTTPException(403, "The form is not of this session: reload its page, and try again.")
    return operator, fields


async def read_form(request: Request, *, max_size: int = MAX_FORM_SIZE) -> dict[str, str]:
    """
    Return the fields of a form, whoever sent it.

    Raises:
        HTTPException: 413: it is too long; 408: it takes too long to come; 400: it cannot be read, or breaks off.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip() != _FORM_TYPE:
        raise HTTPException(400, "A form is expected.")
    try:
        body = await asyncio.wait_for(_read_body(request, max_size), MAX_FORM_SECONDS)
    except TimeoutError as error:
        raise HTTPException(408, "The form did not come in time.", {"connection": "close"}) from error
    except ClientDisconnect as error:
        raise HTTPException(400, "The form broke off.") from error
    try:
        text = body.decode("ascii")
        pairs = parse_qsl(
            text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=_MAX_FIELDS
        )
    except ValueError as error:
        raise HTTPException(400, "The form cannot be read.") from error
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise HTTPException(400, "A field of the form is there twice.")
    return fields


async def _read_body(request: Request, max_size: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_size:
            raise HTTPException(413, "The form is too long.")
    return bytes(body)
