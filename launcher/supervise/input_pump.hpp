// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/fleet/agent_fleet.hpp"
#include "launcher/net/descriptors.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace hvd::launch {

class IoThread;

/// Carries horovodrun's standard input to the agents of the ranks that want it. Reads no more while
/// some host's ranks have kInputWindow bytes still to take. Thread: io.
class InputPump final {
public:
    /// Throws Exception when the process is out of descriptors.
    InputPump(IoThread& io, AgentFleet& fleet, const std::vector<std::size_t>& hosts);

    /// The readers on this host have taken so many bytes more.
    void taken(std::size_t host, std::uint64_t bytes);

private:
    struct Reader {
        std::size_t host = 0;
        std::uint64_t under_way_bytes = 0;
    };

    void listen_if_there_is_room();
    void wait();
    void read();

    IoThread& io_;
    AgentFleet& fleet_;
    std::vector<Reader> readers_;
    std::optional<ReadableWatch> watch_;  // none for a regular file

    // Expires with the pump, which a posted call may outlive.
    std::shared_ptr<int> alive_ = std::make_shared<int>();

    bool is_listening_ = false;
    bool is_at_end_ = false;
};

}  // namespace hvd::launch
