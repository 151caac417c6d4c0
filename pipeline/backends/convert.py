"""Recipes that turn fetched files into the files a model loads fast from; each runs once, into the store."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path

# Reads the files in the first folder and writes what is to be stored into the second.
Recipe = Callable[[Path, Path], None]


def gguf_to_bfloat16(fetched: Path, stored: Path) -> None:
    """Weights and tokenizer of the one GGUF file in ``fetched`` as safetensors in bfloat16.

    transformers needs 17 s to read the quantised file and one second to read what this writes. bfloat16 keeps
    more than the quantised weights had.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    (gguf,) = fetched.glob("*.gguf")
    with redirect_stderr(io.StringIO()):  # where transformers draws progress bars of its own
        quantised = AutoModelForCausalLM.from_pretrained(fetched, gguf_file=gguf.name, dtype=torch.float32)
        # A model that was read from GGUF refuses to be saved; one built plainly around its weights does not.
        config = quantised.config
        del config.quantization_config
        plain = type(quantised)(config)
        plain.load_state_dict(quantised.state_dict())
        plain.bfloat16().save_pretrained(stored)
        AutoTokenizer.from_pretrained(fetched, gguf_file=gguf.name).save_pretrained(stored)


RECIPES: dict[str, Recipe] = {"gguf-to-bfloat16": gguf_to_bfloat16}
