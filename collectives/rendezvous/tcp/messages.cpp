// SPDX-License-Identifier: Apache-2.0
#include "collectives/rendezvous/tcp/messages.hpp"

#include "collectives/base/bytes.hpp"

#include <utility>

namespace hvd::coll::store {
namespace {

void write(ByteWriter& writer, const Member& member) {
    for (const int number : {member.rank, member.size, member.local_rank, member.local_size}) {
        writer.number(static_cast<std::int32_t>(number));
    }
    writer.number(member.pid);
    writer.text(member.host);
    writer.text(member.node);
}

Member read_guest(ByteReader& reader) {
    Member member;
    member.rank = reader.number<std::int32_t>();
    member.size = reader.number<std::int32_t>();
    member.local_rank = reader.number<std::int32_t>();
    member.local_size = reader.number<std::int32_t>();
    member.pid = reader.number<std::int32_t>();
    member.host = reader.text();
    member.node = reader.text();
    return member;
}

void write(ByteWriter& writer, const Put& put) {
    writer.number(put.request);
    writer.text(put.key);
    writer.raw(put.value);
}

void write(ByteWriter& writer, const Get& get) {
    writer.number(get.request);
    writer.text(get.key);
}

void write(ByteWriter& writer, const Absent& absent) {
    writer.number(absent.request);
}

void write(ByteWriter& writer, const Value& value) {
    writer.number(value.request);
    writer.raw(value.bytes);
}

void write(ByteWriter& writer, const Failed& failed) {
    writer.number(failed.request);
    writer.text(failed.why);
    writer.number(static_cast<std::uint8_t>(failed.code));
}

template <class Message>
std::vector<std::byte> encode_any(const Message& message) {
    ByteWriter writer;
    writer.number(static_cast<std::uint8_t>(message.index()));
    std::visit([&](const auto& one) { write(writer, one); }, message);
    return writer.take();
}

std::vector<std::byte> read_rest(ByteReader& reader) {
    const auto rest = reader.raw(reader.rest().size());
    return {rest.begin(), rest.end()};
}

}  // namespace

std::string describe(const Member& member) {
    return "rank " + std::to_string(member.rank) + " (pid " + std::to_string(member.pid) +
           " on host " + member.host + ")";
}

std::vector<std::byte> encode_membership(std::span<const Member> members) {
    ByteWriter writer;
    writer.list(members, [&](const Member& member) { write(writer, member); });
    return writer.take();
}

Result<std::vector<Member>> decode_membership(std::span<const std::byte> bytes) {
    ByteReader reader(bytes);
    auto members = reader.list<Member>([&] { return read_guest(reader); });
    HVD_TRY_STATUS(reader.finish("membership"));
    return members;
}

std::vector<std::byte> encode(const Request& request) {
    return encode_any(request);
}

std::vector<std::byte> encode(const Reply& reply) {
    return encode_any(reply);
}

Result<Request> decode_request(std::span<const std::byte> bytes) {
    ByteReader reader(bytes);
    Request request;
    switch (reader.number<std::uint8_t>()) {
        case 0: request = read_guest(reader); break;
        case 1: {
            Put put{.request = reader.number<std::uint32_t>()};
            put.key = reader.text();
            put.value = read_rest(reader);
            request = std::move(put);
            break;
        }
        case 2: {
            Get get{.request = reader.number<std::uint32_t>()};
            get.key = reader.text();
            request = std::move(get);
            break;
        }
        case 3: request = Absent{.request = reader.number<std::uint32_t>()}; break;
        default: return Error{Errc::internal, "unknown request"};
    }
    HVD_TRY_STATUS(reader.finish("request"));
    return request;
}

Result<Reply> decode_reply(std::span<const std::byte> bytes) {
    ByteReader reader(bytes);
    const auto type = reader.number<std::uint8_t>();
    const auto request = reader.number<std::uint32_t>();
    Reply reply;
    if (type == 0) {
        reply = Value{.request = request, .bytes = read_rest(reader)};
    } else if (type == 1) {
        Failed failed{.request = request, .why = reader.text()};
        failed.code = reader.number<std::uint8_t>() == static_cast<std::uint8_t>(Errc::timed_out)
                          ? Errc::timed_out
                          : Errc::invalid_argument;
        reply = std::move(failed);
    } else {
        return Error{Errc::internal, "unknown reply"};
    }
    HVD_TRY_STATUS(reader.finish("reply"));
    return reply;
}

}  // namespace hvd::coll::store
