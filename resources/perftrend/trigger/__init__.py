"""The grammar of Gerrit comments: the jobs that a comment requests, and the errors of requests.

::

    comment   = line, { newline, line }
    request   = head, [ hash ], { word }, [ "--" ], { option }, [ "." ]
    head      = a trigger word with the name of a testbed in it, such as perftest-2n-clx
    word      = expression | "!", expression | "#", name
    option    = "--duration", seconds | "--multiplicity", count | "--dry-run"

A request to end jobs consists of its head alone.

A request is a separate line of the author's own text, not quoted text, code or part of a sentence. Only
bisection has a hash. An expression is a tag pattern of Robot Framework, with or without spaces around its
operators.

Text that is not a request is ignored. A request that is not valid results in a :class:`Refusal` with the
correct form. :func:`parse` does not raise for any text, and its time is linear in the length of the text. The
module does no input or output.
"""

from __future__ import annotations

from perftrend.trigger.parser import MOST_CANDIDATES, MOST_LINES, MOST_REQUESTS, parse
from perftrend.trigger.request import DEFAULT_LIMITS, OptionLimits, Refusal, RequestOptions, Trigger
from perftrend.trigger.words import CANCEL, DEFAULT_WORDS, FORMER_JOBS, JOBS, patterns_of, validate_words

__all__ = [
    "CANCEL",
    "DEFAULT_LIMITS",
    "DEFAULT_WORDS",
    "FORMER_JOBS",
    "JOBS",
    "MOST_CANDIDATES",
    "MOST_LINES",
    "MOST_REQUESTS",
    "OptionLimits",
    "Refusal",
    "RequestOptions",
    "Trigger",
    "parse",
    "patterns_of",
    "validate_words",
]
