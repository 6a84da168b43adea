// SPDX-License-Identifier: Apache-2.0
#include "collectives/launch_contract/agent_protocol.hpp"

#include "collectives/base/fields.hpp"

#include <charconv>
#include <utility>

namespace hvd::coll {

namespace agent_message {

void fields(auto& io, Is<Hello> auto& hello) {
    io(hello.version, hello.job_id, hello.rank);
}
void fields(auto& io, Is<Put> auto& put) {
    io(put.request, put.key, put.value);
}
void fields(auto& io, Is<Get> auto& get) {
    io(get.request, get.key);
}
void fields(auto& io, Is<Report> auto& report) {
    io(report.kind, report.peer, report.text);
}
void fields(auto& io, Is<Welcome> auto& welcome) {
    io(welcome.version, welcome.first_world);
}
void fields(auto& io, Is<Done> auto& done) {
    io(done.request);
}
void fields(auto& io, Is<Value> auto& value) {
    io(value.request, value.value);
}
void fields(auto& io, Is<Failed> auto& failed) {
    io(failed.request, failed.why);
}
void fields(auto& io, Is<Lost> auto& lost) {
    io(lost.rank, lost.why);
}

}  // namespace agent_message

void fields(auto& io, Is<WorldMember> auto& member) {
    io(member.rank, member.host);
}

namespace {

constexpr std::string_view kWhere = "agent socket";
constexpr std::string_view kWorlds = "world/";
constexpr std::string_view kMembers = "members";

// The type byte of a variant's first alternative.
template <class Message>
constexpr std::uint8_t kFirstType = 0;
template <>
constexpr std::uint8_t kFirstType<RankMessage> = 1;
template <>
constexpr std::uint8_t kFirstType<AgentMessage> = 129;

}  // namespace

std::string world_prefix(int world) {
    return std::string(kWorlds) + std::to_string(world) + "/";
}

std::optional<int> world_of(std::string_view key) {
    if (!key.starts_with(kWorlds)) {
        return std::nullopt;
    }
    key.remove_prefix(kWorlds.size());
    int world = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), world);
    const bool is_number = error == std::errc() && world >= 0 && end != key.data() + key.size();
    return is_number && *end == '/' ? std::optional(world) : std::nullopt;
}

std::string members_key(int world) {
    return world_prefix(world) + std::string(kMembers);
}

bool is_members_key(std::string_view key) {
    const auto world = world_of(key);
    return world && key == members_key(*world);
}

std::vector<std::byte> encode_members(const std::vector<WorldMember>& members) {
    return encode_fields(members);
}

Result<std::vector<WorldMember>> decode_members(std::span<const std::byte> bytes) {
    return decode_fields<std::vector<WorldMember>>(bytes, "members of a world");
}

std::vector<std::byte> encode(const RankMessage& message) {
    return frame_of(encode_variant<kFirstType<RankMessage>>(message));
}

std::vector<std::byte> encode(const AgentMessage& message) {
    return frame_of(encode_variant<kFirstType<AgentMessage>>(message));
}

template <class Message>
Result<std::optional<Message>> FrameReader<Message>::next() {
    HVD_TRY(const auto body, buffer_.next(kMaxAgentFrame, kWhere));
    if (!body) {
        return std::optional<Message>{};
    }
    HVD_TRY(auto message, (decode_variant<kFirstType<Message>, Message>(*body, kWhere)));
    return std::optional<Message>{std::move(message)};
}

template class FrameReader<RankMessage>;
template class FrameReader<AgentMessage>;

}  // namespace hvd::coll
