"""Keywords that measure: each sets the test's message to what it found."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, cast

from robot.api.deco import keyword, library
from robot.libraries.BuiltIn import BuiltIn

import perftrend
from perftrend import message
from perftrend.keywords.testbed import TestbedKeywords
from perftrend.measure.procedure import MrrPlan, Procedure, SearchPlan
from perftrend.model import Measurement


@library(scope="GLOBAL", version=perftrend.__version__)
class MeasuringKeywords:
    """Measures MRR, NDR and PDR on the open testbed, as the settings and the testbed's file say."""

    @keyword(name="Measure MRR")
    def measure_mrr(self) -> None:
        """Send at the highest rate, whatever is lost, in several trials over several device starts."""
        self._tell(self._procedure().mrr(self._mrr_plan()))

    @keyword(name="Find NDR And PDR By MDR")
    def find_ndr_and_pdr_by_mdr(self) -> None:
        """Search for the highest rates without loss (NDR) and with little loss (PDR) at once."""
        self._tell(self._procedure().ndr_and_pdr(self._search_plan()))

    @keyword
    def find_rate_by_binary_search(self, metric: Literal["ndr", "pdr"] = "ndr") -> None:
        """Search for one rate, ``ndr`` or ``pdr``, by plain bisection below the MRR."""
        self._tell(self._procedure().binary(metric, self._search_plan()))

    def _testbed(self) -> TestbedKeywords:
        found = BuiltIn().get_library_instance("perftrend.keywords.testbed.TestbedKeywords")
        return cast(TestbedKeywords, found)

    def _procedure(self) -> Procedure:
        output = Path(BuiltIn().get_variable_value("${OUTPUT DIR}"))
        variable = BuiltIn().get_variable_value
        name = re.sub(r"[^\w.-]+", "_", f"{variable('${SUITE NAME}')}.{variable('${TEST NAME}')}")
        return Procedure(self._testbed().testbed, output / "counters" / f"{name}.json", output)

    def _mrr_plan(self) -> MrrPlan:
        asked, usual = self._testbed().settings.trial, self._testbed().testbed.spec.mrr
        return MrrPlan(
            duration_s=asked.duration_s or usual.duration_s,
            multiplicity=asked.multiplicity or usual.multiplicity,
            starts=asked.starts or usual.starts,
        )

    def _search_plan(self) -> SearchPlan:
        asked, usual = self._testbed().settings.search, self._testbed().testbed.spec.search
        return SearchPlan(
            initial_duration_s=asked.initial_duration_s or usual.initial_duration_s,
            final_duration_s=asked.final_duration_s or usual.final_duration_s,
            relative_width=asked.relative_width,
            loss_ratio=asked.loss_ratio,
            minimum_pps=asked.minimum_pps or usual.minimum_pps,
            intermediate_phases=asked.intermediate_phases,
            timeout_s=asked.timeout_s,
        )

    def _tell(self, measurement: Measurement) -> None:
        BuiltIn().set_test_message(message.render(measurement))
