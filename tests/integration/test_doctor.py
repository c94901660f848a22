"""./run doctor on a real Gerrit, a real server like Jenkins, and a real PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
import requests

from perftrend.cli import doctor
from perftrend.settings import names, variable
from perftrend.store import Store
from tests.integration.servers import gerrit, hudson, postgresql
from tests.integration.servers.gerrit import User
from tests.integration.servers.listening import until
from tests.unit.jjb import rendering

PROJECT = "doctor"
LABEL = "Doctor"
Check = Callable[..., tuple[int, Mapping[str, dict[str, str]]]]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """Return a function that checks with some settings and returns the exit code and results by subject."""
    for name in names():
        monkeypatch.delenv(variable(name), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def run(**settings: Any) -> tuple[int, Mapping[str, dict[str, str]]]:
        file = tmp_path / "settings.yaml"
        file.touch(mode=0o600)
        file.write_text(json.dumps({"testbed": "simulated", **settings}))
        code = doctor.main(["--settings", str(file), "--json", "-"])
        results = json.loads(capsys.readouterr().out)["checks"]
        return code, {f"{each['area']} {each['what']}": each for each in results}

    return run


# ---- Gerrit


@pytest.fixture(scope="module")
def users(gerrit_server: gerrit.Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, User]:
    """Make a project whose label only some may vote on, with an open change."""
    robot = gerrit_server.create_user("doctor-robot", ["Service Users"])
    guest = gerrit_server.create_user("doctor-guest")
    gerrit_server.create_group("doctor-voters", [robot.name])
    gerrit_server.ask("PUT", f"projects/{PROJECT}", body={"create_empty_commit": True})
    gerrit_server.ask("PUT", f"projects/{PROJECT}/labels/{LABEL}", body={
        "function": "NoBlock", "values": {"-1": "Slower", " 0": "No vote", "+1": "As fast"},
    })  # fmt: skip
    voters = gerrit_server.ask("GET", "groups/doctor-voters")["id"]
    rule = {"label": LABEL, "rules": {voters: {"action": "ALLOW", "min": -1, "max": 1}}}
    gerrit_server.ask("POST", f"projects/{PROJECT}/access", body={
        "add": {"refs/heads/*": {"permissions": {f"label-{LABEL}": rule}}},
    })  # fmt: skip
    folder = tmp_path_factory.mktemp("doctor") / "clone"
    gerrit_server.push(gerrit_server.clone(PROJECT, folder, guest), {"a.c": "int x;"})
    return {"robot": robot, "guest": guest}


def as_user(server: gerrit.Server, user: User, **others: Any) -> dict[str, Any]:
    own = {
        "url": server.url, "user": user.name, "token": user.password, "ssh_port": server.ssh_port,
        "ssh_key": str(user.key), "known_hosts": str(server.known_hosts), "label": LABEL, **others,
    }  # fmt: skip
    return {"gerrit": own, "listener": {"projects": [PROJECT]}}


def test_user_with_all_rights_in_gerrit_is_ok(
    gerrit_server: gerrit.Server, users: Mapping[str, User], check: Check
) -> None:
    code, found = check(**as_user(gerrit_server, users["robot"], groups=["doctor-voters"]))

    of_gerrit = {what: each["severity"] for what, each in found.items() if each["area"] == "gerrit"}
    subjects = ("login", "clock", "label", "events", "ssh", "groups")
    assert (0, {f"gerrit {what}": "ok" for what in subjects}) == (code, of_gerrit)


def test_missing_rights_in_gerrit_are_named(
    gerrit_server: gerrit.Server, users: Mapping[str, User], check: Check
) -> None:
    code, found = check(**as_user(gerrit_server, users["guest"]))

    assert 0 == code
    assert f"may not vote -1 and +1 on {LABEL} in the project {PROJECT}" in found["gerrit label"]["text"]
    assert found["gerrit events"]["fix"].endswith("gerrit set-members --add doctor-guest \"'Service Users'\"")
    assert ["warning", "warning"] == [found[f"gerrit {what}"]["severity"] for what in ("label", "events")]


@pytest.mark.parametrize(
    ("groups", "text"),
    [([], "no comment starts a job"), (["Registered Users"], "everybody who is signed in to Gerrit")],
)
def test_groups_that_are_open_or_missing_are_a_warning(
    groups: list[str], text: str, gerrit_server: gerrit.Server, users: Mapping[str, User], check: Check
) -> None:
    _, found = check(**as_user(gerrit_server, users["robot"], groups=groups))

    assert "warning" == found["gerrit groups"]["severity"]
    assert text in found["gerrit groups"]["text"]


def test_label_that_the_project_does_not_have_is_a_warning(
    gerrit_server: gerrit.Server, users: Mapping[str, User], check: Check
) -> None:
    _, found = check(**as_user(gerrit_server, users["robot"], label="Nothing"))

    assert f"the project {PROJECT} has no label Nothing" in found["gerrit label"]["text"]


def test_wrong_password_key_and_group_are_faults(
    gerrit_server: gerrit.Server, users: Mapping[str, User], check: Check
) -> None:
    robot, guest = users["robot"], users["guest"]
    code, found = check(**as_user(gerrit_server, robot, token="wrong"))  # noqa: S106 - that is the point
    assert (3, "fault") == (code, found["gerrit login"]["severity"])
    assert "/settings/#HTTPCredentials" in found["gerrit login"]["fix"]

    code, found = check(**as_user(gerrit_server, robot, ssh_key=str(guest.key), groups=["nowhere"]))
    assert (3, "fault") == (code, found["gerrit groups"]["severity"])
    assert "the login was refused" in found["gerrit ssh"]["text"]


def test_checks_write_nothing_in_gerrit(
    gerrit_server: gerrit.Server, users: Mapping[str, User], check: Check
) -> None:
    def state() -> Any:
        return gerrit_server.ask("GET", f"changes/?q=project:{PROJECT}&o=MESSAGES&o=DETAILED_LABELS")

    before = state()
    check(**as_user(gerrit_server, users["robot"]))

    assert before == state()


def test_anonymous_gerrit_is_a_warning(
    gerrit_server: gerrit.Server, users: Mapping[str, User], check: Check
) -> None:
    _, found = check(gerrit={"url": gerrit_server.url})

    assert "warning" == found["gerrit login"]["severity"]
    assert "not checked" == found["gerrit rights"]["severity"]


# ---- a server like Jenkins


def test_server_without_the_jobs_is_a_fault(jenkins_server: hudson.Server, check: Check) -> None:
    code, found = check(jenkins={"url": jenkins_server.url}, testbed="1n-veth")

    assert (3, "fault") == (code, found["jenkins jobs"]["severity"])
    assert "perftrend-trending-nightly-1n-veth" in found["jenkins jobs"]["text"]
    assert found["jenkins jobs"]["fix"].endswith("jenkins-jobs --conf jenkins_jobs.ini update jjb")
    assert "warning" == found["jenkins agents"]["severity"]


def test_server_with_the_jobs_lists_no_plugins_and_no_build_is_started(
    jenkins_server: hudson.Server, check: Check, tmp_path: Path
) -> None:
    (tmp_path / "project.yaml").write_text(
        "- project: {name: doctor, testbed: 1n-loopback, jobs: [perftrend-trend]}\n"
    )
    made = rendering.render([tmp_path / "project.yaml"])
    for name, xml in made.items():
        jenkins_server.create_job(name, xml)

    code, found = check(jenkins={"url": jenkins_server.url}, testbed="1n-loopback")

    severities = {what: found[f"jenkins {what}"]["severity"] for what in ("jobs", "rights", "clock")}
    assert (0, {"jobs": "ok", "rights": "ok", "clock": "ok"}) == (code, severities)
    for what in ("plugins", "resources"):
        assert "not checked" == found[f"jenkins {what}"]["severity"]
    for name in made:
        assert [] == list((jenkins_server.home / "jobs" / name).rglob("build.xml"))


READ_ONLY = """<hudsonSecurityManager><useSecurity>true</useSecurity>
<authorizationStrategy class="hudson.security.GlobalMatrixAuthorizationStrategy">
  <permission>hudson.model.Hudson.Read:anonymous</permission>
  <permission>hudson.model.Item.Read:anonymous</permission>
</authorizationStrategy>
<securityRealm class="hudson.security.HudsonPrivateSecurityRealm"/></hudsonSecurityManager>"""


LONG_BUILD = """<project><quietPeriod>0</quietPeriod><authToken>start</authToken>
<builders><hudson.tasks.Shell><command>sleep 600</command></hudson.tasks.Shell></builders></project>"""


def build_of(server: hudson.Server, job: str) -> dict[str, Any]:
    tree = {"tree": "builds[number,building,result]"}
    builds = requests.get(f"{server.url}/job/{job}/api/json", params=tree, timeout=60).json()["builds"]
    return builds[0] if builds else {}


def start_build(server: hudson.Server, job: str) -> None:
    """Start a build by the job's token, for which no right is needed."""
    requests.get(f"{server.url}/job/{job}/build", params={"token": "start"}, timeout=60).raise_for_status()
    until(lambda: build_of(server, job).get("building"))


def test_user_who_may_not_start_or_end_builds_is_a_warning(
    jenkins_server: hudson.Server, gerrit_server: gerrit.Server, check: Check, tmp_path: Path
) -> None:
    """On a server of its own: whom it lets do what, it reads when it starts."""
    home = tmp_path / "home"
    for kind in ("trending-nightly", "trending-weekly", "analysis", "bisect", "perftest"):
        job = home / "jobs" / f"perftrend-{kind}-simulated"
        job.mkdir(parents=True)
        (job / "config.xml").write_text(LONG_BUILD)
    (home / "hudson-security.xml").write_text(READ_ONLY)
    with hudson.running(home) as server:
        start_build(server, "perftrend-analysis-simulated")
        jenkins = {"url": server.url, "user": "perf", "token": "x"}
        code, found = check(jenkins=jenkins, gerrit={"url": gerrit_server.url})
        stop = f"{server.url}/job/perftrend-analysis-simulated/1/stop"
        requests.post(stop, timeout=60)
        assert build_of(server, "perftrend-analysis-simulated")["building"]

    assert (0, "ok") == (code, found["jenkins jobs"]["severity"])
    assert "warning" == found["jenkins rights"]["severity"]
    assert "perftrend-analysis-simulated" in found["jenkins rights"]["text"]
    assert "warning" == found["jenkins cancelling"]["severity"]
    assert "perftrend-analysis-simulated" in found["jenkins cancelling"]["text"]
    assert "not checked" == found["jenkins login"]["severity"]


def test_user_who_may_end_a_running_build_is_ok_and_it_continues(
    jenkins_server: hudson.Server, gerrit_server: gerrit.Server, check: Check
) -> None:
    servers = {"jenkins": {"url": jenkins_server.url}, "gerrit": {"url": gerrit_server.url}}
    job = "perftrend-analysis-1n-kernel"
    jenkins_server.create_job(job, LONG_BUILD)
    _, idle = check(testbed="1n-kernel", **servers)
    start_build(jenkins_server, job)

    _, busy = check(testbed="1n-kernel", **servers)

    cancelling = [each["jenkins cancelling"]["severity"] for each in (idle, busy)]
    assert ["not checked", "ok"] == cancelling
    assert build_of(jenkins_server, job)["building"]
    requests.post(f"{jenkins_server.url}/job/{job}/1/stop", timeout=60)
    until(lambda: not build_of(jenkins_server, job)["building"])
    assert build_of(jenkins_server, job)["result"] in ("ABORTED", "FAILURE")


def test_wrong_address_of_jenkins_is_a_fault(jenkins_server: hudson.Server, check: Check) -> None:
    code, found = check(jenkins={"url": f"{jenkins_server.url}/jenkins"})

    assert (3, "fault") == (code, found["jenkins login"]["severity"])


# ---- PostgreSQL


@pytest.fixture
def database(postgresql_server: postgresql.Server) -> str:
    return postgresql_server.database()


def tables(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
        assert row is not None
        return int(row[0])


def test_empty_database_is_ok_and_stays_empty(database: str, check: Check) -> None:
    code, found = check(store=database)

    assert (0, "ok") == (code, found["store version"]["severity"])
    assert 0 == tables(database)


@pytest.mark.parametrize(
    ("version", "code", "severity"), [(None, 0, "ok"), ("0003", 0, "warning"), ("9999", 3, "fault")]
)
def test_store_in_postgresql_has_a_version(
    database: str, check: Check, version: str | None, code: int, severity: str
) -> None:
    Store.open(database).close()
    if version:
        with psycopg.connect(database) as connection:
            connection.execute("UPDATE perftrend_version SET version_num = %s", (version,))
    before = tables(database)

    ended, found = check(store=database)

    assert (code, severity) == (ended, found["store version"]["severity"])
    assert before == tables(database)
    assert postgresql.PASSWORD not in json.dumps(found)


def test_user_who_may_only_read_is_a_fault(
    postgresql_server: postgresql.Server, database: str, check: Check, reader: str
) -> None:
    Store.open(database).close()
    with psycopg.connect(database) as connection:
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {reader}")
    name = database.rpartition("/")[2]

    code, found = check(store=postgresql_server.url(name, user=reader, password="x"))  # noqa: S106 - of a test

    assert (3, "fault") == (code, found["store rights"]["severity"])
    assert "may not insert, update, delete" in found["store rights"]["text"]


@pytest.fixture
def reader(postgresql_server: postgresql.Server) -> Iterator[str]:
    with psycopg.connect(postgresql_server.url(), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS doctor_reader")
        connection.execute("CREATE ROLE doctor_reader LOGIN PASSWORD 'x'")
    return "doctor_reader"


def test_wrong_password_of_postgresql_is_a_fault(
    postgresql_server: postgresql.Server, database: str, check: Check
) -> None:
    name = database.rpartition("/")[2]

    code, found = check(store=postgresql_server.url(name, password="wrong-one"))  # noqa: S106 - of nothing

    assert (3, "fault") == (code, found["store version"]["severity"])
    assert "password authentication failed" in found["store version"]["text"]
    assert "wrong-one" not in json.dumps(found)
