"""Storage with the keys of the configuration, such as `s3.endpoint`, for whoever opens a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.checkpoint.storage.urls import Storages
from penstock.core.config_file import load_configuration

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration


def configured_storages(configuration: Configuration | None = None) -> Storages:
    """Returns storage as a configuration describes it, by default the one in force here."""
    return Storages((configuration or load_configuration()).to_dict())
