# SPDX-License-Identifier: BSD-3-Clause
"""Compares JSON with the schemas in docs/schema."""

TYPES = {"object": (dict,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float),
         "boolean": (bool,), "null": (type(None),)}


def mismatches(schema, value, where="report"):
    """The differences between a value and its schema, as far as the schema here uses the language."""
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(type(value) in TYPES[kind] for kind in kinds):  # a bool is no integer here
        yield f"{where} is {value!r}, not of type {kinds}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} is {value!r}, not one of {schema['enum']}"
    if isinstance(value, dict):
        yield from (f"{where} lacks {key}" for key in schema.get("required", []) if key not in value)
        others = schema.get("additionalProperties", True)
        for key, inner in value.items():
            if key in schema.get("properties", {}):
                yield from mismatches(schema["properties"][key], inner, f"{where}.{key}")
            elif others is False:
                yield f"{where}.{key} is not in the schema"
            elif isinstance(others, dict):
                yield from mismatches(others, inner, f"{where}.{key}")
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{where} has {len(value)} items"
        for index, inner in enumerate(value):
            yield from mismatches(schema.get("items", {}), inner, f"{where}[{index}]")
