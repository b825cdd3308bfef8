"""Programs that share a journal, each with configurations: what one declares and takes back, the others see at once."""

# Tests of: change, source

from __future__ import annotations

import json
from pathlib import Path

from praval_tools import Outcome, ToolCall, ToolRegistry


class TestAgents:
    """An agent that two files declare is in force for each of them."""

    TOOL = "tools: [{{name: {}, module: sums, function: add, shared: true}}]\njournal: {{path: runs.db}}\n"

    def declare(self, tool: str, *agents: str) -> str:
        """Write the configuration of one program, and return its file."""
        Path(f"{tool}.yml").write_text(f"{self.TOOL.format(tool)}agents: {json.dumps(dict.fromkeys(agents, {}))}\n")
        return f"{tool}.yml"

    def may(self, registry: ToolRegistry, tool: str, agent: str = "clerk") -> bool:
        """Tell whether a call is allowed."""
        return registry.execute(ToolCall(None, tool, {"x": 1}, agent)).outcome is Outcome.OK

    def test_one_that_a_file_does_not_declare_any_more_stays_where_another_does(self, folder: Path) -> None:
        """It can call nothing more in the program of that file; put back into it, it can again."""
        shop = ToolRegistry.from_config(self.declare("shop", "clerk", "boss"))
        with shop, ToolRegistry.from_config(self.declare("mail", "clerk")) as mail:
            self.declare("shop", "boss")
            shop.refresh()
            assert (False, True) == (self.may(shop, "shop"), self.may(mail, "mail"))
            assert (["boss"], ["clerk"]) == (shop.agents, mail.agents)
            mail.refresh()
            assert self.may(mail, "mail")
            self.declare("shop", "clerk", "boss")
            shop.refresh()
            assert (True, True) == (self.may(shop, "shop"), self.may(mail, "mail"))

    def test_its_grants_wait_for_it(self, folder: Path) -> None:
        """Those of others count in other programs, and here again once it is declared again."""
        shop = ToolRegistry.from_config(self.declare("shop", "clerk"))
        with shop, ToolRegistry.from_config(self.declare("mail", "clerk")) as mail:
            shop.grant("shop", "clerk")
            mail.grant("mail", "clerk")
            self.declare("shop", "boss")
            shop.refresh()
            shop.unshare_tool("shop")
            mail.unshare_tool("mail")
            assert (False, True) == (self.may(shop, "shop"), self.may(mail, "mail"))
            self.declare("shop", "clerk")
            shop.refresh()
            assert self.may(shop, "shop")

    def test_one_that_the_operator_retired_stays_so(self, folder: Path) -> None:
        """In all programs, and over reloads."""
        shop = ToolRegistry.from_config(self.declare("shop", "clerk", "boss"))
        with shop, ToolRegistry.from_config(self.declare("mail", "clerk")) as mail:
            shop.retire_agent("clerk")
            for registry in (shop, mail):
                registry.refresh()
            assert (False, False) == (self.may(shop, "shop"), self.may(mail, "mail"))
