"""The container image and the Compose file in ``deploy``."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from perftrend import __version__
from perftrend.settings import Settings
from tests.integration.servers import compose
from tests.integration.servers.compose import CHECKOUT, DEPLOY

VARIABLES = {"PUBLIC_HOST": "perf.example.org"}
SERVICES = compose.load(VARIABLES)["services"]
OWN = [name for name, service in SERVICES.items() if "build" in service]
PAGE = (CHECKOUT / "docs" / "compose.rst").read_text()


def secrets_of(service: str) -> list[str]:
    return [
        each["source"] if isinstance(each, dict) else each for each in SERVICES[service].get("secrets", [])
    ]


# ---- Compose


@pytest.mark.parametrize("name", SERVICES)
def test_service_is_confined(name: str) -> None:
    service = SERVICES[name]

    assert (True, ["ALL"], ["no-new-privileges:true"]) == (
        service["read_only"], service["cap_drop"], service["security_opt"],
    )  # fmt: skip
    assert {"cap_add", "privileged", "network_mode", "pid", "devices"}.isdisjoint(service)
    assert "build" in service or service["user"] not in ("root", "0")


def test_only_nginx_is_reached_from_other_machines_and_the_database_reaches_none() -> None:
    content = compose.load(VARIABLES)

    assert ["nginx"] == [name for name, service in SERVICES.items() if "ports" in service]
    assert (["backend"], True) == (
        SERVICES["database"]["networks"],
        content["networks"]["backend"]["internal"],
    )
    assert "backend" not in SERVICES["nginx"]["networks"]


@pytest.mark.parametrize("name", OWN)
def test_environment_of_a_service_has_settings_that_exist(name: str, tmp_path: Path) -> None:
    """Settings refuse variables that they do not know."""
    environment = compose.image_environment() | SERVICES[name]["environment"]
    for secret in secrets_of(name):
        (tmp_path / secret).write_text("0" * 32)
    own = {
        variable: value.replace("/run/secrets", str(tmp_path))
        for variable, value in environment.items()
        if variable.startswith("PERFTREND_")
    }
    assert "/etc/perftrend/settings.yaml" == own["PERFTREND_SETTINGS"]

    settings = Settings.load(
        DEPLOY / "settings.example.yaml", environment={**own, "PERFTREND_SETTINGS": ""}, overrides={}
    )

    assert ("0" * 32, "0.0.0.0:8080") == (settings.store, settings.dashboard.address)


@pytest.mark.parametrize("name", SERVICES)
def test_files_of_a_service_exist_or_are_made_by_documented_steps(name: str) -> None:
    content = compose.load(VARIABLES)
    sources = [volume.partition(":")[0] for volume in SERVICES[name].get("volumes", [])]

    for source in sources:
        if source.startswith("."):
            assert (
                DEPLOY / source
            ).exists() or f"cp {Path(source).stem}.example.yaml {Path(source).name}" in PAGE
        else:
            assert source in content["volumes"]
    for secret in secrets_of(name):
        assert f"secrets/{secret}" == content["secrets"][secret]["file"]
        assert re.search(rf"secrets/{secret}\n|``{secret}``", PAGE)


@pytest.mark.parametrize("name", SERVICES)
def test_secrets_of_a_service_are_used_by_it(name: str) -> None:
    given = str(SERVICES[name].get("environment", {})) + str(SERVICES[name].get("secrets", []))
    targets = [each["target"] for each in SERVICES[name].get("secrets", []) if isinstance(each, dict)]
    configuration = (DEPLOY / "nginx.conf").read_text()

    assert [] == [target for target in targets if f" {target};" not in configuration]
    assert [] == [each for each in secrets_of(name) if f"/run/secrets/{each}" not in given and not targets]


def test_variables_of_the_compose_file_are_in_the_example() -> None:
    variables = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text()))
    example = (DEPLOY / ".env.example").read_text()

    assert {"PUBLIC_HOST", "SUBNET"} == variables
    assert [] == [name for name in variables if not re.search(rf"^(# )?{name}=", example, re.MULTILINE)]


@pytest.mark.parametrize("limit", ["worker_rlimit_nofile 16384;", "worker_connections 8192;"])
def test_nginx_has_the_limits_that_its_configuration_asks_for(limit: str) -> None:
    assert limit in (DEPLOY / "nginx.conf").read_text()
    assert limit in (DEPLOY / "nginx-main.conf").read_text()


def test_nginx_is_given_the_values_that_its_configuration_needs() -> None:
    configuration = (DEPLOY / "nginx.conf").read_text()

    assert set(SERVICES["nginx"]["environment"]) == set(re.findall(r"\$\{(\w+)\}", configuration))


def test_documented_override_names_a_setting() -> None:
    [override] = re.findall(r"^   services:\n(?:   .*\n)+", PAGE, re.MULTILINE)

    for variable in yaml.safe_load(override)["services"]["dashboard"]["environment"]:
        Settings.load(environment={variable: str(CHECKOUT / "LICENSE")}, overrides={})


# ---- image


def stages() -> list[list[tuple[str, str]]]:
    found: list[list[tuple[str, str]]] = []
    for name, arguments in compose.instructions():
        if name == "FROM":
            found.append([])
        found[-1].append((name, arguments))
    return found


def test_image_has_exact_versions_and_no_programs_that_build() -> None:
    build, final = stages()
    installed = " ".join(words for name, words in final if name == "RUN")
    commands = [
        words for name, words in build if name == "RUN" and re.search("pip .*(install|wheel) ", words)
    ]

    assert 3 == len(commands)
    for command in commands:
        assert "--constraint constraints.txt" in command or "--no-index --no-deps" in command
    assert not re.search("pip|venv|gcc|build-essential|curl", installed)
    assert f'org.opencontainers.image.version="{__version__}"' in dict(final)["LABEL"]


def test_image_runs_as_an_ordinary_user() -> None:
    [user] = [words for name, words in stages()[-1] if name == "USER"]

    assert "10001:10001" == user
    assert ["perftrend"] == compose.image_command("ENTRYPOINT")


def test_files_that_the_image_needs_exist_and_are_sent_to_the_builder() -> None:
    ignored = [line for line in (CHECKOUT / ".dockerignore").read_text().splitlines() if line[0] not in "#!"]
    sent = [line[1:] for line in (CHECKOUT / ".dockerignore").read_text().splitlines() if line[0] == "!"]
    sources = [
        source
        for name, words in compose.instructions()
        if name == "COPY" and "--from" not in words
        for source in words.split()[:-1]
    ]

    assert sorted(sources) == sorted(sent)
    assert [] == [source for source in sources if not (CHECKOUT / source).exists()]
    assert "*" == ignored[0]
    assert not [source for source in sources for each in ignored[1:] if fnmatch(source, each)]


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_health_check_of_the_image_ends_with_1_if_the_service_is_not_healthy(status: int, code: int) -> None:
    with answering(status) as port:
        assert code == check_health(port)


def test_health_check_of_the_image_fails_if_nothing_listens() -> None:
    with answering(200) as port:
        pass

    assert 1 == check_health(port)


def check_health(port: int) -> int:
    program, *words = (word.replace("8080", str(port)) for word in compose.image_command("HEALTHCHECK"))
    assert "python" == program
    return subprocess.run([sys.executable, *words], capture_output=True, check=False).returncode


@contextmanager
def answering(status: int) -> Iterator[int]:
    """Run a server that answers each request with a status; give its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()
