"""What operations cost, each measured in the same run as the floor it is held against."""
