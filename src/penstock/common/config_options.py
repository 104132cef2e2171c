"""PyFlink's `common.config_options`: settings of a program's own, with a kind and a default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from penstock.core.refused_names import names_of

__getattr__ = names_of(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConfigOption(Generic[T]):
    """A setting: `configuration.get(option)` reads it, `configuration.set(option, value)` sets it.

    Attributes:
        key: Its key.
        kind: How its text is read.
        default: Its value when nothing was set.
    """

    key: str
    kind: str
    default: T | None = None


class ConfigOptions:
    """Begins an option: `ConfigOptions.key("a.b").int_type().default_value(3)`."""

    @dataclass(frozen=True, slots=True)
    class OptionBuilder:
        """An option without a kind."""

        key: str

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            return ConfigOptions.TypedConfigOptionBuilder(self.key, "boolean")

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            return ConfigOptions.TypedConfigOptionBuilder(self.key, "integer")

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            return ConfigOptions.TypedConfigOptionBuilder(self.key, "integer")

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            return ConfigOptions.TypedConfigOptionBuilder(self.key, "float")

        def double_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            return ConfigOptions.TypedConfigOptionBuilder(self.key, "float")

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            return ConfigOptions.TypedConfigOptionBuilder(self.key, "string")

    @dataclass(frozen=True, slots=True)
    class TypedConfigOptionBuilder(Generic[T]):
        """An option without a default."""

        key: str
        kind: str

        def default_value(self, value: T) -> ConfigOption[T]:
            return ConfigOption(self.key, self.kind, value)

        def no_default_value(self) -> ConfigOption[Any]:
            return ConfigOption(self.key, self.kind)

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        return ConfigOptions.OptionBuilder(key)
