"""Settings: one model per section; the file and the environment are read once, in `load`."""

from circadia.settings.launchers import LauncherSettings
from circadia.settings.load import ConfigFile, config_error, find_settings, load_settings, parse_yaml, settings_from
from circadia.settings.memory import BankSettings, MemorySettings
from circadia.settings.mistakes import describe_mistakes
from circadia.settings.root import Settings
from circadia.settings.schedule import AgentSettings, ScheduleSettings
from circadia.settings.server import DefaultsSettings, FleetSettings, LimitsSettings, ServerSettings
from circadia.settings.upstreams import KeyHeader, McpServerSettings, UpstreamSettings, build_key_header

__all__ = [
    "AgentSettings",
    "BankSettings",
    "ConfigFile",
    "DefaultsSettings",
    "FleetSettings",
    "KeyHeader",
    "LauncherSettings",
    "LimitsSettings",
    "McpServerSettings",
    "MemorySettings",
    "ScheduleSettings",
    "ServerSettings",
    "Settings",
    "UpstreamSettings",
    "build_key_header",
    "config_error",
    "describe_mistakes",
    "find_settings",
    "load_settings",
    "parse_yaml",
    "settings_from",
]
