// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/net/descriptors.hpp"
#include "launcher/supervise/agents.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace hvd::launch {

class IoThread;

/// Carries horovodrun's standard input to the agents of the ranks that want it. Reads no more while
/// some host's ranks have kInputWindow bytes still to take. Thread: io.
class InputPump final {
public:
    /// Throws Exception when the process is out of descriptors.
    InputPump(IoThread& io, Agents& agents, std::vector<std::size_t> hosts);

    /// The readers on the host have taken so many bytes more.
    void taken(std::size_t host, std::uint64_t bytes);

private:
    void listen();
    void read();
    void listen_if_wanted();

    Agents& agents_;
    std::map<std::size_t, std::uint64_t> under_way_;  // host → bytes sent and not yet taken
    ReadableWatch watch_;
    bool is_paused_ = false;
};

}  // namespace hvd::launch
