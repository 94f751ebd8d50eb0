"""What a browser calls itself, in words that people know."""

_BROWSERS = (
    ("Edg", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("FxiOS/", "Firefox"), ("CriOS/", "Chrome"),
    ("Chromium/", "Chromium"), ("Chrome/", "Chrome"), ("Safari/", "Safari"),
)  # fmt: skip
"""The first that is found counts: most call themselves by the names of those before them too."""
_SYSTEMS = (
    ("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("Windows", "Windows"), ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"), ("Linux", "Linux"),
)  # fmt: skip


def describe_device(user_agent: str) -> str:
    """ "Firefox, Linux"; the first word of what a program calls itself; "" where it said nothing."""
    browser = next((name for mark, name in _BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "")
    return ", ".join(filter(None, (browser, system))) or user_agent.split("/")[0][:40].strip()
