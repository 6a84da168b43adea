// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/facts_file.hpp"
#include "launcher/plan/planner.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// Whatever a facts file holds, it is an error or can be planned for.
// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace hvd::launch;  // NOLINT(google-build-using-namespace): the tested one
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto facts = parse_facts(text, "f.json");
    if (!facts) {
        return 0;
    }
    const auto described = describe_hosts({}, *facts);
    LaunchRequest request;
    request.processes = 3;
    request.command = {"train"};
    (void)make_plan(request, {.cwd = "/", .job_id = std::string(32, '0'), .environment = {}},
                    *described);
    return 0;
}
