// SPDX-License-Identifier: Apache-2.0
#include "collectives/launch_contract/agent_protocol.hpp"

#include "collectives/base/bytes.hpp"

#include <charconv>
#include <cstring>
#include <type_traits>
#include <utility>

namespace hvd::coll {
namespace {

using agent_message::Done;
using agent_message::Failed;
using agent_message::Get;
using agent_message::Hello;
using agent_message::Lost;
using agent_message::Put;
using agent_message::Report;
using agent_message::Value;
using agent_message::Welcome;

constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);

// The type byte of each message. A number is never used again for something else.
template <class Message>
constexpr std::uint8_t kType = 0;
template <>
constexpr std::uint8_t kType<Hello> = 1;
template <>
constexpr std::uint8_t kType<Put> = 2;
template <>
constexpr std::uint8_t kType<Get> = 3;
template <>
constexpr std::uint8_t kType<Report> = 4;
template <>
constexpr std::uint8_t kType<Welcome> = 129;
template <>
constexpr std::uint8_t kType<Done> = 130;
template <>
constexpr std::uint8_t kType<Value> = 131;
template <>
constexpr std::uint8_t kType<Failed> = 132;
template <>
constexpr std::uint8_t kType<Lost> = 133;

void write_blob(ByteWriter& writer, std::span<const std::byte> bytes) {
    writer.number(static_cast<std::uint32_t>(bytes.size()));
    writer.raw(bytes);
}

[[nodiscard]] std::vector<std::byte> read_blob(ByteReader& reader) {
    const auto bytes = reader.raw(reader.number<std::uint32_t>());
    return {bytes.begin(), bytes.end()};
}

void write(ByteWriter& writer, const Hello& hello) {
    writer.number(hello.version);
    writer.text(hello.job_id);
    writer.number(hello.rank);
}
void write(ByteWriter& writer, const Put& put) {
    writer.number(put.request);
    writer.text(put.key);
    write_blob(writer, put.value);
}
void write(ByteWriter& writer, const Get& get) {
    writer.number(get.request);
    writer.text(get.key);
}
void write(ByteWriter& writer, const Report& report) {
    writer.number(report.kind);
    writer.number(report.peer);
    writer.text(report.text);
}
void write(ByteWriter& writer, const Welcome& welcome) {
    writer.number(welcome.version);
    writer.number(welcome.first_world);
}
void write(ByteWriter& writer, const Done& done) {
    writer.number(done.request);
}
void write(ByteWriter& writer, const Value& value) {
    writer.number(value.request);
    write_blob(writer, value.value);
}
void write(ByteWriter& writer, const Failed& failed) {
    writer.number(failed.request);
    writer.text(failed.why);
}
void write(ByteWriter& writer, const Lost& lost) {
    writer.number(lost.rank);
    writer.text(lost.why);
}

// Members are initialised in the order of the fields on the wire: braces evaluate left to right.
Hello read(ByteReader& reader, std::type_identity<Hello>) {
    return {.version = reader.number<std::uint16_t>(),
            .job_id = reader.text(),
            .rank = reader.number<std::int32_t>()};
}
Put read(ByteReader& reader, std::type_identity<Put>) {
    return {.request = reader.number<std::uint32_t>(),
            .key = reader.text(),
            .value = read_blob(reader)};
}
Get read(ByteReader& reader, std::type_identity<Get>) {
    return {.request = reader.number<std::uint32_t>(), .key = reader.text()};
}
Report read(ByteReader& reader, std::type_identity<Report>) {
    return {.kind = reader.number<ReportKind>(),
            .peer = reader.number<std::int32_t>(),
            .text = reader.text()};
}
Welcome read(ByteReader& reader, std::type_identity<Welcome>) {
    return {.version = reader.number<std::uint16_t>(),
            .first_world = reader.number<std::uint32_t>()};
}
Done read(ByteReader& reader, std::type_identity<Done>) {
    return {.request = reader.number<std::uint32_t>()};
}
Value read(ByteReader& reader, std::type_identity<Value>) {
    return {.request = reader.number<std::uint32_t>(), .value = read_blob(reader)};
}
Failed read(ByteReader& reader, std::type_identity<Failed>) {
    return {.request = reader.number<std::uint32_t>(), .why = reader.text()};
}
Lost read(ByteReader& reader, std::type_identity<Lost>) {
    return {.rank = reader.number<std::int32_t>(), .why = reader.text()};
}

[[nodiscard]] Error malformed(std::string_view why) {
    return Error{Errc::internal, "agent socket: " + std::string(why)};
}

template <class Message>
[[nodiscard]] Status check_values(const Message& message) {
    if constexpr (std::is_same_v<Message, Report>) {
        if (message.kind > ReportKind::versions) {
            return malformed("report of unknown kind " +
                             std::to_string(static_cast<unsigned>(message.kind)));
        }
    }
    return ok();
}

template <class Message>
[[nodiscard]] std::vector<std::byte> encode_any(const Message& message) {
    return std::visit(
        [](const auto& alternative) {
            ByteWriter body;
            body.number(kType<std::decay_t<decltype(alternative)>>);
            write(body, alternative);
            ByteWriter frame;
            frame.number(static_cast<std::uint32_t>(body.bytes().size()));
            frame.raw(body.bytes());
            return frame.take();
        },
        message);
}

/// Tries the alternatives of the variant one after another.
template <class Message, std::size_t kIndex = 0>
[[nodiscard]] Result<Message> decode_body(std::uint8_t type, ByteReader& reader) {
    if constexpr (kIndex == std::variant_size_v<Message>) {
        return malformed("message of unknown type " + std::to_string(type));
    } else {
        using Alternative = std::variant_alternative_t<kIndex, Message>;
        if (type != kType<Alternative>) {
            return decode_body<Message, kIndex + 1>(type, reader);
        }
        auto message = read(reader, std::type_identity<Alternative>{});
        HVD_TRY_STATUS(reader.finish("agent socket"));
        HVD_TRY_STATUS(check_values(message));
        return Message{std::move(message)};
    }
}

constexpr std::string_view kWorlds = "world/";

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

std::vector<std::byte> encode(const RankMessage& message) {
    return encode_any(message);
}

std::vector<std::byte> encode(const AgentMessage& message) {
    return encode_any(message);
}

template <class Message>
void FrameReader<Message>::feed(std::span<const std::byte> bytes) {
    if (taken_ > 0) {
        buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(taken_));
        taken_ = 0;
    }
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

template <class Message>
Result<std::optional<Message>> FrameReader<Message>::next() {
    const auto unread = std::span<const std::byte>(buffer_).subspan(taken_);
    if (unread.size() < kLengthBytes) {
        return std::optional<Message>{};
    }
    std::uint32_t length = 0;
    std::memcpy(&length, unread.data(), kLengthBytes);
    if (length == 0 || length > kMaxAgentFrame) {
        return malformed("frame of " + std::to_string(length) + " bytes (1 to " +
                         std::to_string(kMaxAgentFrame) + " are allowed)");
    }
    if (unread.size() - kLengthBytes < length) {
        return std::optional<Message>{};
    }
    ByteReader reader(unread.subspan(kLengthBytes, length));
    const auto type = reader.number<std::uint8_t>();
    HVD_TRY(auto message, decode_body<Message>(type, reader));
    taken_ += kLengthBytes + length;
    return std::optional<Message>{std::move(message)};
}

template class FrameReader<RankMessage>;
template class FrameReader<AgentMessage>;

}  // namespace hvd::coll
