"""The magic of where fresh machines start."""

from branchpoint_kernel.magic import Magic, Takes

IMAGE = (
    Magic(
        name="image",
        usage="%image [add [PACKAGE...]|reset]",
        summary="Show where this notebook's fresh machines start; bake packages into that.",
        details=(
            "add makes a fresh machine, has pip install in it the packages that this branch has\n"
            "and those that are named, and keeps it: from the next restart on this notebook\n"
            "starts there. Nothing else of the branch is in it: no variables, no files. pip has\n"
            "to be let out first: %egress allow pip. reset goes back to the base.\n"
            "Packages for every notebook beside a branchpoint.yaml belong in its `image`.\n\n"
            "    %image add scikit-learn 'scipy>=1.11'\n"
            "    %image add              what !pip install has installed here\n"
            "    %image reset"
        ),
        takes=Takes.NOTHING,
        actions={"add": Takes.TEXT, "reset": Takes.NOTHING},
    ),
)
