# SPDX-License-Identifier: Apache-2.0
"""horovod.common in a world of one, and without one."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import wording

from horovod.common import library, objects, operations, packed_requests, util
from horovod.common.basics import basics, reduce_op
from horovod.common.crash_report import is_peer_lost
from horovod.common.exceptions import (
    HorovodInternalError,
    HorovodVersionMismatchError,
    HostsUpdatedInterrupt,
)
from horovod.common.names import UnnamedOperations
from horovod.common.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
from horovod.runner.common.util import env as runner_env
from horovod.runner.util import threads


@pytest.fixture
def world():
    basics.init()
    yield basics
    basics.shutdown()


def run_python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_structs_match_the_header(root: Path) -> None:
    header = (root / "runtime/include/hvd/hvd.h").read_text()
    structs = {
        "hvd_process_set": library.ProcessSet,
        "hvd_init_options": library.InitOptions,
        "hvd_topology": library.Topology,
        "hvd_tensor": library.Tensor,
        "hvd_request": library.Request,
        "hvd_counters": library.Counters,
        "hvd_metrics": library.Metrics,
        "hvd_arrivals": library.Arrivals,
    }
    types = {
        "size_t": ctypes.c_size_t,
        "int32_t": ctypes.c_int32,
        "int64_t": ctypes.c_int64,
        "uint64_t": ctypes.c_uint64,
        "double": ctypes.c_double,
        "void*": ctypes.c_void_p,
        "const void*": ctypes.c_void_p,
        "const char*": ctypes.c_char_p,
        "const int32_t*": ctypes.POINTER(ctypes.c_int32),
        "const int64_t*": ctypes.POINTER(ctypes.c_int64),
        "const hvd_process_set*": ctypes.POINTER(library.ProcessSet),
        "const hvd_tensor*": ctypes.POINTER(library.Tensor),
    }
    for name, struct in structs.items():
        body = re.search(rf"typedef struct {name} {{(.*?)}} {name};", header, re.DOTALL)[1]
        fields = re.findall(r"^\s+([\w ]+\*?) ?\b(\w+);", body, re.MULTILINE)
        python_names = {"in": "input", "out": "output"}
        expected = [(python_names.get(field, field), types[kind.strip()]) for kind, field in fields]
        assert [tuple(field) for field in struct._fields_] == expected, name


def test_packed_requests_are_what_the_structs_say() -> None:
    first = packed_requests.PackedRequests(
        ["a", "longer name"],
        [(64, (2, 3), 11), (128, (), 12)],
        [(192, (2, 3), 11), (256, (), 12)],
        op=1,
        reduce_op=2,
        root=3,
        prescale=0.5,
        postscale=2.0,
        groups=(4, 5),
        process_set=6,
    )
    requests = (library.Request * first.count).from_address(first.address)
    assert [request.name for request in requests] == [b"a", b"longer name"]
    assert [request.input[0].data for request in requests] == [64, 128]
    assert [request.output[0].data for request in requests] == [192, 256]
    for tensor in requests[0].input[0], requests[0].output[0]:
        assert (tensor.shape[: tensor.ndim], tensor.dtype) == ([2, 3], 11)
        assert (tensor.struct_size, tensor.device_type) == (library.TENSOR_BYTES, 0)
        assert not tensor.strides
    assert requests[1].output[0].ndim == 0
    for request, group in zip(requests, (4, 5), strict=True):
        assert request.struct_size == library.REQUEST_BYTES
        assert (request.op, request.reduce_op, request.root) == (1, 2, 3)
        assert (request.prescale, request.postscale, request.process_set) == (0.5, 2.0, 6)
        assert (request.group, request.split_count, request.average_over) == (group, 0, 0)
        assert not request.splits


def test_packed_requests_in_place_and_without_outputs() -> None:
    settings = {"op": 0, "reduce_op": 0, "root": 0, "prescale": 1.0, "postscale": 1.0}
    settings |= {"groups": (0,), "process_set": 0}
    inputs = [(64, (7,), 1)]
    packed = packed_requests.PackedRequests(["x"], inputs, inputs, **settings)
    request = library.Request.from_address(packed.address)
    assert ctypes.addressof(request.output[0]) == ctypes.addressof(request.input[0])
    packed = packed_requests.PackedRequests(["x"], inputs, [], **settings, splits=(3, 4))
    request = library.Request.from_address(packed.address)
    assert not request.output
    assert request.splits[: request.split_count] == [3, 4]
    assert request.input[0].shape[:1] == [7]
    with pytest.raises(ValueError, match="NUL"):
        packed_requests.PackedRequests(["x\0y"], inputs, [], **settings)


def test_the_version_is_the_librarys(root: Path) -> None:
    import horovod

    assert horovod.__version__ == (root / "VERSION").read_text().strip()
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = horovod.no_such_name


def test_an_unknown_enumerator_is_a_version_mismatch() -> None:
    with pytest.raises(HorovodVersionMismatchError, match="HVD_NO_SUCH_THING"):
        library.library.enum("HVD_NO_SUCH_THING")


def test_a_missing_library_is_one_clear_sentence(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.so")

    result = run_python("import horovod.common.library", HOROVOD_LIBRARY=missing)

    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last == f"ImportError: HOROVOD_LIBRARY is '{missing}', which is not a file: unset it"


def test_a_library_that_is_not_installed_names_the_place(tmp_path: Path) -> None:
    package = Path(library.__file__).resolve().parents[1]
    (tmp_path / "lib/python3/site").mkdir(parents=True)
    link = tmp_path / "lib/python3/site/horovod"
    subprocess.run(["cp", "-r", package, link], check=True)
    env = {"HOROVOD_LIBRARY": "", "PYTHONPATH": str(link.parent)}

    result = run_python("import horovod.common.library", **env)

    last = result.stderr.strip().splitlines()[-1]
    assert str(tmp_path / "lib/libhorovod.so") in last and "HOROVOD_LIBRARY" in last


def test_without_a_world_every_question_names_init() -> None:
    assert not basics.is_initialized()
    for question in (
        basics.rank,
        basics.size,
        basics.local_rank,
        basics.local_size,
        basics.cross_rank,
        basics.cross_size,
        basics.is_homogeneous,
        basics.mpi_threads_supported,
        basics.metrics,
    ):
        with pytest.raises(ValueError, match=r"use hvd\.init\(\)"):
            question()
    basics.shutdown()


def test_a_world_of_one(world) -> None:
    world.init()
    assert (world.rank(), world.size()) == (0, 1)
    assert (world.local_rank(), world.local_size()) == (0, 1)
    assert (world.cross_rank(), world.cross_size()) == (0, 1)
    assert world.is_homogeneous() and world.is_initialized()
    assert not world.mpi_threads_supported()
    operations.barrier()
    assert objects.broadcast_object({"a": 1}) == {"a": 1}
    assert objects.allgather_object("x") == ["x"]


def test_what_scripts_branch_on() -> None:
    assert basics.gloo_built() is True and basics.gloo_enabled() is True
    assert basics.mpi_enabled() is False and basics.mpi_built() in (True, False)
    assert isinstance(basics.nccl_built(), int)
    assert not basics.ddl_built() and not basics.ccl_built() and not basics.rocm_built()
    assert util.gloo_built() and util.extension_available("pytorch") in (True, False)
    assert not util.extension_available("mxnet")


FAKE_NCCL = """
int ncclGetVersion(int* version) {
    *version = 22707;
    return 0;
}
"""

ASK = """
from horovod.common.basics import basics
basics.init()
mapped = "libnccl" in open("/proc/self/maps").read()
print(mapped, basics.nccl_built(), bool(basics.mpi_built()))
"""


def make_nccl(folder: Path, source: str = FAKE_NCCL) -> Path:
    """A folder with a libnccl.so.2."""
    folder.mkdir(parents=True)
    command = ["cc", "-xc", "-", "-shared", "-fPIC", "-Wl,-soname,libnccl.so.2"]
    command += ["-o", str(folder / "libnccl.so.2")]
    subprocess.run(command, input=source, text=True, check=True, timeout=60)
    return folder


def check_build(horovodrun: Path, **env: str) -> dict[str, bool]:
    """The last section of --check-build."""
    found = subprocess.run(
        [horovodrun, "--check-build"],
        env={**os.environ, **env, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    return {name: mark == "X" for mark, name in re.findall(r"\[([ X])\] (\w+)", found)}


@pytest.mark.parametrize("place", ["nowhere", "package", "loader", "broken", "named"])
def test_check_build_and_python_agree_about_nccl_and_mpi(
    horovodrun: Path, tmp_path: Path, place: str
) -> None:
    env = {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    if place in ("package", "named"):
        make_nccl(tmp_path / "nvidia/nccl/lib")
    if place == "named":
        folder = make_nccl(tmp_path / "lib", FAKE_NCCL.replace("22707", "22805"))
        env["HOROVOD_NCCL_LIBRARY"] = str(folder / "libnccl.so.2")
    elif place in ("loader", "broken"):
        source = FAKE_NCCL if place == "loader" else "int not_nccl;"
        env["LD_LIBRARY_PATH"] = str(make_nccl(tmp_path / "lib", source))

    mapped, nccl, mpi = run_python(ASK, **env).stdout.split()
    found = check_build(horovodrun, **env)

    assert mapped == "False"  # init() has not loaded it
    if place in ("package", "loader"):
        assert int(nccl) == 22707
    if place == "named":
        assert int(nccl) == 22805
    assert found["NCCL"] == (int(nccl) != 0)
    assert found["MPI"] == (mpi == "True") and found["MPI"]


def test_a_cache_that_is_too_large_is_said() -> None:
    start = "from horovod.common.basics import basics; basics.init()"

    most = run_python(start, HOROVOD_CACHE_CAPACITY="57344").stderr
    more = run_python(start, HOROVOD_CACHE_CAPACITY="57345").stderr

    assert most == ""
    assert wording.CACHE_TOO_LARGE.format(value=57345, most=57344) in more


def test_reduction_integers_are_those_of_the_original() -> None:
    assert (basics.Average, basics.Sum, basics.Adasum) == (0, 1, 2)
    assert (basics.Min, basics.Max, basics.Product) == (3, 4, 5)
    assert reduce_op(basics.Sum) == library.library.enum("HVD_SUM")
    assert reduce_op(basics.Adasum) == library.library.enum("HVD_ADASUM")
    with pytest.raises(ValueError, match=r"hvd\.Average"):
        reduce_op(6)


def test_arguments_of_init() -> None:
    with pytest.raises(ValueError, match=r"init\(comm=\[0, 1\]\)"):
        basics.init(comm=[0, 1])
    assert not basics.is_initialized()
    with pytest.raises(ValueError, match="communicator of mpi4py"):
        basics.init(comm=object())
    with pytest.raises(ValueError, match="exists already"):
        basics.init(process_sets=[ProcessSet([1]), ProcessSet([1])])
    with pytest.raises(ValueError, match=r"hvd\.ProcessSet\(\[0\]\)"):
        basics.init(process_sets=[[0]])
    assert not basics.is_initialized()
    with pytest.raises(ValueError, match="dynamic"):
        basics.init(process_sets="static")
    basics.init(comm=[0])
    assert basics._get_process_set_ids_and_ranks() == {0: [0]}
    basics.init(process_sets=[global_process_set])
    with pytest.raises(ValueError, match=r"no process set of the ranks \[7\]"):
        basics.init(process_sets=[ProcessSet([7])])
    assert global_process_set.ranks == [0]
    basics.shutdown()
    assert global_process_set.included() is None


def test_a_lost_peer_is_recognised_behind_other_exceptions() -> None:
    lost = HorovodInternalError("rank 1 is gone")
    lost.peer_lost = True
    try:
        try:
            raise lost
        except HorovodInternalError:
            {}["while handling it"]
    except KeyError as error:
        assert is_peer_lost(error)
    assert not is_peer_lost(HorovodInternalError("ranks disagree"))
    assert not is_peer_lost(KeyError())
    assert not is_peer_lost(None)


def test_exceptions_keep_their_interface() -> None:
    assert issubclass(HorovodInternalError, RuntimeError)
    assert HostsUpdatedInterrupt(True).skip_sync is True
    assert issubclass(HorovodVersionMismatchError, ImportError)


def test_an_interrupted_wait_returns_to_python() -> None:
    code = """
import _thread, threading, time
from horovod.common.basics import basics
basics.init()
import horovod.common.operations as operations
operations.submit_and_wait = operations.submit
operations.library.hvd_wait = lambda *_: (time.sleep(0.05), operations.IN_PROGRESS)[1]
threading.Timer(0.3, _thread.interrupt_main).start()
operations.barrier()
"""
    result = run_python(code)

    assert result.returncode != 0 and "KeyboardInterrupt" in result.stderr


def test_ctypes_costs_little(world) -> None:
    """A blocking operation of a world of one, so that a regression by a factor shows."""
    import time

    buffer = (ctypes.c_float * 16)()
    tensor = operations.make_tensor(
        ctypes.addressof(buffer), (16,), library.library.enum("HVD_FLOAT32")
    )
    request = operations.make_request("cost", operations.BROADCAST, tensor, tensor)
    operations.run(request, buffer)
    begin = time.perf_counter()
    for _ in range(200):
        operations.run(request, buffer)
    assert (time.perf_counter() - begin) / 200 < 2e-3


def test_helpers() -> None:
    assert util.split_list([1, 2, 3, 4, 5], 2) == [[1, 2, 3], [4, 5]]
    assert util.split_list([1, 2], 5) == [[1], [2]]
    assert util.is_version_greater_equal_than("2.13.0+cpu", "2.9.0")
    assert not util.is_version_greater_equal_than("1.9.0", "1.10.0")
    with pytest.raises(ValueError, match=r"major\.minor\.patch"):
        util.is_version_greater_equal_than("1.9.0", "2")
    assert util.num_rank_is_power_2(4) and not util.num_rank_is_power_2(6)
    assert util.is_iterable([]) and not util.is_iterable(3)
    with util.env(HVD_TEST_VALUE="1"):
        assert os.environ["HVD_TEST_VALUE"] == "1"
    assert "HVD_TEST_VALUE" not in os.environ
    importlib.import_module("horovod.common.util")._cache(lambda: 1)()


def test_questions_about_extensions(capsys: pytest.CaptureFixture[str]) -> None:
    util.check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", __file__, "mpi_lib_v2")
    with pytest.raises(ImportError, match=r"horovod\.mxnet: its framework is not i.*/a/mpi_lib"):
        util.check_extension("horovod.mxnet", "HOROVOD_WITH_MXNET", "/a/__init__.py", "mpi_lib")
    util.check_installed_version("torch", "2.1.0+cpu")
    cause = KeyError("x")
    with pytest.raises(HorovodVersionMismatchError, match=r"torch 2\.1\.0 or later") as caught:
        util.check_installed_version("torch", "1.13.0", cause)
    assert caught.value.__cause__ is cause
    full_path = util.get_extension_full_path("/a/__init__.py", "b", "c")
    assert full_path == f"/a/b/c{util.get_ext_suffix()}"
    assert util.gpu_available("torch", verbose=True) is False
    assert "torch" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["mpi", "gloo", "nccl", "ddl", "ccl"])
def test_what_is_built_is_told(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    is_built = getattr(util, f"{name}_built")
    found = is_built()
    assert capsys.readouterr().out == ""

    assert is_built(verbose=True) == found

    assert capsys.readouterr().out.strip().lower().endswith(f"with {name}: {bool(found)}".lower())


def test_a_name_with_a_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        operations.make_request("half\0name", operations.BARRIER, None, None)


def test_names_of_unnamed_operations_depend_on_earlier_calls_only() -> None:
    names = UnnamedOperations(period=2)
    assert [names.next_name("a", 0) for _ in range(3)] == ["a.noname.0", "a.noname.1", "a.noname.0"]
    assert names.next_name("b", 0) == "b.noname.0" and names.next_name("a", 4) == "a.noname.0"
    names.next_name("a", 4)
    names.step_back("a", 4)
    assert names.next_name("a", 4) == "a.noname.1"
    names.forget(4)
    assert names.next_name("a", 4) == "a.noname.0"
    assert names.next_name("a", 0) == "a.noname.1"
    names.restart()
    assert names.next_name("a", 0) == "a.noname.0"


def test_process_sets_come_and_go() -> None:
    basics.init(process_sets="dynamic")
    with pytest.raises(ValueError, match="exists"):
        add_process_set([0])
    with pytest.raises(ValueError):
        add_process_set([1])
    with pytest.raises(ValueError):
        add_process_set([])
    assert remove_process_set(global_process_set) is False
    assert basics._get_process_set_ids_and_ranks() == {0: [0]}
    basics.shutdown()


@pytest.mark.parametrize("ranks", ["01", 3, [0.5], [None], [True]])
def test_a_process_set_needs_ranks(ranks: object) -> None:
    with pytest.raises(ValueError, match="list of ranks"):
        ProcessSet(ranks)


def test_a_process_set_without_a_world_knows_its_ranks_only() -> None:
    one = ProcessSet(range(3, 0, -1))
    assert (one.process_set_id, one.ranks, one.mpi_comm) == (None, [1, 2, 3], None)
    assert one.size() is None and one.rank() is None and one.included() is None
    assert str(one) == "ProcessSet(process_set_id=None, ranks=[1, 2, 3], mpi_comm=None)"
    assert remove_process_set(one) is False
    with pytest.raises(ValueError, match=r"use hvd\.init"):
        add_process_set(one)


@pytest.mark.parametrize(
    "name",
    [
        "horovod.ray",
        "horovod.mxnet",
        "horovod.data",
        "horovod.runner.launch",
        "horovod.spark.lightning",
        pytest.param(
            "horovod.tensorflow.data",
            marks=pytest.mark.skipif(
                importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"
            ),
        ),
    ],
)
def test_modules_that_do_not_exist_say_so_in_one_sentence(name: str) -> None:
    result = run_python(f"import {name}")

    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ModuleNotFoundError: {name} does not exist: "), result.stderr


def test_threads_of_the_runner() -> None:
    done = threading.Event()
    threads.in_thread(done.set, name="setter").join(10)
    assert done.is_set()
    threads.in_thread(lambda: {}["missing"], silent=True).join(10)
    with pytest.raises(ValueError, match="tuple"):
        threads.in_thread(print, args=[1])

    squares = threads.execute_function_multithreaded(lambda x: x * x, [(i,) for i in range(9)])
    assert squares == {i: i * i for i in range(9)}

    go, stop, calls = threading.Event(), threading.Event(), []
    waiting = threads.on_event(go, calls.append, ("gone",), stop=stop, check_stop_interval_s=0.01)
    stop.set()
    waiting.join(10)
    assert calls == [] and not waiting.is_alive()
    waiting = threads.on_event(go, calls.append, ("went",))
    go.set()
    waiting.join(10)
    assert calls == ["went"]


def test_rank_and_size_of_the_environment() -> None:
    none = dict.fromkeys(("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"))
    with util.env(**none):
        assert runner_env.get_env_rank_and_size() == (0, 1)
    with util.env(**{**none, "PMI_RANK": "2", "PMI_SIZE": "4"}):
        assert runner_env.get_env_rank_and_size() == (2, 4)
    with util.env(HOROVOD_RANK="1", HOROVOD_SIZE="3", PMI_RANK="2", PMI_SIZE="4"):
        assert runner_env.get_env_rank_and_size() == (1, 3)
    inside = {"HOROVOD_RANK": "1", "HOROVOD_SIZE": "3", "PMI_RANK": "2", "PMI_SIZE": "4"}
    with util.env(**inside, HOROVOD_LAUNCHER_VARIABLES="PMI_RANK=2;PMI_SIZE=4"):
        assert runner_env.get_env_rank_and_size() == (1, 3)
    with util.env(**inside, HOROVOD_LAUNCHER_VARIABLES="PMI_RANK=0;PMI_SIZE=4"):
        assert runner_env.get_env_rank_and_size() == (2, 4)
    torchrun = {"TORCHELASTIC_RUN_ID": "a;b", "RANK": "5", "WORLD_SIZE": "6"}
    with util.env(**torchrun, **inside, HOROVOD_LAUNCHER_VARIABLES="PMI_RANK=2;PMI_SIZE=4"):
        assert runner_env.get_env_rank_and_size() == (5, 6)
    assert runner_env.is_exportable("PATH") and not runner_env.is_exportable("OLDPWD")
