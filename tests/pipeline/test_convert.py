"""The language model that is converted into the store."""

import pytest

from pipeline.store import Store


@pytest.mark.models
def test_the_converted_model_knows_the_capital_of_france(store: Store) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = store.path("smollm2-135m-instruct")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt")
    reply = model.generate(**prompt, max_new_tokens=12, do_sample=False)
    assert "Paris" in tokenizer.decode(reply[0, prompt["input_ids"].shape[1] :])
