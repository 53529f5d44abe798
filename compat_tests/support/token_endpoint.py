"""An OAuth provider that issues tokens for a client's secret, and broker settings that accept them.

    with TokenEndpoint("superuser") as endpoint, SecuredCluster(OAUTHBEARER) as secured:
        reader = secured.with_properties(secured.superuser(), **endpoint.properties)

The tokens are not signed (RFC 7519, section 6); Kafka's brokers accept such tokens for tests.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

__all__ = ["CLIENT_SECRET", "OAUTHBEARER", "TokenEndpoint"]

CLIENT_SECRET = "client-secret-of-oauth"

_LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
OAUTHBEARER: Mapping[str, object] = {
    "listener.name.secured.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
    "listener.name.secured.oauthbearer.sasl.jaas.config": (
        f'{_LOGIN} required unsecuredLoginStringClaim_sub="broker";'
    ),
}
"""Broker settings for a `SecuredCluster`."""

_LIFETIME_S = 3600


class TokenEndpoint:
    """Issues tokens for `user`. A request with another secret gets status 401."""

    def __init__(self, user: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                basic = self.headers.get("Authorization", "").removeprefix("Basic ")
                known = base64.b64decode(basic).decode() == f"{user}:{CLIENT_SECRET}"
                body = json.dumps({"access_token": _token(user), "expires_in": _LIFETIME_S}).encode()
                self.send_response(200 if known else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body) if known else 0))
                self.end_headers()
                self.wfile.write(body if known else b"")

            def log_message(self, format: str, *args: object) -> None:
                """A test needs no log line for each request."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="tokens", daemon=True)
        self.properties = {
            "sasl__mechanism": "OAUTHBEARER",
            "sasl__oauthbearer__method": "oidc",
            "sasl__oauthbearer__client__id": user,
            "sasl__oauthbearer__client__secret": CLIENT_SECRET,
            "sasl__oauthbearer__token__endpoint__url": f"http://127.0.0.1:{self._server.server_port}/token",
        }

    def __enter__(self) -> TokenEndpoint:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _token(user: str) -> str:
    now = int(time.time())
    parts = {"alg": "none"}, {"sub": user, "iat": now, "exp": now + _LIFETIME_S}
    header, payload = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return f"{header.decode()}.{payload.decode()}."
