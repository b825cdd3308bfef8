"""Has pydantic describe its models, without defaults in which a class marks anything as secret."""

from __future__ import annotations

import inspect
from functools import lru_cache

from praval_tools.schema.json_values import is_json
from praval_tools.schema.marked_values import has_marked_values
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.type_hints import Hint


def describe_model(hint: Hint, mode: str = "validation", *, hides_values: bool = True) -> JsonSchema:
    """
    Return the schema of a model as pydantic makes it, without defaults in which a class marks anything as secret.

    A class that makes its schema in its own way, and takes no generator for it, is taken at its word.

    Args:
        hint: The model.
        mode: Of pydantic: `validation` describes what the model takes, `serialization` what it writes.
        hides_values: False: with all defaults; null stands for those that have no JSON form, or that a factory makes.
    """
    parameters = inspect.signature(hint.model_json_schema).parameters
    generator = parameters.get("schema_generator")
    own_generator = _make_schema_generator(generator and generator.default, hides_values)
    options = {"mode": mode, "schema_generator": own_generator}
    if not any(item.kind is item.VAR_KEYWORD for item in parameters.values()):
        options = {name: value for name, value in options.items() if name in parameters}
    try:
        described: JsonSchema = hint.model_json_schema(**options)
    except TypeError:  # it passes a generator of its own on
        options.pop("schema_generator", None)
        described = hint.model_json_schema(**options)
    return described


@lru_cache(maxsize=64)
def _make_schema_generator(base: Hint, hides_values: bool) -> Hint:
    """Return the generator of schemas *base*, or pydantic's own if that is none, so that it leaves defaults out."""
    from pydantic.json_schema import GenerateJsonSchema

    is_generator = isinstance(base, type) and issubclass(base, GenerateJsonSchema)
    parent: Hint = base if is_generator else GenerateJsonSchema

    class SchemaWithoutSecrets(parent):  # type: ignore[misc]
        ignored_warning_kinds = parent.ignored_warning_kinds | (set() if hides_values else {"non-serializable-default"})

        def default_schema(self, schema: Hint) -> JsonSchema:
            if hides_values and has_marked_values(schema.get("default")):
                schema = {key: value for key, value in schema.items() if key != "default"}
            described: JsonSchema = super().default_schema(schema)
            default = described.get("default")
            return described if hides_values else {**described, "default": default if is_json(default) else None}

    return SchemaWithoutSecrets


def describe_result(hint: Hint) -> JsonSchema:
    """Return the schema of what a model writes; what it may leave out of what it takes, a result may leave out, too."""
    written, taken = describe_model(hint, "serialization"), describe_model(hint)
    for schema, other in [(written, taken), *(
        (part, taken.get("$defs", {}).get(name, {})) for name, part in written.get("$defs", {}).items()
    )]:  # fmt: skip
        if "required" in schema:
            schema["required"] = [name for name in schema["required"] if name in other.get("required", ())]
    return written
