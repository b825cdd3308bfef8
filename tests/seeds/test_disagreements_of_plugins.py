"""Where the seeds disagree, or can't hold as printed, on plugins: one class per row of the table."""

from collections.abc import Iterator

import pytest
from plugin_rig import Site, names, site, write_tool  # noqa: F401

from praval_tools import ToolRegistry, get_tool_registry, load_plugins, reset_tool_registry


class TestPluginsLoadByThemselves:
    """Entry points are found "automatically": which registry they come into, and who may call them."""

    @pytest.fixture(autouse=True)
    def installed(self, site: Site) -> Iterator[None]:
        """A plugin that is installed, and a default registry that nobody has looked at."""
        reset_tool_registry()
        site.install("acme", write_tool("acme_one"))
        yield
        reset_tool_registry()

    def test_into_the_default_registry(self) -> None:
        """
        Its first look-up loads them, and nobody may call them yet.
        """
        assert ["acme_one"] == names(get_tool_registry())
        assert not get_tool_registry().explain("ann", "acme_one").allowed

    def test_not_into_ones_own(self) -> None:
        """
        A registry of one's own loads them where the program says so.
        """
        registry = ToolRegistry()

        assert [] == names(registry)
        load_plugins(registry)
        assert ["acme_one"] == names(registry)
