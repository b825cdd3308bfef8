"""What policies, approvers and bounds see of a default is what a function gets, whatever wraps it, wherever it runs."""

# Tests of: schema/function_defaults, schema/offered_names, schema/codegen, execution/sent_values, tools/supplied
# Tests of: tools/compiled

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
import wrapped_tools
from wrapped_tools import OTHER, WRAPPED, Speed, pay, pay_any, wrap_any, wrap_fixed, wrap_named

from praval_tools import Allow, ApprovalRequest, Outcome, Tool, ToolCall, ToolRegistry, ToolResult

TO: dict[str, Any] = {"type": "string"}
OPEN: dict[str, Any] = {"type": "object", "properties": {"to": TO, "amount": {}}, "required": ["to"]}
HIDDEN: dict[str, Any] = {"type": "object", "properties": {"to": TO}, "additionalProperties": False}
"""It does not have the parameter with the default."""
UNNAMED_OPEN: dict[str, Any] = {**HIDDEN, "additionalProperties": True}
"""It takes it without a name."""

AMOUNT: dict[str, Any] = {"properties": {"amount": {"type": "integer"}}}
UNNAMED: dict[str, dict[str, Any]] = {
    "open": {"additionalProperties": True},
    "typed": {"additionalProperties": {"type": "integer"}},
    "pattern": {"patternProperties": {"^am": {"type": "integer"}}, "additionalProperties": False},
    "all": {"allOf": [AMOUNT]},
    "all closed": {"allOf": [{"properties": {"to": TO, "amount": {}}, "additionalProperties": False}]},
    "all open": {"allOf": [{"additionalProperties": True}]},
    "any": {"anyOf": [AMOUNT, {"required": ["other"]}]},
    "reference": {"$ref": "#/$defs/amount", "$defs": {"amount": AMOUNT}},
    "reference to an open one": {"$ref": "#/$defs/open", "$defs": {"open": {"additionalProperties": True}}},
    "nested": {"allOf": [{"anyOf": [{"$ref": "#/$defs/all"}]}], "$defs": {"all": {"allOf": [AMOUNT]}}},
}
"""What lets a caller give the amount, which the properties at the root do not name."""
UNBOUNDED: dict[str, dict[str, Any]] = {
    "one": {"oneOf": [{**AMOUNT, "required": ["to"]}, {"required": ["other"]}]},
    "condition": {"if": {"required": ["to"]}, "then": AMOUNT},
    "other condition": {"if": {"required": ["other"]}, "else": AMOUNT},
    "dependent": {"dependentSchemas": {"to": AMOUNT}},
    "old dependent": {"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"to": AMOUNT}},
    "unevaluated": {"unevaluatedProperties": {"type": "integer"}},
    "anchor": {"$ref": "#amount", "$defs": {"amount": {"$anchor": "amount", **AMOUNT}}},
    "itself": {"$ref": "#", "allOf": [AMOUNT]},
}
"""Others, some of which bounds do not read, and refuse."""

JUDGES = ("policy", "approver", "edit", "bound", "nobody")
JUDGED = ("policy", "approver", "edit")
NO_JSON = [datetime(2026, 1, 1), math.inf, object(), type("Count", (int,), {})(5)]


GIVEN: list[dict[str, Any]] = [{}, {"amount": 5}, {"amount": 7}]
CASES = [
    pytest.param(WRAPPED[name], schema, judge_name, given, id=f"{name}-{kind}-{judge_name}-{given.get('amount', '')}")
    for name in sorted(WRAPPED)
    for kind, schema in (("open", OPEN), ("hidden", HIDDEN), ("own", None))
    for judge_name in JUDGES
    for given in GIVEN
    if not (
        (schema is HIDDEN or (schema is None and name == "pay_partial_amount")) and (given or judge_name == "bound")
    )
]
"""Each wrapper, schema, judge and amount, where the schema has the amount that is given or bounded."""


@dataclass
class Payee:
    """Who is paid."""

    name: str


@dataclass
class Judged:
    """A call: what was shown of it, its result, and what was recorded."""

    shown: list[dict[str, Any]]
    result: ToolResult
    recorded: list[dict[str, Any]] = field(default_factory=list)


def judge(function: Callable[..., Any], schema: dict[str, Any] | None, judge: str, engine: str = "inline",
          edit: dict[str, Any] | None = None, **given: Any) -> Judged:  # fmt: skip
    """Return what comes of a call that somebody judges."""
    shown = list[dict[str, Any]]()

    def answer(request: ApprovalRequest) -> Allow:
        shown.append(dict(request.arguments))
        return Allow({**request.arguments, **(edit or {})}) if judge == "edit" else Allow()

    options: dict[str, Any] = {"owned_by": "boss", "engine": engine, "requires_approval": judge in ("approver", "edit")}
    with ToolRegistry(journal="memory", processes=1) as registry:
        if schema is None:
            registry.register_tool(Tool.from_function(function, "pay", "Pay.", **options))
        else:
            tool: Any = Tool(name="pay", description="Pay.", parameters=schema, callable=function, **options)
            registry.register_tool(tool)
        registry.set_approval_handler(answer)
        if judge == "policy":
            registry.add_policy(lambda agent, tool, arguments: shown.append(dict(arguments)))
        registry.grant("pay", "clerk", where={"amount": {"maximum": 10}} if judge == "bound" else None)
        with registry.run("1") as run:
            result = registry.execute(ToolCall("1", "pay", given, "clerk"))
            recorded = [dict(call.arguments) for call in run.calls]
        return Judged(shown, result, recorded)


class TestWrappers:
    @pytest.mark.parametrize(("function", "schema", "judge_name", "given"), CASES)
    def test_pass_on_what_was_judged(
        self, function: Any, schema: dict[str, Any] | None, judge_name: str, given: dict[str, Any]
    ) -> None:
        """Broken promise: a wrapper paid 1000 by a default of its own, where 5 had been judged."""
        judged = judge(function, schema, judge_name, to="ann", **given)

        is_bound = function is WRAPPED["pay_partial_amount"] and schema is not OPEN
        is_own = schema is HIDDEN and not is_bound and function is not WRAPPED["pay_named"]
        amount = given.get("amount", OTHER if is_own else 5)
        assert (Outcome.OK, {"to": "ann", "amount": amount}) == (judged.result.outcome, judged.result.result)
        shown = {"to": "ann"} if is_bound or is_own else {"to": "ann", "amount": amount}
        assert (judge_name in JUDGED, True) == (bool(judged.shown), all(shown == item for item in judged.shown))
        assert [{"to": "ann", **given}] == judged.recorded

    @pytest.mark.parametrize("wrap", [wrap_named, wrap_any])
    def test_pass_on_what_was_judged_beside_classes(self, wrap: Callable[..., Any]) -> None:
        """Broken promise: where a parameter has a class, the default of the wrapper ran."""

        def pay(to: Payee, amount: int = 5) -> int:
            """Pay."""
            return amount

        for judge_name in JUDGES:
            judged = judge(wrap(pay), None, judge_name, to={"name": "ann"})

            assert (Outcome.OK, 5) == (judged.result.outcome, judged.result.result)
            assert all(5 == shown["amount"] for shown in judged.shown)

    @pytest.mark.parametrize("judge_name", JUDGED)
    def test_that_hand_in_what_no_caller_gives_show_nothing_of_it(self, judge_name: str) -> None:
        """A decorator for connections is not given the default of what it hands in itself."""

        def find(query: str, connection: str = "none") -> str:
            """Find."""
            return f"{query} by {connection}"

        @functools.wraps(find)
        def wrapped(**given: Any) -> str:
            return find(connection="pool", **given)

        schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
        judged = judge(wrapped, schema, judge_name, query="x")

        assert ("x by pool", True) == (judged.result.result, all({"query": "x"} == shown for shown in judged.shown))

    @pytest.mark.parametrize("judge_name", JUDGED)
    def test_that_take_no_such_name_show_nothing(self, judge_name: str) -> None:
        """What a wrapper gives its function itself, nobody can know."""
        judged = judge(wrap_fixed(pay), HIDDEN, judge_name, to="ann")

        assert {"to": "ann", "amount": 1000} == judged.result.result
        assert all({"to": "ann"} == shown for shown in judged.shown)

    def test_meet_bounds_by_what_was_judged(self) -> None:
        """A default that is outside the bounds does not run."""
        judged = judge(wrap_any(lambda to, amount=11: amount), OPEN, "bound", to="ann")

        assert judged.result.decision is not None and "out-of-bounds" == judged.result.decision.rule


def require(to: str, amount: int) -> int:
    """Pay."""
    return amount


def take_any(to: str, **options: int) -> int:
    """Pay."""
    return options["amount"]


def require_by_name(to: str, *, amount: int, **options: int) -> int:
    """Pay."""
    return amount


class GenerousObject:
    """An object around a function, with a default of its own."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, to: str, amount: int = OTHER) -> Any:
        """Call it."""
        return self._function(to, amount=amount)


def wrap_by_name(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* with a default of a keyword."""

    @functools.wraps(function)
    def wrapped(to: str, *, amount: int = OTHER, **given: Any) -> Any:
        return function(to, amount=amount, **given)

    return wrapped


def wrap_openly(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* as it is, with what does not look like it."""

    @functools.wraps(function)
    def wrapped(*args: Any, **given: Any) -> Any:
        return function(*args, **given)

    return wrapped


GENEROUS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "keyword": wrap_by_name,
    "object": GenerousObject,
    "under another": lambda function: wrap_openly(wrap_by_name(function)),
    "over another": lambda function: wrap_by_name(wrap_openly(function)),
    "cached": lambda function: functools.lru_cache(wrap_by_name(function)),
    "partial": lambda function: functools.partial(wrap_by_name(function)),
    "outermost": lambda function: wrap_by_name(change_default(function, 1)),
}
"""Wrappers that pay 1000 where nothing is given."""


def change_default(function: Callable[..., Any], amount: int) -> Callable[..., Any]:
    """Return *function* with a default."""
    wrapped = wrap_by_name(function)
    wrapped.__kwdefaults__ = {"amount": amount}
    return wrapped


class TestDefaultsOfWrappers:
    """Broken promise: a wrapper paid 5000 by its own default, and nobody was shown or could bound it."""

    @pytest.mark.parametrize("judge_name", JUDGED)
    @pytest.mark.parametrize("schema", [OPEN, None], ids=["open", "own"])
    @pytest.mark.parametrize("function", [require, take_any, require_by_name])
    @pytest.mark.parametrize("wrapper", GENEROUS)
    def test_are_shown(self, function: Any, wrapper: str, schema: dict[str, Any] | None, judge_name: str) -> None:
        """Where the function has no default, that of its wrapper runs."""
        judged = judge(GENEROUS[wrapper](function), schema, judge_name, to="ann")

        if schema is None and function is not take_any:  # it has to be given
            assert Outcome.INVALID_ARGUMENTS is judged.result.outcome
        else:  # what the function takes by its `**kwargs` is the wrapper's own
            expected = {"to": "ann"} if schema is None else {"to": "ann", "amount": OTHER}
            assert (Outcome.OK, OTHER) == (judged.result.outcome, judged.result.result)
            assert all(expected == shown for shown in judged.shown) and judged.shown

    @pytest.mark.parametrize("judge_name", JUDGES)
    @pytest.mark.parametrize("schema", [OPEN, None], ids=["open", "own"])
    @pytest.mark.parametrize("wrapper", GENEROUS)
    def test_give_way_to_what_is_given(self, wrapper: str, schema: dict[str, Any] | None, judge_name: str) -> None:
        """It is an argument like others."""
        if schema is not None or judge_name != "bound":
            judged = judge(GENEROUS[wrapper](take_any), schema, judge_name, to="ann", amount=7)

            assert (7, {"to": "ann", "amount": 7}) == (judged.result.result, judged.recorded[0])
            assert all({"to": "ann", "amount": 7} == shown for shown in judged.shown)

    @pytest.mark.parametrize("function", [require, take_any])
    @pytest.mark.parametrize("wrapper", GENEROUS)
    def test_are_bounded(self, function: Any, wrapper: str) -> None:
        """A grant up to 10 pays no 1000."""
        judged = judge(GENEROUS[wrapper](function), OPEN, "bound", to="ann")

        assert judged.result.decision is not None and "out-of-bounds" == judged.result.decision.rule

    @pytest.mark.parametrize(("function", "shown"), [(require, {"amount": OTHER}), (pay, {"amount": 5})])
    def test_that_no_caller_gives_are_shown_where_each_layer_names_them(
        self, function: Any, shown: dict[str, Any]
    ) -> None:
        """The function's own default counts where it has one."""
        judged = judge(wrap_by_name(function), HIDDEN, "policy", to="ann")

        assert [{"to": "ann", **shown}] == judged.shown

    def test_that_are_no_arguments_of_the_function_are_the_wrapper_s_own(self) -> None:
        """Nobody can give how often it tries."""

        @functools.wraps(require)
        def wrapped(to: str, amount: int, tries: int = 3) -> int:
            return tries

        for schema in (OPEN, HIDDEN, None):
            judged = judge(functools.partial(wrapped, amount=1), schema, "policy", to="ann")

            assert (3, True) == (judged.result.result, all("tries" not in shown for shown in judged.shown))

    def test_of_what_is_bound_are_not_passed(self) -> None:
        """A partial that binds it by its place or name has decided."""

        @functools.wraps(take_any)
        def wrapped(to: str = "bob", amount: int = OTHER) -> str:
            return f"{to} {amount}"

        schema = {"type": "object", "properties": {"note": TO}}
        for function in (functools.partial(wrapped, "ann", amount=7), functools.partial(wrapped, "ann", 7)):
            assert "ann 7" == judge(function, schema, "policy").result.result


class TestNamesBesideProperties:
    """Broken promise: what a schema lets a caller give in another way than by `properties` ran, and nobody saw it."""

    @pytest.mark.parametrize("judge_name", ["policy", "approver", "nobody"])
    @pytest.mark.parametrize("wrap", [wrap_openly, wrap_any, lambda function: function])
    @pytest.mark.parametrize("given", [{}, {"amount": 7}], ids=str)
    @pytest.mark.parametrize("case", [*UNNAMED, *UNBOUNDED])
    def test_are_shown(self, case: str, given: dict[str, Any], wrap: Callable[..., Any], judge_name: str) -> None:
        """A default runs as it was shown, whatever is around the function."""
        schema = {"type": "object", "properties": {"to": TO}, **(UNNAMED | UNBOUNDED)[case]}
        judged = judge(wrap(pay), schema, judge_name, to="ann", **given)

        expected = {"to": "ann", "amount": 5, **given}
        assert (Outcome.OK, expected) == (judged.result.outcome, judged.result.result)
        assert all(expected == shown for shown in judged.shown)
        assert [{"to": "ann", **given}] == judged.recorded

    @pytest.mark.parametrize("wrapper", GENEROUS)
    @pytest.mark.parametrize("function", [require, take_any, lambda to, amount=OTHER: amount])
    @pytest.mark.parametrize("case", UNNAMED)
    def test_are_bounded(self, case: str, function: Any, wrapper: str) -> None:
        """A grant up to 10 pays no 1000, also where the default is that of a wrapper."""
        schema = {"type": "object", "properties": {"to": TO}, **UNNAMED[case]}
        where = {"type": "object", "properties": {"amount": {"maximum": 10}}, "required": []}
        wrapped = wrap_openly(GENEROUS[wrapper](function))
        with ToolRegistry() as registry:
            registry.register_tool(Tool("pay", "Pay.", schema, wrapped, owned_by="boss"))
            registry.grant("pay", "clerk", where=where)
            result = registry.execute(ToolCall("1", "pay", {"to": "ann"}, "clerk"))

        assert result.decision is not None and "out-of-bounds" == result.decision.rule

    @pytest.mark.parametrize("function", [functools.partial(pay_any, amount=OTHER), functools.partial(pay_any, "b")])
    def test_that_are_bound_are_given_by_nobody(self, function: Any) -> None:
        """What a partial binds, no caller may give, unless the properties name it."""
        schema = {"type": "object", "properties": {"note": TO}, "additionalProperties": True}
        bound = {"to": "ann"} if "amount" in function.keywords else {}
        judged = judge(function, schema, "policy", **bound)

        assert [bound if bound else {"amount": 5}] == judged.shown
        assert judged.result.result["amount"] == (OTHER if bound else 5)

    def test_that_no_pattern_allows_are_the_function_s_own(self) -> None:
        """A decorator that hands in a value itself is given no other."""

        @functools.wraps(pay)
        def wrapped(**given: Any) -> Any:
            return pay(amount=OTHER, **given)

        for more in ({}, {"patternProperties": {"^x": {}}}, {"allOf": [{"additionalProperties": False}]}):
            schema = {"type": "object", "properties": {"to": TO}, **more}
            schema |= {"allOf": [{"properties": {"to": {}}, "additionalProperties": False}]} if "allOf" in more else {}
            judged = judge(wrapped, schema, "policy", to="ann")

            assert ({"to": "ann", "amount": OTHER}, [{"to": "ann"}]) == (judged.result.result, judged.shown)


class TestProcesses:
    @pytest.mark.parametrize("schema", [OPEN, HIDDEN, UNNAMED_OPEN], ids=["open", "hidden", "unnamed"])
    @pytest.mark.parametrize("judge_name", [*JUDGED, "nobody"])
    @pytest.mark.parametrize("engine", ["thread", "process"])
    @pytest.mark.parametrize("name", ["pay_elsewhere", "pay_unevenly", "pay_slowly"])
    def test_get_what_was_judged(self, name: str, engine: str, judge_name: str, schema: dict[str, Any]) -> None:
        """Broken promise: a process filled in its own default, where another had been judged."""
        judged = judge(getattr(wrapped_tools, name), schema, judge_name, engine, to="ann")

        assert Outcome.OK is judged.result.outcome
        is_own = name == "pay_elsewhere" and schema is HIDDEN
        assert all(shown == ({"to": "ann"} if is_own else judged.result.result) for shown in judged.shown)

    @pytest.mark.parametrize("engine", ["thread", "process"])
    def test_meet_bounds(self, engine: str) -> None:
        """A bound judged another default than that of the wrapper in the process."""
        judged = judge(wrapped_tools.pay_elsewhere, OPEN, "bound", engine, to="ann")

        assert {"to": "ann", "amount": 5} == judged.result.result

    def test_refuse_another_default_that_cannot_be_sent(self) -> None:
        """A member of an enum is no JSON: it is read where it runs, and has to be what was judged."""
        judged = judge(wrapped_tools.pay_unsure, HIDDEN, "policy", "process", to="ann")

        assert Outcome.TOOL_ERROR is judged.result.outcome
        assert "'speed' is another one here than was judged" in str(judged.result.error)


class TestUnreadableDefaults:
    @pytest.mark.parametrize("schema", [OPEN, UNNAMED_OPEN], ids=["open", "unnamed"])
    @pytest.mark.parametrize("judge_name", JUDGES)
    @pytest.mark.parametrize("default", NO_JSON, ids=lambda value: type(value).__name__)
    def test_of_a_parameter_of_the_schema_are_refused(
        self, default: object, judge_name: str, schema: dict[str, Any]
    ) -> None:
        """Broken promise: they were missing from what policies and approvers were shown, and the call ran."""
        got = list[object]()

        def note(to: str, amount: Any = default) -> None:
            got.append(amount)

        judged = judge(note, schema, judge_name, to="ann")

        assert (Outcome.OK if judge_name == "nobody" else Outcome.FORBIDDEN) is judged.result.outcome
        assert ([] if judge_name != "nobody" else [default]) == got

    @pytest.mark.parametrize("default", NO_JSON, ids=lambda value: type(value).__name__)
    def test_are_not_used_where_a_value_is_given(self, default: object) -> None:
        """What is given can be judged."""
        judged = judge(lambda to, amount=default: amount, OPEN, "policy", to="ann", amount=5)

        assert ([{"to": "ann", "amount": 5}], 5) == (judged.shown, judged.result.result)

    def test_of_other_parameters_stay_the_function_s_own(self) -> None:
        """No caller gives them, such as a connection."""
        judged = judge(lambda to, connection=object(): type(connection).__name__, HIDDEN, "policy", to="ann")

        assert ([{"to": "ann"}], "object") == (judged.shown, judged.result.result)


class TestEdits:
    def test_leave_defaults_as_they_were_shown(self) -> None:
        """Broken promise: where an approver changed one argument, the default beside it was refused as unknown."""
        judged = judge(pay, HIDDEN, "edit", edit={"to": "bob"}, to="ann")

        assert (Outcome.OK, {"to": "bob", "amount": 5}) == (judged.result.outcome, judged.result.result)

    def test_may_not_change_what_the_schema_hides(self) -> None:
        """Nobody may give it."""
        judged = judge(pay, HIDDEN, "edit", edit={"amount": 6}, to="ann")

        assert Outcome.INVALID_ARGUMENTS is judged.result.outcome

    def test_change_a_default_that_the_schema_has(self) -> None:
        """The approver's value runs."""
        assert 6 == judge(pay_any, OPEN, "edit", edit={"amount": 6}, to="ann").result.result["amount"]

    @pytest.mark.parametrize("edit", [{}, {"to": "bob"}], ids=str)
    def test_keep_the_type_of_a_default(self, edit: dict[str, Any]) -> None:
        """A member of an enum stays one, also where the schema takes its JSON."""
        schema = {**OPEN, "properties": {"to": TO, "speed": TO}}

        def note(to: str, speed: Speed = Speed.SLOW) -> str:
            return f"{to} {type(speed).__name__}"

        judged = judge(note, schema, "edit", edit=edit, to="ann")

        assert f"{edit.get('to', 'ann')} Speed" == judged.result.result
