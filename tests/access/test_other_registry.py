"""Two registries in one program: what is refused says which of them has the tool, and which the agent."""

from __future__ import annotations

import asyncio
import re
import warnings

import pytest

from praval_tools import (
    AccessWarning,
    Agent,
    Tool,
    ToolCall,
    ToolRegistry,
    UnknownToolCallError,
    UnknownToolError,
    UnknownToolWarning,
    get_tool_registry,
    reset_tool_registry,
    tool,
    use_registry,
)

SHOP, BANK = "registry 'shop'", "registry 'bank'"


@tool(register=False)
def pay(amount: int) -> int:
    """Pay."""
    return amount


@pytest.fixture
def shop() -> ToolRegistry:
    """A registry that has the tool."""
    registry = ToolRegistry(name="shop")
    registry.register_tool(pay)
    return registry


@pytest.fixture
def bank() -> ToolRegistry:
    """A registry that has the agent."""
    registry = ToolRegistry(name="bank")
    Agent("bob", registry=registry)
    return registry


class TestTools:
    """A tool of one registry, used with another one."""

    def test_a_grant_names_both_registries(self, shop, bank):
        """A tool that another registry has cannot be granted here, and the error names both registries."""
        with pytest.raises(UnknownToolError) as caught:
            bank.grant(pay, "bob")

        assert SHOP in str(caught.value) and BANK in str(caught.value)
        with pytest.warns(UnknownToolWarning, match=f"{SHOP}.*{BANK}"):
            assert not bank.assign_tool_to_agent(pay, "bob")

    @pytest.mark.parametrize("change", ["share_tool", "configure"])
    def test_a_change_names_both_registries(self, shop, bank, change):
        """Whatever is changed of a tool that another registry has: the error names both registries."""
        with pytest.raises(UnknownToolError, match=f"{SHOP}.*{BANK}"):
            getattr(bank, change)(pay)

    def test_a_call_names_both_registries(self, shop, bank):
        """The error of a call with a tool of another registry names both; what the model reads does not."""
        with pytest.raises(UnknownToolCallError, match=f"{SHOP}.*{BANK}") as caught:
            bank.agent("bob").call(pay, amount=5)
        with pytest.raises(UnknownToolCallError, match=f"{SHOP}.*{BANK}"):
            asyncio.run(bank.agent("bob").acall(pay, amount=5))

        assert "Tool 'pay' not found." == caught.value.result.for_model()

    def test_an_explanation_names_both_registries(self, shop, bank):
        """`explain` of a tool that another registry has says which one."""
        assert re.search(f"{SHOP}.*{BANK}", bank.explain("bob", pay).remedy)
        assert re.search(f"{SHOP}.*{BANK}", bank.agent("bob").explain(pay).remedy)

    def test_a_toolset_leads_to_an_explanation_that_names_both(self, shop, bank):
        """What a toolset lacks can be explained by its name afterwards, with both registries."""
        with pytest.raises(KeyError, match="explain"):
            bank.toolset("bob")[pay]

        assert re.search(f"{SHOP}.*{BANK}", bank.explain("bob", "pay").remedy)

    def test_a_delegate_is_warned_of_tools_of_another_registry(self, shop, bank):
        """Narrowing a delegate to a tool of another registry is a warning that names both."""
        with pytest.warns(UnknownToolWarning, match=f"{SHOP}.*{BANK}"):
            bank.agent("bob").delegate("helper", tools=[pay])

    def test_a_tool_of_the_default_registry_is_found_by_its_name(self, bank):
        """The first mistake of all: `@tool` without `registry=`, an agent with one."""
        reset_tool_registry()
        tool(pay.function)

        with pytest.raises(UnknownToolCallError, match=f"registry 'default'.*{BANK}"):
            bank.agent("bob").call("pay", amount=5)
        reset_tool_registry()

    def test_a_registry_without_tools(self, shop):
        """The same mistake the other way round: `@registry.tool`, an agent without `registry=`, or of another one."""
        lost = Agent("bob", registry=ToolRegistry(name="bank"))
        with pytest.raises(
            UnknownToolCallError, match=f"no tools in {BANK}: .* another one, use agents of that"
        ) as caught:
            lost.call("pay", amount=5)
        assert "Tool 'pay' not found." == caught.value.result.for_model()
        with pytest.raises(UnknownToolError, match=f"no tools in {BANK}"):
            lost.registry.grant("pay", "bob")
        lost.registry.register_tool(Tool.from_function(pay.function, name="other"))
        with pytest.raises(UnknownToolCallError, match="^Tool 'pay' not found.$"):
            lost.call("pay", amount=5)

    def test_hidden_refusals_stay_so(self, shop):
        """Where refusals are hidden, an unknown tool reads like a hidden one."""
        bank = ToolRegistry(name="bank", refusals="hide")
        with pytest.raises(UnknownToolCallError) as caught:
            bank.agent("bob").call(pay, amount=5)

        assert "Tool 'pay' not found." == str(caught.value)


class TestAgents:
    """An agent of one registry, given to another one."""

    def test_a_grant_to_an_agent_of_another_registry_is_warned_of(self, shop, bank):
        """What is granted to an agent that is declared elsewhere counts here alone, and a warning names both."""
        with pytest.warns(AccessWarning, match=f"{BANK}.*{SHOP}"):
            shop.grant(pay, bank.agent("bob"))
        with pytest.warns(AccessWarning, match=f"{BANK}.*{SHOP}"):
            shop.transfer_ownership(pay, bank.agent("bob"))

        assert 5 == shop.agent("bob").call("pay", amount=5)
        with pytest.raises(UnknownToolCallError, match=f"{SHOP}.*{BANK}"):
            bank.agent("bob").call("pay", amount=5)

    def test_agents_of_both_registries_are_no_warning(self, shop, bank):
        """Who is declared in both, or in neither, may be given as object; so may agents of the registry of a fork."""
        Agent("bob", registry=shop)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            shop.grant(pay, bank.agent("bob"))
            shop.grant(pay, bank.agent("undeclared"))
            shop.fork().grant(pay, shop.agent("bob"), key="again")


class TestNames:
    """What texts call a registry."""

    def test_a_registry_without_a_name_is_not_called_default(self):
        """Nothing calls a registry `default` but the default registry."""
        unnamed = ToolRegistry()
        unnamed.register_tool(pay)
        texts = [repr(unnamed), repr(unnamed.fork()), unnamed.name]
        with unnamed.change(), pytest.raises(Exception, match="change") as caught:
            unnamed.execute(ToolCall("1", "pay", {"amount": 1}, "bob"))
        texts.append(str(caught.value))
        unnamed.close()
        with pytest.raises(Exception, match="closed") as caught:
            unnamed.register_tool(pay)
        texts.append(str(caught.value))

        assert [] == [text for text in texts if "default" in text]
        assert "<ToolRegistry: 1 tool>" == texts[0]

    def test_the_default_registry_has_its_name(self):
        """The default registry is called so."""
        reset_tool_registry()

        assert "default" == get_tool_registry().name

    def test_two_registries_without_names_are_here_and_there(self):
        """Where neither has a name, the text says how to give one."""
        here, there = ToolRegistry(), ToolRegistry()
        there.register_tool(pay)

        with pytest.raises(UnknownToolError, match="another one .*name=.*not in this registry"):
            here.grant(pay, "bob")

    def test_a_registry_that_lost_the_tool_is_not_named(self, bank):
        """A registry that no longer has the tool is not named."""
        bank.register_tool(Tool.from_function(pay.function, name="other"))
        with use_registry(ToolRegistry()):
            elsewhere = ToolRegistry(name="elsewhere")
            elsewhere.register_tool(pay)
            elsewhere.unregister_tool(pay)
            with pytest.raises(UnknownToolError, match="Register it first"):
                bank.grant(pay, "bob")
