"""A notebook's fresh machines start with the packages that were baked, in later kernels too."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.support.live_kernel import live_kernel
from tests.support.made_up_names import names_lead
from tests.support.packages import Index
from tests.support.web_files import web_files

from branchpoint_vmruntime.home import Home

pytestmark = pytest.mark.vm

INDEX = "index.example.org"
SESSION = "baking"
NOT_THERE = "ModuleNotFoundError"


@pytest.fixture(scope="module")
def environment(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, str]]:
    """What has the host's pip, and so the group `pip`, use an index of two small packages."""
    folder, own = tmp_path_factory.mktemp("index"), tmp_path_factory.mktemp("own")
    index = Index(folder / "simple")
    index.add("small", "text = 'here'")
    index.add("other", "text = 'there'")
    assert home.database.exists()
    with web_files(folder) as port:
        yield {
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_INDEX_URL": f"http://{INDEX}:{port}/simple/",
            "PIP_EXTRA_INDEX_URL": "",
            "PIP_FIND_LINKS": "",
            **names_lead(own / "names", {INDEX: "127.0.0.1"}),
        }


def test_what_is_baked_is_there_in_the_next_kernel_and_nothing_else_is(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with live_kernel(SESSION, cwd=tmp_path, **environment) as kernel:
        refused = kernel.run("%image add other", expect="error")
        assert "%egress allow pip" in refused.text
        kernel.run("%egress allow pip")
        kernel.run("mine = 1\n!pip install --quiet small")
        baked = kernel.run("%image add other")
        assert "with other==1.0, small==1.0" in baked.text
        assert baked.record["packages"] == ["other==1.0", "small==1.0"]
        # The branch itself is as it was.
        assert kernel.run("import small\nimport other", expect="error").error_name == NOT_THERE
    with live_kernel(SESSION, cwd=tmp_path, **environment) as again:
        printed = again.run("import small, other\nprint(small.text, other.text)").lines
        assert printed[-1] == "here there"
        assert "image-1: other==1.0, small==1.0" in again.run("%image").text
        assert again.run("mine", expect="error").error_name == "NameError"
        # What was let out to bake is not let out for that.
        assert again.value("'PIP_INDEX_URL' in __import__('os').environ") == "False"
        again.run("%image reset")
        assert "start from the base" in again.run("%image").text
        again.run("%rollback base")
        assert again.run("import small", expect="error").error_name == NOT_THERE
