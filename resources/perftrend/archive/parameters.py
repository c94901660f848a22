"""The parameters of a trace, from the names and tags of a test.

They come from the suites' metadata, the tags and the names alone, never from the message: a test that failed
before its measurement belongs to the same traces as on the previous night. In other CI, tags repeat some
parts of the names, but not all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from perftrend.archive.result_records import RecordedTest

_TAG_FORMS = {
    "frame": re.compile(r"(\d+B|IMIX)", re.IGNORECASE),
    "cores": re.compile(r"(?:\d+T)?(\d+C)", re.IGNORECASE),
    "threads": re.compile(r"(\d+T)\d+C", re.IGNORECASE),
    "driver": re.compile(r"DRV_(\w+)", re.IGNORECASE),
    "nic": re.compile(r"NIC_(.+)", re.IGNORECASE),
}
_NAME_FORMS = {
    "frame": re.compile(r"(\d+b|imix)(?:_v4_\d)?", re.IGNORECASE),
    "cores": re.compile(r"(?:\d+t)?(\d+c)", re.IGNORECASE),
    "threads": re.compile(r"(\d+t)\d+c", re.IGNORECASE),
}
_NIC = re.compile(r"\d+ge\d+p\d+\w+", re.IGNORECASE)
_SMALL = ("driver", "nic")
_RESERVED = ("testbed", "metric", "test", "suite", "experiment")
_OTHER = re.compile(r"(?P<name>[A-Za-z]\w*)=(?P<value>.+)")
_NUMBERED = re.compile(r"tc\d+-(?P<name>.+)", re.IGNORECASE)

_METRICS = {
    "MRR": ("mrr",),
    "NDRPDR": ("ndr", "pdr"),
    "NDR": ("ndr",),
    "PDR": ("pdr",),
    "NDRDISC": ("ndr",),
    "PDRDISC": ("pdr",),
    "SOAK": ("soak",),
    "HOLD": ("hold",),
    "RECONF": ("reconf_packets", "reconf_time"),
}
_FURTHER_PDR = re.compile(r"PLR_([0-9.]+(?:E-[0-9]+)?)")
"""Set on every test of a run that searches for further PDRs. It is named after the loss ratio, so that
``*pdr*`` selects only the tests that search."""
_UNITS = {"reconf_packets": "packets", "reconf_time": "s", "hoststack_bandwidth": "bps"}
_COUNTING = ("mrr", "ndr", "pdr")
_LOWER_IS_BETTER = ("reconf_packets", "reconf_time")


def of_test(test: RecordedTest) -> dict[str, str]:
    """Return the parameters of a test except its testbed and its metric."""
    parameters = {"test": name_of(test), "suite": test.suite}
    # The NIC in the name is the exact one; the tag has only its model.
    words = [*_words(test.suite), *_words(test.name)]
    found = [*_nics(words), *_forms(_TAG_FORMS, test.tags), *_forms(_NAME_FORMS, _words(test.name))]
    for name, value in found:
        parameters.setdefault(name, value.lower() if name in _SMALL else value.upper())
    for tag in filter(None, map(_OTHER.fullmatch, test.tags)):
        if tag["name"] not in _RESERVED:
            parameters.setdefault(tag["name"], tag["value"])
    return parameters


def name_of(test: RecordedTest) -> str:
    """Return the name of a test without its number, which once was its position among the other tests."""
    numbered = _NUMBERED.fullmatch(test.name)
    return numbered["name"].lower() if numbered else test.name


def metrics_of(test: RecordedTest) -> list[str]:
    """Return the metrics that a test measures, also if it failed before: by its tags, or its name's end."""
    tags = [tag.upper() for tag in test.tags]
    if metrics := [metric for tag in tags for metric in _METRICS.get(tag, ())]:
        ratios = filter(None, map(_FURTHER_PDR.fullmatch, tags)) if "NDRPDR" in tags else ()
        return list(dict.fromkeys([*metrics, *(f"pdr_{ratio[1].lower()}" for ratio in ratios)]))
    if "HOSTSTACK" in tags:
        rates = {"CPS", "RPS"} & {word.upper() for word in _words(test.name)}
        return ["hoststack_rate" if rates else "hoststack_bandwidth"]
    words = _words(name_of(test))
    known = {name for name, _ in _forms(_NAME_FORMS, words)}
    return list(_METRICS.get(words[-1].upper(), ())) if {"frame", "cores"} <= known else []


def unit_of(metric: str, test: RecordedTest) -> str:
    """Return the unit of a test's results of a metric: a trace has one unit, on failed nights too."""
    if metric in _UNITS:
        return _UNITS[metric]
    if metric not in (*_COUNTING, "hoststack_rate"):
        return "pps"
    words = {word.lower() for text in (test.name, *test.tags) for word in re.split(r"[-_ ]", text)}
    return next((unit for unit in ("cps", "tps", "rps") if unit in words), "pps")


def lower_is_better(metric: str) -> bool:
    """Whether a metric counts losses."""
    return metric in _LOWER_IS_BETTER


def _words(name: str) -> list[str]:
    return re.split(r"[-. ]", name)


def _nics(words: list[str]) -> Iterator[tuple[str, str]]:
    yield from (("nic", word) for word in words if _NIC.fullmatch(word))


def _forms(forms: dict[str, re.Pattern[str]], texts: list[str]) -> Iterator[tuple[str, str]]:
    for name, form in forms.items():
        yield from ((name, found[1]) for found in map(form.fullmatch, texts) if found)
