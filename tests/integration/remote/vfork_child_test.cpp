// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/vfork_child.hpp"

#include "launcher/remote/pipe.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <csignal>
#include <string>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

using hvd::Environment;
using hvd::launch::make_pipe;
using hvd::launch::spawn_by_vfork;

namespace {

constexpr int kTimeoutMs = 20'000;

/// All that is written until nobody can write any more, or "?" where that does not come.
std::string read_all(int pipe) {
    std::string text;
    std::array<char, 256> bytes{};
    while (true) {
        pollfd ready{.fd = pipe, .events = POLLIN, .revents = 0};
        if (::poll(&ready, 1, kTimeoutMs) != 1) {
            return "?";
        }
        const auto count = ::read(pipe, bytes.data(), bytes.size());
        if (count <= 0) {
            return text;
        }
        text.append(bytes.data(), static_cast<std::size_t>(count));
    }
}

}  // namespace

TEST_CASE("a child has its streams, its name and its environment") {
    auto input = make_pipe().value();
    auto output = make_pipe().value();
    const std::array<int, 2> streams{input.read.get(), output.write.get()};
    const Environment environment{{"GIVEN", "yes"}};

    const auto pid =
        spawn_by_vfork({.file = "/bin/sh",
                        .argv = {"name", "-c", "read line; echo $0 $line $GIVEN $HOME"},
                        .streams = streams,
                        .environment = &environment});

    REQUIRE(pid);
    output.write.reset();
    REQUIRE(::write(input.write.get(), "word\n", 5) == 5);
    CHECK(read_all(output.read.get()) == "name word yes\n");
    CHECK(::waitpid(*pid, nullptr, 0) == *pid);
}

TEST_CASE("what cannot be executed is told by its name, and leaves no child") {
    const auto pid = spawn_by_vfork({.file = "/no/such/program", .argv = {"a"}, .streams = {}});

    REQUIRE_FALSE(pid);
    CHECK(pid.error().message == "/no/such/program: No such file or directory");
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
}

TEST_CASE("no child keeps a pipe open that is none of its streams") {
    auto input = make_pipe().value();
    auto other = make_pipe().value();  // open while the child is between vfork and execve
    const std::array<int, 1> streams{input.read.get()};

    const auto pid = spawn_by_vfork({.file = "cat", .argv = {"cat"}, .streams = streams});
    REQUIRE(pid);
    other.write.reset();

    CHECK(read_all(other.read.get()).empty());
    CHECK(::waitpid(*pid, nullptr, WNOHANG) == 0);  // and it still runs
    input.write.reset();
    CHECK(::waitpid(*pid, nullptr, 0) == *pid);
}
