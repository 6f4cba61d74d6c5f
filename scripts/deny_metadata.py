#!/usr/bin/env python3
"""Cargo for scripts/deny.sh: `cargo metadata` with package ids as cargo 1.76 and before wrote them."""

import json
import subprocess
import sys


def main():
    ran = subprocess.run(["cargo", *sys.argv[1:]], stdout=subprocess.PIPE, check=False)
    if ran.returncode or "metadata" not in sys.argv:
        sys.stdout.buffer.write(ran.stdout)
        sys.exit(ran.returncode)
    metadata = json.loads(ran.stdout)
    ids = {}
    for package in metadata["packages"]:
        source = package["source"] or "path+file://" + package["manifest_path"].rsplit("/", 1)[0]
        ids[package["id"]] = f"{package['name']} {package['version']} ({source})"

    def renamed(value):
        if isinstance(value, str):
            return ids.get(value, value)
        if isinstance(value, list):
            return [renamed(entry) for entry in value]
        if isinstance(value, dict):
            return {key: renamed(entry) for key, entry in value.items()}
        return value

    json.dump(renamed(metadata), sys.stdout)


if __name__ == "__main__":
    main()
