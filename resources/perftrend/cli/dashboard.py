"""Serve the dashboard: explore, cluster, triage, annotate and compare what was measured."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from perftrend import console
from perftrend.cli import options
from perftrend.dashboard import WORKS, AppContext, make_app, server, warm_up
from perftrend.dashboard.auth import Role, notices
from perftrend.dashboard.auth.authentication import check, new_token
from perftrend.dashboard.auth.users import OPERATOR
from perftrend.dashboard.background import Work
from perftrend.dashboard.server import log_to
from perftrend.settings import Settings
from perftrend.store import Store

EXAMPLE = "perftrend-example.sqlite"
"""The default path of the example store."""


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    described = options.Parser(
        "dashboard",
        __doc__,
        examples=[
            "./run dashboard --example",
            "./run dashboard --settings team.yaml --address 0.0.0.0:8080",
            "./run dashboard --settings team.yaml --new-token nightly --role editor",
        ],
    )
    add = described.add_argument
    add(
        "--address",
        metavar="HOST:PORT",
        help=f"port 0 selects a free one {options.show_default('dashboard.address')}",
    )
    add("--example", action="store_true", help="show a year of simulated nights, in a store of its own")
    add = described.add_argument_group("tokens of the API").add_argument
    add("--new-token", metavar="NAME", help="create a token for a job, print it once, and end")
    add(
        "--role",
        choices=[role.title for role in Role],
        default="viewer",
        help="its permissions (default: viewer)",
    )
    add("--days", metavar="N", type=options.count, default=90, help="how long it is valid (default: 90)")
    options.add_files(described, report=False, archive=False)
    return described


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    with options.report_errors() as outcome:
        given = parser().parse_args(argv)
        place = given.store or (EXAMPLE if given.example else None)
        overrides = {"store": place, "dashboard.address": given.address}
        settings = Settings.load(given.settings, overrides=overrides)
        if given.new_token is not None:
            check(given.new_token, days=given.days)
            if given.example and not Path(settings.store).exists():
                _make_example(settings.store)
            print(create_token(settings, given.new_token, Role.of(given.role), days=given.days))
        else:
            serve(settings, example=given.example)
    return outcome.exit_code


def serve(settings: Settings, *, example: bool = False) -> None:
    """Serve a store until it is interrupted, which is a regular end.

    :param example: whether to serve the example store of simulated nights, which is created if missing.
    :raises PerftrendError: if settings cannot be used, or the address is in use.
    """
    chosen = settings.dashboard
    with ExitStack() as stack:
        listening = stack.enter_context(server.bound(chosen))
        if example:
            _make_example(settings.store)
        # Users decide when to migrate a store; starting a dashboard does not.
        store = stack.enter_context(Store.open(settings.store, migrate=False))
        site = AppContext.of(settings, store)
        app = make_app(site, works=(*WORKS, *(_example_works() if example else ())))
        for notice in notices(chosen):
            console.warn(notice)
        try:
            warm_up(site)
            console.warn(f"dashboard at {server.url_of(listening)}")
            log_to(sys.stderr, settings.log_level)
            server.serve(app, listening, chosen)
        except KeyboardInterrupt:
            console.warn("stopped")


def create_token(settings: Settings, name: str, role: Role, *, days: int) -> str:
    """Create an API token and return it; the store retains only a hash.

    :raises PerftrendError: if the name or the duration is invalid, or the store cannot be written.
    """
    with Store.open(settings.store, migrate=False) as store:
        return new_token(store.tokens, name=name, role=role, owner=OPERATOR, days=days)[1]


def _example_works() -> tuple[Work, ...]:
    from perftrend.cli import example_store  # noqa: PLC0415 - the simulation takes long to import

    return (example_store.judge_in_background,)


def _make_example(place: str) -> None:
    """Create the example store; the one that an earlier start created at the default path is reused."""
    if place != EXAMPLE or not Path(place).exists():
        from perftrend.cli import example_store  # noqa: PLC0415 - the simulation takes long to import

        console.warn(f"simulating a year of nights in {place}")
        example_store.fill(place)


if __name__ == "__main__":
    sys.exit(main())
