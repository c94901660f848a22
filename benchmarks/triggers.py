"""Time to parse a comment of a megabyte, by its contents.

::

    python -m benchmarks.triggers [--bytes 1000000] [--repeat 5] [--json]

The first rows are typical contents of a review: prose, logs, base64, quoted mails, with one request at the
end. The others are made to be slow: nothing but beginnings of triggers, backticks, short lines, and lines
made against the patterns, as short as possible while all of a megabyte is read. The times are the best
of the repetitions. The last column is the ratio for a text of double length: 2 if the time grows with the
length of the text, less if the end of the longer one is not read any more.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import sys
import time
from collections.abc import Sequence

from perftrend.trigger import MOST_LINES, parse

TESTBEDS = ("1n-veth", "2n-clx", "3n-icx")
REQUEST = "\n\nperftest-2n-clx mrr\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure every kind of text and print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.triggers", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--bytes", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(argv)
    rows = {}
    for name in texts(1000):
        seconds = [best(texts(size)[name], options.repeat) for size in (options.bytes, 2 * options.bytes)]
        rows[name] = {"milliseconds": 1000 * seconds[0], "double": seconds[1] / seconds[0]}
    print(json.dumps(rows, indent=2) if options.json else table(rows))
    return 0


def texts(size: int) -> dict[str, str]:
    """Return a text of each kind, of ``size`` characters."""
    noise = base64.encodebytes(random.Random(1).randbytes(3 * size // 4)).decode()  # noqa: S311 - no secret
    real = {
        "prose": "The numbers of yesterday look fine; please compare them with those of the last release.\n",
        "prose with accents": "Les débits d'hier semblent bons ; à comparer avec ceux de la version 25.02.\n",
        "console log": "22:31 [INFO] 64b-1c-ethip4-ip4base-mrr | PASS | rx 12345678.0 pps (2x 6172839.0)\n",
        "quoted mail": "> perftest-2n-clx mrr\n",
        "one long line": "a",
    }
    made = {
        "one request, again and again": "perftest-2n-clx mrr\n",
        "sentences about jobs": "perftest-2n-clx was green yesterday\n",
        "almost a trigger word": "perftst-2n-clx was green\n",
        "beginnings of trigger words": "perftest-1n-",
        "short lines": "p\n",
        "empty lines": "\n",
        "lines of spaces": "   \n",
        "lines that end in a colon": "wrote e:\n",
        "backticks": "`a``b```",
        "lines of backticks": "`a\n",
        "fences": "```\n",
        "On … wrote": "On wrote wrote wrote\n",
        "short paragraphs": "p\n\n",
        "short quoted texts": "On x wrote:\n> q\n",
        "short blocks of code": "```\n```\np\n",
    }
    against = {
        "lines of one letter": ("p", "é", " "),
        "lines of a wide space": ("\u3000", "B", ":"),
        "lines of spaces and wrote": ("", " ", "写te:"),
        "lines of almost wrote": ("", "te:", "éte:"),
        "lines of almost schrieb": ("am ", "schrie ", ":"),
        "lines that forward nothing": ("Begin", " has posted ", " "),
        "lines of a word and colons": ("op x schre", ":", ":"),
        "lines of almost backticks": ("perftest-", "``` `", ":"),
    }
    width = size // MOST_LINES + 1
    wide = {
        name: begin + (fill * width)[: width - len(begin) - len(end)] + end + "\n"
        for name, (begin, fill, end) in against.items()
    }
    filled = {
        name: (text * (size // len(text) + 1))[:size] + REQUEST
        for name, text in {**real, **made, **wide}.items()
    }
    different = "".join(f"perftest-2n-clx t{number} was green\n" for number in range(size // 34))
    return {"base64": noise[:size] + REQUEST, **filled, "sentences, each different": different + REQUEST}


def best(text: str, repeat: int) -> float:
    """Return the seconds of the fastest repetition."""
    seconds = []
    for _ in range(repeat):
        started = time.perf_counter()
        parse(text, testbeds=TESTBEDS)
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def table(rows: dict[str, dict[str, float]]) -> str:
    """Return the rows as text."""
    head = f"{'text':<30}{'ms':>10}{'double':>10}"
    lines = [f"{name:<30}{row['milliseconds']:>10.1f}{row['double']:>10.2f}" for name, row in rows.items()]
    return "\n".join([head, *lines])


if __name__ == "__main__":
    sys.exit(main())
