// SPDX-License-Identifier: Apache-2.0
//
// The protocol between the shim of a rank that mpirun starts and the agent of its host, over an
// abstract Unix socket (SOCK_STREAM). A frame is: length of the rest (u32), body. The shim sends
// its claim, gets its reply, with the first byte of which two descriptors come for standard output
// and standard error, and executes the command, which closes the socket; when it cannot, it tells
// why before it goes. A rank that needs it is killed by the agent when its parent dies, since the
// parent-death signal comes at the end of the thread that forked it, which Open MPI's daemon, for
// more than 32 ranks, ends as soon as all are started. Variables are sent as execve takes them,
// `NAME=VALUE` and a zero.
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hvd::launch::agent {

/// Shim → agent, first.
struct ShimClaim {
    std::string build_id;
    std::string job_id;
    std::int32_t rank = 0;
    std::int32_t size = 0;
    std::int32_t pid = 0;  // of the shim and of its parent, as the shim sees them
    std::int32_t parent = 0;
    bool needs_watch = false;     // the kernel's parent-death signal would come too early
    bool starts_in_turn = false;  // see MpiLauncher
    friend bool operator==(const ShimClaim&, const ShimClaim&) = default;
};

/// Agent → shim: how the rank is to be set up.
struct ShimReply {
    std::string refusal{};             // why the rank is not of this job; empty: it is
    Environment env{};                 // on top of what the shim has
    bool is_env_clean = false;         // of which only what is MPI's own goes on
    std::vector<std::int32_t> cpus{};  // to pin to, or none
    friend bool operator==(const ShimReply&, const ShimReply&) = default;
};

/// Shim → agent: it could not become the rank.
struct ShimFailure {
    std::string step;
    std::int32_t error_number = 0;
    std::string why_not_executed{};  // as wire::StartFailed has it
    friend bool operator==(const ShimFailure&, const ShimFailure&) = default;
};

/// A whole frame, ready to send.
[[nodiscard]] std::vector<std::byte> encode(const ShimClaim& claim);
[[nodiscard]] std::vector<std::byte> encode(const ShimReply& reply);
[[nodiscard]] std::vector<std::byte> encode(const ShimFailure& failure);

// From the body of a frame. Of a claim of another build only the build id.
[[nodiscard]] Result<ShimClaim> decode_claim(std::span<const std::byte> body);
[[nodiscard]] Result<ShimReply> decode_reply(std::span<const std::byte> body);
[[nodiscard]] Result<ShimFailure> decode_failure(std::span<const std::byte> body);

/// Takes bytes as they arrive and gives the bodies of whole frames.
class ShimFrames final {
public:
    static constexpr std::size_t kMaxFrame = std::size_t{4} << 20;

    void feed(std::span<const std::byte> bytes);

    /// Errors: internal, for a frame that is too long.
    [[nodiscard]] Result<std::optional<std::vector<std::byte>>> next();

private:
    std::vector<std::byte> buffer_;
};

}  // namespace hvd::launch::agent
