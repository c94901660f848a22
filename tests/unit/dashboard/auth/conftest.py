from __future__ import annotations

import pytest

from tests.doubles.idp import Idp


@pytest.fixture
def idp() -> Idp:
    return Idp()
