// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/probe/driver_files.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launch::agent {
namespace {

namespace fs = std::filesystem;

TEST_CASE("the driver's file gives model and UUID") {
    const auto gpu = parse_driver_information(
        "Model: \t\t NVIDIA H200\nIRQ:   \t\t 154\n"
        "GPU UUID: \t GPU-6bdd3c6b-ac04-4a4c-9d6a-0d0d8a5fa7ab\nVideo BIOS: \t 96.00.A3.00.01\n"
        "Bus Type: \t PCIe\nBus Location: \t 0000:1b:00.0\nDevice Minor: \t 0\n");

    REQUIRE(gpu);
    CHECK(gpu->name == "NVIDIA H200");
    CHECK(gpu->uuid == "GPU-6bdd3c6b-ac04-4a4c-9d6a-0d0d8a5fa7ab");
}

TEST_CASE("a device that nobody has opened has no UUID yet") {
    CHECK_FALSE(
        parse_driver_information("Model: \t\t Unknown\nGPU UUID: \t GPU-\?\?\?\?-\?\?\?\?\n"));
    CHECK_FALSE(parse_driver_information(""));
}

TEST_CASE("nvidia-smi's table is read, memory in MiB") {
    const auto gpus =
        parse_nvidia_smi("0, GPU-a, 143771, NVIDIA H200\n1, GPU-b, [N/A], NVIDIA GB10\n");

    REQUIRE(gpus);
    CHECK(*gpus ==
          std::vector<Gpu>{
              {.index = 0,
               .uuid = "GPU-a",
               .name = "NVIDIA H200",
               .memory_bytes = std::uint64_t{143'771} << 20U,
               .cpus = {}},
              {.index = 1, .uuid = "GPU-b", .name = "NVIDIA GB10", .memory_bytes = 0, .cpus = {}}});
    CHECK_FALSE(parse_nvidia_smi("No devices were found\n"));
}

// ---- all of it ----

constexpr const char* kList =
    "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-a)\n"
    "  MIG 3g.20gb     Device  0: (UUID: MIG-c7384736-a75d-5afc-978f-d2f1294409fd)\n"
    "  MIG 1g.5gb      Device  1: (UUID: MIG-a28ad590-3fda-56dd-84fc-0a0b96edc58d)\n"
    "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-b)\n";

/// The files of a driver with GPUs GPU-a and GPU-b.
class DriverFiles {
public:
    DriverFiles() {
        write("proc/driver/nvidia/version",
              "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 20 2025\n"
              "GCC version:  gcc version 12.2.0\n");
        for (const auto* gpu : {"07:00.0\nGPU-a", "0b:00.0\nGPU-b"}) {
            const std::string text = gpu;
            const auto place = "0000:" + text.substr(0, text.find('\n'));
            write("proc/driver/nvidia/gpus/" + place + "/information",
                  "Model: \t NVIDIA A100-SXM4-40GB\nGPU UUID: \t " +
                      text.substr(text.find('\n') + 1) + "\n");
            write("sys/bus/pci/devices/" + place + "/local_cpulist", "0-1\n");
        }
    }

    void write(const std::string& name, const std::string& text) {
        fs::create_directories((folder_.path() / name).parent_path());
        (void)folder_.write(name, text);
    }

    void divide() { write("proc/driver/nvidia/capabilities/gpu0/mig/gi1/access", ""); }

    /// With an nvidia-smi that prints `list`, or none.
    GpuFindings find(const std::optional<std::string>& list) {
        return find_without_probe(folder_.path(), [&](const std::vector<std::string>& options) {
            asked.push_back(options.front());
            return list;
        });
    }

    std::vector<std::string> asked{};  // the first option each time

private:
    test::TempDir folder_;
};

TEST_CASE("the driver's files tell its version and whole GPUs, and nvidia-smi is not asked") {
    DriverFiles files;
    files.write("proc/driver/nvidia/capabilities/gpu0/mig/config", "");  // every GPU has it

    const auto found = files.find(kList);

    CHECK(found.driver == GpuDriver{.version = "580.65.06", .cuda = "", .link = ""});
    REQUIRE(found.gpus.size() == 2);
    CHECK(found.gpus[1] == Gpu{.index = 1,
                               .uuid = "GPU-b",
                               .name = "NVIDIA A100-SXM4-40GB",
                               .memory_bytes = 0,
                               .cpus = {0, 1}});
    CHECK(found.note.empty());
    CHECK(files.asked.empty());
}

TEST_CASE("nvidia-smi names the MIG devices") {
    DriverFiles files;
    files.divide();

    const auto found = files.find(kList);

    CHECK(files.asked == std::vector<std::string>{"-L"});
    REQUIRE(found.gpus.size() == 3);
    CHECK(found.gpus[1] == Gpu{.index = 0,
                               .uuid = "MIG-a28ad590-3fda-56dd-84fc-0a0b96edc58d",
                               .name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
                               .memory_bytes = 0,
                               .cpus = {0, 1},
                               .parent = "GPU-a"});
    CHECK(found.gpus[2].uuid == "GPU-b");
    CHECK(found.note.empty());
}

TEST_CASE("MIG devices that nothing names are a note") {
    DriverFiles files;
    files.divide();

    const auto found = files.find(std::nullopt);

    CHECK(found.gpus.size() == 2);
    CHECK_THAT(found.note, Catch::StartsWith("some of its GPUs are in MIG mode, and nvidia-smi "));
}

TEST_CASE("the version of the open kernel module is found, and none in other text") {
    CHECK(parse_driver_version("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "
                               "570.124.06  Release Build  (builder)\n") == "570.124.06");
    CHECK(parse_driver_version("").empty());
    CHECK(parse_driver_version("no driver . at all").empty());
}

}  // namespace
}  // namespace hvd::launch::agent
