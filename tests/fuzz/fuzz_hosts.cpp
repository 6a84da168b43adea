// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/host_spec.hpp"
#include "launcher/hosts/hostfile.hpp"
#include "launcher/hosts/this_machine.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

/// Reading any host list or host file ends, and its result can be read again.
// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace hvd::launch;  // NOLINT(google-build-using-namespace): the tested one
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (const auto list = parse_host_list(text)) {
        for (const auto& host : list->hosts) {
            const auto again = parse_item(host.name);
            if (!again || again->size() != 1 || again->front().name != host.name ||
                host.slots.value_or(1) < 1 || host.port.value_or(1) < 1) {
                __builtin_trap();
            }
            (void)is_this_machine(host.name, {.hostname = "h", .aliases = {}, .addresses = {}});
        }
    }
    (void)parse_hosts(text);
    (void)parse_hostfile(text, "hosts");
    (void)aliases_in(text, {"10.0.0.1"});
    return 0;
}
