"""The `branchpoint` command."""
