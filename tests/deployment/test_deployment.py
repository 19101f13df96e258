"""template.yaml as users deploy it: by SAM's command line, with functions that Lambda's own Python and runtime client run."""

from __future__ import annotations

import pytest

from tests.deployment.conftest import Deployment
from turnstile_release import version

pytestmark = [pytest.mark.slow]


def test_sam_deploys_the_template_and_its_service_says_its_version(deployment: Deployment) -> None:
    with deployment.client() as api:
        assert api.get("/v1").json()["version"] == version()
        assert api.get("/v1/catalogs", headers={"authorization": ""}).status_code == 401
        assert api.get("/ui").status_code == 200
