"""Checks of calls against the table of functions: names, and numbers and kinds of arguments."""

from __future__ import annotations

from perftrend.analysis.formula.escapes import quote
from perftrend.analysis.formula.functions import FUNCTIONS, ArgumentKind, FunctionParameter
from perftrend.analysis.formula.query import parse_filter, parse_shortcut
from perftrend.analysis.formula.tree import Argument, Call, Number, Text
from perftrend.errors import FormulaError, nearest

_LONGEST_NAME = 40


def check_call(call: Call, subject: str) -> None:
    """Raise an error if a call cannot be evaluated, whatever the rows are.

    :param call: those of its arguments that are calls have been checked already.
    :param subject: name of the text that is read, for the error.
    :raises FormulaError: for an unknown function, a wrong number of arguments or a wrong argument.
    """
    function = FUNCTIONS.get(call.function)
    if function is None:
        hint = nearest(call.function[:_LONGEST_NAME].lower(), FUNCTIONS)
        raise FormulaError(subject, call.position, f"no function is named {quote(call.function)}{hint}")
    least, most = function.least_arguments, len(function.parameters)
    if not least <= len(call.arguments) <= most:
        given = len(call.arguments)
        number = f"{given or 'no'} argument{'' if given == 1 else 's'}"
        raise FormulaError(
            subject, call.position, f"{call.function} has {number}; write {function.signature}"
        )
    for parameter, argument in zip(function.parameters, call.arguments, strict=False):
        wrong = _wrong(parameter, argument)
        if wrong:
            raise FormulaError(
                subject, argument.position, f"{call.function}: {wrong}; write {function.signature}"
            )
        if isinstance(argument, Text):
            _check_text(parameter, argument, subject)


def _wrong(parameter: FunctionParameter, argument: Argument) -> str:
    """Return why the kind of an argument is wrong; empty if it is not."""
    match argument:
        case Text():
            given, fits = "a string", parameter.kind.is_string
        case Number():
            given, fits = "a number", parameter.kind is ArgumentKind.NUMBER
            if fits and argument.value < 0:
                return f"{argument} is less than 0"
        case _:
            given, fits = "a function", parameter.kind.is_rows
    wanted = (
        "a string"
        if parameter.kind.is_string
        else "a number"
        if parameter.kind is ArgumentKind.NUMBER
        else "rows"
    )
    return "" if fits else f"expected {wanted}, but found {given}"


def _check_text(parameter: FunctionParameter, text: Text, subject: str) -> None:
    try:
        if parameter.kind is ArgumentKind.QUERY:
            parse_filter(text.value)
        else:
            parse_shortcut(text.value)
    except FormulaError as error:
        raise FormulaError(subject, text.position + 1 + error.position, error.reason) from None
