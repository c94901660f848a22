"""A real web server for the tests: Apache httpd with its index pages."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.servers import web
from tests.integration.servers.java import free_port

PROGRAM = "apache2"
MODULES = Path("/usr/lib/apache2/modules")
NEEDED = [
    *("mpm_prefork", "authz_core", "authz_user", "authn_core", "authn_file", "auth_basic"),
    *("alias", "autoindex", "dir", "env", "mime", "ratelimit"),
]
CONFIGURATION = """
ServerRoot {folder}
ServerName 127.0.0.1
DefaultRuntimeDir {folder}
PidFile {folder}/apache.pid
ErrorLog {folder}/error.log
Listen 127.0.0.1:{port}
{modules}
{user}
# One process, which answers one request after the other.
StartServers 1
ServerLimit 1
MaxRequestWorkers 1
KeepAlive Off
LogFormat "%>s %r %{{Range}}i %B" asked
CustomLog {folder}/access.log asked
TypesConfig /dev/null
DocumentRoot {folder}/served
Alias /slow/ {folder}/served/
Alias /encoded/ {folder}/served/
Alias /locked/ {folder}/served/
<Directory {folder}/served>
    Options +Indexes
    IndexOptions FancyIndexing
    Require all granted
</Directory>
<Location /slow/>
    SetOutputFilter RATE_LIMIT
    SetEnv rate-limit 200
</Location>
<Location /encoded/>
    AddEncoding gzip .gz
</Location>
<Location /forbidden/>
    Require all denied
</Location>
<Location /locked/>
    AuthType Basic
    AuthName logs
    AuthUserFile {folder}/users
    Require valid-user
</Location>
"""


@contextmanager
def running(folder: Path) -> Iterator[web.Server]:
    """Run a server in an empty folder and on a port of its own.

    :raises LackingError: if Apache httpd is not installed.
    """
    port = free_port()
    modules = "\n".join(f"LoadModule {each}_module {MODULES}/mod_{each}.so" for each in NEEDED)
    configuration = folder / "apache.conf"
    configuration.write_text(
        CONFIGURATION.format(folder=folder, port=port, modules=modules, user=user(folder))
    )
    password = base64.b64encode(hashlib.sha1(web.PASSWORD.encode(), usedforsecurity=False).digest())
    (folder / "users").write_text(f"{web.USER}:{{SHA}}{password.decode()}\n")
    command = [web.program(PROGRAM), "-D", "FOREGROUND", "-f", str(configuration)]
    with web.running(command, f"http://127.0.0.1:{port}", folder, tells_sizes=False) as server:
        yield server


def user(folder: Path) -> str:
    """Let the process that answers be nobody where root starts it: it refuses to be root's."""
    if os.geteuid():
        return ""
    folder.chmod(0o755)
    return "User nobody\nGroup nogroup"
