"""Takes secrets out of what is shown: settings, logs, errors, program output, notebooks, metrics.

This is the only list of what counts as a secret. A text may be a log of many megabytes that a
program wrote at will, so every pattern reads it once: it begins where a word begins, gives nothing
of that word back, and looks ahead no further than the next one.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from typing import Final

from penstock.core.options import OPTIONS
from penstock.core.setting_texts import parse_map, to_text

REDACTED: Final = "******"

# Parts of names whose values are secret; the first two name a file and a switch.
_WORDS: Final = (
    r"(?<!require-)token(?!-file)",
    r"(?<!ssl\.rest\.)private[-._]?key",
    r"(?:access|account|api|auth|client|encryption|master|secret|shared|shared[-._]?access|signing"
    r"|storage|subscription)[-._]?(?:key|signature)",
    r"passw(?:or)?d|passphrase|passcode|[-._](?:pass|pwd)(?![\w])",
    r"secret|credential|auth-params|jaas|auth[-._]user[-._]info",
    r"[-._](?:sas|signature)(?![a-z])",
)
_WORD: Final = "|".join(_WORDS)
# File systems of Hadoop have a key for each vendor and account, below `spark.hadoop.` too.
_SECRET_SETTING: Final = re.compile(rf"{_WORD}|(?:^|\.)fs\..*key", re.IGNORECASE)

# Text inside of text has backslashes before its quotes, up to seven at the third level.
_QUOTE: Final = r"\\{0,7}+[\"']"
# A value in quotes ends at the same ones; another ends at a blank, or at a comma and the like where
# something else begins.
_QUOTED: Final = rf"(?P<quote>{_QUOTE})(?:(?!(?<!\\)(?P=quote))[^\n])*+"
_BARE: Final = r"(?!None\b)[^\s\"',;&)](?:[^\s\"',;&)]|[,;)](?![\s,;)\]}]|[\w.-]{1,64}[=:]|\Z))*+"
_PRIVATE_KEY: Final = re.compile(
    r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)(?:[^-]++|-(?!----END))*+"
)
# Without one of these, in small letters, none of the patterns below finds anything.
_HINTS: Final = (
    *("://", "auth", "bearer", "eyj", "sig", "token", "key", "pass", "pwd", "secret", "sas"),
    *("credential", "jaas"),
)
_TEXTS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        # scheme://user:password@host, also with a slash in the password, which should be quoted
        (
            r"(?<![\w+.-])([\w+.-]++://)"
            r"(?:(?:[^/\s@]*+@)++|[^/\s@:\[]*+:(?!\d{1,5}(?:[/\s?#]|\Z))[^\s@]{0,256}+@)",
            rf"\g<1>{REDACTED}@",
        ),
        # Authorization: Bearer …, and a bearer's token anywhere
        (
            rf"(?<![\w-])((?:proxy-)?authorization(?:{_QUOTE})?\s*+[=:]\s*+(?:{_QUOTE})?"
            rf"(?:[a-z]++\s++)?)(?:[^\s\"',\\]|\\(?!{_QUOTE}))++",
            rf"\g<1>{REDACTED}",
        ),
        (r"(?<![\w-])(bearer\s++)[\w.~+/=-]{16,}+", rf"\g<1>{REDACTED}"),
        # A passphrase has blanks in it.
        (
            rf"(passphrase(?:{_QUOTE})?\s*+[=:]\s*+)(?!{_QUOTE})[^\n\"']++",
            rf"\g<1>{REDACTED}",
        ),
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
            rf"(?<![\w-])(?=--?[\w.-]*?(?:{_WORD}))(--?+[\w.-]++(?:{_QUOTE},)?\s++(?:{_QUOTE})?)"
            rf"(?![-\"'])(?:[^\s\"'\\]|\\(?!{_QUOTE}))++",
            rf"\g<1>{REDACTED}",
        ),
        # name=value, name: value, "name": "value", and name%3Dvalue in an address
        (
            rf"(?<![\w.-])(?=[\w.-]*?(?:{_WORD}))([\w.-]++(?:{_QUOTE})?\s*+(?:[=:]|%3[da])\s*+)"
            rf"(?:{_QUOTED}|{_BARE})",
            rf"\g<1>\g<quote>{REDACTED}",
        ),
        # set_property("name", "value")
        (
            rf"(\(\s*+{_QUOTE}(?=[\w.-]*?(?:{_WORD}))[\w.-]++{_QUOTE}\s*+,\s*+)"
            rf"{_QUOTED}(?=(?P=quote)\s*+,?\s*+(?:\)|\Z))",
            rf"\g<1>\g<quote>{REDACTED}",
        ),
    )
)


def is_secret(key: str) -> bool:
    """Says whether a setting of this name may hold a secret."""
    return _SECRET_SETTING.search(key) is not None


def without_secrets(text: str) -> str:
    """Returns a text without passwords in addresses, tokens, signatures, values of secret names."""
    if "PRIVATE KEY-----" in text:
        text = _PRIVATE_KEY.sub(rf"\g<1>{REDACTED}", text)
    lines = text.split("\n")
    if len(lines) == 1:
        return _cleaned(text)
    # Most lines of a log hold nothing, and are not worth a dozen searches. A value may stand on the
    # line below its name.
    found: list[str] = []
    block: list[str] = []
    is_near = False
    for line in lines:
        is_hot = _may_hold_any(line)
        if is_hot or is_near:
            block.append(line)
        else:
            found += (_cleaned("\n".join(block)), line) if block else (line,)
            block = []
        is_near = is_hot
    if block:
        found.append(_cleaned("\n".join(block)))
    return "\n".join(found)


def one_line(text: object) -> str:
    """Returns the text of an error in one line, without its secrets."""
    return without_secrets(" ".join(str(text).split()))


def _may_hold_any(text: str) -> bool:
    text = text.lower()
    return any(hint in text for hint in _HINTS)


def _cleaned(text: str) -> str:
    if _may_hold_any(text):
        for pattern, replacement in _TEXTS:
            text = pattern.sub(replacement, text)
    return text


def shown_value(key: str, value: str) -> str:
    """Returns a value as it may be shown; of a map, each value by its own name."""
    if is_secret(key):
        return REDACTED
    option = OPTIONS.get(key)
    if option is not None and option.kind == "map":
        with contextlib.suppress(ValueError):
            parts = parse_map(value).items()
            return to_text({name: shown_value(name, part) for name, part in parts})
    return without_secrets(value)


class SecretlessFormatter(logging.Formatter):
    """Formats lines of a log, with tracebacks, without the secrets in them."""

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


LOGGER: Final = "penstock"


class ConsoleWarnings(logging.Handler):
    """Shows warnings with their level on standard error, unless the program shows them.

    Python's own last resort shows their text alone, which reads as if the program had printed it.
    What a program configures, before or after, is not touched: where a handler of its own hears
    our loggers, this one is silent.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(SecretlessFormatter("%(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        if is_heard(record.name):
            return
        try:
            print(self.format(record), file=sys.stderr)
        except Exception:
            self.handleError(record)


def is_heard(name: str) -> bool:
    """Whether a handler that is not Penstock's gets what a logger says."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        if any(not type(each).__module__.startswith(LOGGER) for each in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False
