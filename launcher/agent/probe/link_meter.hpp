// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/transport/tcp/address.hpp"
#include "launcher/agent/io/event_loop.hpp"
#include "launcher/wire/messages.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launch::agent {

/// The end of a measured link that connects: tries the other end's addresses, each soon after the
/// one before, and measures over the first that answers. First the time of small messages there and
/// back, then how much arrives in a while. One link at a time.
class LinkMeter final {
public:
    using TimePoint = std::chrono::steady_clock::time_point;
    using Done = std::function<void(wire::LinkMeasured)>;

    /// `done` is called once for each `measure`, from the loop or from `time_passed`.
    LinkMeter(EventLoop& loop, Done done) : loop_(loop), done_(std::move(done)) {}
    ~LinkMeter() { drop_all(); }
    LinkMeter(const LinkMeter&) = delete;
    LinkMeter& operator=(const LinkMeter&) = delete;

    void measure(const wire::MeasureLink& wanted);

    [[nodiscard]] std::optional<TimePoint> deadline() const;
    void time_passed(TimePoint now);

private:
    enum class Stage : std::uint8_t { connecting, proving, echoing, streaming };

    /// One address on its way, or the one in use.
    struct Attempt {
        coll::net::ListenAddress endpoint;
        UniqueFd socket;
        Stage stage = Stage::connecting;
        std::vector<std::byte> in{};
    };
    using Attempts = std::list<Attempt>;

    [[nodiscard]] Status plan(const wire::MeasureLink& wanted);
    void start_next(TimePoint now);
    void on_ready(Attempts::iterator attempt, std::uint32_t events);
    [[nodiscard]] Status connected(Attempt& attempt);
    [[nodiscard]] Status read(Attempts::iterator attempt);
    void take(Attempts::iterator attempt);
    void choose(Attempts::iterator attempt);
    void send_small(Attempt& attempt);
    void take_small(Attempt& attempt);
    void begin_stream(Attempt& attempt);
    [[nodiscard]] Status send_large(Attempt& attempt);
    void take_large(Attempt& attempt);
    void fail(Attempts::iterator attempt, const std::string& why);
    void finish(std::string error);
    void drop_all();
    [[nodiscard]] std::string words_of_limit() const;

    EventLoop& loop_;
    Done done_;
    std::optional<wire::LinkMeasured> result_;  // while one is measured
    std::vector<std::byte> secret_;
    std::vector<coll::net::ListenAddress>
        candidates_;  // in the order in which they are worth a try
    std::size_t next_candidate_ = 0;
    std::optional<TimePoint> next_start_;
    std::vector<std::string> failures_;
    Attempts attempts_;  // one alone once it is in use
    bool is_in_use_ = false;
    TimePoint limit_;

    /// Blocks on their way: as many as fit into kStreamTime, then those that are still to arrive.
    struct Stream {
        std::vector<std::byte> block;  // a header and its payload
        std::size_t sent_of_block = 0;
        std::uint64_t blocks_sent = 0;
        std::uint64_t blocks_arrived = 0;
        bool is_over = false;
    };

    std::vector<std::int64_t> round_trips_ns_;
    TimePoint asked_at_;
    TimePoint stage_began_;
    Stream stream_;
};

}  // namespace hvd::launch::agent
