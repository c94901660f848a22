from __future__ import annotations

import string
from pathlib import Path
from typing import get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from perftrend import settings
from perftrend.errors import SettingsError
from perftrend.measure.search.mdr import DEFAULT_STRATEGY, STRATEGIES
from perftrend.settings import Settings, TrialSettings, variable
from perftrend.settings.tree import FORMER_NAMES


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "night.yaml"


def refusal(**places: object) -> str:
    with pytest.raises(SettingsError) as caught:
        Settings.load(**{"environment": {}, **places})  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_nothing_said_gives_the_defaults() -> None:
    assert Settings() == Settings.load(environment={})
    assert "1n-veth" == Settings().testbed


def test_each_place_outweighs_the_ones_before(file: Path) -> None:
    file.write_text("testbed: from-file\nstore: from-file\ncadence: weekly\n")
    environment = {"PERFTREND_STORE": "from-environment", "PERFTREND_CADENCE": "nightly"}

    loaded = Settings.load(file, environment, {"cadence": "weekly", "archive": None})

    assert "from-file" == loaded.testbed
    assert "from-environment" == loaded.store
    assert "weekly" == loaded.cadence
    assert Path("archives") == loaded.archive


def test_a_section_merges_key_by_key(file: Path) -> None:
    file.write_text("trial:\n  duration_s: 0.5\n  starts: 2\n")

    trial = Settings.load(file, {"PERFTREND_TRIAL_STARTS": "4"}, {"trial.multiplicity": 7}).trial

    assert (0.5, 4, 7, 5) == (trial.duration_s, trial.starts, trial.multiplicity, trial.attempts)


def test_a_table_merges_key_by_key(file: Path) -> None:
    file.write_text("device_options: {acl_rules: 20, burst: 32, fast: true}\ncadences: {hourly: mrr}\n")

    loaded = Settings.load(file, {}, {"device_options": {"acl_rules": "60"}})

    assert {"acl_rules": "60", "burst": "32", "fast": "true"} == loaded.device_options
    assert ("mrr",) == loaded.cadences["hourly"]
    assert {"nightly", "weekly", "hourly"} == set(loaded.cadences)


def test_a_list_is_replaced(file: Path) -> None:
    file.write_text("tags: [mrrAND64b, ndr]\n")

    assert ("mrrAND64b", "ndr") == Settings.load(file, {}).tags
    assert ("pdr", "mrr") == Settings.load(file, {"PERFTREND_TAGS": " pdr mrr "}).tags


def test_the_environment_writes_tables_as_pairs() -> None:
    loaded = Settings.load(environment={"PERFTREND_DEVICE_OPTIONS": "acl_rules=60 note=a=b"})

    assert {"acl_rules": "60", "note": "a=b"} == loaded.device_options


def test_an_empty_variable_counts_as_not_given() -> None:
    assert Settings() == Settings.load(environment={"PERFTREND_TESTBED": " ", "PERFTREND_TRIAL_STARTS": ""})


@pytest.mark.parametrize(("former", "name"), FORMER_NAMES.items())
def test_former_names_are_accepted(file: Path, former: str, name: str) -> None:
    section, key = former.split(".")
    values = {type(None): "/srv/logs", bool: "true", str: "debug"}
    value = values.get(type(setting(Settings(), name)), "2")

    file.write_text(f"{section}: {{{key}: {value}}}\n")

    expected = Settings.load(overrides={name: value})
    assert expected == Settings.load(file, {}) == Settings.load(environment={variable(former): value})
    assert setting(expected, name) != setting(Settings(), name)


@pytest.mark.parametrize("names", ["notify_culprit tell_culprit", "tell_culprit notify_culprit"])
def test_former_name_next_to_the_present_one_is_refused(file: Path, names: str) -> None:
    one, other = names.split()
    file.write_text(f"gerrit: {{{one}: true, {other}: false}}\n")

    assert "gerrit.notify_culprit is given by its former name, too" in refusal(file=file)


def setting(settings: Settings, name: str) -> object:
    value: object = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value


def test_other_programs_variables_are_left_alone() -> None:
    assert Settings() == Settings.load(environment={"PERFTRENDY": "1", "PATH": "/bin"})


def test_the_environment_names_the_file(file: Path) -> None:
    file.write_text("testbed: from-file\n")

    assert "from-file" == Settings.load(environment={"PERFTREND_SETTINGS": str(file)}).testbed


def test_a_file_may_be_empty_and_a_section_too(file: Path) -> None:
    file.write_text("# nothing yet\ntrial:\n")

    assert Settings() == Settings.load(file, {})


def test_the_cadence_chooses_the_tests_unless_tags_do() -> None:
    assert ("ndrpdrAND64bAND1cNOTsoakNOTreconf",) == Settings(cadence="weekly").expressions
    assert ("mrrNOTsoakNOTreconf",) == Settings(cadence="weekly", tags=("mrr",)).expressions


def test_parameter_of_a_profile_may_be_empty(file: Path) -> None:
    file.write_text('project: {parameters: {build: "", measure: ./bench}}')

    assert {"build": "", "measure": "./bench"} == Settings.load(file, {}).project.parameters


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().testbed = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("testbad: x", "no setting is named 'testbad'; did you mean 'testbed'?"),
        (
            "trial: {duratoin_s: 1}",
            "no setting is named 'trial.duratoin_s'; did you mean 'trial.duration_s'?",
        ),
        ("duration_s: 1", "no setting is named 'duration_s'; did you mean 'trial.duration_s'?"),
        ("trial: 3", "trial is 3; give a table of settings"),
        ("- testbed", "the top is ['testbed']; give a table of settings"),
        ("trial: {duration_s: fast}", "trial.duration_s is 'fast'; it should be a valid number"),
        ("trial: {duration_s: yes}", "trial.duration_s is True; it should be a number"),
        ("trial: {duration_s: .nan}", "trial.duration_s is nan; it should be"),
        ("trial: {starts: 0}", "trial.starts is 0; it should be greater than or equal to 1"),
        ("search: {loss_ratio: 1.5}", "search.loss_ratio is 1.5; it should be less than 1"),
        ("analysis: {method: sigma}", "analysis.method is 'sigma'; it should be 'mdl' or 'three-sigma'"),
        ("search: {strategy: mrd}", "search.strategy is 'mrd'; it should be 'predictive', 'mdr' or 'binary'"),
        ("search: {trials_per_bound: 0}", "search.trials_per_bound is 0; it should be greater than or equal"),
        ("search: {trials_per_bound: 1.5}", "search.trials_per_bound is 1.5; it should be a valid integer"),
        ("search: {exceed_ratio: 1}", "search.exceed_ratio is 1; it should be less than 1"),
        (
            "analysis: {samples: trials, outliers: true}",
            "analysis.samples is trials, but single bad runs are separated by the averages of runs",
        ),
        ("search: {loss_ratios: [0.005, 1]}", "search.loss_ratios"),
        (
            "search: {strategy: mdr, trials_per_bound: 3}",
            "search.trials_per_bound is 3; search.strategy mdr decides by 1 trial",
        ),
        ("soak: {target_loss_ratio: 0}", "soak.target_loss_ratio is 0; it should be greater than or equal"),
        ("soak: {credibility: 1}", "soak.credibility is 1; it should be less than 1"),
        (
            "soak: {total_duration_s: 4}",
            "soak.total_duration_s is 4; it should be at least soak.trial_duration_s, 5",
        ),
        ("tags: [mrr, [ndr]]", "tags is ['mrr', ['ndr']]; it should be a valid string"),
        ("cadences: {nightly: {a: b}}", "cadences.nightly is {'a': 'b'}; it should be a valid tuple"),
        ("testbed: ''", "testbed is ''; it should not be empty"),
        ("device_options: [a]", "device_options is ['a']; give key=value"),
        ("cadence: weakly", "no cadence is named 'weakly'; did you mean 'weekly'?"),
        ("a: [b", "is not valid YAML"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_name(file: Path, content: str, expected: str) -> None:
    file.write_text(content)

    message = refusal(file=file)

    assert message.startswith(f"settings file {file}")
    assert expected in message


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"testbed: caf\xe9\n")

    assert "No such file" in refusal(file=tmp_path / "none.yaml")
    assert "Is a directory" in refusal(file=tmp_path)
    assert "is not valid YAML" in refusal(file=tmp_path / "latin")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("PERFTREND_TRAIL_STARTS", "1", "did you mean 'PERFTREND_TRIAL_STARTS'?"),
        (
            "PERFTREND_TRIAL_STARTS",
            "two",
            "environment variable PERFTREND_TRIAL_STARTS: trial.starts is 'two'",
        ),
        (
            "PERFTREND_DEVICE_OPTIONS",
            "acl_rules",
            "environment variable PERFTREND_DEVICE_OPTIONS: device_options is",
        ),
    ],
)
def test_what_is_wrong_in_the_environment_is_told_with_its_variable(
    name: str, value: str, expected: str
) -> None:
    assert expected in refusal(environment={name: value})


def test_what_is_wrong_on_the_command_line_is_told_so(file: Path) -> None:
    file.write_text("trial: {starts: 2}\n")

    assert "command line: trial.starts is -1; it should be" in refusal(
        file=file, overrides={"trial.starts": -1}
    )
    assert "command line: no setting is named 'tests'" in refusal(overrides={"tests": 1})


def test_every_setting_has_a_variable_of_its_own() -> None:
    variables = {settings.variable(name) for name in settings.names()}

    assert len(settings.names()) == len(variables)
    assert settings.FILE_VARIABLE not in variables
    assert "PERFTREND_TRIAL_DURATION_S" in variables


WORD = st.text(string.ascii_letters + string.digits + "-_.", min_size=1)


@given(st.dictionaries(WORD, WORD), st.lists(WORD, min_size=1))
def test_tables_and_lists_of_the_environment_are_read_as_written(
    table: dict[str, str], words: list[str]
) -> None:
    environment = {
        "PERFTREND_DEVICE_OPTIONS": " ".join(f"{key}={value}" for key, value in table.items()),
        "PERFTREND_TAGS": " ".join(words),
    }

    loaded = Settings.load(environment=environment)

    assert table == loaded.device_options
    assert tuple(words) == loaded.tags


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.sampled_from(settings.names()), ANYTHING)
def test_whatever_a_place_says_is_taken_or_refused(name: str, value: object) -> None:
    try:
        told = str(Settings.load(environment={}, overrides={name: value}).testbed)
    except SettingsError as error:
        told = str(error)

    assert name == "testbed" or "1n-veth" == told or told.startswith("command line: ")


def test_loss_ratios_are_searched_in_ascending_order_and_each_once() -> None:
    asked = {"PERFTREND_SEARCH_LOSS_RATIOS": "0.01 0.001 0 0.005 0.01"}

    goals = Settings.load(None, asked).search.goals

    assert [("ndr", 0.0), ("pdr_0.001", 0.001), ("pdr", 0.005), ("pdr_0.01", 0.01)] == list(goals.items())


def test_setting_knows_every_strategy_of_the_search() -> None:
    known = get_args(settings.SearchSettings.model_fields["strategy"].annotation)

    assert {*STRATEGIES, "binary"} == set(known)
    assert DEFAULT_STRATEGY == Settings().search.strategy


def test_soak_may_be_as_short_as_its_first_trial(file: Path) -> None:
    file.write_text("soak: {total_duration_s: 2, trial_duration_s: 2}")

    assert 2 == Settings.load(file, {}).soak.total_duration_s


@pytest.mark.parametrize(
    ("tag", "expression"),
    [
        ("imix", "imixNOTsoakNOTreconf"),
        ("mrrANDimixNOT64b", "mrrANDimixNOT64bNOTsoakNOTreconf"),
        ("SoakANDimix", "SoakANDimixNOTreconf"),
        ("reconf", "reconfNOTsoak"),
    ],
)
def test_long_tests_are_chosen_only_by_name(tag: str, expression: str) -> None:
    assert (expression,) == Settings(tags=(tag,)).expressions


SECRET = "s3cret-of-somebody"  # noqa: S105 - it opens nothing
SECRETS = ("jenkins.token", "gerrit.token", "mail.password")


@pytest.mark.parametrize("name", SECRETS)
def test_secret_is_read_and_shown_nowhere(name: str) -> None:
    section, key = name.split(".")

    loaded = Settings.load(environment={settings.variable(name): f"{SECRET}\n"})

    assert SECRET == getattr(getattr(loaded, section), key).get_secret_value()
    for shown in (loaded.as_yaml(), repr(loaded), str(loaded), loaded.model_dump_json()):
        assert SECRET not in shown
        assert "***" not in shown


@pytest.mark.parametrize("name", SECRETS)
def test_secret_is_read_from_a_file(tmp_path: Path, name: str) -> None:
    section, key = name.split(".")
    (tmp_path / "secret").write_text(f"{SECRET}\n")

    loaded = Settings.load(environment={f"{settings.variable(name)}_FILE": f"{tmp_path}/secret"})

    assert SECRET == getattr(getattr(loaded, section), key).get_secret_value()
    assert SECRET not in loaded.as_yaml()


def test_address_of_the_store_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("postgresql://perftrend:secret@db/p\r\n")

    loaded = Settings.load(environment={"PERFTREND_STORE_FILE": f"{tmp_path}/store"})

    assert "postgresql://perftrend:secret@db/p" == loaded.store


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "names a file that cannot be read: No such file or directory"),
        (b"\n", "names an empty file; write the value into it"),
        (b"\xff", "names a file that is not text in UTF-8"),
    ],
)
def test_unusable_file_of_a_secret_is_refused(tmp_path: Path, content: bytes | None, why: str) -> None:
    file = tmp_path / SECRET
    if content is not None:
        file.write_bytes(content)

    message = refusal(environment={"PERFTREND_GERRIT_TOKEN_FILE": str(file)})

    assert f"environment variable PERFTREND_GERRIT_TOKEN_FILE {why}" == message
    assert SECRET not in message


def test_secret_and_file_of_it_are_not_given_together(tmp_path: Path) -> None:
    given = {"PERFTREND_GERRIT_TOKEN": SECRET, "PERFTREND_GERRIT_TOKEN_FILE": str(tmp_path / "token")}

    message = refusal(environment=given)

    assert "PERFTREND_GERRIT_TOKEN is set, too; remove one" in message


def test_only_a_secret_is_read_from_a_file() -> None:
    message = refusal(environment={"PERFTREND_TESTBED_FILE": "x", "PERFTREND_MAIL_PASSWORD_FILE": ""})

    assert "no setting has the variable PERFTREND_TESTBED_FILE" in message


@pytest.mark.parametrize(
    ("store", "shown"),
    [
        (f"postgresql://perftrend:{SECRET}@db.example.org/p", "postgresql://perftrend@db.example.org/p"),
        (f"postgresql+psycopg://u:a:b@{SECRET}@db:5432/p?x=y", "postgresql+psycopg://u@db:5432/p?x=y"),
        ("postgresql://perftrend@db.example.org/p", "postgresql://perftrend@db.example.org/p"),
        ("/var/lib/a:b@c.sqlite", "/var/lib/a:b@c.sqlite"),
    ],
)
def test_password_of_a_database_is_not_written_beside_the_results(store: str, shown: str) -> None:
    settings = Settings.load(None, {}, {"store": store})

    assert store == settings.store
    assert shown == yaml.safe_load(settings.as_yaml())["store"]


def test_password_of_a_repository_is_not_written() -> None:
    given = {"project.repository": f"https://robot:{SECRET}@git.example.org/router"}

    written = Settings.load(environment={}, overrides=given).as_yaml()

    assert "https://robot@git.example.org/router" == yaml.safe_load(written)["project"]["repository"]


@pytest.mark.parametrize("name", SECRETS)
def test_secret_is_refused_on_the_command_line(name: str) -> None:
    message = refusal(overrides={name: SECRET})

    assert (
        f"{name} would be seen by every user of this machine; give it by {settings.variable(name)}" in message
    )
    assert SECRET not in message


@pytest.mark.parametrize(
    "content",
    [
        f"jenkins: {{token: [{SECRET}]}}",
        f"jenkins: {{token: {{{SECRET}: 1}}}}",
        f"jenkins: {SECRET}",
        f"jenkins: [{SECRET}]",
        f"jenkins: {{token: *{SECRET}}}",
        f"jenkins: {{token: !{SECRET} x}}",
        f"jenkins: {{token: !{SECRET}!x y}}",
        f"jenkins: {{token: &{SECRET} 1, user: &{SECRET} 2}}",
        f"jenkins: {{token: '{SECRET}",
        f"jenkins: {{token: @{SECRET}}}",
        f"jenkins:\n  token: {SECRET}: x",
        f"jenkins: {{url: 'https://me:{SECRET}@example.org'}}",
        f"jenkins: {{url: 'https://me:a/{SECRET}@example.org'}}",
        f"store: ['postgresql://me:{SECRET}@example.org']",
    ],
)
def test_secret_is_in_no_refusal(file: Path, content: str) -> None:
    file.write_text(content)

    assert SECRET not in refusal(file=file)


@pytest.mark.parametrize("number", ["0123", "12345678", "1.0e+5", "true", "''", "' '"])
def test_secret_that_yaml_would_change_is_refused(file: Path, number: str) -> None:
    file.write_text(f"mail: {{password: {number}}}")

    assert "mail.password cannot be used (not shown: it may be secret); it should be text" in refusal(
        file=file
    )


@pytest.mark.parametrize(
    "url", ["https://ci.example.org/", "http://[::1]:8080", "https://ci.example.org/jenkins"]
)
def test_address_of_a_server_loses_its_last_slash(url: str) -> None:
    loaded = Settings.load(environment={"PERFTREND_JENKINS_URL": url})

    assert url.rstrip("/") == loaded.jenkins.url


@pytest.mark.parametrize(
    "url",
    [
        "ci.example.org",
        "ftp://ci",
        "https://",
        "http://h:99999",
        "http://[::",
        "http://h/?x",
        "http://h/ x",
        "http://ü",
    ],
)
def test_what_is_no_address_of_a_server_is_refused(url: str) -> None:
    assert "it should be a URL such as" in refusal(environment={"PERFTREND_JENKINS_URL": url})


def test_mail_has_a_server_and_addresses() -> None:
    environment = {"PERFTREND_MAIL_SERVER": "[::1]:25", "PERFTREND_MAIL_RECIPIENTS": "a@x.org, b@y.org"}

    mail = Settings.load(environment=environment).mail

    assert ("[::1]:25", ("a@x.org", "b@y.org")) == (mail.server, mail.recipients)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("server: localhost", "mail.server is 'localhost'; it should be host:port"),
        ("server: 'a b:25'", "it should be host:port"),
        ("sender: nobody", "mail.sender is 'nobody'; it should be user@host"),
        (r'sender: "a@b\nBcc: c@d"', "it should be user@host"),
        ("recipients: ['a@b', '<c@d>']", "it should be user@host"),
        ("security: ssl", "it should be 'starttls', 'tls' or 'none'"),
    ],
)
def test_what_no_mail_could_be_sent_with_is_refused(file: Path, content: str, expected: str) -> None:
    file.write_text(f"mail:\n  {content}")

    assert expected in refusal(file=file)


def test_gerrit_has_an_address_and_a_login(file: Path) -> None:
    file.write_text("gerrit: {url: 'https://review.example.org/r/', groups: [Committers, 'Data plane']}\n")

    gerrit = Settings.load(file, {"PERFTREND_GERRIT_TOKEN": SECRET}, {"gerrit.user": "perftrend"}).gerrit

    assert ("https://review.example.org/r", "perftrend") == (gerrit.url, gerrit.user)
    assert ("Committers", "Data plane") == gerrit.groups
    assert 29418 == gerrit.ssh_port


def test_verdicts_need_not_vote(file: Path) -> None:
    file.write_text("gerrit: {label: null}\n")

    assert Settings.load(file, {}).gerrit.label is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("ssh_host: -oProxyCommand=x", "it should be the name or the address of a host"),
        ("ssh_host: 'a b'", "it should be the name or the address of a host"),
        ("ssh_port: 65536", "it should be less than or equal to 65535"),
        ("notify: everybody", "it should be 'none', 'owner', 'owner-reviewers' or 'all'"),
        ("jobs_per_day: 0", "it should be greater than or equal to 1"),
        ("hours_per_day: 0", "it should be greater than 0"),
        ("hours_of_queue: .inf", "it should be"),
        ("hours_per_request: .nan", "it should be"),
    ],
)
def test_what_no_gerrit_could_be_spoken_to_with_is_refused(file: Path, content: str, expected: str) -> None:
    file.write_text(f"gerrit:\n  {content}")

    assert expected in refusal(file=file)


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("content", ["store: 2024-13-01", "[" * 5000, "a: &a [*a"])
def test_what_yaml_cannot_hold_is_told(file: Path, content: str) -> None:
    file.write_text(content)

    assert "is not valid YAML" in refusal(file=file)


def test_a_table_of_a_section_is_merged_and_null_takes_a_key_away(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("trigger: {words: {'ours-{testbed}': perftest, 'perftest-{testbed}': null}}")

    words = Settings.load(file, environment={}).trigger.words

    others = {f"{word}test-{{testbed}}" for word in ("bisect", "cancel", "trending")}
    assert {"ours-{testbed}", *others} == set(words)


def test_comparisons_of_builds_have_long_trials_unless_others_are_set() -> None:
    """Source: "Bisecting", section Temporary specifics."""
    compared = Settings(trial=TrialSettings(multiplicity=3, attempts=7)).for_builds.trial

    assert TrialSettings(duration_s=10, multiplicity=3, attempts=7) == compared
    assert (10, 5) == (Settings().for_builds.trial.duration_s, Settings().for_builds.trial.multiplicity)


@pytest.mark.parametrize(
    ("text", "outliers"),
    [
        ("analysis: {samples: trials}", False),
        ("analysis: {samples: trials, outliers: false}", False),
        ("analysis: {samples: runs}", True),
        ("analysis: {outliers: false}", False),
    ],
)
def test_trials_imply_that_single_bad_runs_are_not_separated(
    tmp_path: Path, text: str, outliers: bool
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)

    settings = Settings.load(file, {})

    assert outliers is settings.analysis.outliers
    file.write_text(settings.as_yaml())
    assert settings == Settings.load(file, {})


def test_home_directory_is_expanded_in_paths_but_not_in_urls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "settings.yaml").write_text("store: ~/perftrend.sqlite")

    assert str(tmp_path / "perftrend.sqlite") == Settings.load("~/settings.yaml", {}).store
    assert "postgresql://h/~x" == Settings.load(None, {"PERFTREND_STORE": "postgresql://h/~x"}).store
