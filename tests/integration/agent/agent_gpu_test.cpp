// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/agent/agent_client.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <string>

namespace hvd::test {
namespace {

using namespace std::chrono_literals;

std::vector<std::string> fake_nvml(const std::string& behaviour) {
    return {"HOROVOD_NVML_LIBRARY=" HVD_FAKE_NVML, "FAKE_NVML=" + behaviour};
}

TEST_CASE("GPUs are told in the order of the bus, with what lies near them") {
    const AgentClient client(fake_nvml("gpus"));

    const auto& gpus = client.facts().gpus;
    REQUIRE(gpus.size() == 3);
    CHECK(gpus[0] == launch::Gpu{.index = 0,
                                 .uuid = "GPU-2",
                                 .name = "Fake GPU 2",
                                 .memory_bytes = 0,
                                 .cpus = {128, 130, 131}});
    CHECK(gpus[1] == launch::Gpu{.index = 1,
                                 .uuid = "GPU-1",
                                 .name = "Fake GPU 1",
                                 .memory_bytes = 2000,
                                 .cpus = {64, 66, 67}});
    CHECK(gpus[2] == launch::Gpu{.index = 2,
                                 .uuid = "GPU-0",
                                 .name = "Fake GPU 0",
                                 .memory_bytes = 1000,
                                 .cpus = {0, 2, 3}});
    CHECK(client.facts().gpu_note.empty());
    CHECK(client.facts().gpu_driver ==
          launch::GpuDriver{.version = "580.65.06", .cuda = "13.0", .link = "PCIe"});
}

TEST_CASE("a GPU in MIG mode is told as its MIG devices") {
    const AgentClient client(fake_nvml("mig"));
    const AgentClient empty(fake_nvml("mig-empty"));

    const auto& gpus = client.facts().gpus;
    REQUIRE(gpus.size() == 4);
    CHECK(gpus[0].uuid == "GPU-2");
    CHECK(gpus[1] == launch::Gpu{.index = 1,
                                 .uuid = "MIG-c7384736-a75d-5afc-978f-d2f1294409fd",
                                 .name = "NVIDIA A100-SXM4-40GB MIG 3g.20gb",
                                 .memory_bytes = std::uint64_t{20'224} << 20U,
                                 .cpus = {64, 66, 67},
                                 .parent = "GPU-1"});
    CHECK(gpus[2].name == "NVIDIA A100-SXM4-40GB MIG 1g.5gb");
    CHECK(gpus[3].index == 2);
    CHECK(client.facts().gpu_driver.link == "host memory");
    CHECK(client.facts().gpu_note.empty());
    CHECK(empty.facts().gpus.size() == 2);
    CHECK_THAT(empty.facts().gpu_note,
               Catch::StartsWith("GPU 1 (GPU-1) is in MIG mode and has no MIG device"));
}

TEST_CASE("a mask is told as it was found, an empty one too") {
    auto environment = fake_nvml("gpus");
    environment.emplace_back("CUDA_VISIBLE_DEVICES=");

    const AgentClient client(environment);

    CHECK(client.facts().gpu_mask == "");
    CHECK(client.facts().gpus.size() == 3);
}

TEST_CASE("why there is no GPU is told") {
    const AgentClient failing(fake_nvml("fail"));
    const AgentClient lost(fake_nvml("lost"));
    const AgentClient missing({"HOROVOD_NVML_LIBRARY=/nonexistent/libnvidia-ml.so"});

    CHECK(failing.facts().gpus.empty());
    CHECK_THAT(failing.facts().gpu_note, Catch::EndsWith("fake_nvml.so: Driver Not Loaded"));
    CHECK(lost.facts().gpus.empty());
    CHECK_THAT(lost.facts().gpu_note, Catch::EndsWith("GPU 1: handle: GPU is lost"));
    CHECK_THAT(missing.facts().gpu_note, Catch::StartsWith("/nonexistent/libnvidia-ml.so: cannot"));
}

TEST_CASE("a driver that hangs costs seconds, not the job") {
    const auto begin = std::chrono::steady_clock::now();

    AgentClient client(fake_nvml("hang"));
    client.start(AgentClient::plan({{"true"}}));
    client.read_until_all_gone();

    CHECK(client.facts().gpus.empty());
    CHECK(client.facts().gpu_note == "hvd-gpu-probe: it does not answer");
    CHECK(client.ranks[0].exited->wait_status == 0);
    CHECK(client.wait() == 0);
    CHECK(std::chrono::steady_clock::now() - begin < 10s);
}

}  // namespace
}  // namespace hvd::test
