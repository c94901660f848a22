"""What the tests of the Jenkins jobs lean on: the XML that Jenkins Job Builder makes of them."""

from __future__ import annotations

from typing import Any

import pytest
from lxml import etree

from tests.unit.jjb import rendering


@pytest.fixture(scope="session")
def golden() -> dict[str, str]:
    """Give the XML made of the golden projects, by the job's name."""
    return dict(rendering.render(sorted(rendering.GOLDEN.glob("*.yaml"))))


@pytest.fixture(scope="session")
def jobs(golden: dict[str, str]) -> dict[str, Any]:
    """Give the same as trees."""
    return {name: etree.fromstring(xml.encode()) for name, xml in golden.items()}
