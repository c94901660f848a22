"""The comments of tests/data/comments, and the request of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from perftrend.trigger import DEFAULT_WORDS, Refusal, Trigger, parse

FOLDER = Path(__file__).parents[2] / "data" / "comments"
TESTBEDS = ("1n-veth", "2n-clx", "2n-icx", "2n-spr", "3n-icx", "simulated")
EXAMPLES = {
    f"{file.stem} {number}: {example['comment'][:40]!r}": example
    for file in sorted(FOLDER.glob("*.yaml"))
    for number, example in enumerate(yaml.safe_load(file.read_text(encoding="utf-8")))
}
HEADING = "Patch Set 4: Code-Review+1\n\n(1 comment)\n\n"


def asked(comment: str, words: Mapping[str, str]) -> list[Trigger | Refusal]:
    return parse(comment, words=words, testbeds=TESTBEDS)


def told(answers: list[Trigger | Refusal], expected: list[Any]) -> list[Any]:
    """Return the answers in the form that the files have, with as much of a reason as they name."""
    forms: list[Any] = []
    for place, answer in enumerate(answers):
        if isinstance(answer, Trigger):
            forms.append(str(answer))
            continue
        wanted = expected[place] if place < len(expected) and isinstance(expected[place], dict) else {}
        part = wanted.get("refused", "")
        reason = part if part and part in answer.reason else answer.reason
        forms.append({"refused": reason, "write": answer.right_form})
    return forms


@pytest.mark.parametrize("name", [name for name, example in EXAMPLES.items() if "asks" in example])
def test_a_comment_asks_for_what_its_author_meant(name: str) -> None:
    example = EXAMPLES[name]

    answers = asked(example["comment"], example.get("words", DEFAULT_WORDS))

    assert example["asks"] == told(answers, example["asks"])


@pytest.mark.parametrize("name", [name for name in EXAMPLES if not name.startswith("around")])
def test_the_heading_of_gerrit_changes_nothing(name: str) -> None:
    """An event carries the text after the votes and the number of comments, REST without them."""
    comment, words = EXAMPLES[name]["comment"], EXAMPLES[name].get("words", DEFAULT_WORDS)

    assert asked(comment, words) == asked(HEADING + comment, words)


@pytest.mark.parametrize("name", EXAMPLES)
def test_message_and_patch_set_level_comment_count_once(name: str) -> None:
    comment, words = EXAMPLES[name]["comment"], EXAMPLES[name].get("words", DEFAULT_WORDS)

    assert asked(comment, words) == parse([HEADING + comment, comment], words=words, testbeds=TESTBEDS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_answer_to_a_comment_asks_for_nothing(name: str) -> None:
    words = EXAMPLES[name].get("words", DEFAULT_WORDS)

    for answer in asked(EXAMPLES[name]["comment"], words):
        if isinstance(answer, Refusal):
            assert [] == asked(str(answer), words)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_quoted_comment_asks_for_nothing(name: str) -> None:
    comment, words = EXAMPLES[name]["comment"], EXAMPLES[name].get("words", DEFAULT_WORDS)
    quoted = "\n".join(f"> {line}" for line in comment.split("\n"))

    assert [] == asked(quoted, words)
    if ">" not in comment:
        assert [] == asked(f"On Monday, Jane Doe wrote:\n\n{comment}", words)


def test_nobody_is_misunderstood() -> None:
    """The confusion table of what people write: what they meant, and what they get."""
    examples = [example for example in EXAMPLES.values() if "meant" in example]

    table = Counter((example["meant"], outcome(example["comment"])) for example in examples)

    assert {("request", "request"): 22, ("mistake", "mistake"): 8, ("nothing", "nothing"): 12} == table


def outcome(comment: str) -> str:
    answers = parse(comment, testbeds=TESTBEDS)
    if not answers:
        return "nothing"
    return "request" if all(isinstance(answer, Trigger) for answer in answers) else "mistake"


def test_the_examples_are_many_and_of_every_outcome() -> None:
    outcomes = Counter(
        "nothing" if not example["asks"] else "trigger" if isinstance(example["asks"][0], str) else "refusal"
        for example in EXAMPLES.values()
        if "asks" in example
    )

    assert len(EXAMPLES) >= 300
    assert min(outcomes["trigger"], outcomes["refusal"], outcomes["nothing"]) >= 60
