// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/check_build.hpp"

#include "launcher/doctor/python_packages.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

using hvd::Deadline;
using hvd::launch::BuildFacts;
using hvd::launch::find_python_packages;
using hvd::launch::print_build;
using hvd::test::TempDir;
namespace fs = std::filesystem;

namespace {

/// A `python3` in a folder of its own.
void write_python(const TempDir& folder, const std::string& script) {
    const auto path = folder.path() / "python3";
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
    write_python(folder, "printf 'torch\\t/site/torch\\nnoise\\nx/y.so\\t/site/x/y.so\\n'\n");

    const auto packages = find_python_packages({{"PATH", folder.path().string()}}, {"torch"},
                                               {"x/y.so"}, Deadline::in(std::chrono::seconds(5)));

    CHECK(packages.error.empty());
    CHECK(packages.error.empty());
    CHECK(packages.found ==
          std::map<std::string, std::string>{{"torch", "/site/torch"}, {"x/y.so", "/site/x/y.so"}});
}

TEST_CASE("a Python that does not answer is given up at the deadline") {
    const TempDir folder;
    write_python(folder, "exec sleep 100\n");

    const auto packages =
        find_python_packages({{"PATH", folder.path().string() + ":/bin:/usr/bin"}}, {"torch"}, {},
                             Deadline::in(std::chrono::milliseconds(100)));

    CHECK(packages.found.empty());
    CHECK(packages.error == "python3 did not answer in time");
}

TEST_CASE("a machine without Python has no frameworks, and says why") {
    const TempDir folder;

    const auto packages = find_python_packages({{"PATH", folder.path().string()}}, {"torch"}, {},
                                               Deadline::in(std::chrono::seconds(5)));

    CHECK(packages.found.empty());
    CHECK(packages.error == "no Python in PATH");
}
