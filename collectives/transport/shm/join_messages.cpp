// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/join_messages.hpp"

#include "collectives/base/fields.hpp"

namespace hvd::coll::join_message {

void fields(auto& io, Is<Hello> auto& hello) {
    io(hello.rank, hello.size, hello.launcher, hello.key, hello.segments);
}
void fields(auto& /*io*/, Is<Received> auto& /*received*/) {}
void fields(auto& io, Is<Refused> auto& refused) {
    io(refused.code, refused.text);
}
void fields(auto& io, Is<Members> auto& members) {
    io(members.first, members.pids);
}
void fields(auto& /*io*/, Is<Go> auto& /*go*/) {}

namespace {

constexpr std::uint32_t kMagic = 0x44564832;  // "2HVD": the protocol and its version
constexpr std::uint8_t kFirstType = 1;

}  // namespace

std::vector<std::byte> encode(const Message& message) {
    ByteWriter packet;
    packet.number(kMagic);
    packet.raw(encode_variant<kFirstType>(message));
    return packet.take();
}

Result<Message> decode(std::span<const std::byte> packet) {
    constexpr std::string_view kWhere = "local group";
    ByteReader reader(packet);
    if (reader.number<std::uint32_t>() != kMagic) {
        return Error{Errc::internal, std::string(kWhere) + ": not a message of this protocol"};
    }
    return decode_variant<kFirstType, Message>(reader.rest(), kWhere);
}

}  // namespace hvd::coll::join_message
