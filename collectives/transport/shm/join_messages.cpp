// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/join_messages.hpp"

#include "collectives/base/bytes.hpp"

#include <utility>

namespace hvd::coll::join_message {
namespace {

constexpr std::uint32_t kMagic = 0x44564831;  // "1HVD": the protocol and its version

enum class Type : std::uint8_t { hello = 1, received, refused, members, go };

struct Writer {
    ByteWriter& bytes;

    void operator()(const Hello& hello) const {
        bytes.number(Type::hello);
        bytes.number(hello.rank);
        bytes.number(hello.size);
        bytes.number(hello.launcher);
        bytes.list(hello.key, [&](std::byte byte) { bytes.number(byte); });
        bytes.list(hello.segments, [&](std::uint64_t segment) { bytes.number(segment); });
    }
    void operator()(const Received&) const { bytes.number(Type::received); }
    void operator()(const Refused& refused) const {
        bytes.number(Type::refused);
        bytes.number(static_cast<std::uint8_t>(refused.code));
        bytes.text(refused.text);
    }
    void operator()(const Members& members) const {
        bytes.number(Type::members);
        bytes.number(members.first);
        bytes.list(members.pids, [&](std::int32_t pid) { bytes.number(pid); });
    }
    void operator()(const Go&) const { bytes.number(Type::go); }
};

[[nodiscard]] Message read(Type type, ByteReader& reader) {
    switch (type) {
        case Type::hello: {
            Hello hello;
            hello.rank = reader.number<std::int32_t>();
            hello.size = reader.number<std::int32_t>();
            hello.launcher = reader.number<std::int32_t>();
            hello.key = reader.list<std::byte>([&] { return reader.number<std::byte>(); });
            hello.segments =
                reader.list<std::uint64_t>([&] { return reader.number<std::uint64_t>(); });
            return hello;
        }
        case Type::received: return Received{};
        case Type::refused: {
            Refused refused;
            refused.code = static_cast<Errc>(reader.number<std::uint8_t>());
            refused.text = reader.text();
            return refused;
        }
        case Type::members: {
            Members members;
            members.first = reader.number<std::int32_t>();
            members.pids = reader.list<std::int32_t>([&] { return reader.number<std::int32_t>(); });
            return members;
        }
        case Type::go: break;
    }
    return Go{};
}

}  // namespace

std::vector<std::byte> encode(const Message& message) {
    ByteWriter bytes;
    bytes.number(kMagic);
    std::visit(Writer{bytes}, message);
    return bytes.take();
}

Result<Message> decode(std::span<const std::byte> packet) {
    constexpr std::string_view kWhat = "local group";
    ByteReader reader(packet);
    const auto magic = reader.number<std::uint32_t>();
    const auto type = reader.number<Type>();
    if (magic != kMagic || type < Type::hello || type > Type::go) {
        return Error{Errc::internal, std::string(kWhat) + ": not a message of this protocol"};
    }
    auto message = read(type, reader);
    HVD_TRY_STATUS(reader.finish(kWhat));
    if (auto* refused = std::get_if<Refused>(&message);
        refused != nullptr && refused->code > Errc::internal) {
        return Error{Errc::internal, std::string(kWhat) + ": unknown error code"};
    }
    return message;
}

}  // namespace hvd::coll::join_message
