// SPDX-License-Identifier: Apache-2.0
//
// The agent's socket, from both sides, and the packets of a local group: whatever arrives, the
// readers neither crash nor accept a message that encodes to other bytes.
#include "collectives/base/assert.hpp"
#include "collectives/launch_contract/agent_protocol.hpp"
#include "collectives/transport/shm/join_messages.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace {

using namespace hvd::coll;

/// Feeds the bytes in two parts and checks what comes out against what went in.
template <class Message>
void read_frames(std::span<const std::byte> bytes, std::size_t cut) {
    FrameReader<Message> reader;
    reader.feed(bytes.first(cut));
    reader.feed(bytes.subspan(cut));
    std::size_t taken = 0;
    while (true) {
        const auto next = reader.next();
        if (!next || !*next) {
            return;
        }
        const auto again = encode(**next);
        const auto original = bytes.subspan(taken, again.size());
        HVD_ASSERT(std::equal(again.begin(), again.end(), original.begin(), original.end()),
                   "a message encodes to the bytes it came from");
        taken += again.size();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
    const std::size_t cut = bytes.empty() ? 0 : data[0] % bytes.size();
    read_frames<RankMessage>(bytes, cut);
    read_frames<AgentMessage>(bytes, cut);
    if (const auto message = join_message::decode(bytes)) {
        const auto again = join_message::encode(*message);
        HVD_ASSERT(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()),
                   "a packet encodes to the bytes it came from");
    }
    return 0;
}
