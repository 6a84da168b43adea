// SPDX-License-Identifier: Apache-2.0
#include "launcher/wire/frames.hpp"

#include "collectives/base/bytes.hpp"
#include "launcher/wire/fields.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace hvd::launch::wire {
namespace {

constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);

// The type byte is the place of the message in its variant. Builds never mix, but Hello must stay
// the first and keep its fields, so that any launcher can say which build the agent is.
template <class Message>
constexpr std::uint8_t kFirstType = std::is_same_v<Message, FromAgent> ? 1 : 129;

/// The enumerations that cross the wire, with their last value.
template <class Enum>
constexpr Enum kLast{};
template <>
constexpr Stream kLast<Stream> = Stream::err;
template <>
constexpr coll::ReportKind kLast<coll::ReportKind> = coll::ReportKind::versions;

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
    void put(const std::optional<std::string>& value) {
        writer_.number(value.has_value());
        writer_.text(value.value_or(""));
    }
    void put(const Environment& environment) {
        writer_.list(environment, [this](const auto& entry) {
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

    [[nodiscard]] bool is_out_of_range() const noexcept { return is_out_of_range_; }

private:
    template <WireNumber T>
    void take(T& value) {
        value = reader_.number<T>();
        if constexpr (std::is_enum_v<T>) {
            is_out_of_range_ = is_out_of_range_ || value > kLast<T>;
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
    void take(std::optional<std::string>& value) {
        const bool has_value = reader_.boolean();
        auto text = reader_.text();
        value = has_value ? std::optional(std::move(text)) : std::nullopt;
    }
    void take(Environment& environment) {
        environment.clear();
        reader_.each([&] {
            auto name = reader_.text();
            // They come in the order of the map.
            environment.emplace_hint(environment.end(), std::move(name), reader_.text());
        });
    }
    template <class Struct>
    requires std::is_class_v<Struct>
    void take(Struct& value) { fields(*this, value); }

    ByteReader& reader_;
    bool is_out_of_range_ = false;
};

[[nodiscard]] Error malformed(const std::string& why) {
    return Error{Errc::internal, "control stream: " + why};
}

template <class Message>
[[nodiscard]] std::vector<std::byte> encode_any(const Message& message) {
    ByteWriter body;
    body.number(static_cast<std::uint8_t>(kFirstType<Message> + message.index()));
    FieldWriter write(body);
    std::visit([&](const auto& alternative) { write(alternative); }, message);
    ByteWriter frame;
    frame.number(static_cast<std::uint32_t>(body.bytes().size()));
    frame.raw(body.bytes());
    return frame.take();
}

template <class Message, std::size_t kIndex = 0>
[[nodiscard]] Result<Message> decode(std::uint8_t type, ByteReader& reader) {
    if constexpr (kIndex == std::variant_size_v<Message>) {
        return malformed("frame of unknown type " + std::to_string(type));
    } else {
        if (type != kFirstType<Message> + kIndex) {
            return decode<Message, kIndex + 1>(type, reader);
        }
        std::variant_alternative_t<kIndex, Message> alternative;
        FieldReader field_reader(reader);
        field_reader(alternative);
        const auto where = "control stream: frame of type " + std::to_string(type);
        HVD_TRY_STATUS(reader.finish(where));
        if (field_reader.is_out_of_range()) {
            return Error{Errc::internal, where + ": value out of range"};
        }
        return Message{std::in_place_index<kIndex>, std::move(alternative)};
    }
}

}  // namespace

std::vector<std::byte> encode(const FromAgent& message) {
    return encode_any(message);
}

std::vector<std::byte> encode(const ToAgent& message) {
    return encode_any(message);
}

std::vector<std::byte> encode_output_header(const Output& empty, std::size_t size) {
    auto frame = encode(FromAgent{empty});
    const auto announce = [&](std::size_t position, std::size_t value) {
        const auto number = static_cast<std::uint32_t>(value);
        std::memcpy(frame.data() + position, &number, sizeof number);
    };
    announce(0, frame.size() - kLengthBytes + size);
    announce(frame.size() - kLengthBytes, size);
    return frame;
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
    if (!greeted_) {
        const std::string_view begin(reinterpret_cast<const char*>(buffer_.data()),
                                     std::min(buffer_.size(), kMagic.size()));
        if (!kMagic.starts_with(begin)) {
            return malformed("it does not begin with " + std::string(kMagic) +
                             ": the other end is no horovodrun or hvd-agent, or something else "
                             "writes to its standard output");
        }
        if (begin.size() < kMagic.size()) {
            return std::optional<Message>{};
        }
        greeted_ = true;
        taken_ = kMagic.size();
    }
    const auto unread = std::span<const std::byte>(buffer_).subspan(taken_);
    if (unread.size() < kLengthBytes) {
        return std::optional<Message>{};
    }
    std::uint32_t length = 0;
    std::memcpy(&length, unread.data(), kLengthBytes);
    if (length == 0 || length > kMaxFrame) {
        return malformed("frame of " + std::to_string(length) + " bytes (1 to " +
                         std::to_string(kMaxFrame) + " are allowed)");
    }
    if (unread.size() - kLengthBytes < length) {
        return std::optional<Message>{};
    }
    ByteReader reader(unread.subspan(kLengthBytes, length));
    const auto type = reader.number<std::uint8_t>();
    HVD_TRY(auto message, decode<Message>(type, reader));
    taken_ += kLengthBytes + length;
    return std::optional<Message>{std::move(message)};
}

template class FrameReader<FromAgent>;
template class FrameReader<ToAgent>;

}  // namespace hvd::launch::wire
