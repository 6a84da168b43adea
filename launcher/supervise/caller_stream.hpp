// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unique_fd.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/net/ready_watch.hpp"
#include "launcher/wire/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace hvd::launch {

class IoThread;

/// The socket to the caller of horovod.run, which is then no longer inherited by children. To be
/// called before any child is started. Empty: nobody called.
[[nodiscard]] UniqueFd adopt_caller(const LaunchRequest& request);

/// The connection to the program that called horovod.run (HOROVOD_CALLER_FD): the function on its
/// way to the ranks, their results on the way back. Both are bytes here, and nothing reads them.
///
///   from the caller   the call: its length (u64), and so many bytes
///   to the caller     frames: rank (i32), size (u32), bytes, of results
///
/// All little endian. Ranks get pieces of the call, and put pieces of results, under the keys of
/// coll::kCallKey and coll::kResultKey. A rank's piece is answered once the caller has taken it, so
/// that each rank has one under way and a slow caller slows the ranks down.
///
/// Thread: io.
class CallerStream final {
public:
    using Send = std::function<void(std::size_t host, const wire::ToAgent& message)>;

    /// `send` sends to the agent of a host. `on_gone` is called once, when the caller has closed
    /// its end. `io` outlives this object.
    CallerStream(IoThread& io, UniqueFd socket, Send send, std::function<void()> on_gone);

    /// Whether a key is that of a call or a result, also in a job without a caller.
    [[nodiscard]] static bool owns(std::string_view key);

    /// The answers to requests for such a key in a job without a caller.
    [[nodiscard]] static wire::ToAgent refusal(const wire::Put& event);
    [[nodiscard]] static wire::ToAgent refusal(const wire::Get& event);

    void on(std::size_t host, wire::Put& event);
    void on(std::size_t host, const wire::Get& event);

private:
    /// A rank that waits for a piece of the call.
    struct Reader {
        std::size_t host = 0;
        std::int32_t rank = 0;
        std::uint32_t request = 0;
        std::size_t begin = 0;  // of the piece
    };

    /// A frame, of which a part may be sent.
    struct Frame {
        std::vector<std::byte> bytes;
        std::size_t host = 0;
        std::int32_t rank = 0;
        std::uint32_t request = 0;
    };

    void read();
    void write();
    [[nodiscard]] bool has(std::size_t begin) const;
    void answer(const Reader& reader);

    ReadyWatch socket_;
    Send send_;
    std::function<void()> on_gone_;
    std::vector<std::byte> call_;  // with its length, as far as it has come
    std::vector<Reader> readers_;
    std::deque<Frame> frames_;
    std::size_t sent_bytes_ = 0;  // of the first
};

}  // namespace hvd::launch
