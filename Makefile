# make lab    open the lessons in JupyterLab
# make test   style, types, quick tests and every notebook
# make check  style and types alone
# make exhaustive   the long tests that make test leaves out
# make site   the lessons and the bubble studio as pages, in build/site

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
ROOT_FLAG := $(if $(filter 0,$(shell id -u)),--allow-root)

unexport PYTHONDONTWRITEBYTECODE # tests start hundreds of processes, and each would compile the package anew

.PHONY: lab test check pool unit notebooks exhaustive publish site clean

lab: .venv/workspace.stamp # with the settings of assets/lab: no question about news
	$(BIN)/jupyter lab --ip=127.0.0.1 --LabApp.app_settings_dir=assets/lab \
		--LabApp.default_url=/lab/workspaces/lessons/tree/notebooks/00_first_two_ranks.ipynb $(ROOT_FLAG)

test: .venv/test.stamp
	$(MAKE) --no-print-directory --jobs=2 check pool

pool: .venv/test.stamp # while notebooks compute, tests wait for processes and browsers
	$(LEARNER) $(PYTEST) $(NBVAL) tests notebooks

check: .venv/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

PYTEST := OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -p no:cacheprovider --numprocesses=3 --dist=loadfile --no-loadscope-reorder # two cores: the third waits for ranks, and no thread waits by spinning
NBVAL := --nbval --nbval-current-env --nbval-cell-timeout=90
LEARNER := PLLAB_HOME=$$(mktemp -d) # who has solved nothing

unit: .venv/test.stamp
	$(PYTEST)

notebooks: .venv/test.stamp
	$(LEARNER) $(PYTEST) $(NBVAL) notebooks

exhaustive: .venv/test.stamp # on top of make test: every wrong solution and what else takes long
	$(PYTEST) -m exhaustive

site: .venv/lab.stamp # opens in any browser: build/site/index.html
	$(BIN)/python -m pllab.lesson.site build/site notebooks

publish: .venv/test.stamp # run the notebooks and clean them for a commit
	$(LEARNER) $(BIN)/python -m pllab.lesson.publish notebooks/*.ipynb

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/pip.stamp:
	$(PYTHON) -m venv .venv
	touch $@

.venv/lab.stamp: .venv/pip.stamp pyproject.toml constraints.txt
	$(PIP) -e ".[lab]"
	touch $@

.venv/workspace.stamp: assets/lab/workspace.json | .venv/lab.stamp # the file browser is folded: a lesson has the width
	$(BIN)/jupyter lab workspaces import assets/lab/workspace.json
	touch $@

.venv/test.stamp: .venv/pip.stamp pyproject.toml constraints.txt
	$(PIP) -e ".[test]"
	touch $@ .venv/lab.stamp
