from __future__ import annotations

import gzip
from pathlib import Path

from benchmarks import fetching
from perftrend.archive import read_output


def test_generated_builds_can_be_read_and_differ(tmp_path: Path) -> None:
    one = fetching.output(3)
    for build in (1, 2):
        assert fetching.write(tmp_path, build, one) < len(one)
    files = sorted(tmp_path.rglob("output.xml.gz"))
    found = [[(result.key["testbed"], result.value) for result in read_output(file)] for file in files]

    assert [[("2n-clx", 17823452.25)] * 3, [("2n-clx", 17823453.25)] * 3] == found
    assert len(one) == len(gzip.decompress(files[0].read_bytes()))
