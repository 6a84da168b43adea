// SPDX-License-Identifier: Apache-2.0
#include "runtime/negotiation/messages.hpp"

#include "collectives/base/bytes.hpp"

#include <algorithm>
#include <utility>

namespace hvd::rt {
namespace {

void write_numbers(ByteWriter& writer, std::span<const std::int64_t> numbers) {
    writer.list(numbers, [&](std::int64_t number) { writer.number(number); });
}

std::vector<std::int64_t> read_numbers(ByteReader& reader) {
    return reader.list<std::int64_t>([&] { return reader.number<std::int64_t>(); });
}

void write_flag(ByteWriter& writer, bool flag) {
    writer.number(static_cast<std::uint8_t>(flag ? 1 : 0));
}

/// An enumerator in the range of its type, or the last one and `valid` false.
template <class Enum>
Enum read_enum(ByteReader& reader, Enum last, bool& valid) {
    const auto value = reader.number<Enum>();
    valid = valid && value <= last;
    return value <= last ? value : last;
}

void write_member(ByteWriter& writer, const Member& member) {
    const auto& signature = member.signature;
    writer.text(member.name);
    writer.number(signature.kind);
    writer.number(signature.op);
    writer.number(signature.reduce);
    writer.number(signature.type);
    writer.number(signature.wire);
    writer.number(signature.device.kind);
    writer.number(signature.device.index);
    write_flag(writer, signature.over_contributing);
    writer.number(signature.prescale);
    writer.number(signature.postscale);
    writer.number(static_cast<std::int32_t>(signature.root));
    write_numbers(writer, signature.shape);
    write_numbers(writer, signature.strides);
    write_numbers(writer, signature.splits);
}

Member read_member(ByteReader& reader, bool& valid) {
    Member member;
    member.name = reader.text();
    auto& signature = member.signature;
    signature.kind = read_enum(reader, Kind::remove_process_set, valid);
    signature.op = read_enum(reader, coll::Op::reducescatter, valid);
    signature.reduce = read_enum(reader, coll::ReduceOp::adasum_across_hosts, valid);
    signature.type = read_enum(reader, coll::DataType::f64, valid);
    signature.wire = read_enum(reader, coll::Wire::bf16, valid);
    signature.device.kind = read_enum(reader, coll::Device::Kind::cuda, valid);
    signature.device.index = reader.number<std::int32_t>();
    valid = valid && signature.device.index >= 0;
    signature.over_contributing = reader.boolean();
    signature.prescale = reader.number<double>();
    signature.postscale = reader.number<double>();
    signature.root = reader.number<std::int32_t>();
    signature.shape = Shape(read_numbers(reader));
    signature.strides = read_numbers(reader);
    signature.splits = read_numbers(reader);
    const auto is_negative = [](auto number) { return number < 0; };
    valid = valid && std::ranges::none_of(signature.shape, is_negative) &&
            std::ranges::none_of(signature.splits, is_negative);
    // The readers of first dimensions rely on there being one.
    valid = valid && (!has_open_size(signature) || !signature.shape.empty());
    return member;
}

std::vector<int> read_ranks(ByteReader& reader) {
    return reader.list<int>([&] { return reader.number<std::int32_t>(); });
}

}  // namespace

Kind kind_of(const Decision& decision) noexcept {
    return decision.members.front().signature.kind;
}

std::string group_name(std::span<const Member> members) {
    std::string name = members.front().name;
    for (const auto& member : members.subspan(1)) {
        name += '\n' + member.name;
    }
    return name;
}

std::vector<std::byte> encode(const Announcement& announcement) {
    ByteWriter writer;
    writer.number(static_cast<std::int32_t>(announcement.process_set));
    writer.list(announcement.members, [&](const Member& member) { write_member(writer, member); });
    writer.text(announcement.failure);
    writer.number(static_cast<std::int64_t>(announcement.waited.count()));
    write_flag(writer, announcement.asks_for_names);
    write_flag(writer, announcement.ends_world);
    return writer.take();
}

Result<Announcement> decode_announcement(std::span<const std::byte> bytes) {
    ByteReader reader(bytes);
    bool valid = true;
    Announcement announcement;
    announcement.process_set = reader.number<std::int32_t>();
    announcement.members = reader.list<Member>([&] { return read_member(reader, valid); });
    announcement.failure = reader.text();
    announcement.waited = std::chrono::milliseconds(reader.number<std::int64_t>());
    announcement.asks_for_names = reader.boolean();
    announcement.ends_world = reader.boolean();
    HVD_TRY_STATUS(reader.finish("announcement"));
    if (!valid || announcement.members.empty()) {
        return Error{Errc::internal, "announcement: a value out of its range"};
    }
    return announcement;
}

std::vector<std::byte> encode(const Decision& decision) {
    ByteWriter writer;
    writer.number(static_cast<std::int32_t>(decision.process_set));
    writer.list(decision.members, [&](const Member& member) { write_member(writer, member); });
    writer.number(decision.id);
    write_flag(writer, decision.awaits_memory);
    write_flag(writer, decision.is_transient);
    writer.list(decision.first_dims, [&](const auto& dims) { write_numbers(writer, dims); });
    writer.list(decision.devices, [&](const DeviceList& devices) {
        writer.list(devices, [&](std::int32_t device) { writer.number(device); });
    });
    writer.list(decision.announcers,
                [&](int rank) { writer.number(static_cast<std::int32_t>(rank)); });
    write_flag(writer, decision.error.has_value());
    if (decision.error) {
        writer.number(static_cast<std::uint8_t>(decision.error->code));
        writer.text(decision.error->message);
    }
    write_flag(writer, decision.fusion_bytes.has_value());
    if (decision.fusion_bytes) {
        writer.number(*decision.fusion_bytes);
    }
    writer.list(decision.joined, [&](int rank) { writer.number(static_cast<std::int32_t>(rank)); });
    writer.number(static_cast<std::int32_t>(decision.rank));
    write_flag(writer, decision.ends_world);
    write_flag(writer, decision.ends_join);
    writer.number(static_cast<std::int32_t>(decision.set_id));
    return writer.take();
}

Result<Decision> decode_decision(std::span<const std::byte> bytes) {
    ByteReader reader(bytes);
    bool valid = true;
    Decision decision;
    decision.process_set = reader.number<std::int32_t>();
    decision.members = reader.list<Member>([&] { return read_member(reader, valid); });
    decision.id = reader.number<CacheId>();
    decision.awaits_memory = reader.boolean();
    decision.is_transient = reader.boolean();
    decision.first_dims =
        reader.list<std::vector<std::int64_t>>([&] { return read_numbers(reader); });
    decision.devices = reader.list<DeviceList>(
        [&] { return reader.list<std::int32_t>([&] { return reader.number<std::int32_t>(); }); });
    decision.announcers = read_ranks(reader);
    if (reader.boolean()) {
        const auto code =
            std::min(reader.number<std::uint8_t>(), static_cast<std::uint8_t>(Errc::internal));
        decision.error = Error{static_cast<Errc>(code), reader.text()};
    }
    if (reader.boolean()) {
        decision.fusion_bytes = reader.number<std::uint64_t>();
    }
    decision.joined = read_ranks(reader);
    decision.rank = reader.number<std::int32_t>();
    decision.ends_world = reader.boolean();
    decision.ends_join = reader.boolean();
    decision.set_id = reader.number<std::int32_t>();
    HVD_TRY_STATUS(reader.finish("decision"));
    valid = valid &&
            (decision.announcers.empty() || decision.announcers.size() == decision.members.size());
    if (!valid || decision.members.empty()) {
        return Error{Errc::internal, "decision: a value out of its range"};
    }
    return decision;
}

}  // namespace hvd::rt
