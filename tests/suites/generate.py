"""Write the Robot suites from ``suites.yaml`` by the one template ``suite.robot.j2``.

After a change of either::

    .venv/bin/python tests/suites/generate.py
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import jinja2
import yaml

FOLDER = Path(__file__).parent


def suites() -> Iterator[tuple[Path, str]]:
    """Yield each suite's file and what belongs into it."""
    plan = yaml.safe_load((FOLDER / "suites.yaml").read_text(encoding="utf-8"))
    # The suites are no HTML: nothing is to be escaped.
    environment = jinja2.Environment(  # noqa: S701
        loader=jinja2.FileSystemLoader(FOLDER),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    template = environment.get_template("suite.robot.j2")
    pairs = [
        *product(devices(plan), plan["measurements"]),
        *product(plan["reconfigurations"], [plan["reconfiguration"]]),
    ]
    for device, measurement in pairs:
        name = f"{device['name']}-{measurement['tag'].lower()}.robot"
        text = template.render(
            device={"tags": [], **device},
            measurement=measurement,
            cores=device.get("cores", plan["cores"]),
        )
        yield FOLDER / name, text.rstrip() + "\n"


def devices(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each device as planned, and then with each number of receive queues, at 64 bytes."""
    for device in plan["devices"]:
        yield device
        for count in device.get("receive_queues", ()):
            yield {
                **device,
                "name": f"{device['name']}-{count}rxq",
                "title": f"{device['title']}, {count} receive queues at each port",
                "frames": ["64B"],
                # One core serves the queues one after the other: they matter if several cores do.
                "cores": [cores for cores in plan["cores"] if cores > 1],
                "options": {**device["options"], "receive_queues": count},
                "tags": [f"rxq={count}"],
            }


def main() -> None:
    """Write all of them, and remove those that are no longer planned."""
    written = dict(suites())
    for old in set(FOLDER.glob("*-*.robot")) - set(written):
        old.unlink()
    for file, text in written.items():
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
