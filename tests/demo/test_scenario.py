"""The scenario: what each agent does, is refused, and answers."""

# Tests of: scenario, agents, app, tools, steps, plugin_scene

from __future__ import annotations

from demo_rig import collect_steps, empty_folder, flights, select_steps, steps  # noqa: F401

from praval_tools.demo import registry as demo_registry
from praval_tools.demo.question import Question
from praval_tools.demo.steps import (
    AccessStep,
    AnswerStep,
    ApprovalStep,
    CallStep,
    DecisionStep,
    RegistryChangeStep,
    Step,
    ToolsetChangeStep,
)


class TestPlay:
    def test_four_agents_use_every_way(self, steps: list[Step]) -> None:
        """
        Four agents call tools that they own, list, request, were lent, and that are shared.
        """
        good = [step.result for step in select_steps(steps, CallStep) if step.result.success]

        assert {result.agent for result in good} == {"librarian", "analyst", "statistician", "reporter"}
        assert {result.decision.rule for result in good} == {"owner", "listed", "category", "granted", "shared"}

    def test_lends_with_a_count_and_a_bound(self, steps: list[Step]) -> None:
        """
        The librarian lends in its own name, with a count and a bound on an argument.
        """
        grant = next(
            step.event.grant for step in select_steps(steps, RegistryChangeStep) if hasattr(step.event, "grant")
        )

        assert (grant.by, grant.tool, grant.agent, grant.max_calls) == ("librarian", "read_rows", "analyst", 2)
        assert dict(grant.where) == {"count": {"maximum": 20}}

    def test_refuses_what_is_outside_and_explains(self, steps: list[Step]) -> None:
        """
        The call outside of the bound is forbidden, the reason names the argument, and it spends nothing.
        """
        refused = next(step.result for step in select_steps(steps, CallStep) if not step.result.success)
        explained = select_steps(steps, DecisionStep)[0].decision
        survey = select_steps(steps, AccessStep)[0].registry

        assert (refused.name, refused.outcome, refused.decision.rule) == ("read_rows", "forbidden", "out-of-bounds")
        assert "count" in explained.reason
        assert [one.rule for one in explained.tried][-1] == "granted"
        assert survey.state.find_grant(refused.decision.source.id).calls_left == 1

    def test_late_tool_appears(self, steps: list[Step]) -> None:
        """
        The tool that is declared late is in the toolset of the agent that listed it before.
        """
        seen = select_steps(steps, ToolsetChangeStep)[0]

        assert (seen.before, seen.after) == (
            ("describe_data", "average", "note"),
            ("describe_data", "average", "note", "fair_comparison"),
        )

    def test_ownership_changes_hands(self, steps: list[Step]) -> None:
        """
        Before the handover the reporter may not publish; after it the reporter may, and the analyst no more.
        """
        tried = [step.result for step in select_steps(steps, CallStep) if step.result.name == "publish"]

        assert [result.agent for result in tried] == ["reporter", "analyst", "reporter"]
        assert [result.success for result in tried] == [False, False, True]

    def test_publishing_is_approved_once(self, steps: list[Step]) -> None:
        """
        An approval is asked for the call that may publish, and for no other.
        """
        (asked,) = select_steps(steps, ApprovalStep)

        assert (asked.request.tool, asked.request.agent, asked.request.risk_level) == ("publish", "reporter", "high")

    def test_answers(self, steps: list[Step]) -> None:
        """
        The answer names the airline, and that the one that looked worst is within luck.
        """
        report = select_steps(steps, AnswerStep)[0].report

        assert report.headline == "JetBlue Airways stands out: 46.9% cancelled, where 53.3% was to be expected."
        assert report.findings[0].endswith("18 fewer of 277; luck does that once in 4,082.")
        assert report.findings[-1].startswith("Endeavor Air Inc., highest at first sight, is one of those")

    def test_is_the_same_every_time(self, flights: Question) -> None:
        """
        Two plays of the same data answer the same.
        """
        first, second = (select_steps(collect_steps(flights), AnswerStep)[0].report for _ in range(2))

        assert first == second


class TestRegistryForTheCommandLine:
    def test_has_no_problems(self) -> None:
        """
        `praval_tools.demo:registry` is a whole system: nothing dangles.
        """
        assert demo_registry().problems() == []

    def test_each_is_its_own(self) -> None:
        """
        Two of them share nothing.
        """
        first, second = demo_registry(), demo_registry()
        first.block("note", "analyst")

        assert second.explain("analyst", "note").rule == "shared"
