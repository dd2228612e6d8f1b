"""Where a checkpoint was made, the file it was exported to, and a home that has nothing of it."""

from pathlib import Path

import pytest
from tests.unit.storage.moving import Furnished, furnished, home_with_image

from branchpoint_vmruntime.home import Home


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Furnished:
    """Where it was made; no test changes it."""
    return furnished(tmp_path_factory.mktemp("there") / "home")


@pytest.fixture(scope="module")
def file(there: Furnished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What was exported there."""
    return there.export(tmp_path_factory.mktemp("out") / "trained.bp").file


@pytest.fixture
def here(tmp_path: Path) -> Home:
    """Where it is to come to."""
    return home_with_image(tmp_path / "home")
