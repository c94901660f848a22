"""The documentation names every job, option, setting and testbed that there is."""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from perftrend import errors, settings
from perftrend.settings.tree import FORMER_NAMES

CHECKOUT = Path(__file__).resolve().parents[2]
DOCS = CHECKOUT / "docs"
JOBS = sorted(file.stem.replace("_", "-") for file in (CHECKOUT / "jobs").glob("[a-z]*.py"))


def module_of(job: str) -> str:
    return job.replace("-", "_")


def options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from (
            option for option in action.option_strings if option.startswith("--") and option != "--help"
        )


def pages(job: str) -> str:
    """Return what is written about a job: its own page, and the page on operations."""
    files = [DOCS / "operations.rst", DOCS / "jobs" / f"{job}.rst"]
    return "\n".join(file.read_text(encoding="utf-8") for file in files if file.exists())


@pytest.mark.parametrize("job", JOBS)
def test_every_job_is_documented(job: str) -> None:
    assert re.search(rf"\./run {job}\b", pages(job))


@pytest.mark.parametrize("job", JOBS)
def test_every_option_of_a_job_is_documented(job: str) -> None:
    known = options(importlib.import_module(f"jobs.{module_of(job)}").parser())

    undocumented = [option for option in known if not re.search(rf"``{option}[` ]", pages(job))]

    assert [] == undocumented


@pytest.mark.parametrize("job", JOBS)
def test_every_documented_option_of_a_job_exists(job: str) -> None:
    page = DOCS / "jobs" / f"{job}.rst"
    documented = re.findall(r"^``(--[a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    known = set(options(importlib.import_module(f"jobs.{module_of(job)}").parser()))

    assert [] == [option for option in documented if option not in known]


@pytest.mark.parametrize("job", JOBS)
def test_a_job_says_in_its_first_line_what_it_does(job: str) -> None:
    first = (CHECKOUT / "jobs" / f"{module_of(job)}.py").read_text(encoding="utf-8").splitlines()[0]

    assert re.fullmatch(r'"""[A-Z].*\.("""|)', first)


def test_the_settings_page_names_every_setting_with_its_default() -> None:
    page = (DOCS / "settings.rst").read_text(encoding="utf-8")
    documented = re.findall(r"^``([a-z_.]+)`` \((.*)\)$", page, re.MULTILINE)

    assert settings.names() == sorted((name for name, _ in documented), key=settings.names().index)
    assert [] == [name for name, told in documented if told.strip("`") != default(name)]
    assert [] == [name for name in FORMER_NAMES if f"``{name}`` " not in page]


def test_pages_on_methods_are_short() -> None:
    """Formulas and figures are in appendices."""
    lengths = {
        page.name: len(page.read_text(encoding="utf-8").splitlines())
        for page in (DOCS / "method").glob("*.rst")
        if not page.stem.endswith(("-figures", "-formulas", "-reference"))
    }

    assert [] == [name for name, lines in lengths.items() if lines > 150]


def test_git_ignores_the_folders_that_jobs_make() -> None:
    """Those that a setting places in the working folder, and the store."""
    ignored = (CHECKOUT / ".gitignore").read_text(encoding="utf-8").splitlines()
    folders = [value for value in map(default_value, settings.names()) if isinstance(value, Path)]

    assert folders
    assert [] == [folder for folder in folders if f"/{folder}/" not in ignored]
    assert f"/{settings.Settings().store}*" in ignored


SHIPPED = (
    "resources",
    "jobs",
    "jjb",
    "deploy",
    "docs",
    "benchmarks",
    "README.rst",
    "CONTRIBUTING.rst",
    "CHANGELOG.rst",
    "SECURITY.rst",
)
"""What users read, and the code that prints messages for them."""


def shipped_texts() -> Iterator[tuple[str, str]]:
    for place in map(CHECKOUT.joinpath, SHIPPED):
        for file in [place] if place.is_file() else sorted(place.rglob("*")):
            if file.is_file() and file.suffix not in {".png", ".pyc", ".whl"} and "_build" not in file.parts:
                text = file.read_text(encoding="utf-8", errors="replace")
                yield str(file.relative_to(CHECKOUT)), " ".join(text.split())


def test_nothing_advises_to_install_perftrend_from_an_index() -> None:
    """No such package is published, so its name may become that of another one."""
    advice = re.compile(r"perftrend\[|pip3? install [^.;]*\bperftrend\b")

    assert [] == [(name, match[0]) for name, text in shipped_texts() for match in advice.finditer(text)]


def test_tests_of_the_threat_model_exist() -> None:
    page = (CHECKOUT / "SECURITY.rst").read_text(encoding="utf-8")
    tests = re.findall(r"``(tests/[^`]+)``", page)

    assert tests
    assert [] == [test for test in tests if not (CHECKOUT / test).is_file()]


def default_value(name: str) -> object:
    value: object = settings.Settings()
    for part in name.split("."):
        value = getattr(value, part)
    return value


def default(name: str) -> str:
    value = default_value(name)
    match value:
        case None:
            return "the testbed's" if name.startswith(("trial.", "search.")) else "none"
        case () | {} if not value:
            return "none"
        case dict() | tuple():
            given = (
                value
                if isinstance(value, tuple)
                else (f"{key}: {_words(each)}" for key, each in value.items())
            )
            return "``, ``".join(given)
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case _:
            return str(value)


def _words(given: str | tuple[str, ...]) -> str:
    return given if isinstance(given, str) else " ".join(given)


def test_every_testbed_that_ships_is_documented() -> None:
    written = "\n".join(file.read_text(encoding="utf-8") for file in DOCS.rglob("*.rst"))
    shipped = [file.stem for file in (CHECKOUT / "resources" / "perftrend" / "testbeds").glob("*.yaml")]

    assert [] == [name for name in shipped if f"``{name}``" not in written]


def test_exit_codes_are_told_as_errors_has_them() -> None:
    page = (DOCS / "operations.rst").read_text(encoding="utf-8")
    codes = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}

    assert codes == {int(code) for code in re.findall(r"^   \* - (\d+)$", page, re.MULTILINE)}


def test_reverse_proxy_has_the_limits_of_the_dashboard() -> None:
    text = (CHECKOUT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    usual = settings.DashboardSettings()

    assert f"rate={usual.requests_per_second:g}r/s" in text
    assert f"burst={usual.burst} " in text
    assert f"client_max_body_size {usual.maximum_bytes // 1024**2}m;" in text
    [read_s] = re.findall(r"proxy_read_timeout (\d+)s;", text)
    assert int(read_s) > usual.database_timeout_s
