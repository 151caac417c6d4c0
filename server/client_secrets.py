"""``POST /v1/realtime/client_secrets``: a short-lived key that an app's backend hands on to the app."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pipeline.config import Config
from server.gate import bearer
from server.keys import Keys
from server.plain import PlainRequest, PlainResponse
from server.session_object import merged, new_session
from server.wire import new_id

PATH = "/v1/realtime/client_secrets"


@dataclass(frozen=True, slots=True)
class ClientSecrets:
    """Answers plain HTTP requests: there is this one."""

    keys: Keys
    config: Config

    def __call__(self, request: PlainRequest) -> PlainResponse:
        """The secret, when it is expected to expire, and the session that it opens."""
        if request.path.partition("?")[0] != PATH:
            return PlainResponse.error(404, "not_found", f"there is nothing to {request.method} at this path")
        if request.method != "POST":
            message = f"{request.method} is not for this path"
            return PlainResponse.error(405, "method_not_allowed", message, (("Allow", "POST"),))
        owner = self.keys.visitor(bearer(request.headers))
        if owner is None:
            return PlainResponse.error(401, "invalid_api_key", "Incorrect API key provided.")
        try:
            asked = json.loads(request.body or b"{}")
            lasts_s, session = self._lasting(asked), asked.get("session") or {}
            made = self._session_made_of(session)
        except (ValueError, AttributeError, TypeError, RecursionError):
            message = 'expected {"expires_after": {"anchor": "created_at", "seconds": 600}, "session": {...}}'
            return PlainResponse.error(400, "invalid_value", message)
        secret = self.keys.new_secret(owner, lasts_s, session)
        return PlainResponse(200, {"value": secret.value, "expires_at": secret.expires_at, "session": made})

    def _lasting(self, asked: dict[str, Any]) -> int:
        return int((asked.get("expires_after") or {}).get("seconds", self.config.limits.secret_s))

    def _session_made_of(self, wanted: dict[str, Any]) -> dict[str, Any]:
        llm, speech = self.config.llm, self.config.speech
        model = wanted.get("model") or llm.model
        return merged(new_session(new_id("sess"), model, llm.instructions, speech.voice), wanted)
