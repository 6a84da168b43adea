// SPDX-License-Identifier: Apache-2.0
//
// One list of fields for each value that travels, used by the writer and by the reader, so that the
// two cannot drift apart:
//
//   void fields(auto& io, Is<Report> auto& report) { io(report.kind, report.peer, report.text); }
//
// It stands in the namespace of the value. An enumeration needs its last value beside it:
//
//   constexpr ReportKind last_of(ReportKind) { return ReportKind::versions; }
#pragma once

#include "collectives/base/bytes.hpp"
#include "collectives/base/result.hpp"

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace hvd {

/// A value, const for the writer and not for the reader.
template <class Given, class Value>
concept Is = std::same_as<std::remove_const_t<Given>, Value>;

class FieldWriter {
public:
    explicit FieldWriter(ByteWriter& writer) : writer_(writer) {}

    void operator()(const auto&... values) { (put(values), ...); }

private:
    template <WireNumber T>
    void put(T value) {
        writer_.number(value);
    }
    void put(const std::string& value) { writer_.text(value); }
    void put(std::chrono::milliseconds value) { writer_.number(std::int64_t{value.count()}); }
    void put(const std::vector<std::byte>& value) {
        writer_.number(static_cast<std::uint32_t>(value.size()));
        writer_.raw(value);
    }
    template <class T>
    void put(const std::vector<T>& values) {
        writer_.list(values, [this](const T& value) { put(value); });
    }
    template <class T, std::size_t kSize>
    void put(const std::array<T, kSize>& values) {
        for (const auto& value : values) {
            put(value);
        }
    }
    void put(const std::optional<std::string>& value) {
        writer_.number(value.has_value());
        writer_.text(value.value_or(""));
    }
    template <class Compare>
    void put(const std::map<std::string, std::string, Compare>& entries) {
        writer_.list(entries, [this](const auto& entry) {
            writer_.text(entry.first);
            writer_.text(entry.second);
        });
    }
    template <class Struct>
    requires std::is_class_v<Struct>
    void put(const Struct& value) { fields(*this, value); }

    ByteWriter& writer_;
};

class FieldReader {
public:
    explicit FieldReader(ByteReader& reader) : reader_(reader) {}

    void operator()(auto&... values) { (take(values), ...); }

    /// An enumeration had a value that it has not.
    [[nodiscard]] bool is_out_of_range() const noexcept { return is_out_of_range_; }

private:
    template <WireNumber T>
    void take(T& value) {
        value = reader_.number<T>();
        if constexpr (std::is_enum_v<T> && !std::is_same_v<T, std::byte>) {
            is_out_of_range_ = is_out_of_range_ || value < T{} || value > last_of(T{});
        }
    }
    void take(bool& value) { value = reader_.boolean(); }
    void take(std::string& value) { value = reader_.text(); }
    void take(std::chrono::milliseconds& value) {
        value = std::chrono::milliseconds(reader_.number<std::int64_t>());
    }
    void take(std::vector<std::byte>& value) {
        const auto bytes = reader_.raw(reader_.number<std::uint32_t>());
        value.assign(bytes.begin(), bytes.end());
    }
    template <class T>
    void take(std::vector<T>& values) {
        values = reader_.list<T>([this] {
            T value{};
            take(value);
            return value;
        });
    }
    template <class T, std::size_t kSize>
    void take(std::array<T, kSize>& values) {
        for (auto& value : values) {
            take(value);
        }
    }
    void take(std::optional<std::string>& value) {
        const bool has_value = reader_.boolean();
        auto text = reader_.text();
        value = has_value ? std::optional(std::move(text)) : std::nullopt;
    }
    template <class Compare>
    void take(std::map<std::string, std::string, Compare>& entries) {
        entries.clear();
        reader_.each([&] {
            auto name = reader_.text();
            // They come in the order of the map.
            entries.emplace_hint(entries.end(), std::move(name), reader_.text());
        });
    }
    template <class Struct>
    requires std::is_class_v<Struct>
    void take(Struct& value) { fields(*this, value); }

    ByteReader& reader_;
    bool is_out_of_range_ = false;
};

[[nodiscard]] std::vector<std::byte> encode_fields(const auto&... values) {
    ByteWriter writer;
    FieldWriter{writer}(values...);
    return writer.take();
}

/// All that is left in the reader. `where` begins the error. Errors: internal.
template <class Value>
[[nodiscard]] Result<Value> decode_fields(ByteReader& reader, std::string_view where) {
    Value value{};
    FieldReader fields_of(reader);
    fields_of(value);
    HVD_TRY_STATUS(reader.finish(where));
    if (fields_of.is_out_of_range()) {
        return Error{Errc::internal, std::string(where) + ": value out of range"};
    }
    return value;
}
template <class Value>
[[nodiscard]] Result<Value> decode_fields(std::span<const std::byte> bytes,
                                          std::string_view where) {
    ByteReader reader(bytes);
    return decode_fields<Value>(reader, where);
}

/// A variant is a type byte, the place of the alternative counted from `kFirst`, and its fields. An
/// alternative never changes its place.
template <std::uint8_t kFirst, class Variant>
[[nodiscard]] std::vector<std::byte> encode_variant(const Variant& message) {
    ByteWriter writer;
    writer.number(static_cast<std::uint8_t>(kFirst + message.index()));
    FieldWriter write(writer);
    std::visit([&](const auto& alternative) { write(alternative); }, message);
    return writer.take();
}

namespace detail {

template <std::uint8_t kFirst, class Variant, std::size_t kIndex>
[[nodiscard]] Result<Variant> decode_alternative(std::uint8_t type,
                                                 ByteReader& reader,
                                                 std::string_view where) {
    if constexpr (kIndex == std::variant_size_v<Variant>) {
        return Error{Errc::internal,
                     std::string(where) + ": message of unknown type " + std::to_string(type)};
    } else {
        if (type != kFirst + kIndex) {
            return decode_alternative<kFirst, Variant, kIndex + 1>(type, reader, where);
        }
        using Alternative = std::variant_alternative_t<kIndex, Variant>;
        HVD_TRY(auto alternative, decode_fields<Alternative>(reader, where));
        return Variant{std::in_place_index<kIndex>, std::move(alternative)};
    }
}

}  // namespace detail

template <std::uint8_t kFirst, class Variant>
[[nodiscard]] Result<Variant> decode_variant(std::span<const std::byte> bytes,
                                             std::string_view where) {
    ByteReader reader(bytes);
    const auto type = reader.number<std::uint8_t>();
    return detail::decode_alternative<kFirst, Variant, 0>(type, reader, where);
}

}  // namespace hvd
