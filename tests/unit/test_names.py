"""Names follow the rules of ``CONTRIBUTING.rst``."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = ("resources/perftrend", "jobs")
SOURCES = (*PACKAGE, "benchmarks")

VAGUE = re.compile(
    "tell|tells|told|telling|teller|ask|asks|asked|asking|say|says|said|saying|keep|keeps|kept|keeping|keeper|"
    "take|takes|taken|taking|taker|beside|besides|anew|somebody|nobody|who|whose|whom|lie|lies|lay|lying|"
    "stand|stands|stood|standing"
)
ESTABLISHED = {
    "asked": "column of the store, and field of responses",
    "beside": "field of responses",
    "keep_blank_values": "parameter of urllib.parse.parse_qsl",
    "keeps": "field of responses",
    "take": "method of numpy's arrays",
    "take_along_axis": "function of numpy",
    "tell": "method of files",
    "timeout_keep_alive": "setting of uvicorn",
    "told": "column of the store, and field of responses",
    "who": "column of the store, field of responses, and parameter of resource.getrusage",
}
"""Names with such a word that others chose, or that an interface fixes."""
PARALLEL_ROLES = {"Api", "Health", "Metrics", "Transport"}
"""Classes with the same role in parallel packages."""
NOUNS = {
    "clustering",
    "default_testbed",
    "forwarding",
    "halving",
    "pruning",
    "recording",
    "signing",
    "testbed",
    "trending",
    "wiring",
}
"""Modules whose name only looks like a participle or a gerund."""


def trees(sources: Sequence[str] = SOURCES) -> Iterator[tuple[str, ast.Module]]:
    for source in sources:
        for file in sorted((CHECKOUT / source).rglob("*.py")):
            yield str(file.relative_to(CHECKOUT)), ast.parse(file.read_text(encoding="utf-8"))


def identifiers(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield name
            case ast.keyword(arg=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name


def words(name: str) -> list[str]:
    return [word.lower() for word in re.findall("[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def test_no_identifier_has_a_vague_word() -> None:
    found = {
        f"{file}: {name}"
        for file, tree in trees()
        for name in identifiers(tree)
        if name not in ESTABLISHED and any(VAGUE.fullmatch(word) for word in words(name))
    }

    assert set() == found


def test_no_exception_is_needless() -> None:
    used = {name for _, tree in trees() for name in identifiers(tree)}

    assert set(ESTABLISHED) <= used


def test_each_class_has_a_name_of_its_own() -> None:
    names = Counter(
        node.name for _, tree in trees(PACKAGE) for node in tree.body if isinstance(node, ast.ClassDef)
    )

    assert PARALLEL_ROLES == {name for name, count in names.items() if count > 1}


def test_modules_are_named_by_nouns() -> None:
    modules = {Path(file).stem for file, _ in trees(PACKAGE)} - NOUNS

    assert [] == sorted(name for name in modules if re.search("(ed|ing)$", name))
