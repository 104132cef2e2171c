"""Every setting that counts with its source, those of Spark that Penstock fixes included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.rest.views.configuration import effective_config_view
from penstock.spark.session import FIXED_SETTINGS

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration

_PREFIX: Final = "penstock.spark.conf."


def effective_settings(configuration: Configuration) -> dict[str, Any]:
    """Returns `settings` (key, value, source, is-default, redacted) and `warnings`."""
    view = effective_config_view(configuration)
    given = {row["key"] for row in view["settings"]}
    fixed = [
        {
            "key": _PREFIX + key,
            "value": value,
            "source": "penstock",
            "is-default": True,
            "redacted": False,
        }
        for key, value in FIXED_SETTINGS.items()
        if _PREFIX + key not in given
    ]
    rows = sorted([*view["settings"], *fixed], key=lambda row: str(row["key"]))
    return {"settings": rows, "warnings": configuration.warnings()}
