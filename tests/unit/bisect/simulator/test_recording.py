import numpy as np
import pytest

from perftrend.bisect.simulator import HistoryModel, Recording, SimulatedHistory, SimulatedTestbed
from perftrend.errors import UsageError

LINES = ["0.0,sort,10,10,10", "0.1,json,5,5,5", "0.2,sort,20,20,40", "0.3,sort,10,10,10"]


def test_longer_times_are_lower_speeds() -> None:
    recording = Recording.read("quiet", LINES, "sort")

    assert "quiet sort" == recording.name
    expected = np.array([[1, 1, 1], [0.5, 0.5, 0.25], [1, 1, 1]])
    assert np.exp(recording.speeds / 100) == pytest.approx(expected)


def test_measurements_follow_each_other_as_recorded() -> None:
    recording = Recording.read("quiet", LINES, "sort")
    history = SimulatedHistory(HistoryModel(size=4, changes=(), recording=recording), (1,))
    testbed = SimulatedTestbed(history)
    builds = [testbed.build(commit) for commit in (history.range.old, history.range.history.new)]

    measured = [testbed.measure(builds[number % 2]).values["test 1"].samples for number in range(6)]

    levels = [tuple(round(each / 1e7, 6) for each in samples) for samples in measured]
    assert levels[:3] == levels[3:]
    assert {(1.0, 1.0, 1.0), (0.5, 0.5, 0.25)} == set(levels)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0.0,json,5\n", "no repetitions of sort"),
        ("0.0,sort,5,5\n0.1,sort,5\n", "not the same number"),
        ("0.0,sort,5\n0.1,sort,0\n", "above 0"),
        ("0.0,sort,five\n", "could not convert"),
        ("0.0,sort\n", "no repetitions"),
    ],
)
def test_what_is_no_recording_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Recording.read("quiet", text.splitlines(), "sort")
