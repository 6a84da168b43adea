// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/probe/nccl_file.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <string>

namespace hvd::launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSite = "venv/lib/python3.11/site-packages/";

/// A folder with a virtual environment, in whose PATH alone its Python is.
class VirtualEnvironment {
public:
    VirtualEnvironment() {
        write("venv/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n");
        write_program("venv/bin/python3", "");
    }

    [[nodiscard]] fs::path path(const std::string& name) const { return folder_.path() / name; }

    fs::path write(const std::string& name, const std::string& text) {
        fs::create_directories(path(name).parent_path());
        return folder_.write(name, text);
    }

    fs::path write_program(const std::string& name, const std::string& text) {
        auto program = write(name, text);
        fs::permissions(program, fs::perms::owner_all);
        return program;
    }

    /// The files of a wheel of NCCL.
    fs::path install(const std::string& site, const std::string& version) {
        fs::create_directories(path(site + "nvidia_nccl_cu12-" + version + ".dist-info"));
        return write(site + "nvidia/nccl/lib/libnccl.so.2", "");
    }

    [[nodiscard]] NcclFile find(const std::string& command, Environment environment = {}) const {
        environment.emplace("PATH", path("venv/bin").string());
        return find_nccl(command, folder_.path().string(), environment);
    }

private:
    test::TempDir folder_;
};

TEST_CASE("NCCL is that of the packages of the command's Python") {
    VirtualEnvironment python;
    const auto file = python.install(kSite, "2.27.3");
    const NcclFile expected{.version = "2.27.3", .file = file.string()};
    const auto script = python.write_program(
        "train.py", "#!" + python.path("venv/bin/python3").string() + "\nimport horovod\n");
    python.write_program("by_env", "#!/usr/bin/env python3\n");

    CHECK(python.find("python3") == expected);
    CHECK(python.find(python.path("venv/bin/python3")) == expected);
    CHECK(python.find(script, {{"PATH", "/nowhere"}}) == expected);
    CHECK(python.find("./by_env") == expected);
    CHECK(python.find("venv/bin/python3", {{"PATH", "/nowhere"}}) == expected);
    CHECK(python.find("") == expected);  // that of python3 in PATH
    CHECK(python.find("no-such-program") == expected);
}

TEST_CASE("a package in PYTHONPATH comes before those of the virtual environment") {
    VirtualEnvironment python;
    (void)python.install(kSite, "2.27.3");
    const auto file = python.install("more/", "2.21.5");

    CHECK(python.find("python3", {{"PYTHONPATH", python.path("more").string()}}) ==
          NcclFile{.version = "2.21.5", .file = file.string()});
}

TEST_CASE("a file whose packages say several versions has an unknown one") {
    VirtualEnvironment python;
    const auto file = python.install(kSite, "2.27.3");
    fs::create_directories(python.path(std::string(kSite) + "nvidia_nccl_cu13-2.28.9.dist-info"));

    CHECK(python.find("python3") == NcclFile{.version = "", .file = file.string()});
}

TEST_CASE("without a package NCCL is a library of the system, whose file's name has the version") {
    VirtualEnvironment python;
    (void)python.write("system/libnccl.so.2.21.5", "");
    fs::create_symlink("libnccl.so.2.21.5", python.path("system/libnccl.so.2"));

    CHECK(python.find("python3", {{"LD_LIBRARY_PATH", python.path("system").string()}}) ==
          NcclFile{.version = "2.21.5", .file = python.path("system/libnccl.so.2").string()});
}

TEST_CASE("the NCCL that HOROVOD_NCCL_LIBRARY names comes first") {
    VirtualEnvironment python;
    (void)python.install(kSite, "2.27.3");
    const auto file = python.write("own/libnccl.so.2.18.3", "");

    CHECK(python.find("python3", {{"HOROVOD_NCCL_LIBRARY", file.string()}}) ==
          NcclFile{.version = "2.18.3", .file = file.string()});
    CHECK(python.find("python3", {{"HOROVOD_NCCL_LIBRARY", "/nowhere/libnccl.so.2"}}) ==
          NcclFile{});
}

TEST_CASE("a virtual environment that sees the packages of its Python has their NCCL too") {
    VirtualEnvironment python;
    python.write("venv/pyvenv.cfg", "include-system-site-packages = true\n");
    const auto base = python.write_program("usr/bin/python3.11", "");
    fs::remove(python.path("venv/bin/python3"));
    fs::create_symlink(base, python.path("venv/bin/python3"));
    const auto file = python.install("usr/lib/python3.11/site-packages/", "2.27.3");

    CHECK(python.find("python3") == NcclFile{.version = "2.27.3", .file = file.string()});
}

}  // namespace
}  // namespace hvd::launch::agent
