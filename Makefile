# `make demo` hears a recording and answers; `make test` checks it all. Nothing here needs the network twice.
PYTHON ?= python3
DEVICE ?= cpu
BIN = .venv/bin
# The lock keeps every install to the versions that were tested.
PIP_INSTALL = $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt

.PHONY: demo test compat bench soak codec lint types clean

demo: .venv/installed
	$(BIN)/echoic models fetch && $(BIN)/echoic demo

test: .venv/installed-for-tests
	$(BIN)/echoic models fetch && $(BIN)/python -m pytest

# Published clients of the Realtime endpoint, in an environment of their own; the npm ones where there is npm.
compat: .venv/installed-for-tests .venv-compat/installed
	if command -v npm >/dev/null; then npm ci --prefix tests/server/compat/js --no-audit --no-fund; fi
	$(BIN)/echoic models fetch && $(BIN)/python -m pytest tests/server/compat

# Figures, not gates. RECORDINGS= is a folder with a manifest.jsonl; without one only the first three are measured.
# DEVICE=cuda has the language model measured on a GPU, where there is one.
bench: .venv/installed
	$(BIN)/echoic bench machine --device $(DEVICE); $(BIN)/echoic bench interruptions $(RECORDINGS); $(BIN)/echoic bench quiet $(RECORDINGS); $(if $(RECORDINGS),$(BIN)/echoic replay $(RECORDINGS) --compare sequential --drafts both)

# Hundreds of conversations, in sequence and at once, that end in every way.
soak: .venv/installed-for-tests
	SOAK=200 $(BIN)/python -m pytest tests/server/test_soak.py

# Trains echoic memory for the embedded model (an hour on two cores; an interrupted run goes on), then judges it.
# DIALOGUES= is a folder with sgd_train, tm4_train and sgd_dev as JSONL. A minute to see that it runs:
# TRAIN="--examples 16 --recall 16 --steps 4" EVAL="--examples 4 --recall 4".
codec: .venv/installed
	$(BIN)/echoic models fetch && $(BIN)/echoic codec train --data $(DIALOGUES)/sgd_train.jsonl --data $(DIALOGUES)/tm4_train.jsonl --work out/codec --out out/codec/smollm2-135m-instruct.safetensors $(TRAIN)
	$(BIN)/echoic codec eval out/codec/smollm2-135m-instruct.safetensors --data $(DIALOGUES)/sgd_dev.jsonl --record --json out/codec/eval.json --plot out/codec/recovery.png $(EVAL)

lint: .venv/installed-for-tests
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: .venv/installed-for-tests
	$(BIN)/mypy

clean:
	rm -rf .venv .venv-compat tests/server/compat/js/node_modules out build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv && $(PIP_INSTALL) -e '.[mic]' && touch $@

.venv/installed-for-tests: .venv/installed
	$(PIP_INSTALL) -e '.[mic,test,dev]' && touch $@

.venv-compat/installed: tests/server/compat/requirements.txt
	$(PYTHON) -m venv .venv-compat && .venv-compat/bin/python -m pip install --disable-pip-version-check -r $< && touch $@
