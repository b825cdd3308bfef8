"""Registers OpenAPI documents in a registry; what reads them and sends requests is imported only then."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from praval_tools.access.commands import require_operator
from praval_tools.execution.context import resolve_actor
from praval_tools.execution.protocols import ToolSource
from praval_tools.execution.runtime import Runtime
from praval_tools.tools.source import Source

if TYPE_CHECKING:
    from praval_tools.registry.source_options import OpenApiOptions

OpenApiSpec = Mapping[str, object] | str | os.PathLike[str]


class PreparedService(ToolSource, Protocol):
    """A document that was read and is right; such as `OpenApiSource`."""

    def register(self) -> None:
        """Put its tools into the registry, all of them or none."""
        ...


OpenApiPreparer: TypeAlias = "Callable[[object, OpenApiSpec, OpenApiOptions, Source], PreparedService]"
_preparers: Final[dict[str, OpenApiPreparer]] = {}


def set_openapi_preparer(prepare: OpenApiPreparer) -> None:
    """Have *prepare* called by `register_openapi`; it imports the HTTP client, which needs an extra."""
    _preparers["openapi"] = prepare


def register_service(registry: object, runtime: Runtime, spec: OpenApiSpec, options: OpenApiOptions) -> ToolSource:
    """
    Register a document for *registry*; only the operator says where secrets are sent.

    Raises:
        OpenApiDocumentError: It cannot be read, or is wrong: with every place; nothing is registered then.
        ToolUsageError: An option makes no sense, or a `change()` is open here.
    """
    require_operator(resolve_actor(None, "register an OpenAPI document"), "register an OpenAPI document")
    runtime.access_store.refuse_calls()
    service = prepare_service(registry, spec, options, Source())
    service.register()
    return service


def prepare_service(
    registry: object, spec: OpenApiSpec, options: OpenApiOptions, place: Source
) -> PreparedService:
    """Read a document that *place* declares, to register it later, as a part of a larger change."""
    return _preparers["openapi"](registry, spec, options, place)
