"""Whether Gerrit can be used: login, label, stream of events, groups and clock. Nothing is posted."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from http import HTTPStatus
from urllib.parse import quote, urlsplit

from perftrend.clients import gerrit
from perftrend.clients.gerrit import Gerrit, LabelRights, RefusedError
from perftrend.doctor import LONGEST_S, clock
from perftrend.doctor.check_results import Area, CheckResult
from perftrend.errors import PerftrendError, SettingsError
from perftrend.execution import permissions
from perftrend.settings import GerritSettings, Settings

_SET_GROUPS = "set gerrit.groups to the groups whose members may start jobs"


def check(settings: Settings) -> Iterator[CheckResult]:
    """Check the Gerrit of the settings."""
    own = settings.gerrit
    if not own.url:
        yield Area.GERRIT.not_checked("connection", "gerrit.url is not set; give it with --gerrit URL")
        return
    own = own.model_copy(update={"timeout_s": min(own.timeout_s, LONGEST_S), "attempts": 1})
    try:
        client = gerrit.connect(own)
        yield _check_login(client, own)
    except PerftrendError as error:
        yield Area.GERRIT.fault("login", str(error), _find_login_fix(error, own))
        return
    yield clock.check(Area.GERRIT, f"{own.url}/config/server/version", own.timeout_s)
    if not own.user:
        yield Area.GERRIT.not_checked("rights", "gerrit.user and gerrit.token are not set")
        return
    yield from _check_labels(client, own, settings.listener.projects)
    yield _check_stream(client, own)
    yield _check_ssh(client, own)
    yield _check_groups(client, own)


def _check_login(client: Gerrit, own: GerritSettings) -> CheckResult:
    if own.user:
        return Area.GERRIT.ok("login", f"{own.url} knows the user {client.account.username or own.user}")
    client.label_rights()
    found = f"{own.url} answers, but no user is set: nothing can be posted, and no event can be read"
    return Area.GERRIT.warning("login", found, "set gerrit.user, and PERFTREND_GERRIT_TOKEN_FILE")


def _find_login_fix(error: PerftrendError, own: GerritSettings) -> str:
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
