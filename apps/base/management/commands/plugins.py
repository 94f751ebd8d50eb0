"""`manage.py plugins`: what other packages add to this installation, as JSON lines, with why one is not used."""

import json
from dataclasses import asdict, replace
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from tentalis.plugin_trials import try_plugin
from tentalis.plugins import BACKENDS, GROUPS, find_plugins, is_trusted, list_plugins


class Command(BaseCommand):
    help = "List what other packages add to this installation, a JSON object a line; `error` says why one is not used."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--anew", action="store_true", help="Try each of them now, whatever was found before.")

    def handle(self, *, anew: bool, **options: Any) -> None:
        points = {plugin: point for group in GROUPS for plugin, point in find_plugins(group)}
        tried = {
            plugin: try_plugin(point, anew=True).error
            for plugin, point in points.items()
            if anew and not is_trusted(point)
        }
        trusted = {(plugin.group, plugin.name, plugin.package) for plugin, point in points.items() if is_trusted(point)}
        for plugin in list_plugins():
            if plugin.group == BACKENDS:  # which the training box alone loads
                plugin = replace(plugin, error=tried.get(plugin, ""))
            told = asdict(plugin) | {"is_trusted": (plugin.group, plugin.name, plugin.package) in trusted}
            self.stdout.write(json.dumps(told))
