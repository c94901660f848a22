"""Whether the servers that jobs need can be used: Gerrit, Jenkins, and the clock of each.

Of Gerrit, the login, label, stream of events and groups are checked; of Jenkins, what the jobs of a testbed
need: plugins, agents, resources, the jobs, and rights. Nothing is posted, and no build is started. A server
that is only compatible with Jenkins does not list its plugins. The difference between this machine's clock
and that of a server is seen in the Date header of a response.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from urllib.parse import quote, urlsplit

from perftrend.clients import gerrit, jenkins
from perftrend.clients.gerrit import Gerrit, LabelRights
from perftrend.clients.http_service import RefusedError
from perftrend.clients.http_session import read_date
from perftrend.clients.jenkins import Jenkins
from perftrend.doctor import LONGEST_S
from perftrend.doctor.check_results import Area, CheckResult
from perftrend.errors import PerftrendError, SettingsError
from perftrend.execution import permissions
from perftrend.settings import GerritSettings, JenkinsSettings, Settings

_SET_GROUPS = "set gerrit.groups to the groups whose members may start jobs"

TREND_PLUGINS = (
    *("build-timeout", "description-setter", "email-ext", "flexible-publish", "git", "lockable-resources"),
    *("parameterized-trigger", "run-condition", "timestamper", "token-macro", "ws-cleanup"),
)
"""The plugins of the jobs of a trend, by the names of the plugin manager."""
ON_CHANGE_PLUGINS = ("credentials-binding",)
"""The plugins of the jobs that Gerrit comments start; Gerrit Trigger is not needed with the listener."""
LABEL = "perftrend"
"""The label of agents in ``jjb/defaults.yaml``."""
_TREND_JOBS = ("perftrend-trending-nightly-{}", "perftrend-trending-weekly-{}", "perftrend-analysis-{}")
_ON_CHANGE_JOBS = ("perftrend-bisect-{}", "perftrend-perftest-{}")
_UPDATE = ".venv/bin/jenkins-jobs --conf jenkins_jobs.ini update jjb"

Check = Callable[[Jenkins, Settings], Iterator[CheckResult]]

_LARGEST_SKEW_S = 5.0
"""Runs and comments are ordered by time; the header has whole seconds."""
_SYNCHRONIZE = "sudo timedatectl set-ntp true"


def check_gerrit(settings: Settings) -> Iterator[CheckResult]:
    """Check the Gerrit of the settings."""
    own = settings.gerrit
    if not own.url:
        yield Area.GERRIT.not_checked("connection", "gerrit.url is not set; give it with --gerrit URL")
        return
    own = own.model_copy(update={"timeout_s": min(own.timeout_s, LONGEST_S), "attempts": 1})
    try:
        client = gerrit.connect(own)
        yield _check_gerrit_login(client, own)
    except PerftrendError as error:
        yield Area.GERRIT.fault("login", str(error), _find_gerrit_fix(error, own))
        return
    yield check_clock(Area.GERRIT, f"{own.url}/config/server/version", own.timeout_s)
    if not own.user:
        yield Area.GERRIT.not_checked("rights", "gerrit.user and gerrit.token are not set")
        return
    yield from _check_labels(client, own, settings.listener.projects)
    yield _check_stream(client, own)
    yield _check_ssh(client, own)
    yield _check_groups(client, own)


def _check_gerrit_login(client: Gerrit, own: GerritSettings) -> CheckResult:
    if own.user:
        return Area.GERRIT.ok("login", f"{own.url} knows the user {client.account.username or own.user}")
    client.label_rights()
    found = f"{own.url} answers, but no user is set: nothing can be posted, and no event can be read"
    return Area.GERRIT.warning("login", found, "set gerrit.user, and PERFTREND_GERRIT_TOKEN_FILE")


def _find_gerrit_fix(error: PerftrendError, own: GerritSettings) -> str:
    if isinstance(error, RefusedError) and error.status == HTTPStatus.UNAUTHORIZED:
        return f"generate a new HTTP password at {own.url}/settings/#HTTPCredentials, and set gerrit.token"
    if isinstance(error, SettingsError):
        return "set gerrit.user, and PERFTREND_GERRIT_TOKEN_FILE to a file with its HTTP password"
    return f"curl -sSI {shlex.quote(f'{own.url}/config/server/version')}"


def _check_labels(client: Gerrit, own: GerritSettings, projects: tuple[str, ...]) -> Iterator[CheckResult]:
    if not own.label:
        yield Area.GERRIT.ok("label", "gerrit.label is not set: verdicts do not vote")
        return
    for project in projects or ("",):
        try:
            rights = client.label_rights(project)
        except PerftrendError as error:
            yield Area.GERRIT.not_checked("label", str(error))
            continue
        where = f"of the project {project} " if project else ""
        if rights is None:
            reason = f"the user sees no open change {where}to check the rights on"
            yield Area.GERRIT.not_checked("label", reason)
        else:
            yield judge_label(rights, own)


def judge_label(rights: LabelRights, own: GerritSettings) -> CheckResult:
    """Return whether the user may give both votes of verdicts, as seen on an open change."""
    label, project = own.label or "", rights.project
    address = f"{own.url}/a/projects/{quote(project, safe='')}"
    if label not in rights.labels:
        body = {"function": "NoBlock", "values": {"-1": "Slower", " 0": "No vote", "+1": "As fast"}}
        found = f"the project {project} has no label {label}: verdicts are posted without a vote"
        return Area.GERRIT.warning("label", found, _curl("PUT", f"{address}/labels/{quote(label)}", body))
    if {-1, 1} <= set(rights.votes):
        return Area.GERRIT.ok("label", f"the user may vote -1 to +1 on {label} in the project {project}")
    rule = {"label": label, "rules": {"GROUP": {"action": "ALLOW", "min": -1, "max": 1}}}
    body = {"add": {"refs/heads/*": {"permissions": {f"label-{label}": rule}}}}
    found = f"the user may not vote -1 and +1 on {label} in the project {project}: verdicts do not vote"
    return Area.GERRIT.warning("label", found, _curl("POST", f"{address}/access", body))


def _curl(method: str, url: str, body: object) -> str:
    """Return the command by which an administrator sends a request."""
    content = shlex.quote(json.dumps(body))
    head = f"curl --user ADMIN --request {method} --header 'Content-Type: application/json'"
    return f"{head} --data {content} {shlex.quote(url)}"


def _check_stream(client: Gerrit, own: GerritSettings) -> CheckResult:
    try:
        may_stream = client.may_stream()
    except PerftrendError as error:
        return Area.GERRIT.not_checked("events", str(error))
    if may_stream:
        return Area.GERRIT.ok("events", "the user has the capability Stream Events")
    found = "the user has no capability Stream Events: the listener finds comments only when it polls"
    # The server splits the words again.
    add = f"gerrit set-members --add {shlex.quote(own.user or '')} \"'Service Users'\""
    return Area.GERRIT.warning("events", found, f"ssh -p {own.ssh_port} ADMIN@{_ssh_host(own)} {add}")


def _check_ssh(client: Gerrit, own: GerritSettings) -> CheckResult:
    try:
        client.check_ssh()
    except PerftrendError as error:
        user = shlex.quote(own.user or "")
        fix = f"ssh -v -p {own.ssh_port} {user}@{_ssh_host(own)} gerrit version"
        return Area.GERRIT.warning("ssh", f"{error}; without it, the listener reads no events", fix)
    return Area.GERRIT.ok("ssh", f"the login at port {own.ssh_port} works")


def _ssh_host(own: GerritSettings) -> str:
    return shlex.quote(own.ssh_host or urlsplit(own.url or "").hostname or "")


def _check_groups(client: Gerrit, own: GerritSettings) -> CheckResult:
    if not own.groups:
        found = "gerrit.groups is not set, so no comment starts a job"
        return Area.GERRIT.warning("groups", found, _SET_GROUPS)
    if permissions.includes_all_users(own.groups):
        found = "everybody who is signed in to Gerrit may start jobs, which run the code of any patch set"
        return Area.GERRIT.warning("groups", found, _SET_GROUPS)
    try:
        client.check_groups(own.groups)
    except PerftrendError as error:
        return Area.GERRIT.fault(
            "groups", str(error), "correct gerrit.groups, or make the group visible to all"
        )
    return Area.GERRIT.ok("groups", f"the user sees {', '.join(own.groups)}")


def check_jenkins(settings: Settings) -> Iterator[CheckResult]:
    """Check the Jenkins of the settings."""
    own = settings.jenkins
    if not own.url:
        yield Area.JENKINS.not_checked("connection", "jenkins.url is not set; give it with --jenkins URL")
        return
    own = own.model_copy(update={"timeout_s": min(own.timeout_s, LONGEST_S), "attempts": 1})
    try:
        client = jenkins.connect(own)
        is_jenkins = client.is_jenkins()
    except PerftrendError as error:
        yield Area.JENKINS.fault("login", str(error), _find_jenkins_fix(error, own))
        return
    yield _judge_jenkins_login(own, is_jenkins=is_jenkins)
    yield check_clock(Area.JENKINS, f"{own.url}/api/json?tree=mode", own.timeout_s)
    checks: dict[str, Check] = {
        "plugins": _check_plugins,
        "agents": _check_agents,
        "resources": _check_resources,
        "jobs": _check_jobs,
    }
    for what, check in checks.items():
        try:
            yield from check(client, settings)
        except PerftrendError as error:
            yield Area.JENKINS.not_checked(what, str(error))


def _find_jenkins_fix(error: PerftrendError, own: JenkinsSettings) -> str:
    if isinstance(error, RefusedError) and error.status == HTTPStatus.UNAUTHORIZED:
        return f"generate a new API token at {own.url}/user/{own.user}/security, and set jenkins.token"
    if isinstance(error, SettingsError):
        return "set jenkins.user, and PERFTREND_JENKINS_TOKEN_FILE to a file with its API token"
    return f"curl -sSI {shlex.quote(f'{own.url}/api/json?tree=mode')}"


def _judge_jenkins_login(own: JenkinsSettings, *, is_jenkins: bool) -> CheckResult:
    if own.user and is_jenkins:
        return Area.JENKINS.ok("login", f"{own.url} accepts the user {own.user}")
    if own.user:
        reason = f"{own.url} answers, but is only compatible with Jenkins, and may ignore a wrong login"
        return Area.JENKINS.not_checked("login", reason)
    found = f"{own.url} answers, but no user is set: most servers let only users start builds"
    return Area.JENKINS.warning("login", found, "set jenkins.user, and PERFTREND_JENKINS_TOKEN_FILE")


def _check_plugins(client: Jenkins, settings: Settings) -> Iterator[CheckResult]:
    if not client.is_jenkins():
        yield Area.JENKINS.not_checked("plugins", "only Jenkins itself lists its plugins")
        return
    yield judge_plugins(client.plugins(), settings.jenkins.url or "")


def judge_plugins(installed: Mapping[str, bool], url: str) -> CheckResult:
    """Return what is missing of the plugins that are installed, each with whether it is active."""
    inactive = [name for name in (*TREND_PLUGINS, *ON_CHANGE_PLUGINS) if installed.get(name) is False]
    if inactive:
        found = f"these plugins are not active: {', '.join(inactive)}"
        return Area.JENKINS.fault("plugins", found, _cli(url, "enable-plugin", inactive))
    missing = [name for name in TREND_PLUGINS if name not in installed]
    if missing:
        found = f"missing: {', '.join(missing)}; Jenkins drops their parts of the jobs without a message"
        return Area.JENKINS.fault("plugins", found, _cli(url, "install-plugin", missing))
    missing = [name for name in ON_CHANGE_PLUGINS if name not in installed]
    if missing:
        found = f"missing: {', '.join(missing)}, which perftest and bisect need to post in Gerrit"
        return Area.JENKINS.warning("plugins", found, _cli(url, "install-plugin", missing))
    return Area.JENKINS.ok("plugins", f"all {len(TREND_PLUGINS) + len(ON_CHANGE_PLUGINS)} are active")


def _cli(url: str, command: str, plugins: Sequence[str]) -> str:
    server = shlex.quote(f"{url}/")
    return f"java -jar jenkins-cli.jar -s {server} -auth USER:TOKEN {command} {' '.join(plugins)} -restart"


def _check_agents(client: Jenkins, settings: Settings) -> Iterator[CheckResult]:
    found = client.agents(LABEL)
    page = f"add the label at {settings.jenkins.url}/computer/, or set testbed-node in jjb/defaults.yaml"
    if not found.agents:
        yield Area.JENKINS.warning("agents", f"no agent has the label {LABEL}: builds wait for ever", page)
    elif found.is_offline:
        yield Area.JENKINS.fault("agents", f"all agents with the label {LABEL} are offline", page)
    else:
        yield Area.JENKINS.ok("agents", f"number of agents with the label {LABEL}: {found.agents}")


def _check_resources(client: Jenkins, settings: Settings) -> Iterator[CheckResult]:
    label = f"perftrend-{settings.testbed}"
    try:
        count = client.resources(label)
    except RefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        reason = "the server does not list lockable resources; the plugin may be missing or too old"
        yield Area.JENKINS.not_checked("resources", reason)
        return
    if count:
        yield Area.JENKINS.ok("resources", f"number of lockable resources with the label {label}: {count}")
        return
    found = f"no lockable resource has the label {label}: builds wait for ever"
    fix = f"add one at {settings.jenkins.url}/configure, Lockable Resources Manager"
    yield Area.JENKINS.fault("resources", found, fix)


def _check_jobs(client: Jenkins, settings: Settings) -> Iterator[CheckResult]:
    by_name = {full.rpartition("/")[2]: full for full in client.jobs(f"*perftrend-*-{settings.testbed}")}
    wanted = [each.format(settings.testbed) for each in _TREND_JOBS]
    missing = [name for name in wanted if name not in by_name]
    if missing:
        yield Area.JENKINS.fault("jobs", f"the user sees no job {', '.join(missing)}", _UPDATE)
    else:
        yield Area.JENKINS.ok("jobs", f"trending and analysis of {settings.testbed} exist")
    on_change = [each.format(settings.testbed) for each in _ON_CHANGE_JOBS]
    missing = [name for name in on_change if name not in by_name]
    if missing and settings.gerrit.url:
        found = f"the user sees no job {', '.join(missing)}, which comments in Gerrit start"
        yield Area.JENKINS.warning("jobs", found, _UPDATE)
    known = [by_name[name] for name in (*wanted, *on_change) if name in by_name]
    if known:
        yield _check_start(client, known, settings)
    if known and settings.gerrit.url and settings.listener.runner == "jenkins":
        yield _check_end(client, known, settings)


def _check_start(client: Jenkins, jobs: Sequence[str], settings: Settings) -> CheckResult:
    refused = [job for job in jobs if not client.may_start(job)]
    user = settings.jenkins.user or "anonymous"
    if not refused:
        return Area.JENKINS.ok("rights", f"the user {user} may start the jobs")
    found = f"the pages of {', '.join(refused)} offer the user {user} no start; a job may also be disabled"
    fix = f"give {user} the permission Job/Build at {settings.jenkins.url}/manage/configureSecurity/"
    return Area.JENKINS.warning("rights", found, fix)


def _check_end(client: Jenkins, jobs: Sequence[str], settings: Settings) -> CheckResult:
    """Return whether the listener can end builds, as far as the pages of running ones show it."""
    may_end = {job: client.may_end(job) for job in jobs}
    user = settings.jenkins.user or "anonymous"
    if refused := [job for job, may in may_end.items() if may is False]:
        found = f"the pages of running builds of {', '.join(refused)} offer the user {user} no end: "
        fix = f"give {user} the permission Job/Cancel at {settings.jenkins.url}/manage/configureSecurity/"
        return Area.JENKINS.warning("cancelling", f"{found}the listener cannot cancel requests", fix)
    if any(may_end.values()):
        return Area.JENKINS.ok("cancelling", f"the user {user} may end builds of the jobs")
    reason = f"only the page of a running build shows whether the user {user} may end it (Job/Cancel)"
    return Area.JENKINS.not_checked("cancelling", f"{reason}; run this again while one of the jobs runs")


def check_clock(area: Area, url: str, timeout_s: float) -> CheckResult:
    """Compare the clocks; the request has no login.

    :param url: an address that answers quickly.
    """
    began = time.time()
    header = read_date(url, timeout_s)
    return judge_clock(area, header, began, time.time())


def judge_clock(area: Area, header: str, began: float, ended: float) -> CheckResult:
    """Compare a Date header with the times before the request and after the response.

    :param began: seconds since 1970, as ``ended``.
    """
    try:
        sent = parsedate_to_datetime(header)
    except ValueError:
        return area.not_checked("clock", "the response has no valid header Date")
    # The header may have been written at any time between the two, and is rounded down.
    earliest, latest = datetime.fromtimestamp(began - 1, UTC), datetime.fromtimestamp(ended, UTC)
    moment = sent if sent.tzinfo else sent.replace(tzinfo=UTC)
    skew_s = max((earliest - moment).total_seconds(), (moment - latest).total_seconds(), 0.0)
    if skew_s <= _LARGEST_SKEW_S:
        return area.ok(
            "clock", f"this machine and the server differ by less than {_LARGEST_SKEW_S + 1:.0f} s"
        )
    direction = "behind" if moment > latest else "ahead of"
    found = f"this machine's clock is {skew_s:.0f} s {direction} that of the server"
    return area.warning("clock", found, _SYNCHRONIZE)
