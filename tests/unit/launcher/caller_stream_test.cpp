// SPDX-License-Identifier: Apache-2.0
//
// The launcher's end of horovod.run, over a socket pair.
#include "launcher/supervise/caller_stream.hpp"

#include "collectives/launch_contract/agent_protocol.hpp"
#include "launcher/net/io_thread.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

using hvd::UniqueFd;
using hvd::coll::kTaskPieceBytes;
using hvd::launch::CallerStream;
using hvd::launch::IoThread;
using hvd::launch::wire::Get;
using hvd::launch::wire::GetValue;
using hvd::launch::wire::Put;
using hvd::launch::wire::PutDone;
using hvd::launch::wire::ToAgent;

namespace {

using Bytes = std::vector<std::byte>;

/// A call as the caller sends it, with its length before it.
Bytes call_of(std::size_t size) {
    const auto length = static_cast<std::uint64_t>(size);
    Bytes bytes(sizeof length + size);
    std::memcpy(bytes.data(), &length, sizeof length);
    for (std::size_t at = sizeof length; at < bytes.size(); ++at) {
        bytes[at] = static_cast<std::byte>(at * 7);
    }
    return bytes;
}

class Caller {
public:
    Caller() {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
        own_.reset(ends[0]);
        stream_.emplace(
            io_, UniqueFd(ends[1]),
            [this](std::size_t host, const ToAgent& message) { sent_.emplace_back(host, message); },
            [this] { ++gone_; });
    }

    CallerStream& stream() { return *stream_; }

    /// Sends as much as the socket takes at once; the stream then reads it.
    std::size_t send(std::span<const std::byte> bytes) {
        const auto count = ::send(own_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        REQUIRE(count >= 0);
        turn();
        return static_cast<std::size_t>(count);
    }

    void send_all(std::span<const std::byte> bytes) {
        while (!bytes.empty()) {
            bytes = bytes.subspan(send(bytes));
        }
    }

    Bytes receive() {
        Bytes bytes(4 << 20);
        std::size_t size = 0;
        for (auto count = ssize_t{1}; count > 0; turn()) {
            count = ::recv(own_.get(), bytes.data() + size, bytes.size() - size, 0);
            size += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
        }
        bytes.resize(size);
        return bytes;
    }

    void close() {
        own_.reset();
        turn();
    }

    void get(int rank, const std::string& key) {
        stream_->on(0, Get{.rank = rank, .request = 5, .key = key});
    }

    void put(int rank, Bytes value) {
        Put put{.rank = rank, .request = 6, .key = "task/result", .value = std::move(value)};
        stream_->on(0, put);
    }

    /// The only message that was sent since the last time.
    template <class Message>
    Message sent() {
        REQUIRE(sent_.size() == 1);
        return std::get<Message>(std::exchange(sent_, {}).front().second);
    }

    [[nodiscard]] std::size_t unread() const { return sent_.size(); }
    [[nodiscard]] int gone() const { return gone_; }

private:
    /// Calls the handlers of all events that are due.
    void turn() {
        for (int round = 0; round < 8; ++round) {
            io_.post([this] { io_.stop(); });
            io_.run();
        }
    }

    IoThread io_;
    UniqueFd own_;
    std::vector<std::pair<std::size_t, ToAgent>> sent_;
    int gone_ = 0;
    std::optional<CallerStream> stream_;
};

}  // namespace

TEST_CASE("a piece of the call is given once it is there, and nothing past its end") {
    Caller caller;
    const auto call = call_of(kTaskPieceBytes);
    caller.get(0, "task/call/0");
    caller.get(1, "task/call/1");
    caller.send_all(std::span(call).first(kTaskPieceBytes - 1));
    CHECK(caller.unread() == 0);

    caller.send_all(std::span(call).subspan(kTaskPieceBytes - 1, 1));
    const auto first = caller.sent<GetValue>();
    CHECK(first.rank == 0);
    CHECK(first.request == 5);
    CHECK(first.value == Bytes(call.begin(), call.begin() + kTaskPieceBytes));
    caller.send_all(std::span(call).subspan(kTaskPieceBytes));
    const auto second = caller.sent<GetValue>();
    CHECK(second.rank == 1);
    CHECK(second.value == Bytes(call.begin() + kTaskPieceBytes, call.end()));

    caller.get(1, "task/call/2");
    CHECK(caller.sent<GetValue>().value.empty());
}

TEST_CASE("a key that names no piece is a piece of nothing") {
    Caller caller;
    for (const auto* key : {"task/call/", "task/call/x", "task/call/1x", "task/call/-1", "task/x",
                            "task/call/99999999999999999999", "task/call/18446744073709551615"}) {
        caller.get(0, key);
        CHECK(caller.sent<GetValue>().value.empty());
    }
}

TEST_CASE("a result is acknowledged once the caller has taken it") {
    Caller caller;
    const auto result = call_of(kTaskPieceBytes - sizeof(std::uint64_t));
    caller.put(3, result);
    CHECK(caller.unread() == 0);  // a socket takes less at once

    const auto received = caller.receive();
    CHECK(caller.sent<PutDone>() == PutDone{.rank = 3, .request = 6, .error = {}});
    std::int32_t rank = 0;
    std::uint32_t size = 0;
    REQUIRE(received.size() == sizeof rank + sizeof size + result.size());
    std::memcpy(&rank, received.data(), sizeof rank);
    std::memcpy(&size, received.data() + sizeof rank, sizeof size);
    CHECK(rank == 3);
    CHECK(size == result.size());
    CHECK(Bytes(received.begin() + sizeof rank + sizeof size, received.end()) == result);
}

TEST_CASE("a result under another key, or too large, is refused") {
    Caller caller;
    caller.put(0, Bytes(kTaskPieceBytes + 1));
    CHECK_FALSE(caller.sent<PutDone>().error.empty());
    Put other{.rank = 0, .request = 6, .key = "task/call/0", .value = {}};
    caller.stream().on(0, other);
    CHECK_FALSE(caller.sent<PutDone>().error.empty());
    CHECK(caller.receive().empty());
}

TEST_CASE("the end of the caller is told once, and what ranks put after it goes nowhere") {
    Caller caller;
    caller.close();
    CHECK(caller.gone() == 1);
    caller.put(0, Bytes(10));
    CHECK(caller.unread() == 0);
}

TEST_CASE("without a caller there is no call, and no result is taken") {
    const Get get{.rank = 1, .request = 2, .key = "task/call/0"};
    CHECK(std::get<GetValue>(CallerStream::refusal(get)) ==
          GetValue{.rank = 1, .request = 2, .value = {}});
    const Put put{.rank = 1, .request = 2, .key = "task/result", .value = {}};
    CHECK_FALSE(std::get<PutDone>(CallerStream::refusal(put)).error.empty());
    CHECK(CallerStream::owns("task/result"));
    CHECK_FALSE(CallerStream::owns("world/0/address/1"));
}
