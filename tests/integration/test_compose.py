"""The services of ``deploy/compose.yaml``, prepared as ``docs/compose.rst`` describes, and their users."""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg
import pytest
import yaml
from typing_extensions import override

from perftrend.dashboard.catalog import Catalog
from perftrend.dashboard.triage import evaluate
from perftrend.store import Store
from perftrend.store.alerts import ItemSelection, Rules
from tests.doubles import gerrit
from tests.integration.servers import nginx, oidc, postgresql, web
from tests.integration.servers.compose import CHECKOUT, DEPLOY, READY_S, Site
from tests.integration.servers.dashboard import fill
from tests.integration.servers.java import LackingError, free_port
from tests.unit.dashboard.conftest import TESTBEDS

HOST = "perf.example.org"
NGINX_USER = 101
CLIENT = "127.0.0.2"
EVA = {"sub": "1", "preferred_username": "eva", "groups": ["performance"]}
ADA = {"sub": "2", "preferred_username": "ada"}
JSON = {"Accept": "application/json"}
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@dataclass(frozen=True)
class Running:
    """All services of the Compose file."""

    site: Site
    store: str
    database: postgresql.Server
    https: int

    @contextmanager
    def signed_in(self, subject: str) -> Iterator[httpx.Client]:
        """Sign in as a browser of another machine does."""
        transport = ToNginx(self.site.folder / "secrets" / "certificate", self.https)
        with httpx.Client(
            base_url=f"https://{HOST}",
            mounts={f"https://{HOST}": transport},
            follow_redirects=True,
            timeout=READY_S,
        ) as client:
            form = client.get("/sign-in")
            client.post(form.url, data={"sub": subject}).raise_for_status()
            yield client


class ToNginx(httpx.HTTPTransport):
    """Connects to nginx of the test instead of port 443 of the host, and checks the certificate."""

    def __init__(self, certificate: Path, port: int) -> None:
        super().__init__(verify=ssl.create_default_context(cafile=certificate), local_address=CLIENT)
        self._port = port

    @override
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        sent = httpx.Request(
            request.method, request.url.copy_with(host="127.0.0.1", port=self._port), headers=request.headers,
            stream=request.stream, extensions={**request.extensions, "sni_hostname": HOST},
        )  # fmt: skip
        return super().handle_request(sent)


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, require: Callable[[object, str], None], shared_memory: None
) -> Iterator[Running]:
    """Start the services in the order of the Compose file."""
    try:
        web.program(nginx.PROGRAM)
        postgresql.program("initdb")
    except LackingError as lacking:
        require(condition=False, reason=str(lacking))
    require(shutil.which("curl"), "needs curl")
    require(is_sandboxed(), "needs bubblewrap, and permission to create user namespaces")
    folder = tmp_path_factory.mktemp("compose")
    http, https, dashboard, listener = (free_port() for _ in range(4))
    addresses = {
        "DASHBOARD": f"127.0.0.1:{dashboard}",
        "PERFTREND_DASHBOARD_ADDRESS": f"127.0.0.1:{dashboard}",
        "PERFTREND_DASHBOARD_PROXIES": "127.0.0.1",
        "PERFTREND_LISTENER_ADDRESS": f"127.0.0.1:{listener}",
    }
    with ExitStack() as stack:
        database = stack.enter_context(postgresql.running("postgres"))
        provider = stack.enter_context(oidc.running(EVA, ADA))
        review = stack.enter_context(gerrit.running())
        review.files |= {"/changes/": [], "/groups/": {"committers": {"id": "1"}}}
        variables = prepare(folder, provider, review.url)
        site = Site(folder, variables, addresses)
        store = folder / "secrets" / "store"
        store.write_text(store.read_text().replace("@database/", f"@127.0.0.1:{database.port}/"))

        create_database(site, database)
        assert 0 == site.run("migration"), site.log("migration")
        fill_with_items(store.read_text().strip())
        stack.enter_context(site.running("dashboard", dashboard))
        stack.enter_context(site.running("listener", listener))
        stack.enter_context(proxied(site, http, https))
        yield Running(site, store.read_text().strip(), database, https)


def is_sandboxed() -> bool:
    """Tell whether processes can be put into sandboxes here."""
    if not shutil.which("bwrap"):
        return False
    probe = ["bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def prepare(folder: Path, provider: str, review: str) -> dict[str, str]:
    """Do the steps of the documentation and what they leave to the user; return the variables of ``.env``."""
    own = shutil.ignore_patterns(".env", "compose.override.yaml", "secrets", "settings.yaml")
    shutil.copytree(DEPLOY, folder, dirs_exist_ok=True, ignore=own)
    page = (CHECKOUT / "docs" / "compose.rst").read_text()
    found = re.finditer(r"::\n\n(?P<indent> +)\S.*(?:\n+(?P=indent).*)*", page)
    blocks = [textwrap.dedent(each[0].removeprefix("::\n\n")) for each in found]
    *steps, readable = (
        next(block for block in blocks if first in block)
        for first in ("cp .env.example", "mkdir --mode 700", "openssl req", "chmod 644")
    )
    # The first step enters the folder of which this one is a copy.
    commands = "\n".join(steps).replace("cd deploy\n", "")
    subprocess.run(["sh", "-euc", commands], cwd=folder, check=True, capture_output=True)
    for name in ("oidc_client", "gerrit", "gerrit_ssh_key", "gerrit_known_hosts", "jenkins"):
        (folder / "secrets" / name).write_text(f"of {name}\n")
    subprocess.run(["sh", "-euc", readable], cwd=folder, check=True)
    settings = yaml.safe_load((folder / "settings.yaml").read_text())
    settings["dashboard"]["oidc_issuer"] = provider
    settings["gerrit"]["url"] = review
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
    lines = (folder / ".env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def create_database(site: Site, database: postgresql.Server) -> None:
    """Do what the image of PostgreSQL does with the file that it finds in its folder."""
    psql = Path(postgresql.program("initdb")).resolve().with_name("psql")
    file = "/docker-entrypoint-initdb.d/perftrend.sql"
    command = [str(psql), "--set=ON_ERROR_STOP=1", "--dbname", database.url(), "--file", file]
    assert 0 == site.run("database", command), site.log("database")


def fill_with_items(store: str) -> None:
    """Put something to triage into a store."""
    fill(store)
    with Store.open(store) as opened:
        opened.alerts.add(Rules("Everything", "", change=0.02), user="ada")
        for testbed in TESTBEDS:
            evaluate(opened, Catalog(opened), testbed)


@contextmanager
def proxied(site: Site, http: int, https: int) -> Iterator[None]:
    """Run nginx with the configuration that its image makes of the template."""
    text = (site.folder / "nginx.conf").read_text()
    values = {f"${{{name}}}": value for name, value in site.environment("nginx").items()}
    values |= {"listen 80": f"listen 127.0.0.1:{http}", "listen 443": f"listen 127.0.0.1:{https}"}
    for before, after in values.items():
        assert before in text
        text = text.replace(before, after)
    temporary = [f"{name}_temp_path /var/cache/nginx/{name};" for name in TEMPORARY]
    configuration = site.folder / "configuration"
    configuration.write_text("\n".join([*temporary, text]))
    image = ["--ro-bind", str(site.folder / "nginx-main.conf"), "/etc/nginx/nginx.conf"]
    image += ["--ro-bind", str(configuration), "/etc/nginx/conf.d/perftrend.conf"]
    image += ["--symlink", "/dev/stdout", "/var/log/nginx/access.log"]
    command = [web.program(nginx.PROGRAM), "-e", "stderr", "-g", "daemon off;"]
    with site.running("nginx", https, command=command, user=NGINX_USER, image=image):
        yield


def test_user_signs_in_and_triages_through_nginx(running: Running) -> None:
    with running.signed_in("1") as eva:
        page = eva.get("/triage", headers=JSON).raise_for_status().json()
        item = page["items"][0]
        [token] = set(re.findall(r'name="csrf" value="([^"]+)"', eva.get("/triage").text))
        edit = {"items": {str(item["id"]): item["version"]}, "status": "bug", "message": "#1"}
        edited = eva.post(
            "/triage", json=edit, headers={**JSON, "X-CSRF-Token": token, "Origin": f"https://{HOST}"}
        )

    assert 200 == edited.status_code, edited.text
    with Store.open(running.store) as store:
        [triaged] = store.alerts.items.select(ItemSelection(statuses=("bug",)), limit=10)[0]
        assert item["id"] == triaged.identity
    assert '"path": "/triage", "status": 200' in running.site.log("dashboard")
    assert f'"client": "{CLIENT}"' in running.site.log("dashboard")


def test_first_admin_is_named_by_the_settings(running: Running) -> None:
    with running.signed_in("2") as ada, running.signed_in("1") as eva:
        assert (200, 403) == (
            ada.get("/users", headers=JSON).status_code,
            eva.get("/users", headers=JSON).status_code,
        )


def test_user_of_the_database_owns_it_and_nothing_else(running: Running) -> None:
    with psycopg.connect(running.store) as connection:
        assert connection.execute(
            "SELECT rolsuper OR rolcreatedb OR rolcreaterole, datdba = pg_roles.oid"
            " FROM pg_roles, pg_database WHERE rolname = current_user AND datname = current_database()"
        ).fetchall() == [(False, True)]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(running.database.url())
