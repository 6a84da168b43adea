// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/peer_memory.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace hvd::coll {
namespace {

/// A child that has the memory of this process as it was, and waits to be killed.
class Child {
public:
    Child() : pid_(::fork()) {
        if (pid_ == 0) {
            (void)::pause();
            ::_exit(0);
        }
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() { end(); }

    void end() {
        if (pid_ > 0) {
            (void)::kill(pid_, SIGKILL);
            (void)::waitpid(pid_, nullptr, 0);
            ended_ = pid_;
            pid_ = 0;
        }
    }
    [[nodiscard]] pid_t pid() const { return pid_ > 0 ? pid_ : ended_; }

private:
    pid_t pid_;
    pid_t ended_ = 0;
};

RemotePiece piece_of(const std::vector<std::byte>& memory, std::size_t begin, std::size_t bytes) {
    return {reinterpret_cast<std::uintptr_t>(memory.data()) + begin, bytes};
}

/// In the memory of every process that has been forked from this one.
std::uint64_t number = 77;

RemoteProcess process_of(const Child& child) {
    return {.pid = static_cast<std::uint64_t>(child.pid()),
            .address = reinterpret_cast<std::uintptr_t>(&number),
            .number = 77};
}

TEST_CASE("the memory of another process is read, whatever the borders of the pieces") {
    constexpr std::size_t kBytes = 100'000;
    std::vector<std::byte> memory(kBytes);
    for (std::size_t index = 0; index < kBytes; ++index) {
        memory[index] = static_cast<std::byte>(index * 31 % 251);
    }
    const auto expected = memory;
    const Child child;
    memory.assign(kBytes, std::byte{0});  // here, and not in the child

    SECTION("pieces that do not match") {
        std::vector<std::byte> to(kBytes);
        const std::array pieces{piece_of(memory, 0, 1), piece_of(memory, 1, 70'000),
                                piece_of(memory, 70'001, 29'999)};
        const std::array parts{std::span(to).first(4096), std::span(to).subspan(4096)};
        const auto is_read = read_process(process_of(child), pieces, parts);
        REQUIRE(is_read);
        CHECK(*is_read);
        CHECK(to == expected);
    }
    SECTION("more pieces than one system call takes") {
        std::vector<std::byte> to(kBytes);
        std::vector<std::span<std::byte>> parts;
        for (std::size_t at = 0; at < kBytes; at += 20) {
            parts.push_back(std::span(to).subspan(at, 20));
        }
        const std::array pieces{piece_of(memory, 0, kBytes)};
        CHECK(read_process(process_of(child), pieces, parts).value());
        CHECK(to == expected);
    }
}

TEST_CASE("a process that has ended is no error, an address that is not mapped is one") {
    Child child;
    std::vector<std::byte> to(8);
    const std::array parts{std::span(to)};
    const std::array nowhere{RemotePiece{.address = 16, .bytes = 8}};
    const auto refused = read_process(process_of(child), nowhere, parts);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message.find("Bad address") != std::string::npos);

    child.end();
    const auto gone = read_process(process_of(child), std::array{piece_of(to, 0, 8)}, parts);
    REQUIRE(gone);
    CHECK_FALSE(*gone);
}

TEST_CASE("nothing is taken from a process that has the id of another") {
    const Child child;
    std::vector<std::byte> to(8);
    const std::array parts{std::span(to)};
    const std::array pieces{piece_of(to, 0, 8)};
    CHECK(read_process(process_of(child), {}, {}).value());

    auto earlier = process_of(child);
    SECTION("which has something else where the number would be") {
        earlier.number = 78;
    }
    SECTION("which has nothing there") {
        earlier.address = 16;
    }
    CHECK_FALSE(read_process(earlier, {}, {}).value());
    CHECK_FALSE(read_process(earlier, pieces, parts).value());
}

}  // namespace
}  // namespace hvd::coll
