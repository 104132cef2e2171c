"""Takes secrets out of what is shown: settings, logs, errors, program output, notebooks, metrics.

This is the only list of what counts as a secret. A text may be a log of many megabytes that a
program wrote at will, so every pattern reads it once: it begins where a word begins, gives nothing
of that word back, and looks ahead no further than the next one.
"""

from __future__ import annotations

import logging
import re
from typing import Final

REDACTED: Final = "******"

# Parts of names whose values are secret; the first two name a file and a switch.
_WORDS: Final = (
    r"(?<!require-)token(?!-file)",
    r"(?<!ssl\.rest\.)private[-._]?key",
    r"(?:access|account|api|auth|client|encryption|master|secret|shared|shared[-._]?access|signing"
    r"|storage|subscription)[-._]?(?:key|signature)",
    r"passw(?:or)?d|passphrase|passcode|[-._](?:pass|pwd)(?![\w])",
    r"secret|credential|auth-params|jaas",
    r"[-._](?:sas|signature)(?![a-z])",
)
_WORD: Final = "|".join(_WORDS)
# File systems of Hadoop have a key for each vendor and account, below `spark.hadoop.` too.
_SECRET_SETTING: Final = re.compile(rf"{_WORD}|(?:^|\.)fs\..*key", re.IGNORECASE)

# A value ends at a blank; at a comma and the like only where something else begins.
_VALUE: Final = (
    r"(?:\"[^\"\n]*+|'[^'\n]*+"
    r"|(?!None\b)[^\s\"',;&)](?:[^\s\"',;&)]|[,;)](?![\s,;)\]}]|[\w.-]{1,64}[=:]|\Z))*+)"
)
_TEXTS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        # scheme://user:password@host
        (r"(?<![\w+.-])([\w+.-]++://)(?:[^/\s@]*+@)++", rf"\g<1>{REDACTED}@"),
        # -----BEGIN PRIVATE KEY----- …
        (
            r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)(?:[^-]++|-(?!----END))*+",
            rf"\g<1>{REDACTED}",
        ),
        # Authorization: Bearer …, and a bearer's token anywhere
        (
            r"(?<![\w-])((?:proxy-)?authorization[\"']?\s*+[=:]\s*+[\"']?(?:[a-z]++\s++)?)"
            r"[^\s\"',]++",
            rf"\g<1>{REDACTED}",
        ),
        (r"(?<![\w-])(bearer\s++)[\w.~+/=-]{16,}+", rf"\g<1>{REDACTED}"),
        # A passphrase has blanks in it.
        (r"(passphrase[\"']?\s*+[=:]\s*+[\"']?)[^\n\"']++", rf"\g<1>{REDACTED}"),
        # JSON web tokens
        (r"(?<![\w-])eyJ[\w-]++\.eyJ[\w-]++\.[\w-]*+", REDACTED),
        # ?sv=…&sig=…: signed addresses of Azure, Amazon and Google
        (
            r"((?:[?&;]|\A)(?:sig|signature|x-(?:amz|goog)-(?:signature|credential|security-token))"
            r"=)[^\s&\"'<>]++",
            rf"\g<1>{REDACTED}",
        ),
        # --token x, also as a list of arguments
        (
            rf"(?<![\w-])(?=--?[\w.-]*?(?:{_WORD}))(--?+[\w.-]++(?:[\"'],)?\s++[\"']?)"
            r"(?![-\"'])[^\s\"']++",
            rf"\g<1>{REDACTED}",
        ),
        # name=value, name: value, "name": "value"
        (
            rf"(?<![\w.-])(?=[\w.-]*?(?:{_WORD}))([\w.-]++[\"']?\s*+[=:]\s*+)([\"']?)"
            rf"(?:(?<=[\"'])[^\"'\n]++|{_VALUE})",
            rf"\g<1>\g<2>{REDACTED}",
        ),
    )
)


def is_secret(key: str) -> bool:
    """Says whether a setting of this name may hold a secret."""
    return _SECRET_SETTING.search(key) is not None


def without_secrets(text: str) -> str:
    """Returns a text without passwords in addresses, tokens, signatures, values of secret names."""
    for pattern, replacement in _TEXTS:
        text = pattern.sub(replacement, text)
    return text


def shown_value(key: str, value: str) -> str:
    """Returns a value as it may be shown."""
    return REDACTED if is_secret(key) else without_secrets(value)


class SecretlessFormatter(logging.Formatter):
    """Formats lines of a log, with tracebacks, without the secrets in them."""

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))
