# The targets of a plug-in's folder.
VENV ?= .venv
# As in the Makefile of the repository: hundreds of processes would compile every module again.
export PYTHONDONTWRITEBYTECODE :=

test: ## the tests of this package
	$(MAKE) -C ../.. setup
	cd ../.. && $(VENV)/bin/python -m pytest -n $(or $(TEST_PROCESSES),3) packages/$(notdir $(CURDIR))/tests

.PHONY: test
