"""Whether Jenkins has what the jobs of a testbed need: plugins, agents, resources, the jobs, and rights.

No build is started. A server that is only compatible with Jenkins does not list its plugins.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus

from perftrend.clients import jenkins
from perftrend.clients.jenkins import Jenkins, RefusedError
from perftrend.doctor import LONGEST_S, clock
from perftrend.doctor.check_results import Area, CheckResult
from perftrend.errors import PerftrendError, SettingsError
from perftrend.settings import JenkinsSettings, Settings

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


def check(settings: Settings) -> Iterator[CheckResult]:
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
        yield Area.JENKINS.fault("login", str(error), _find_login_fix(error, own))
        return
    yield _judge_login(own, is_jenkins=is_jenkins)
    yield clock.check(Area.JENKINS, f"{own.url}/api/json?tree=mode", own.timeout_s)
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


def _find_login_fix(error: PerftrendError, own: JenkinsSettings) -> str:
    if isinstance(error, RefusedError) and error.status == HTTPStatus.UNAUTHORIZED:
        return f"generate a new API token at {own.url}/user/{own.user}/security, and set jenkins.token"
    if isinstance(error, SettingsError):
        return "set jenkins.user, and PERFTREND_JENKINS_TOKEN_FILE to a file with its API token"
    return f"curl -sSI {shlex.quote(f'{own.url}/api/json?tree=mode')}"


def _judge_login(own: JenkinsSettings, *, is_jenkins: bool) -> CheckResult:
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
