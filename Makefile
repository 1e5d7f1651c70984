# make lab    open the lessons in JupyterLab
# make test   everything: style, types, unit tests, then every notebook
# make check  style and types alone
# make exhaustive   the long tests that make test leaves out
# make site   the lessons and the bubble studio as pages, in build/site

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
ROOT_FLAG := $(if $(filter 0,$(shell id -u)),--allow-root)

.PHONY: lab test check unit unit-waiting unit-computing notebooks notebooks-first notebooks-second exhaustive exhaustive-exercises exhaustive-solutions exhaustive-others publish site clean

lab: .venv/lab.stamp # with the settings of assets/lab: no question about news
	$(BIN)/jupyter lab --ip=127.0.0.1 --LabApp.app_settings_dir=assets/lab \
		--LabApp.default_url=/lab/tree/notebooks/00_first_two_ranks.ipynb $(ROOT_FLAG)

test: check unit notebooks

check: .venv/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

unit: .venv/test.stamp # two halves of about the same length at a time
	$(MAKE) --no-print-directory --jobs=2 unit-waiting unit-computing

WAITING := tests/browser tests/cli tests/comm tests/show tests/lesson/test_exercises.py # for browsers and processes

unit-waiting: .venv/test.stamp
	$(BIN)/python -m pytest -p no:cacheprovider $(WAITING)

unit-computing: .venv/test.stamp
	$(BIN)/python -m pytest $(addprefix --ignore=,$(WAITING))

notebooks: .venv/test.stamp # as a learner without solutions reads them, two halves at a time
	$(MAKE) --no-print-directory --jobs=2 notebooks-first notebooks-second

NBVAL = PLLAB_HOME=$$(mktemp -d) $(BIN)/python -m pytest --nbval --nbval-current-env --nbval-cell-timeout=90 -p no:cacheprovider
FIRST := $(wildcard notebooks/0[0-7]_*.ipynb)

notebooks-first: .venv/test.stamp
	$(NBVAL) $(FIRST)

notebooks-second: .venv/test.stamp
	$(NBVAL) $(filter-out $(FIRST),$(wildcard notebooks/*.ipynb))

exhaustive: .venv/test.stamp # on top of make test: every wrong solution and what else takes long, three parts at a time
	$(MAKE) --no-print-directory --jobs=3 exhaustive-exercises exhaustive-solutions exhaustive-others

EXERCISES := tests/lesson/test_exercises.py tests/browser/test_lessons.py
SOLUTIONS := $(addprefix tests/lesson/test_,solutions.py machine.py grading.py) tests/browser

exhaustive-exercises: .venv/test.stamp
	$(BIN)/python -m pytest -p no:cacheprovider -m exhaustive $(EXERCISES)

exhaustive-solutions: .venv/test.stamp
	$(BIN)/python -m pytest -p no:cacheprovider -m exhaustive --ignore=tests/browser/test_lessons.py $(SOLUTIONS)

exhaustive-others: .venv/test.stamp
	$(BIN)/python -m pytest -p no:cacheprovider -m exhaustive $(addprefix --ignore=,$(EXERCISES) $(SOLUTIONS))

site: .venv/lab.stamp # opens in any browser: build/site/index.html
	$(BIN)/python -m pllab.lesson.site build/site notebooks

publish: .venv/test.stamp # run the notebooks and clean them for a commit
	PLLAB_HOME=$$(mktemp -d) $(BIN)/python -m pllab.lesson.publish notebooks/*.ipynb

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/pip.stamp:
	$(PYTHON) -m venv .venv
	touch $@

.venv/lab.stamp: .venv/pip.stamp pyproject.toml constraints.txt
	$(PIP) -e ".[lab]"
	touch $@

.venv/test.stamp: .venv/pip.stamp pyproject.toml constraints.txt
	$(PIP) -e ".[test]"
	touch $@ .venv/lab.stamp
