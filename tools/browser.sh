#!/usr/bin/env bash
# Installs Chromium, in which the browser tests run. Where that cannot be, those tests are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/as_root.sh

if [ -x /usr/bin/chromium ]; then
    exit 0
fi
echo "installing chromium for the browser tests"
install_packages chromium ||
    echo "chromium was not installed, so the browser tests are skipped; as root: apt-get install chromium"
