"""Settings with their sources, secrets taken out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration

REDACTED: Final = "******"
_SECRET: Final = re.compile(
    r"password|passwd|secret|token(?!-file)|access[-._]?key|api[-._]?key|credential|auth-params"
    r"|^fs\..*key",
    re.IGNORECASE,
)
# Both begin where a word does and give none of it back, so that a line of a megabyte costs a
# megabyte's time: logs hold whatever programs print.
_IN_URL: Final = re.compile(r"(?<![\w+.-])(?P<scheme>[\w+.-]++://)[^/\s@]++@")
_IN_TEXT: Final = re.compile(
    r"(?<![\w.-])"
    r"(?=[\w.-]*?(?:password|passwd|secret|token|access[-._]?key|api[-._]?key))"
    r"(?P<name>[\w.-]++[\"']?\s*+[=:]\s*+)(?!None\b)(?P<quote>[\"']?)[^\s\"'&,;)]+",
    re.IGNORECASE,
)


def is_secret(key: str) -> bool:
    """Says whether a setting of this name may hold a secret."""
    return _SECRET.search(key) is not None


def without_secrets(text: str) -> str:
    """Returns a text without passwords in URLs and values of secret names."""
    text = _IN_URL.sub(rf"\g<scheme>{REDACTED}@", text)
    return _IN_TEXT.sub(rf"\g<name>\g<quote>{REDACTED}", text)


def shown_value(key: str, value: str) -> str:
    """Returns a value as it may be shown."""
    return REDACTED if is_secret(key) else without_secrets(value)


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
