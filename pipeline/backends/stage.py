"""The border between a model's runtime and the pipeline: whatever goes wrong in there is a StageError out here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.ports import EchoicError, StageError


@contextmanager
def failing_as(stage: str) -> Iterator[None]:
    """Turn an error of the model's runtime into this stage's StageError; Echoic's own errors pass."""
    try:
        yield
    except EchoicError:
        raise
    except Exception as error:
        raise StageError(stage, f"the model failed: {type(error).__name__}: {error}") from error
