"""The errors of OpenAPI documents, and of the calls of their operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from attrs import frozen

from praval_tools.errors import RetryableToolError, ToolError
from praval_tools.names import format_count


@frozen
class DocumentProblem:
    """
    One thing that is wrong in an OpenAPI document.

    Args:
        place: Where: a JSON pointer such as `#/paths/~1pets/get`, after the address of another document than the first.
        text: What is wrong, or expected, there.
    """

    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


_MAX_SHOWN = 50


class OpenApiDocumentError(ToolError, ValueError):
    """An OpenAPI document is wrong, or cannot be read; `problems` lists every place, and nothing was registered."""

    code: ClassVar[str] = "openapi-document"

    def __init__(self, document: str, problems: Iterable[DocumentProblem]) -> None:
        problems = tuple(problems)
        super().__init__(document, problems)
        self.document, self.problems = document, problems

    def __str__(self) -> str:
        count = len(self.problems)
        lines = [f"OpenAPI document {self.document!r} cannot be used ({format_count(count, 'problem')}):"]
        lines += map(str, self.problems[:_MAX_SHOWN])
        if count > _MAX_SHOWN:
            lines.append(f"and {count - _MAX_SHOWN} more, in .problems")
        return "\n".join(lines)


class OpenApiRequestError(ToolError):
    """No request can be made of the arguments of a call, or a secret for it is missing; nothing was sent."""

    code: ClassVar[str] = "openapi-request"


class OpenApiConnectionError(RetryableToolError, ConnectionError):
    """The service did not get the request, or did not answer one that changes nothing: the call may be made again."""

    code: ClassVar[str] = "openapi-connection"


class OpenApiAnswerError(ToolError):
    """The service answered in a way that cannot be used, such as with a redirect to another host."""

    code: ClassVar[str] = "openapi-answer"


class OpenApiStatusError(ToolError):
    """The service answered with an error; `status` is its number, and the text holds the beginning of the answer."""

    code: ClassVar[str] = "openapi-status"

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message, status)
        self.message, self.status = message, status

    def __str__(self) -> str:
        return self.message


class RetryableStatusError(OpenApiStatusError, RetryableToolError):
    """The service cannot answer now, and the request changes nothing: the call may be made again."""

    code: ClassVar[str] = "openapi-status"
