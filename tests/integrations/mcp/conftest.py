"""The bank, and the tokens of its HTTP server."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp_rig import build_registry

from praval_tools import ToolRegistry
from praval_tools.integrations.mcp import Tokens, open_tokens


@pytest.fixture
def registry() -> ToolRegistry:
    """The bank."""
    return build_registry()


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    """Tokens in a file."""
    return open_tokens(None, file=tmp_path / "tokens")
