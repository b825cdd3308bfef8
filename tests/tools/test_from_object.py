"""Tools from objects: the public methods of an instance or class."""

from __future__ import annotations

from functools import partialmethod, singledispatchmethod
from typing import Any

import pytest

from praval_tools import (
    DuplicateToolError,
    Outcome,
    ToolCall,
    ToolDefinitionError,
    ToolRegistry,
    ToolUsageError,
)


class Base:
    """Something that counts."""

    kind = "base"
    Inner = dict

    def __init__(self, start: int = 0) -> None:
        self.total = start

    def add(self, amount: int) -> int:
        """Add to the total."""
        self.total += amount
        return self.total

    def reset(self) -> None:
        """Begin anew."""
        self.total = 0

    def _hidden(self) -> int:
        return self.total

    @property
    def doubled(self) -> int:
        """Not a method."""
        return 2 * self.total


class BankAccount(Base):
    """A subclass."""

    @staticmethod
    def rate() -> float:
        """Return the rate."""
        return 0.5

    @classmethod
    def named(cls, name: str) -> str:
        """Return a name."""
        return f"{cls.__name__} {name}"

    async def later(self, amount: int) -> int:
        """Add later."""
        return self.add(amount)

    def reset(self) -> None:
        """Begin anew, of the subclass."""
        self.total = -1


class Statics:
    """Nothing but static methods; building it would be wrong."""

    def __init__(self) -> None:
        raise AssertionError("it was built")

    @staticmethod
    def one() -> int:
        """Return one."""
        return 1


class Needy:
    """Cannot be built without arguments."""

    def __init__(self, start: int) -> None:
        self.start = start

    def get(self) -> int:
        """Return the start."""
        return self.start


class Untyped:
    """Written by others."""

    def first(self, x):  # type: ignore[no-untyped-def]
        """Take anything."""
        return x

    def second(self, *args: int) -> int:
        """Take many."""
        return len(args)


def names(registry: ToolRegistry) -> list[str]:
    return [tool.name for tool in registry]


class TestRegisterObject:
    def test_public_methods_become_tools(self) -> None:
        """
        Inherited, static, class and async methods; no properties, no private ones, no data.
        """
        registry = ToolRegistry()

        made = registry.register_object(BankAccount(10), owned_by="teller", category="money")

        assert [
            "bank_account-add", "bank_account-reset", "bank_account-rate", "bank_account-named", "bank_account-later",
        ] == names(registry) == [tool.name for tool in made]  # fmt: skip
        assert {("teller", "money", "object")} == {
            (one.metadata.owned_by, one.metadata.category, one.metadata.source.kind) for one in registry
        }
        assert "Begin anew, of the subclass." == made[1].description

    def test_they_work_on_the_object(self) -> None:
        """
        The object keeps its state from call to call, and access is checked as for every tool.
        """
        registry, account = ToolRegistry(), BankAccount(10)
        registry.register_object(account, owned_by="teller")

        with registry:
            call = registry.agent("teller").call
            assert [15, 0.5, "BankAccount x", 20] == [
                call("bank_account-add", amount=5), call("bank_account-rate"), call("bank_account-named", name="x"),
                call("bank_account-later", amount=5),
            ]  # fmt: skip
            assert Outcome.FORBIDDEN is registry.execute(ToolCall("1", "bank_account-reset", {}, "eve")).outcome
        assert 20 == account.total

    @pytest.mark.parametrize(("namespace", "prefix"), [(True, "base-"), (False, ""), ("money", "money-")])
    def test_the_namespace(self, namespace: Any, prefix: str) -> None:
        """
        The class's name in snake case, one that is given, or none.
        """
        registry = ToolRegistry()
        registry.register_object(Base, namespace)

        assert [f"{prefix}add", f"{prefix}reset"] == names(registry)

    def test_a_class_of_static_methods_is_not_built(self) -> None:
        """
        Where no method needs an object, none is made.
        """
        registry = ToolRegistry()
        registry.register_object(Statics)

        assert ["statics-one"] == names(registry)

    def test_a_class_that_needs_arguments_says_how(self) -> None:
        """
        The error tells to pass an object.
        """
        with pytest.raises(ToolUsageError, match=r"register_object\(Needy\(…\)\)"):
            ToolRegistry().register_object(Needy)

    def test_include_and_exclude(self) -> None:
        """
        Only some methods, or all but some; an unknown name is an error with similar names.
        """
        registry = ToolRegistry()
        registry.register_object(Base(), "a", include=["add"])
        registry.register_object(Base(), "b", exclude=["add"])

        assert ["a-add", "b-reset"] == names(registry)
        with pytest.raises(ToolUsageError, match="Did you mean 'reset'"):
            registry.register_object(Base(), include=["rset"])
        with pytest.raises(ToolUsageError, match="doubled"):
            registry.register_object(Base(), exclude=["doubled"])

    def test_every_problem_of_every_method(self) -> None:
        """
        All that is wrong comes in one error, and nothing is registered.
        """
        registry = ToolRegistry()

        with pytest.raises(ToolDefinitionError) as caught:
            registry.register_object(Untyped())

        assert all(part in str(caught.value) for part in ("Untyped", "first", "'x'", "second", "*args"))
        assert [] == names(registry)

    def test_for_classes_that_others_wrote(self) -> None:
        """
        `strict=False`: missing hints mean unconstrained; what cannot be a tool is left out by name.
        """
        registry = ToolRegistry()
        registry.register_object(Untyped, strict=False, exclude=["second"], shared=True)

        assert [1] == registry.agent("ann").call("untyped-first", x=[1])

    def test_partial_methods(self) -> None:
        """They are methods without the parameters that they fill in, sync and async."""

        class Till:
            def add(self, x: int, y: int = 2) -> int:
                """Add."""
                return x + y

            async def wait(self, x: int, y: int = 2) -> int:
                """Wait."""
                return x * y

            add_five = partialmethod(add, y=5)
            wait_for_seven = partialmethod(wait, y=7)

        registry = ToolRegistry()
        registry.register_object(Till(), owned_by="ann")
        ann = registry.agent("ann")
        assert (6, 7) == (ann.call("till-add_five", x=1), ann.call("till-wait_for_seven", x=1))
        assert ["x"] == list(registry.get_tool("till-add_five").parameters["properties"])
        assert "Wait." == registry.get_tool("till-wait_for_seven").description

    def test_methods_that_dispatch_on_a_type(self) -> None:
        """They have no signature of their own: that is an error which says what to do."""

        class Till:
            @singledispatchmethod
            def add(self, x: int) -> int:
                """Add."""
                return x

            def total(self) -> int:
                """Count."""
                return 1

        registry = ToolRegistry()
        with pytest.raises(ToolDefinitionError, match=r"add: a singledispatchmethod .* exclude=\['add'\]"):
            registry.register_object(Till())
        assert ["till-total"] == [tool.name for tool in registry.register_object(Till(), exclude=["add"])]

    def test_all_or_nothing(self) -> None:
        """
        A name that is taken leaves none of the methods registered.
        """
        registry = ToolRegistry()
        registry.register_object(Base(), include=["reset"])

        with pytest.raises(DuplicateToolError):
            registry.register_object(Base())

        assert ["base-reset"] == names(registry)
