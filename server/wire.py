"""Server events of the Realtime protocol as JSON, made from the openai package's own types."""

from __future__ import annotations

import secrets
from typing import Any, get_args

from openai import BaseModel
from openai.types import realtime as rt
from openai.types.realtime.realtime_server_event import ConversationItemRetrieved

__all__ = ["ConversationItemRetrieved", "event", "new_id", "rt"]


def new_id(kind: str) -> str:
    """A fresh identifier such as ``item_5pXk...``."""
    return f"{kind}_{secrets.token_urlsafe(16)}"


def event(cls: type[BaseModel], **fields: Any) -> str:
    """One server event as JSON, checked against its type. Keys that were not given are left out, not null."""
    kind = get_args(cls.model_fields["type"].annotation)[0]
    checked = cls.model_validate({"type": kind, "event_id": new_id("event"), **fields})
    return checked.model_dump_json(exclude_unset=True)
