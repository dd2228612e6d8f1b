"""The one moment every file of an image is dated to, so that two builds are the same."""

# 2025-01-01 00:00 UTC: late enough for zip, earlier than any guest's clock.
BUILD_TIME_S = 1735689600
