"""`praval_tools.compat.praval` does what the published package does: the same calls on both, side by side."""

from __future__ import annotations

import inspect
import pickle
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from compat_rig import (
    PRAVAL,
    annotated,
    fresh,  # noqa: F401
    outcome,
    parameters,
    theirs_registry,
    theirs_tools,
)

import praval_tools
from praval_tools.compat import praval as compat

# Tests of: model


class TestNames:
    def test_every_public_name_is_there(self) -> None:
        """What the two modules of Praval define, `compat.praval` exports, and their error class."""
        public = {
            name
            for module in (theirs_tools, theirs_registry)
            for name, one in vars(module).items()
            if not name.startswith("_") and getattr(one, "__module__", "").startswith("praval.")
        }

        assert public == set(compat.__all__)

    def test_signatures_are_the_same(self) -> None:
        """Names, kinds, order and defaults of the parameters of every function and public method."""
        for name in compat.__all__:
            mine, other = getattr(compat, name), getattr(PRAVAL, name)
            pairs = [(name, mine, other)]
            if inspect.isclass(other) and name not in ("ToolError", "ToolMetadata"):
                pairs = [
                    (f"{name}.{one}", getattr(mine, one), getattr(other, one))
                    for one in dir(other)
                    if one == "__init__" or not one.startswith("_")
                ]
            elif inspect.isclass(other):
                continue
            for place, one, two in pairs:
                assert parameters(two) == parameters(one), place

    def test_metadata_has_the_same_fields(self) -> None:
        """The same thirteen fields in the same order with the same defaults: it is built, compared and shown alike."""
        mine, other = compat.ToolMetadata("t", "me"), PRAVAL.ToolMetadata("t", "me")

        assert vars(other) == vars(mine)
        assert list(vars(other)) == list(vars(mine))
        assert repr(other) == repr(mine)
        assert mine == compat.ToolMetadata("t", "me")


PROGRAM = '''
import sys
out = []

@tool("calculator_add", owned_by="calculator", category="arithmetic", tags=["sum"])
def add(x: float, y: float) -> float:
    """Add two numbers."""
    return x + y

@tool("logger", shared=True, category="utility", risk_level="HIGH", requires_approval=True)
def log_message(level: str, message: str = "-") -> str:
    return f"Logged: {message}"

registry = get_tool_registry()
out.append(sorted(t.metadata.tool_name for t in registry.get_tools_for_agent("calculator")))
out.append(sorted(t.metadata.tool_name for t in registry.get_tools_for_agent("stranger")))
out.append(register_tool_with_agent("calculator_add", "stranger"))
out.append(register_tool_with_agent("nope", "stranger"))
out.append(sorted(t["tool_name"] for t in list_tools(agent_name="stranger")))
out.append([unregister_tool_from_agent("calculator_add", "stranger") for _ in range(2)])
out.append(unregister_tool_from_agent("logger", "stranger"))
numbers = ToolCollection("numbers", "All of them")
numbers.add_tool("calculator_add"); numbers.add_tool("calculator_add")
out.append((numbers.name, numbers.description, numbers.tools, len(numbers.get_tools()), numbers.assign_to_agent("z")))
try:
    numbers.add_tool("nope")
except ToolError as error:
    out.append(str(error))
out.append((numbers.remove_tool("nope"), numbers.remove_tool("calculator_add"), numbers.get_tools()))
try:
    @tool("bad")
    def bad(x, y):
        return x
except ToolError as error:
    out.append(str(error))
try:
    registry.get_tool("logger").execute()
except ToolError as error:
    out.append((str(error), type(error.__cause__).__name__))
out.append(registry.get_tool("calculator_add").execute(1, y=2.5))
out.append(add(1, 2))
try:
    get_tool_info(print)
except ValueError as error:
    out.append(str(error))
out.append(sorted(t.metadata.tool_name for t in discover_tools(category="utility")))
out.append(sorted(t.metadata.tool_name for t in discover_tools("not_there_at_all")))
out.append(sorted(t.metadata.tool_name for t in discover_tools(pattern=PATTERN)))
out.append(sorted(t.metadata.tool_name for t in discover_tools(pattern=PATTERN)))
out.append(registry.get_registry_stats())
out.append([t.metadata.tool_name for t in registry.search_tools("LOG")])
out.append(registry.unregister_tool("logger"))
reset_tool_registry()
out.append((registry.list_all_tools(), get_tool_registry() is registry, get_tool_registry().list_all_tools()))
'''


class TestPrograms:
    def test_a_program_changes_its_imports_and_nothing_else(self, tmp_path: Path) -> None:
        """The same source, with each package's names in it, says the same from beginning to end."""
        said = []
        for module in (PRAVAL, compat):
            home = tmp_path / str(len(said))
            home.mkdir()
            (home / "good_tool.py").write_text(
                "from __future__ import annotations\n"
                f"from {'praval.tools' if module is PRAVAL else 'praval_tools.compat.praval'} import tool\n"
                '@tool("found")\ndef found(x: int) -> int:\n    return x\n'
            )
            (home / "bad_tool.py").write_text("1 / 0\n")
            names = {name: getattr(module, name) for name in compat.__all__ if name != "ToolError"}
            scope = {**names, "ToolError": theirs_tools.ToolError, "PATTERN": str(home / "**" / "*_tool.py")}
            exec(compile(PROGRAM, "program", "exec", dont_inherit=True), scope)
            said.append(scope["out"])

        assert said[0] == said[1]

    def test_code_that_catches_either_class(self) -> None:
        """An error is caught by Praval's class, by this one, and by the one base of `praval_tools`."""
        with pytest.raises(theirs_tools.ToolError) as caught:
            compat.ToolCollection("c").add_tool("nope")

        assert isinstance(caught.value, compat.ToolError)
        assert isinstance(caught.value, praval_tools.ToolError)
        again = pickle.loads(pickle.dumps(caught.value))
        assert str(caught.value) == str(again)
        assert isinstance(again, theirs_tools.ToolError)

    def test_two_threads_register_one_name(self) -> None:
        """Of threads that register one name at once, one succeeds, and the others get the error of a taken name."""
        for name in ("same", "not legal"):
            registry, said, gate = compat.ToolRegistry(), [], threading.Barrier(8)

            def work() -> None:
                one = compat.Tool(annotated(1), compat.ToolMetadata(name))
                gate.wait()
                said.append(outcome(lambda: registry.register_tool(one)))

            threads = [threading.Thread(target=work) for _ in range(8)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
            assert 1 == said.count(None)
            assert {None, ("ToolError", f"Tool '{name}' is already registered")} == {one and one[:2] for one in said}
            assert 1 == len(registry.list_all_tools())


def test_module_is_typed_as_what_it_is() -> None:
    """`compat.praval` is a module whose public names are its `__all__`, sorted."""
    assert isinstance(compat, ModuleType)
    assert sorted(compat.__all__) == compat.__all__


ODD = '''
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from nowhere import Account, Receipt

out = []

@tool("pay", owned_by="clerk")
def pay(account: Account, amount: int = 1) -> Receipt:
    """Pay."""
    return [account, amount]

@tool("parcel", owned_by="clerk", description=7)
class Parcel:
    def __init__(self, weight: int) -> None:
        self.weight = weight

@tool("later", owned_by="clerk")
def later(one: Later) -> str:
    return type(one).__name__

class Later:
    pass

registry = get_tool_registry()
out.append(assign("pay", "other"))
for agent in ("clerk", "other"):
    out.append(sorted(t.metadata.tool_name for t in registry.get_tools_for_agent(agent)))
out.append(sorted(repr(t) for t in list_tools()))
out.append([pay.execute_as_tool("mine"), Parcel.execute_as_tool(3).weight, later.execute_as_tool(Later())])
out.append([registry.get_tool("parcel").func is Parcel, registry.get_tool("pay").func is pay, Parcel(2).weight])
'''


class TestOddDeclarations:
    def test_what_praval_takes_is_taken(self) -> None:
        """Hints for type checkers alone, a class and a description that is not text: the same on both sides."""
        said = []
        for module in (PRAVAL, compat):
            module.reset_tool_registry()
            scope = {name: getattr(module, name) for name in ("tool", "list_tools", "get_tool_registry")}
            scope["assign"] = module.register_tool_with_agent
            exec(compile(ODD, "odd", "exec", dont_inherit=True), scope)
            said.append(scope["out"])

        assert said[0] == said[1]
        assert ["pay"] == said[1][2]

    def test_they_can_be_called_by_an_agent(self) -> None:
        """What cannot be read takes anything, and a hint that leads somewhere by the first call is checked."""
        compat.reset_tool_registry()
        scope: dict[str, Any] = {
            "__name__": __name__, "tool": compat.tool, "list_tools": compat.list_tools,
            "get_tool_registry": compat.get_tool_registry, "assign": compat.register_tool_with_agent,
        }  # fmt: skip
        exec(compile(ODD, "odd", "exec", dont_inherit=True), scope)
        clerk = praval_tools.get_tool_registry().agent("clerk")

        assert ["mine", "2"] == clerk.call("pay", account="mine", amount="2")
        assert 3 == clerk.call("parcel", weight=3).weight
        assert {"pay", "parcel", "later"} == set(clerk.tools)
        assert "definition" not in [one.kind for one in praval_tools.get_tool_registry().problems()]
