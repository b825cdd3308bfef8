"""`praval_tools.compat.praval` where Praval is not installed."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "praval":
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Blocked())
from praval_tools.compat.praval import *
@tool("t", owned_by="a")
def t(x: int) -> int:
    return x
try:
    tool("t")(t)
except ToolError as error:
    print(type(error) is ToolError, error)
print([one.metadata.tool_name for one in get_tool_registry().get_tools_for_agent("a")], "praval" in sys.modules)
"""


class TestWithoutPraval:
    def test_works_without_praval(self) -> None:
        """Nothing of Praval's is imported, and the error is this package's own class."""
        done = subprocess.run([sys.executable, "-W", "error", "-c", WITHOUT], capture_output=True, text=True)

        assert "True Failed to register tool 't': Tool 't' is already registered\n['t'] False\n" == done.stdout, done
