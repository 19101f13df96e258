"""The official Python SDK, connected to a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unitycatalog import client as uc
from unitycatalog.client.api.delta_commits_api import DeltaCommitsApi
from unitycatalog.client.api.grants_api import GrantsApi
from unitycatalog.client.api.metastores_api import MetastoresApi
from unitycatalog.client.api.temporary_credentials_api import TemporaryCredentialsApi

from tests.support.clients.engine import B

if TYPE_CHECKING:
    from turnstile_server import Server


def connect(server: Server) -> uc.ApiClient:
    """A session. Its ``access_token`` would not be sent: the SDK's description of the API knows no
    way to sign in."""
    token = f"Bearer {server.token or 'none'}"
    return uc.ApiClient(uc.Configuration(host=server.url + B), header_name="Authorization", header_value=token)


class Sdk:
    """The SDK's interfaces over one session."""

    def __init__(self, session: uc.ApiClient) -> None:
        self.catalogs = uc.CatalogsApi(session)
        self.schemas = uc.SchemasApi(session)
        self.tables = uc.TablesApi(session)
        self.keys = TemporaryCredentialsApi(session)
        self.commits = DeltaCommitsApi(session)
        self.metastores = MetastoresApi(session)
        self.grants = GrantsApi(session)
