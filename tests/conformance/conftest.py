"""Assertions of the suite say what they compared, wherever they stand."""

import pytest

pytest.register_assert_rewrite("tests.conformance.checks", "tests.conformance.place")
