# What can be done with this checkout; `make` alone lists it.

BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help venv setup demo test lint bench docs clean

help: ## list what there is to make
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

venv: ## make .venv with everything the project needs
	@tools/bootstrap.sh

setup: venv ## prepare this host: QEMU, guest image, base checkpoint, kernelspec
	@$(BIN)/branchpoint setup

demo: setup ## run the quickstart notebook in a microVM; results in demo-output/
	@$(BIN)/branchpoint demo

test: setup ## run every test
	@tools/browser.sh
	@$(BIN)/pytest --numprocesses 2 --dist loadfile

lint: venv ## check style, types and who imports whom
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports

bench: setup ## measure what checkpoints, forks and rollbacks cost
	@$(BIN)/branchpoint bench

docs: venv ## build the documentation into docs/_build
	@$(BIN)/sphinx-build -W -q docs docs/_build

clean: ## remove what was made in this checkout; machines and images in BRANCHPOINT_HOME stay
	rm -rf .venv build dist demo-output bench-output docs/_build
	rm -rf .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find kernel nbext tests tools vmruntime -name __pycache__ -prune -exec rm -rf {} +
	find . -maxdepth 2 -name '*.egg-info' -prune -exec rm -rf {} +
