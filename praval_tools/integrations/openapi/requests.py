"""Builds the request of a call: the operation, its arguments and its secrets, each in its place."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from praval_tools.integrations.openapi.bodies import write_body
from praval_tools.integrations.openapi.errors import OpenApiRequestError
from praval_tools.integrations.openapi.operations import Operation
from praval_tools.integrations.openapi.parameters import BODY_ARGUMENT, OperationParameter
from praval_tools.integrations.openapi.paths import DocumentPaths, PathTemplate
from praval_tools.integrations.openapi.styles import (
    PATH_STYLES,
    check_path,
    encode,
    write_cookies,
    write_header,
    write_path_value,
    write_query_pairs,
)

_ACCEPT = "application/json, */*;q=0.5"


@frozen(kw_only=True)
class Request:
    """
    A request; its `repr` holds no address, header or body, which may be secret.

    Args:
        method: The method, in capital letters.
        url: Where it goes, with its query.
        headers: Its headers.
        content: Its body.
        is_safe: Whether it changes nothing.
        secrets: What must be in no text that is made of it, or of its answer; the longest first.
    """

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    content: bytes | None = field(default=None, repr=False)
    is_safe: bool = True
    secrets: tuple[str, ...] = field(default=(), repr=False)


def build_request(
    operation: Operation, arguments: Mapping[str, object], paths: DocumentPaths,
    slash_parameters: frozenset[str] = frozenset(),
) -> Request:  # fmt: skip
    """
    Return the request of a call.

    Args:
        operation: What is called.
        arguments: What was judged.
        paths: Those of the document, of which the request is to reach no other.
        slash_parameters: The path parameters whose values may hold slashes.

    Raises:
        OpenApiRequestError: The arguments, or the environment, give none.
    """
    access = operation.access
    if access.missing:
        fix = "the operator configures it by auth_env={'SCHEME': 'VARIABLE'}"
        raise OpenApiRequestError(f"The operation needs the security scheme {access.missing}: {fix}. Nothing was sent.")
    path, query = operation.path, list[tuple[str, str]]()
    headers, cookies = {"Accept": _ACCEPT}, list[tuple[str, str]]()
    for parameter in operation.parameters:
        value, style = arguments.get(parameter.argument), parameter.style
        if value is None and not parameter.is_required:
            continue
        if style.place == "path":
            has_slashes = style.name in slash_parameters
            path = path.replace(f"{{{style.name}}}", write_path_value(style, value, may_have_slashes=has_slashes))
        elif style.place == "query":
            query += write_query_pairs(style, value, _collect_other_names(operation, parameter, arguments))
        elif style.place == "header":
            headers[style.name] = write_header(style, value)
        else:
            cookies += write_cookies(style, value, _collect_other_names(operation, parameter, arguments))
    if operation.path != path:
        _check_path(operation, path, paths)
    content = _add_body(operation, arguments, headers)
    for credential in access.credentials:
        if credential.kind == "query":
            query.append((encode(credential.name), credential.read()))
        elif credential.kind == "cookie":
            cookies.append((encode(credential.name), credential.read()))
        else:
            headers = {name: text for name, text in headers.items() if name.lower() != credential.name.lower()}
            headers[credential.name] = credential.read()
    if cookies:
        headers["Cookie"] = "; ".join(f"{name}={text}" for name, text in cookies)
    url = operation.server_url + path + ("?" + "&".join(f"{name}={text}" for name, text in query) if query else "")
    return Request(method=operation.method, url=url, headers=headers, content=content,
                   is_safe=operation.is_safe, secrets=access.list_secrets())  # fmt: skip


def _check_path(operation: Operation, path: str, paths: DocumentPaths) -> None:
    """Accept the path of a request if a server reads it as that of its operation, each parameter as it was given."""
    check_path(path)
    styles = [parameter.style for parameter in operation.parameters if parameter.style.place == "path"]
    prefixes = {style.name: PATH_STYLES[style.style][0] for style in styles if not style.is_json}
    paths.check(operation.method, PathTemplate.parse(operation.path, prefixes), path)


def _collect_other_names(
    operation: Operation, parameter: OperationParameter, arguments: Mapping[str, object]
) -> set[str]:
    """Return the names that stand for something else than *parameter* in its place, a query or cookies."""
    place = parameter.style.place
    names = {credential.name for credential in operation.access.credentials if credential.kind == place}
    for other in operation.parameters:
        if other.style.place == place and other is not parameter:
            names |= other.style.list_names(arguments.get(other.argument))
    return names - {parameter.style.name}


def _add_body(operation: Operation, arguments: Mapping[str, object], headers: dict[str, str]) -> bytes | None:
    if operation.body is None or BODY_ARGUMENT not in arguments:
        return None
    content, headers["Content-Type"] = write_body(operation.body, arguments[BODY_ARGUMENT])
    return content
