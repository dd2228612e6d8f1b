# What can be done with this checkout; `make` alone lists it.

BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help venv front-end setup demo test faults lint bench bench-page docs clean

help: ## list what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

venv: ## make .venv with everything the project needs
	@tools/bootstrap.sh
	@$(BIN)/python tools/front_end.py || echo "the kernel works without its front end; \`make front-end\` tries again"

front-end: ## build what JupyterLab and the widget load, from nbext/
	@tools/bootstrap.sh
	@$(BIN)/python tools/front_end.py

setup: venv ## prepare this host: QEMU, guest image, base checkpoint, kernelspec
	@$(BIN)/branchpoint setup

demo: setup ## run the quickstart notebook in a microVM; results in demo-output/
	@$(BIN)/branchpoint demo

test: setup ## run every test
	@tools/browser.sh
	@$(BIN)/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

faults: setup ## try every kind of fault at every step of every operation, in an hour or two
	@BRANCHPOINT_FAULTS=all $(BIN)/pytest --numprocesses 0 --capture no tests/vm/test_faults.py

lint: front-end ## check style, types and who imports whom
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/npm --prefix nbext run --silent lint

bench: setup ## measure what checkpoints, forks and rollbacks cost
	@$(BIN)/branchpoint bench

bench-page: setup ## measure how soon a page shows what was done, and how large the front end is
	@tools/browser.sh
	@$(BIN)/python tools/front_end_times.py
	@$(BIN)/python tools/front_end_sizes.py

docs: venv ## build the documentation into docs/_build
	@$(BIN)/sphinx-build -W -q docs docs/_build

clean: ## remove what was made in this checkout; machines and images in BRANCHPOINT_HOME stay
	rm -rf .venv build dist demo-output bench-output docs/_build
	rm -rf nbext/node_modules nbext/lib nbext/labextension nbext/demo/built kernel/branchpoint_kernel/front_end
	rm -rf .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find kernel nbext tests tools vmruntime -name __pycache__ -prune -exec rm -rf {} +
	find . -maxdepth 2 -name '*.egg-info' -prune -exec rm -rf {} +
