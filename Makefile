# `make demo` hears a recording and answers; `make test` checks it all. Nothing here needs the network twice.
PYTHON ?= python3
BIN = .venv/bin
# The lock keeps every install to the versions that were tested.
PIP_INSTALL = $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt

.PHONY: demo test bench soak lint types clean

demo: .venv/installed
	$(BIN)/echoic models fetch && $(BIN)/echoic demo

test: .venv/installed-for-tests
	$(BIN)/echoic models fetch && $(BIN)/python -m pytest

# Figures, not gates. RECORDINGS= is a folder with a manifest.jsonl; without one only the first two are measured.
bench: .venv/installed
	$(BIN)/echoic bench interruptions $(RECORDINGS); $(BIN)/echoic bench quiet $(RECORDINGS); $(if $(RECORDINGS),$(BIN)/echoic replay $(RECORDINGS) --compare sequential --drafts both)

# Hundreds of conversations, in sequence and at once, that end in every way.
soak: .venv/installed-for-tests
	SOAK=200 $(BIN)/python -m pytest tests/server/test_soak.py

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
