# `make demo` hears a recording and answers; `make test` checks it all. Nothing here needs the network twice.
PYTHON ?= python3
BIN = .venv/bin
# The lock keeps every install to the versions that were tested.
PIP_INSTALL = $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt

.PHONY: demo test bench codec lint types clean

demo: .venv/installed
	$(BIN)/echoic models fetch && $(BIN)/echoic demo

test: .venv/installed-for-tests
	$(BIN)/echoic models fetch && $(BIN)/python -m pytest

# Figures, not gates. RECORDINGS= is a folder with a manifest.jsonl; without one only the first two are measured.
bench: .venv/installed
	$(BIN)/echoic bench interruptions $(RECORDINGS); $(BIN)/echoic bench quiet $(RECORDINGS); $(if $(RECORDINGS),$(BIN)/echoic replay $(RECORDINGS) --compare sequential --drafts both)

# Trains echoic memory for the embedded model (an hour on two cores; an interrupted run goes on), then judges it.
# DIALOGUES= is a folder with sgd_train, tm4_train and sgd_dev as JSONL.
codec: .venv/installed
	$(BIN)/echoic models fetch && $(BIN)/echoic codec train --data $(DIALOGUES)/sgd_train.jsonl --data $(DIALOGUES)/tm4_train.jsonl --work out/codec --out out/codec/smollm2-135m-instruct.safetensors
	$(BIN)/echoic codec eval out/codec/smollm2-135m-instruct.safetensors --data $(DIALOGUES)/sgd_dev.jsonl --record --json out/codec/eval.json --plot out/codec/recovery.png

lint: .venv/installed-for-tests
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: .venv/installed-for-tests
	$(BIN)/mypy

clean:
	rm -rf .venv out build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv && $(PIP_INSTALL) -e . && touch $@

.venv/installed-for-tests: .venv/installed
	$(PIP_INSTALL) -e '.[test,dev]' && touch $@
