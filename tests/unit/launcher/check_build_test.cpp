// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/check_build.hpp"

#include "launcher/doctor/python_packages.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>

using hvd::Deadline;
using hvd::launch::BuildFacts;
using hvd::launch::find_build;
using hvd::launch::find_python_packages;
using hvd::launch::print_build;
using hvd::launch::PythonPackages;
using hvd::test::TempDir;
namespace fs = std::filesystem;

namespace {

/// A `python3` in a private folder.
void write_python(const fs::path& folder, const std::string& script) {
    const auto path = folder / "python3";
    std::ofstream(path) << "#!/bin/sh\n" << script;
    fs::permissions(path, fs::perms::owner_all);
}

}  // namespace

TEST_CASE("flag --check-build has the original's layout") {
    const BuildFacts facts{.version = "1.2.3",
                           .frameworks = {{"TensorFlow", true, "/site/tensorflow"},
                                          {"PyTorch", false, "not there"},
                                          {"MXNet", false, ""}},
                           .controllers = {{"MPI", false, ""}, {"Gloo", true, ""}},
                           .operations = {{"NCCL", false, ""},
                                          {"DDL", false, ""},
                                          {"CCL", false, ""},
                                          {"MPI", false, ""},
                                          {"Gloo", true, ""}}};
    constexpr auto kExpected =
        "Horovod v1.2.3:\n"
        "\n"
        "Available Frameworks:\n"
        "    [X] TensorFlow\n"
        "    [ ] PyTorch\n"
        "    [ ] MXNet\n"
        "\n"
        "Available Controllers:\n"
        "    [ ] MPI\n"
        "    [X] Gloo\n"
        "\n"
        "Available Tensor Operations:\n"
        "    [ ] NCCL\n"
        "    [ ] DDL\n"
        "    [ ] CCL\n"
        "    [ ] MPI\n"
        "    [X] Gloo\n";

    CHECK(print_build(facts, false) == kExpected);
    CHECK(print_build(facts, true) ==
          "\nTensorFlow: /site/tensorflow\nPyTorch: not there\n" + std::string(kExpected));
}

TEST_CASE("what the Python of PATH answers is read line by line") {
    const TempDir folder;
    write_python(folder.path(),
                 "printf 'torch\\t/site/torch\\nnoise\\nNCCL\\t22707\\t/site/nccl.so\\n'\n");

    const auto packages = find_python_packages({{"PATH", folder.path().string()}}, "", {"torch"},
                                               Deadline::in(std::chrono::seconds(5)));

    CHECK(packages.error.empty());
    CHECK(packages.interpreter == folder.path() / "python3");
    CHECK(packages.found == std::map<std::string, std::string>{{"torch", "/site/torch"}});
    CHECK(packages.nccl == PythonPackages::Nccl{.version = 22707, .file = "/site/nccl.so"});
}

TEST_CASE("the Python of horovodrun's own virtual environment is asked before that of PATH") {
    const TempDir activated;
    const TempDir prefix;
    write_python(activated.path(), "printf 'torch\\t/activated\\n'\n");
    fs::create_directories(prefix.path() / "bin");
    write_python(prefix.path() / "bin", "printf 'torch\\t/own\\n'\n");
    const auto asked = [&] {
        return find_build({{"PATH", activated.path().string()}},
                          prefix.path() / "bin" / "horovodrun")
            .frameworks.at(1);
    };

    CHECK(asked() == BuildFacts::Item{"PyTorch", true, "/activated"});
    std::ofstream(prefix.path() / "pyvenv.cfg") << "home = /usr/bin\n";
    CHECK(asked() == BuildFacts::Item{"PyTorch", true, "/own"});
}

TEST_CASE("MPI is there where the installation has a plugin for one") {
    const TempDir prefix;
    const auto found = [&] {
        const auto facts = find_build({}, prefix.path() / "bin" / "horovodrun");
        return std::pair(facts.controllers.at(0).is_there, facts.operations.at(3).is_there);
    };

    CHECK(found() == std::pair(false, false));
    fs::create_directories(prefix.path() / "lib" / "horovod");
    std::ofstream(prefix.path() / "lib" / "horovod" / "hvd_mpi_mpich.so") << "";
    CHECK(found() == std::pair(true, true));
}

TEST_CASE("without a Python, NCCL is a file where the dynamic loader looks") {
    const TempDir folder;
    std::ofstream(folder.path() / "libnccl.so.2") << "";

    const auto facts = find_build({{"LD_LIBRARY_PATH", folder.path().string()}}, "/bin/horovodrun");

    CHECK(facts.operations.at(0) ==
          BuildFacts::Item{"NCCL", true, (folder.path() / "libnccl.so.2").string()});
}

TEST_CASE("NCCL has the version that people know and the path of its file") {
    struct Example {
        std::string code;
        std::string version;
    };
    const auto example =
        GENERATE(Example{"22707", "2.27.7"}, Example{"21805", "2.18.5"}, Example{"2708", "2.7.8"});
    CAPTURE(example.code);
    const TempDir folder;
    write_python(folder.path(), "printf 'NCCL\\t" + example.code + "\\t/site/nccl.so\\n'\n");

    const auto facts = find_build({{"PATH", folder.path().string()}}, "/bin/horovodrun");

    CHECK(facts.operations.at(0) ==
          BuildFacts::Item{"NCCL", true, example.version + ", /site/nccl.so"});
}

TEST_CASE("a Python that does not answer is given up at the deadline") {
    const TempDir folder;
    write_python(folder.path(), "exec sleep 100\n");

    const auto packages =
        find_python_packages({{"PATH", folder.path().string() + ":/bin:/usr/bin"}}, "", {"torch"},
                             Deadline::in(std::chrono::milliseconds(100)));

    CHECK(packages.found.empty());
    CHECK(packages.error == (folder.path() / "python3").string() + " did not answer in time");
}

TEST_CASE("a machine without Python has no frameworks, and says why") {
    const TempDir folder;

    const auto packages = find_python_packages({{"PATH", folder.path().string()}}, "", {"torch"},
                                               Deadline::in(std::chrono::seconds(5)));

    CHECK(packages.found.empty());
    CHECK(packages.error == "no Python in PATH");
}
