"""OpenAPI: registers the operations of HTTP services as tools, and calls them; the extra is `openapi`."""

from praval_tools.errors import MissingExtraError

try:
    import httpx  # noqa: F401  # said here, once for all modules
except ModuleNotFoundError as error:
    if error.name != "httpx":
        raise
    raise MissingExtraError("praval_tools.integrations.openapi", "openapi") from error

from praval_tools.integrations.openapi.api_source import OpenApiSource
from praval_tools.integrations.openapi.errors import (
    DocumentProblem,
    OpenApiAnswerError,
    OpenApiConnectionError,
    OpenApiDocumentError,
    OpenApiRequestError,
    OpenApiStatusError,
)

__all__ = [
    "DocumentProblem", "OpenApiAnswerError", "OpenApiConnectionError", "OpenApiDocumentError", "OpenApiRequestError",
    "OpenApiSource", "OpenApiStatusError",
]  # fmt: skip
