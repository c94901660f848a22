"""The grammar of Gerrit comments: which jobs a comment asks for, and what is wrong with a request.

::

    comment   = line, { newline, line }
    request   = head, [ hash ], { word }, [ "--" ], { option }, [ "." ]
    head      = a trigger word with the name of a testbed in it, such as perftest-2n-clx
    word      = expression | "!", expression | "#", name
    option    = "--duration", seconds | "--multiplicity", count | "--dry-run"

A request stands at the start of a line of its own, in what the comment's author wrote: not in a quotation,
not in code, not in a sentence. The hash belongs to bisection alone. An expression is a tag pattern of Robot
Framework, with blanks around its operators or without.

What is no request gives nothing, what is one and wrong gives a :class:`Refusal` with the right form. No
text makes :func:`parse` raise, and the time grows with the length of the text. The module does no input or
output.
"""

from __future__ import annotations

from perftrend.trigger.options import DEFAULT_LIMITS, Limits, Options
from perftrend.trigger.parsing import MOST_CANDIDATES, MOST_LINES, MOST_REQUESTS, parse
from perftrend.trigger.request import Refusal, Trigger
from perftrend.trigger.words import DEFAULT_WORDS, JOBS, checked_words, patterns_of

__all__ = [
    "DEFAULT_LIMITS",
    "DEFAULT_WORDS",
    "JOBS",
    "MOST_CANDIDATES",
    "MOST_LINES",
    "MOST_REQUESTS",
    "Limits",
    "Options",
    "Refusal",
    "Trigger",
    "checked_words",
    "parse",
    "patterns_of",
]
