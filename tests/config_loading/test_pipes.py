"""A pipe in the place of a configuration is refused at once, however it is named."""

# Tests of: config_loading/source

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from praval_tools import ConfigError, ToolRegistry, load_plugins


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize(
    "load",
    [
        ToolRegistry.from_config,
        lambda path: ToolRegistry().configure_from(path),
        lambda path: load_plugins(ToolRegistry(), config=path),
    ],
    ids=["from_config", "configure_from", "load_plugins"],
)
@pytest.mark.parametrize("name", ["tools.toml", "tools.yml"])
def test_are_refused(tmp_path: Path, load: Callable[[Path], object], name: str) -> None:
    """Broken promise: nothing waits for a writer that never comes."""
    os.mkfifo(tmp_path / name)

    with pytest.raises(ConfigError, match="not a regular file"):
        load(tmp_path / name)
