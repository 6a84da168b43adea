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

/// An enumerator in the range of its type, or the last one and `valid` false.
template <class Enum>
Enum read_enum(ByteReader& reader, Enum last, bool& valid) {
    const auto value = reader.number<Enum>();
    valid = valid && value <= last;
    return value <= last ? value : last;
}

Member read_member(ByteReader& reader, bool& valid) {
    Member member;
    member.name = reader.text();
    auto& signature = member.signature;
    signature.op = read_enum(reader, coll::Op::barrier, valid);
    signature.reduce = read_enum(reader, coll::ReduceOp::product, valid);
    signature.type = read_enum(reader, coll::DataType::f64, valid);
    signature.device = read_enum(reader, coll::Device::Kind::cuda, valid);
    signature.prescale = reader.number<double>();
    signature.postscale = reader.number<double>();
    signature.root = reader.number<std::int32_t>();
    signature.shape = read_numbers(reader);
    signature.strides = read_numbers(reader);
    valid = valid && std::ranges::all_of(signature.shape, [](auto extent) { return extent >= 0; });
    // Whoever joins first dimensions may rely on there being one.
    valid = valid && (signature.op != coll::Op::allgather || !signature.shape.empty());
    return member;
}

}  // namespace

std::string unit_name(const Announcement& announcement) {
    std::string name = announcement.members.front().name;
    for (std::size_t index = 1; index < announcement.members.size(); ++index) {
        name += '\n' + announcement.members[index].name;
    }
    return name;
}

std::vector<std::byte> encode(const Announcement& announcement) {
    ByteWriter writer;
    writer.list(announcement.members, [&](const Member& member) {
        const auto& signature = member.signature;
        writer.text(member.name);
        writer.number(signature.op);
        writer.number(signature.reduce);
        writer.number(signature.type);
        writer.number(signature.device);
        writer.number(signature.prescale);
        writer.number(signature.postscale);
        writer.number(static_cast<std::int32_t>(signature.root));
        write_numbers(writer, signature.shape);
        write_numbers(writer, signature.strides);
    });
    return writer.take();
}

Result<Announcement> decode_announcement(std::span<const std::byte> bytes) {
    ByteReader reader(bytes);
    bool valid = true;
    Announcement announcement;
    announcement.members = reader.list<Member>([&] { return read_member(reader, valid); });
    HVD_TRY_STATUS(reader.finish("announcement"));
    if (!valid || announcement.members.empty()) {
        return Error{Errc::internal, "announcement: a value out of its range"};
    }
    return announcement;
}

std::vector<std::byte> encode(const Decision& decision) {
    ByteWriter writer;
    writer.text(decision.unit);
    writer.number(decision.id);
    writer.list(decision.rows, [&](const auto& rows) { write_numbers(writer, rows); });
    writer.number(static_cast<std::uint8_t>(decision.error ? 1 : 0));
    if (decision.error) {
        writer.number(static_cast<std::uint8_t>(decision.error->code));
        writer.text(decision.error->message);
    }
    writer.number(static_cast<std::uint8_t>(decision.fusion_bytes ? 1 : 0));
    if (decision.fusion_bytes) {
        writer.number(*decision.fusion_bytes);
    }
    return writer.take();
}

Result<Decision> decode_decision(std::span<const std::byte> bytes) {
    ByteReader reader(bytes);
    Decision decision;
    decision.unit = reader.text();
    decision.id = reader.number<std::uint32_t>();
    decision.rows = reader.list<std::vector<std::int64_t>>([&] { return read_numbers(reader); });
    if (reader.boolean()) {
        const auto code =
            std::min(reader.number<std::uint8_t>(), static_cast<std::uint8_t>(Errc::internal));
        decision.error = Error{static_cast<Errc>(code), reader.text()};
    }
    if (reader.boolean()) {
        decision.fusion_bytes = reader.number<std::uint64_t>();
    }
    HVD_TRY_STATUS(reader.finish("decision"));
    return decision;
}

}  // namespace hvd::rt
