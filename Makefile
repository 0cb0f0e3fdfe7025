# `make demo` and `make test` set up everything they need in .venv; nothing outside this folder is kept.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
RUN ?= runs/demo
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export XDG_CACHE_HOME := $(CURDIR)/.cache
export BAYESTRIPLET_DATA := $(CURDIR)/.data

.PHONY: demo demo-folder test lint docs bench chaos sbom extras reproduce reproduce-fast clean

demo: $(READY)
	@rm -rf $(RUN)
	@echo "Training BUNCA on MNIST (a ResNet-18 at a quarter of its width, 3,000 steps) ..."
	@$(BIN)/bayestriplet train mnist --width 0.25 --max-steps 3000 --validate-every 750 --out $(RUN)
	@echo "Drawing its figures ..."
	@$(BIN)/bayestriplet figures $(RUN)
	@echo "Indexing its test images, and searching them ..."
	@$(BIN)/bayestriplet index $(RUN) mnist --split test
	@$(BIN)/bayestriplet search $(RUN) docs/images/query.png --montage $(RUN)/figures/search.png
	@echo "Try next:"
	@echo "  BAYESTRIPLET_DATA=.data $(BIN)/bayestriplet evaluate $(RUN) --gallery train    # look for neighbours among the training images"
	@echo "  BAYESTRIPLET_DATA=.data $(BIN)/bayestriplet train mnist --method bh --width 0.25 --max-steps 3000 --out runs/bh    # another method"
	@echo "  $(BIN)/bayestriplet search $(RUN) docs/images/letter.png    # what is no digit"
	@echo "  $(BIN)/bayestriplet train FOLDER --out runs/mine    # your own images, one subfolder per class"
	@echo "  $(BIN)/bayestriplet serve $(RUN)    # the search page, at http://127.0.0.1:8000"

# FOLDER=photos: the same way on a folder of your own images, one subfolder per class.
demo-folder: $(READY)
	@test -d "$(FOLDER)" || { echo "Name a folder of images with one subfolder per class: make demo-folder FOLDER=photos"; exit 2; }
	@rm -rf runs/folder
	@$(BIN)/bayestriplet train "$(FOLDER)" --out runs/folder
	@$(BIN)/bayestriplet figures runs/folder
	@$(BIN)/bayestriplet index runs/folder "$(FOLDER)" --split train
	@echo "Try next:"
	@echo "  $(BIN)/bayestriplet search runs/folder IMAGE --montage answer.png    # the nearest training images"
	@echo "  $(BIN)/bayestriplet serve runs/folder    # the search page, at http://127.0.0.1:8000"

test: $(READY)
	@mkdir -p .cache
	$(BIN)/python -m pytest -n 2 -rs --basetemp=.cache/pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/prose.py

# The site is in build/site: `python3 -m http.server --directory build/site` shows it. A broken link fails.
docs: $(READY)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "The site is in build/site: open build/site/index.html."

bench: $(READY)
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/recall.py
	$(BIN)/python benchmarks/search.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/service.py

# ONLY="killed hostile" runs some of the parts; benchmarks/chaos.py names them.
chaos: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/chaos.py $(if $(ONLY),--only $(ONLY))

sbom: $(READY)
	@$(BIN)/python benchmarks/supply.py sbom

# Builds the package twice, compares the files, and installs each extra into an environment of its own.
extras: $(READY)
	$(BIN)/python benchmarks/supply.py extras
	$(BIN)/python benchmarks/supply.py pythons

# PATHMNIST=pathmnist.npz adds the colorectal-cancer set (MedMNIST's file), BIRDS=FOLDER pictures in class folders,
# OMNIGLOT=FILE.npz and CUB=FILE.npz retrieval among their test classes (benchmarks/unseen.py says what they hold).
UNSEEN = $(if $(PATHMNIST),--pathmnist $(PATHMNIST)) $(if $(OMNIGLOT),--omniglot $(OMNIGLOT)) $(if $(CUB),--cub $(CUB))
reproduce: $(READY)
	$(BIN)/python benchmarks/quality.py $(if $(PATHMNIST),--pathmnist $(PATHMNIST))
	$(BIN)/python benchmarks/ablation.py $(if $(PATHMNIST),--pathmnist $(PATHMNIST))
	$(BIN)/python benchmarks/ablation.py $(if $(PATHMNIST),--pathmnist $(PATHMNIST)) --split val \
		--only pathmnist "10 items a class" --results benchmarks/results/ablation-validation.json
	$(BIN)/python benchmarks/long.py $(if $(PATHMNIST),--pathmnist $(PATHMNIST))
	$(BIN)/python benchmarks/calibration.py $(if $(PATHMNIST),--pathmnist $(PATHMNIST))
	$(if $(BIRDS),$(BIN)/python benchmarks/pretrained.py --birds $(BIRDS))
	$(BIN)/python benchmarks/unseen.py $(UNSEEN)
	$(if $(OMNIGLOT),$(BIN)/python benchmarks/few_shot.py --omniglot $(OMNIGLOT))
	$(BIN)/python benchmarks/tables.py

reproduce-fast: $(READY)
	$(BIN)/python benchmarks/quality.py --fast --out runs/quality-fast --results runs/quality-fast/quality.json \
		$(if $(PATHMNIST),--pathmnist $(PATHMNIST))
	$(BIN)/python benchmarks/unseen.py --fast --out runs/unseen-fast --results runs/unseen-fast/unseen.json $(UNSEEN)

clean:
	rm -rf .venv .cache .data .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt hashes.txt
	@echo "Setting up .venv (a few minutes the first time) ..."
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@mkdir -p .cache
	@$(BIN)/python -m pip install --quiet --no-deps --no-warn-conflicts --require-hashes --only-binary :all: -r hashes.txt
	@$(BIN)/python -m pip install --quiet --no-warn-conflicts --constraint constraints.txt torch==2.13.0
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)
