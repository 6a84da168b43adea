// SPDX-License-Identifier: Apache-2.0
#include "runtime/control/control_frames.hpp"

#include "collectives/base/bytes.hpp"

#include <cstring>
#include <utility>

namespace hvd::rt {
namespace {

constexpr std::size_t kLargestFrame = std::size_t{256} << 20;

void write_bytes(ByteWriter& writer, std::span<const std::byte> bytes) {
    writer.number(static_cast<std::uint32_t>(bytes.size()));
    writer.raw(bytes);
}

std::vector<std::byte> read_bytes(ByteReader& reader) {
    const auto bytes = reader.raw(reader.number<std::uint32_t>());
    return {bytes.begin(), bytes.end()};
}

void write_ids(ByteWriter& writer, const std::vector<std::uint32_t>& ids) {
    writer.list(ids, [&](std::uint32_t id) { writer.number(id); });
}

std::vector<std::uint32_t> read_ids(ByteReader& reader) {
    return reader.list<std::uint32_t>([&] { return reader.number<std::uint32_t>(); });
}

void write_flag(ByteWriter& writer, bool flag) {
    writer.number(static_cast<std::uint8_t>(flag ? 1 : 0));
}

struct BodyWriter {
    ByteWriter& to;

    void operator()(const frame::Announce& message) const { write_bytes(to, message.message); }
    void operator()(const frame::SetReady& message) const {
        to.number(message.last);
        write_ids(to, message.ids);
    }
    void operator()(const frame::AnnounceLeave& /*message*/) const {}
    void operator()(const frame::Decided& message) const {
        to.number(message.number);
        to.number(message.process_set);
        write_flag(to, message.more);
        write_bytes(to, message.message);
    }
    void operator()(const frame::Invalidated& message) const {
        to.number(message.number);
        to.number(message.id);
    }
    void operator()(const frame::Ready& message) const {
        to.number(message.number);
        write_flag(to, message.of_world);
        to.number(message.last_rank);
        write_ids(to, message.ids);
    }
    void operator()(const frame::Left& message) const {
        to.number(message.number);
        to.number(message.rank);
    }
    void operator()(const frame::Goodbye& message) const {
        write_flag(to, message.finished);
        to.number(message.lost);
        to.text(message.why);
    }
    void operator()(const frame::Gone& message) const {
        to.number(message.rank);
        write_flag(to, message.finished);
    }
    void operator()(const frame::Lost& message) const {
        to.number(message.rank);
        to.text(message.why);
    }
};

template <class Message>
Message read_body(ByteReader& reader);

template <>
frame::Announce read_body(ByteReader& reader) {
    return {read_bytes(reader)};
}
template <>
frame::SetReady read_body(ByteReader& reader) {
    const auto last = reader.number<std::uint64_t>();
    return {last, read_ids(reader)};
}
template <>
frame::AnnounceLeave read_body(ByteReader& /*reader*/) {
    return {};
}
template <>
frame::Decided read_body(ByteReader& reader) {
    frame::Decided message;
    message.number = reader.number<std::uint64_t>();
    message.process_set = reader.number<std::int32_t>();
    message.more = reader.boolean();
    message.message = read_bytes(reader);
    return message;
}
template <>
frame::Invalidated read_body(ByteReader& reader) {
    const auto number = reader.number<std::uint64_t>();
    return {number, reader.number<std::uint32_t>()};
}
template <>
frame::Ready read_body(ByteReader& reader) {
    frame::Ready message;
    message.number = reader.number<std::uint64_t>();
    message.of_world = reader.boolean();
    message.last_rank = reader.number<std::int32_t>();
    message.ids = read_ids(reader);
    return message;
}
template <>
frame::Left read_body(ByteReader& reader) {
    const auto number = reader.number<std::uint64_t>();
    return {number, reader.number<std::int32_t>()};
}
template <>
frame::Goodbye read_body(ByteReader& reader) {
    const bool finished = reader.boolean();
    const auto lost = reader.number<std::int32_t>();
    return {finished, lost, reader.text()};
}
template <>
frame::Gone read_body(ByteReader& reader) {
    const auto rank = reader.number<std::int32_t>();
    return {rank, reader.boolean()};
}
template <>
frame::Lost read_body(ByteReader& reader) {
    const auto rank = reader.number<std::int32_t>();
    return {rank, reader.text()};
}

template <std::size_t... kIndex>
std::optional<frame::Any> read_any(std::size_t type,
                                   ByteReader& reader,
                                   std::index_sequence<kIndex...> /*all*/) {
    std::optional<frame::Any> message;
    ((type == kIndex
          ? void(message = read_body<std::variant_alternative_t<kIndex, frame::Any>>(reader))
          : void()),
     ...);
    return message;
}

}  // namespace

std::vector<std::byte> encode(const frame::Any& message) {
    ByteWriter writer;
    writer.number(std::uint32_t{0});
    writer.number(static_cast<std::uint8_t>(message.index()));
    std::visit(BodyWriter{writer}, message);
    auto bytes = writer.take();
    const auto rest = static_cast<std::uint32_t>(bytes.size() - sizeof(std::uint32_t));
    std::memcpy(bytes.data(), &rest, sizeof rest);
    return bytes;
}

void FrameReader::feed(std::span<const std::byte> bytes) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(taken_));
    taken_ = 0;
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<frame::Any>> FrameReader::next() {
    const auto rest = std::span(buffer_).subspan(taken_);
    ByteReader header(rest);
    const auto size = header.number<std::uint32_t>();
    if (header.failed()) {
        return std::optional<frame::Any>{};
    }
    if (size == 0 || size > kLargestFrame) {
        return Error{Errc::internal, "a frame of " + std::to_string(size) + " bytes"};
    }
    if (header.rest().size() < size) {
        return std::optional<frame::Any>{};
    }
    ByteReader body(header.rest().first(size));
    taken_ += sizeof size + size;
    auto message = read_any(body.number<std::uint8_t>(), body,
                            std::make_index_sequence<std::variant_size_v<frame::Any>>{});
    if (!message) {
        return Error{Errc::internal, "a frame of an unknown type"};
    }
    HVD_TRY_STATUS(body.finish("control frame"));
    return message;
}

}  // namespace hvd::rt
