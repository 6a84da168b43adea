// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/external/shim_protocol.hpp"

#include "collectives/base/bytes.hpp"
#include "launcher/wire/build_id.hpp"

#include <cstring>
#include <utility>

namespace hvd::launch::agent {
namespace {

constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);

std::vector<std::byte> framed(const ByteWriter& body) {
    ByteWriter frame;
    frame.number(static_cast<std::uint32_t>(body.bytes().size()));
    frame.raw(body.bytes());
    return frame.take();
}

}  // namespace

std::vector<std::byte> encode(const ShimClaim& claim) {
    ByteWriter body;
    body.text(claim.build_id);
    body.text(claim.job_id);
    body.number(claim.rank);
    body.number(claim.size);
    body.number(claim.pid);
    body.number(claim.parent);
    body.number(static_cast<std::uint32_t>(claim.needs_watch ? 1 : 0));
    body.number(static_cast<std::uint32_t>(claim.starts_in_turn ? 1 : 0));
    return framed(body);
}

std::vector<std::byte> encode(const ShimReply& reply) {
    ByteWriter body;
    body.text(reply.refusal);
    std::string variable;  // one for all: each rank waits for its reply
    body.list(reply.env, [&](const auto& entry) {
        variable.assign(entry.first).append(1, '=').append(entry.second).append(1, '\0');
        body.text(variable);
    });
    body.number(static_cast<std::uint32_t>(reply.is_env_clean ? 1 : 0));
    body.list(reply.cpus, [&](std::int32_t cpu) { body.number(cpu); });
    return framed(body);
}

std::vector<std::byte> encode(const ShimFailure& failure) {
    ByteWriter body;
    body.text(failure.step);
    body.number(failure.error_number);
    body.text(failure.why_not_executed);
    return framed(body);
}

Result<ShimClaim> decode_claim(std::span<const std::byte> body) {
    ByteReader reader(body);
    ShimClaim claim;
    claim.build_id = reader.text();
    if (claim.build_id != wire::build_id()) {
        return claim;  // which is all that is known of it
    }
    claim.job_id = reader.text();
    claim.rank = reader.number<std::int32_t>();
    claim.size = reader.number<std::int32_t>();
    claim.pid = reader.number<std::int32_t>();
    claim.parent = reader.number<std::int32_t>();
    claim.needs_watch = reader.number<std::uint32_t>() != 0;
    claim.starts_in_turn = reader.number<std::uint32_t>() != 0;
    HVD_TRY_STATUS(reader.finish("claim of a shim"));
    return claim;
}

Result<ShimReply> decode_reply(std::span<const std::byte> body) {
    ByteReader reader(body);
    ShimReply reply;
    reply.refusal = reader.text();
    for (const auto& entry : reader.list<std::string>([&] { return reader.text(); })) {
        const auto equals = entry.find('=');
        if (equals == std::string::npos || entry.back() != '\0') {
            return Error{Errc::internal, "reply to a shim: a variable that is none"};
        }
        reply.env.insert_or_assign(entry.substr(0, equals),
                                   entry.substr(equals + 1, entry.size() - equals - 2));
    }
    reply.is_env_clean = reader.number<std::uint32_t>() != 0;
    reply.cpus = reader.list<std::int32_t>([&] { return reader.number<std::int32_t>(); });
    HVD_TRY_STATUS(reader.finish("reply to a shim"));
    return reply;
}

Result<ShimFailure> decode_failure(std::span<const std::byte> body) {
    ByteReader reader(body);
    ShimFailure failure;
    failure.step = reader.text();
    failure.error_number = reader.number<std::int32_t>();
    failure.why_not_executed = reader.text();
    HVD_TRY_STATUS(reader.finish("failure of a shim"));
    return failure;
}

void ShimFrames::feed(std::span<const std::byte> bytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<std::vector<std::byte>>> ShimFrames::next() {
    if (buffer_.size() < kLengthBytes) {
        return std::optional<std::vector<std::byte>>{};
    }
    std::uint32_t length = 0;
    std::memcpy(&length, buffer_.data(), kLengthBytes);
    if (length > kMaxFrame) {
        return Error{Errc::internal, "frame of " + std::to_string(length) + " bytes"};
    }
    if (buffer_.size() - kLengthBytes < length) {
        return std::optional<std::vector<std::byte>>{};
    }
    const auto begin = buffer_.begin() + static_cast<std::ptrdiff_t>(kLengthBytes);
    const auto end = begin + static_cast<std::ptrdiff_t>(length);
    std::vector<std::byte> body(begin, end);
    buffer_.erase(buffer_.begin(), end);
    return std::optional(std::move(body));
}

}  // namespace hvd::launch::agent
