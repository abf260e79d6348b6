"""Finds the packages; everything else about the project is in pyproject.toml.

conf/ is at the top of the repository, where researchers edit it, and ships inside the package as gedbd/conf. The
``packages.find`` of pyproject.toml cannot map a folder to a package elsewhere.
"""

from setuptools import find_namespace_packages, find_packages, setup

setup(
    packages=[
        *find_packages(include=["gedbd", "gedbd.*"]),
        *find_namespace_packages(include=["hydra_plugins.*"]),
        "gedbd.conf",
        *(f"gedbd.conf.{group}" for group in find_namespace_packages("conf")),
    ],
    package_dir={"gedbd.conf": "conf"},
)
