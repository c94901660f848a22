from __future__ import annotations

import errno
import inspect

import pytest

from perftrend import errors


def ended(error: BaseException) -> int:
    with errors.report_to_stderr() as outcome:
        raise error
    return outcome.exit_code


def test_a_block_that_ends_well_has_the_exit_code_that_it_sets() -> None:
    with errors.report_to_stderr() as outcome:
        outcome.exit_code = errors.EXIT_REGRESSION

    assert 1 == outcome.exit_code


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (errors.UsageError, 2),
        (errors.SettingsError, 2),
        (errors.ArchiveError, 2),
        (errors.StoreError, 3),
        (errors.ServiceError, 3),
        (errors.TestbedError, 4),
        (errors.SearchTimeoutError, 4),
    ],
)
def test_an_error_is_one_line_and_its_exit_code(
    error: type[errors.PerftrendError], exit_code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code == ended(error("testbed 'x' is unknown;\n  did you mean 'y'?"))
    assert ("", "perftrend: testbed 'x' is unknown; did you mean 'y'?\n") == tuple(capsys.readouterr())


def test_every_error_stands_in_the_table() -> None:
    kinds = [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.PerftrendError)
    ]

    assert all(f"{kind.__name__}" in (errors.__doc__ or "") for kind in kinds)


def test_an_interruption_has_its_own_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert 130 == ended(KeyboardInterrupt())
    assert "perftrend: interrupted\n" == capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "hint"),
    [(errno.ENOSPC, "free some space"), (errno.EACCES, "permission"), (errno.EROFS, "can be written")],
)
def test_a_system_error_names_the_file_and_what_to_do(
    number: int, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 3 == ended(OSError(number, "is so", "/some/file"))
    told = capsys.readouterr().err
    assert told.startswith("perftrend: /some/file: is so; ")
    assert hint in told


def test_a_defect_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), errors.report_to_stderr():
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("word", "choices", "expected"),
    [
        ("trendin", ["trending", "analysis"], "; did you mean 'trending'?"),
        ("xyz", ["trending", "analysis"], "; known are analysis, trending"),
        ("xyz", [], "; none is known"),
    ],
)
def test_nearest_names_one_word_or_all(word: str, choices: list[str], expected: str) -> None:
    assert expected == errors.nearest(word, choices)
