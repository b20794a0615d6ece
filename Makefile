# Every target sets itself up: a fresh machine needs Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OUT ?= out
# extras of pyproject.toml; tensorrt-rtx (150 MB) lets the tests build TensorRT engines
EXTRAS ?= serve,live,livekit,speech,onnx,gpu,dev

.PHONY: help demo test nightly pipecat livekit check format serve bench demo-weights sbom clean
.DEFAULT_GOAL := help

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; (3, 11) <= sys.version_info < (3, 13) or sys.exit("LiveAnchor needs Python 3.11 or 3.12; name one with: make PYTHON=python3.11 ...")'
	@echo "installing LiveAnchor into $(VENV): some minutes, 3.5 GB or more; only the first time"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(EXTRAS)]'
	touch $(READY)

demo: $(READY) ## a talking mp4 from the committed speech sample, through the Ray graph
	mkdir -p $(OUT)
	$(BIN)/liveanchor generate --audio docs/demo/speech.wav --out $(OUT)/demo.mp4

test: $(READY) ## every CPU test but the nightly ones
	$(BIN)/python -m pytest tests/browser tests/ray
	$(BIN)/python -m pytest tests/golden tests/unit -n 2 --dist worksteal

nightly: $(READY) ## the tests that take long and say little more than their faster neighbours
	$(BIN)/python -m pytest --nightly -m nightly

pipecat: $(READY) ## the tests of the Pipecat package, in an environment of its own (800 MB more)
	$(BIN)/python -m pytest --nightly tests/unit/integrations/test_pipecat.py

livekit: $(READY) ## the tests of the LiveKit plugin, in an environment of its own (400 MB more)
	$(BIN)/python -m pytest --nightly tests/unit/integrations/test_livekit_plugin.py

check: $(READY) ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## rewrite to the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

serve: $(READY) ## the service on http://127.0.0.1:8000, page included
	$(BIN)/liveanchor serve

demo-weights: $(READY) ## train the embedded weights again (a GPU; docs in engines/weights_data/mini/MODEL_CARD.md)
	$(BIN)/python -m training all --work $(OUT)/training

bench: $(READY) ## re-make benchmarks/results/cpu-2core/main_job.json
	$(BIN)/python -m benchmarks.main_job

sbom: $(READY) ## write deploy/sbom.cdx.json again, after a change of constraints.txt or of the weights
	$(BIN)/python deploy/sbom.py > deploy/sbom.cdx.json.new && mv deploy/sbom.cdx.json.new deploy/sbom.cdx.json

clean: ## remove what the targets above made
	rm -rf $(VENV) $(OUT) .mypy_cache .ruff_cache .pytest_cache
