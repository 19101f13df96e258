"""Tests, one folder for each kind and in it one for each subject; what they share is in
``support``."""

import pytest

pytest.register_assert_rewrite("tests.support")  # before anything imports a module of it
