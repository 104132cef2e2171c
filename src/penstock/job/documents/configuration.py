"""Settings with their sources, secrets taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.core.redaction import is_secret, shown_value

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration

_PREFIX: Final = "penstock.spark.conf."


def effective_config_view(configuration: Configuration) -> dict[str, Any]:
    """Returns every setting that counts, with where it was set."""
    return {
        "settings": [
            {
                "key": key,
                "value": shown_value(key, setting.value),
                "source": str(setting),
                "is-default": setting.rank.value == 0,
                "redacted": is_secret(key),
            }
            for key, setting in configuration.settings().items()
        ]
    }


def effective_settings(configuration: Configuration) -> dict[str, Any]:
    """Returns `settings`, those of Spark that Penstock fixes included, and `warnings`."""
    from penstock.spark.session import FIXED_SETTINGS

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


def pairs_view(configuration: Configuration) -> list[dict[str, str]]:
    """Returns the settings that were set, as `/jobmanager/config` has them."""
    return [
        {"key": key, "value": shown_value(key, value)}
        for key, value in configuration.to_dict().items()
    ]
