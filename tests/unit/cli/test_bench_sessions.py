"""What `branchpoint bench --only sessions` is made of: its place, its floors, its made-up home."""

from pathlib import Path
from typing import Any, cast

import pytest

from branchpoint_cli.bench.crowded import KEPT, OF_EACH, SESSIONS, made_up
from branchpoint_cli.bench.lasting import pauses_and_resumes, while_paused, write_ms
from branchpoint_cli.bench.machines import Bench
from branchpoint_cli.bench.run import PARTS, measures_of
from branchpoint_cli.bench.taken import processor_ms, resident_mb, share_ms_per_s
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import CheckpointId, SessionId
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.overview import overview
from branchpoint_vmruntime.storage.digests import check
from branchpoint_vmruntime.storage.retention import StoreBudgets, plan
from branchpoint_vmruntime.storage.sizes import layer_of, own_sizes

NOTHING = cast(Any, None)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    root = tmp_path_factory.mktemp("home")
    made = Home(root, root / "run")
    made_up(made)
    return made


def test_each_part_that_can_be_asked_for_has_what_measures_it() -> None:
    bench = Bench(session=NOTHING, runs=1, scratch=Path())
    assert tuple(measures_of(bench, NOTHING, NOTHING)) == PARTS


def test_a_pause_is_held_against_the_disk_and_a_resume_against_qemu_and_a_fork() -> None:
    times = {
        "pause": [300.0, 100.0, 200.0],
        "disk": [100.0],
        "dirty": [270.2, 260.0, 280.0],
        "reply": [50.0],
        "bare": [25.0],
        "fork": [40.0],
        "prepare": [30.0],
        "copy": [20.0],
    }
    figures = pauses_and_resumes(times, 1024)
    assert figures[0].name == "pause, 1 GB block, 270 MB dirty"
    assert [figure.ratio for figure in figures] == [2.0, 2.0, 1.25, 1.5]


def test_what_a_paused_session_takes_is_held_against_itself_before() -> None:
    keys = ("machines", "machine_mb", "host_mb", "share")
    live = {f"{key}, live": [4.0] for key in keys}
    paused = {f"{key}, paused": [1.0] for key in keys}
    figures = while_paused({**live, **paused}, 256)
    assert [figure.ratio for figure in figures] == [0.25] * 4
    assert all("0.25 GB block" in figure.name for figure in figures)


def test_the_floor_of_a_pause_leaves_no_file(tmp_path: Path) -> None:
    assert write_ms(tmp_path, 70 << 20) > 0
    assert list(tmp_path.iterdir()) == []


def test_a_process_is_measured_as_linux_counts_it() -> None:
    assert resident_mb() > 1
    assert processor_ms([]) == 0
    assert share_ms_per_s(0.0, 0.0, []) == 0


def test_the_crowded_home_is_one_that_ls_reads(home: Home) -> None:
    found = overview(home)
    assert [session.checkpoints for session in found.sessions] == [OF_EACH] * SESSIONS
    assert all(session.disk_bytes for session in found.sessions)
    assert found.leaks == ()


def test_half_of_the_crowded_home_goes_and_what_its_branches_stand_on_stays(home: Home) -> None:
    session = SessionId("crowded-03")
    with Journal.read(home.database) as journal:
        checkpoints = journal.checkpoints(session)
        (branch,) = journal.branches(session)
        found = plan(
            checkpoints,
            [branch],
            StoreBudgets(checkpoints=KEPT),
            now=max(each.created_at for each in checkpoints),
            pins=set(),
            start=None,
            sizes=own_sizes(home, checkpoints),
        )
    assert branch.head == CheckpointId(f"03{KEPT - 1:04}")
    assert len(found.removed) == OF_EACH - KEPT


def test_a_layer_of_the_crowded_home_is_whole(home: Home) -> None:
    with Journal.read(home.database) as journal:
        checkpoint = journal.checkpoint(CheckpointId("030007"))
    assert checkpoint is not None
    assert check(layer_of(home, checkpoint)) == []
