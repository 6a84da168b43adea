// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/probe/gpu_facts.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <string>

namespace hvd::launch::agent {
namespace {

TEST_CASE("the probe is the one that came with the program") {
    const test::TempDir prefix;
    namespace fs = std::filesystem;
    fs::create_directories(prefix.path() / "libexec/horovod");
    const auto probe = prefix.write("libexec/horovod/hvd-gpu-probe", "");
    fs::permissions(probe, fs::perms::owner_all);

    CHECK(find_probe(prefix.path() / "libexec/horovod/hvd-agent") == probe);
    CHECK(find_probe(prefix.path() / "bin/horovodrun") == probe);
    // Its folder is beside a libexec that any user could have made, as in /tmp.
    CHECK_FALSE(find_probe(prefix.path() / "hvd-agent.a1b2c3/hvd-agent"));
    CHECK_FALSE(find_probe(prefix.path() / "libexec/horovod/hvd-agent (deleted)"));
    CHECK_FALSE(find_probe(""));

    fs::permissions(probe, fs::perms::all);
    CHECK_FALSE(find_probe(prefix.path() / "bin/horovodrun"));
}

TEST_CASE("what the probe prints is read back") {
    const auto found = parse_probe(
        "driver\t570.1\t12.8\tNVLink\n"
        "gpu\t0\tGPU-a\t\t150754820096\t0-1,4\tNVIDIA H200\n"
        "gpu\t1\tMIG-b\tGPU-b\t0\t\tNVIDIA H200 MIG 1g.18gb\nnote\tGPU 2 has none\n");

    REQUIRE(found);
    CHECK(found->gpus == std::vector<Gpu>{{.index = 0,
                                           .uuid = "GPU-a",
                                           .name = "NVIDIA H200",
                                           .memory_bytes = 150'754'820'096,
                                           .cpus = {0, 1, 4}},
                                          {.index = 1,
                                           .uuid = "MIG-b",
                                           .name = "NVIDIA H200 MIG 1g.18gb",
                                           .memory_bytes = 0,
                                           .cpus = {},
                                           .parent = "GPU-b"}});
    CHECK(found->note == "GPU 2 has none");
    CHECK(found->driver == GpuDriver{.version = "570.1", .cuda = "12.8", .link = "NVLink"});
    CHECK(parse_probe("note\tno driver\n") == GpuFindings{.gpus = {}, .note = "no driver"});
    CHECK(parse_probe("") == GpuFindings{});
}

TEST_CASE("anything else than the probe's lines is refused") {
    const auto text = GENERATE(as<std::string>(), "hello", "gpu\t0\tGPU-a\t\t1\t0",
                               "gpu\t-1\tGPU-a\t\t1\t0\tname", "gpu\t0\tGPU-a\t\tmuch\t0\tname",
                               "gpu\t0\tGPU-a\t\t1\t3-1\tname", "gpu\t0\tGPU-a\t\t1\t0\tname\tmore",
                               "note", "driver\t1\t2");
    CAPTURE(text);

    CHECK_FALSE(parse_probe(text));
}

}  // namespace
}  // namespace hvd::launch::agent
