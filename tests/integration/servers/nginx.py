"""A real web server for the tests: nginx with its index pages."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.servers import web
from tests.integration.servers.java import free_port

PROGRAM = "nginx"
CONFIGURATION = """
daemon off;
pid {folder}/nginx.pid;
worker_processes 1;
{user}
events {{ worker_connections 64; }}
http {{
    default_type text/plain;
    # It could pack each file for the way. Who takes files as they are does not ask for that.
    gzip on;
    gzip_types *;
    log_format asked '$status $request $http_range $body_bytes_sent';
    access_log {folder}/access.log asked;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        root {folder}/served;
        autoindex on;
        location /slow/ {{ alias {folder}/served/; limit_rate 200k; }}
        location /encoded/ {{ alias {folder}/served/; add_header Content-Encoding gzip; }}
        location /forbidden/ {{ deny all; }}
        location /locked/ {{
            alias {folder}/served/;
            auth_basic "logs";
            auth_basic_user_file {folder}/users;
        }}
    }}
}}
"""


@contextmanager
def running(folder: Path) -> Iterator[web.Server]:
    """Run a server in an empty folder, as this user and on a port of its own.

    :raises LackingError: if nginx is not installed.
    """
    port = free_port()
    configuration = folder / "nginx.conf"
    configuration.write_text(CONFIGURATION.format(folder=folder, port=port, user=user()))
    (folder / "users").write_text(f"{web.USER}:{{PLAIN}}{web.PASSWORD}\n")
    command = [
        web.program(PROGRAM), "-p", f"{folder}/", "-e", f"{folder}/error.log", "-c", str(configuration)
    ]  # fmt: skip
    with web.running(command, f"http://127.0.0.1:{port}", folder, tells_sizes=True) as server:
        yield server


def user() -> str:
    """Let the processes that answer be of this user: they would be of another one where root starts it."""
    if os.geteuid():
        return ""
    return f"user {pwd.getpwuid(os.geteuid()).pw_name} {grp.getgrgid(os.getegid()).gr_name};"
