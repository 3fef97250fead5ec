"""The arm grammar: `treatment{+treatment}`, treatment = `name` or `name(k=v, ...)`, on the command line and in TOML.

Values are TOML literals or bare words. Machine-dependent values (`workers = min(cores - 1, 8)`) are resolved against a
machine before anything is hashed.
"""

from __future__ import annotations

import ast
import difflib
import json
import operator
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from harness.spec import Arm, Param, Scalar, Treatment, UsageError, Use

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


def split_arms(text: str) -> list[str]:
    """Split a list of arms at white space and semicolons outside parentheses and quotes."""
    return [part for part in _split(text, " \t\n;") if part]


def parse_arm(text: str) -> Arm:
    """Read an arm as written; parameters keep their written values (see `resolve`)."""
    text = text.strip()
    if text in ("", "baseline"):
        return Arm()
    uses = [_parse_use(part, text) for part in _split(text, "+")]
    names = [use.name for use in uses]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"arm '{text}': treatment '{name}' is named twice; keep one")
    return Arm(tuple(sorted(uses)))


def format_arm(arm: Arm) -> str:
    """The canonical text of an arm; `parse_arm` gives the same arm back."""
    return "+".join(format_use(use) for use in arm.uses)


def resolve(arm: Arm, treatments: Mapping[str, Treatment], scope: Mapping[str, int]) -> Arm:
    """Check names and parameters, and evaluate expressions over the machine (`scope`: cores, gpus).

    Parameters that equal a literal default are left out, so that two ways of writing an arm are one arm; those whose
    default depends on the machine are always written out.
    """
    return Arm(tuple(sorted(_resolve_use(use, treatments, scope) for use in arm.uses)))


def full_params(use: Use, treatment: Treatment) -> dict[str, Scalar]:
    """Every parameter of a resolved use, literal defaults filled in."""
    return {name: use.kwargs.get(name, param.default) for name, param in treatment.params.items()}


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message that helps: "; did you mean 'x'?" or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ";"


# ------------------------------------------------------------------------------------------------ parsing


def _split(text: str, separators: str) -> list[str]:
    parts, depth, quote, start = [], 0, "", 0
    escaped = False
    for index, char in enumerate(text):
        if escaped:
            escaped = False
        elif quote == '"' and char == "\\":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth < 0:
                raise UsageError(f"arm '{text}': a ')' too many at character {index + 1}")
        elif char in separators and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    if depth or quote:
        raise UsageError(f"arm '{text}': {'a quote' if quote else 'a parenthesis'} is not closed")
    return [*parts, text[start:]]


def _parse_use(text: str, arm: str) -> Use:
    text = text.strip()
    name, bracket, rest = text.partition("(")
    name = name.strip()
    if not NAME.fullmatch(name):
        raise UsageError(
            f"arm '{arm}': '{text or ' '}' is no treatment; write name or name(key=value, ...), joined by '+'"
        )
    if not bracket:
        return Use(name)
    if not rest.rstrip().endswith(")"):
        raise UsageError(f"arm '{arm}': expected ')' at the end of '{text}'")
    params = _parse_params(_split(rest.rstrip()[:-1], ","), f"arm '{arm}'")
    return Use(name, tuple(sorted(params.items())))


def parse_params(items: Iterable[str]) -> dict[str, Scalar]:
    """Read the parameters of a workload as written on the command line, each key=value."""
    return _parse_params(items, "--param")


def _parse_params(items: Iterable[str], where: str) -> dict[str, Scalar]:
    params: dict[str, Scalar] = {}
    for item in items:
        key, equals, value = item.partition("=")
        key = key.strip()
        if not item.strip():
            continue
        if not equals or not NAME.fullmatch(key):
            raise UsageError(f"{where}: '{item.strip()}' is no parameter; write key=value")
        if key in params:
            raise UsageError(f"{where}: parameter '{key}' is given twice")
        params[key] = _parse_value(value.strip(), where)
    return params


def _parse_value(text: str, where: str) -> Scalar:
    if not text:
        raise UsageError(f"{where}: a parameter has no value; write key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except ValueError:  # no TOML, or a number too long to be one
        return text  # a bare word or an expression over the machine
    if not isinstance(value, bool | int | float | str):
        raise UsageError(f"{where}: '{text}' is not a boolean, a number or a word")
    return value


def format_use(use: Use) -> str:
    """The canonical text of one treatment with its parameters."""
    if not use.params:
        return use.name
    return f"{use.name}({', '.join(f'{key}={_format_value(value)}' for key, value in use.params)})"


def _format_value(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value)
    bare = re.fullmatch(r"[A-Za-z_/.][A-Za-z0-9_/.:@-]*", value) and isinstance(_parse_value(value, value), str)
    if bare and _parse_value(value, value) == value:
        return value
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # a JSON text that TOML takes as well


# ------------------------------------------------------------------------------------------------ resolving


def _resolve_use(use: Use, treatments: Mapping[str, Treatment], scope: Mapping[str, int]) -> Use:
    treatment = treatments.get(use.name)
    if treatment is None:
        raise UsageError(
            f"no treatment named '{use.name}'{nearest(use.name, treatments)} `harness list treatments` shows all"
        )
    for key in use.kwargs:
        if key not in treatment.params:
            known = ", ".join(treatment.params) or "none"
            raise UsageError(
                f"treatment '{use.name}' has no parameter '{key}'{nearest(key, treatment.params)} it takes: {known}"
            )
    resolved: dict[str, Scalar] = {}
    for key, param in treatment.params.items():
        written = use.kwargs.get(key, param.default)
        value = _checked(use.name, key, param, evaluate(written, scope) if param.kind in ("int", "float") else written)
        if value != param.default or type(value) is not type(param.default):
            resolved[key] = value
    return Use(use.name, tuple(sorted(resolved.items())))


def _checked(name: str, key: str, param: Param, value: Scalar) -> Scalar:
    where = f"treatment '{name}': parameter '{key}' is {value!r}"
    types: dict[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (int, float), "str": (str,)}
    if not isinstance(value, types[param.kind]) or (isinstance(value, bool) and param.kind != "bool"):
        raise UsageError(
            f"{where}; it takes a {param.kind}" + (f", one of {list(param.choices)}" if param.choices else "")
        )
    if param.choices and value not in param.choices:
        raise UsageError(f"{where}; it takes one of {', '.join(map(str, param.choices))}")
    if not isinstance(value, str | bool):
        if param.minimum is not None and not value >= param.minimum:
            raise UsageError(f"{where}; it must be at least {param.minimum:g}")
        if param.maximum is not None and not value <= param.maximum:
            raise UsageError(f"{where}; it must be at most {param.maximum:g}")
    return float(value) if param.kind == "float" else value


_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max}


def evaluate(value: Scalar, scope: Mapping[str, int]) -> Scalar:
    """Evaluate an expression over the machine: numbers, `cores`, `gpus`, + - * //, min and max.

    A value that is no text comes back as it is.
    """
    if not isinstance(value, str):
        return value
    try:
        result: Scalar = _evaluate(ast.parse(value, mode="eval").body, scope)
        return result
    except (ValueError, SyntaxError, KeyError, TypeError, ArithmeticError, RecursionError, MemoryError) as error:
        known = ", ".join(scope)
        raise UsageError(f"'{value}' is no number and no expression over {known} with + - * // min max") from error


def _evaluate(node: ast.expr, scope: Mapping[str, int]) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            return scope[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_evaluate(left, scope), _evaluate(right, scope))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, scope)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return _FUNCTIONS[name](*(_evaluate(arg, scope) for arg in args))
        case _:
            raise KeyError(ast.dump(node))
