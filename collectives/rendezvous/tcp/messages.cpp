// SPDX-License-Identifier: Apache-2.0
#include "collectives/rendezvous/tcp/messages.hpp"

#include "collectives/base/fields.hpp"

namespace hvd::coll::store {

void fields(auto& io, Is<Member> auto& member) {
    io(member.rank, member.size, member.local_rank, member.local_size, member.pid);
    io(member.host, member.node);
}
void fields(auto& io, Is<Put> auto& put) {
    io(put.request, put.key, put.value);
}
void fields(auto& io, Is<Get> auto& get) {
    io(get.request, get.key);
}
void fields(auto& io, Is<Absent> auto& absent) {
    io(absent.request);
}
void fields(auto& io, Is<Value> auto& value) {
    io(value.request, value.bytes);
}
void fields(auto& io, Is<Failed> auto& failed) {
    io(failed.request, failed.why, failed.code);
}

namespace {

constexpr std::uint8_t kFirstType = 0;

}  // namespace

std::string describe(const Member& member) {
    return "rank " + std::to_string(member.rank) + " (pid " + std::to_string(member.pid) +
           " on host " + member.host + ")";
}

std::vector<std::byte> encode_membership(const std::vector<Member>& members) {
    return encode_fields(members);
}

Result<std::vector<Member>> decode_membership(std::span<const std::byte> bytes) {
    return decode_fields<std::vector<Member>>(bytes, "membership");
}

std::vector<std::byte> encode(const Request& request) {
    return encode_variant<kFirstType>(request);
}

std::vector<std::byte> encode(const Reply& reply) {
    return encode_variant<kFirstType>(reply);
}

Result<Request> decode_request(std::span<const std::byte> bytes) {
    return decode_variant<kFirstType, Request>(bytes, "request");
}

Result<Reply> decode_reply(std::span<const std::byte> bytes) {
    return decode_variant<kFirstType, Reply>(bytes, "reply");
}

}  // namespace hvd::coll::store
