"""What torch holds for the whole process, and who may change it when."""

from __future__ import annotations

import threading

# transformers changes torch's default type while it loads a model: what is made beside it comes out otherwise.
# Held by whoever loads with it, and by whoever makes tensors while models are loaded.
DEFAULT_TYPE = threading.Lock()
