"""Which of the stacks in a home the settings lead to."""

from __future__ import annotations

from openmanus_rl.local.home import Home
from openmanus_rl.local.stack_file import read_stack
from openmanus_rl.settings import Settings


def home_of(settings: Settings) -> Home:
    """Return the folder of the stack that the settings lead to: by URL, by database, or else the embedded one."""
    if settings.url is not None:
        for folder in sorted(settings.home.resolve().glob("databases/*")):
            found = read_stack(Home(folder))
            if found is not None and found.url == settings.url:
                return Home(folder)
    return Home(settings.stack_home.resolve())
