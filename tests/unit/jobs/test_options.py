"""Options that several jobs share."""

from __future__ import annotations

import importlib

import pytest

from jobs import _options as options


@pytest.mark.parametrize("job", ["trending", "perftest", "bisection", "bisectrun"])
def test_search_of_ndr_and_pdr_is_chosen_for_every_job_that_measures(job: str) -> None:
    given = importlib.import_module(f"jobs.{job}").parser().parse_args(["--search", "binary"])

    assert "binary" == options.of_suites(given)["search.strategy"]
