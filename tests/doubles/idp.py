"""An OpenID Connect provider inside the process, which sends wrong data on request."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import requests
import urllib3
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from requests.adapters import BaseAdapter

ISSUER = "https://idp.example"
RSA = RSAKey.generate_key(2048, parameters={"kid": "one"})
OTHER = RSAKey.generate_key(2048, parameters={"kid": "two"})
EC = ECKey.generate_key("P-256", parameters={"kid": "three"})


class Idp(BaseAdapter):
    """A provider: answers what its attributes say."""

    def __init__(self) -> None:
        super().__init__()
        self.metadata: dict[str, Any] = {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/authorize?tenant=7",
            "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": f"{ISSUER}/keys",
            "userinfo_endpoint": f"{ISSUER}/me",
        }
        self.nonce = ""
        """What the browser brought, which a real provider would keep with the code."""
        self.keys: list[Any] = [RSA]
        self.further_keys: list[dict[str, str]] = []
        self.claims: dict[str, Any] = {"sub": "1", "preferred_username": "alice", "groups": ["perf", "all"]}
        self.more: dict[str, Any] = {"sub": "1"}
        self.header: dict[str, Any] = {"alg": "RS256", "kid": "one"}
        self.signed_by: Any = RSA
        self.statuses: dict[str, int] = {}
        self.bodies: dict[str, bytes] = {}
        self.proofs: set[str] = set()
        self.asked: list[tuple[str, dict[str, str]]] = []

    def id_token(self) -> str:
        now = int(time.time())
        usual = {"iss": ISSUER, "aud": "perftrend", "iat": now, "exp": now + 300, "nonce": self.nonce}
        told = {name: value for name, value in (usual | self.claims).items() if value is not None}
        return jwt.encode(self.header, told, self.signed_by, algorithms=[self.header["alg"]])

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        parts = urlsplit(request.url or "")
        body = request.body.decode() if isinstance(request.body, bytes) else str(request.body or "")
        self.proofs |= {value for name, value in request.headers.items() if name == "Authorization"}
        self.asked.append((parts.path, dict(parse_qsl(body))))
        answers: dict[str, Callable[[], Any]] = {
            "/.well-known/openid-configuration": lambda: self.metadata,
            "/keys": lambda: {"keys": [key.as_dict(private=False) for key in self.keys] + self.further_keys},
            "/token": lambda: {"access_token": "a", "token_type": "Bearer", "id_token": self.id_token()},
            "/me": lambda: self.more,
        }
        told = self.bodies.get(parts.path) or json.dumps(answers[parts.path]()).encode()
        response = requests.Response()
        response.status_code = self.statuses.get(parts.path, 200)
        response.raw = urllib3.HTTPResponse(io.BytesIO(told), preload_content=False)
        response.request = request
        response.url = request.url or ""
        return response

    def close(self) -> None:
        pass
