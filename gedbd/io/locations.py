"""Where the configuration files are: beside the package in a checkout, inside it once it is installed."""

from pathlib import Path

PACKAGE_DIR = Path(__file__).resolve().parents[1]
INSTALLED_CONF = PACKAGE_DIR / "conf"
# Absolute: Hydra resolves a relative path against the module that runs, which a console script does not have.
CONF_DIR = str(INSTALLED_CONF if INSTALLED_CONF.is_dir() else PACKAGE_DIR.parent / "conf")
