"""Settings with their sources, secrets taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.core.redaction import is_secret, shown_value

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration


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


def pairs_view(configuration: Configuration) -> list[dict[str, str]]:
    """Returns the settings that somebody made, as `/jobmanager/config` has them."""
    return [
        {"key": key, "value": shown_value(key, value)}
        for key, value in configuration.to_dict().items()
    ]
