// SPDX-License-Identifier: Apache-2.0
#include "launcher/model/line_prefix.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace hvd::launch {
namespace {

constexpr std::string_view kNone = "none";

Error wrong(std::string why) {
    return {Errc::invalid_argument, std::move(why)};
}

}  // namespace

struct LinePrefix::Name {
    std::string_view name;
    Field field;

    static std::optional<Field> find(std::string_view wanted) {
        static constexpr std::array<Name, 5> kNames{{{"rank", Field::rank},
                                                     {"host", Field::host},
                                                     {"local_rank", Field::local_rank},
                                                     {"stream", Field::stream},
                                                     {"time", Field::time}}};
        const auto* found = std::ranges::find(kNames, wanted, &Name::name);
        return found == kNames.end() ? std::nullopt : std::optional(found->field);
    }
};

LinePrefix::LinePrefix()
    : parts_{{Field::text, "["},
             {Field::rank, ""},
             {Field::text, "]<"},
             {Field::stream, ""},
             {Field::text, ">:"}} {}

LinePrefix LinePrefix::stamped() {
    LinePrefix prefix;
    prefix.parts_.insert(prefix.parts_.begin(), {Field::time, ""});
    return prefix;
}

Result<LinePrefix> LinePrefix::parse(std::string_view text) {
    LinePrefix prefix;
    prefix.parts_.clear();
    if (text.empty()) {
        return wrong("write none for no prefix at all, or one such as '[{rank} {host}] '");
    }
    if (text == kNone) {
        return prefix;
    }
    std::string plain;
    const auto end_plain = [&] {
        if (!plain.empty()) {
            prefix.parts_.push_back({Field::text, std::exchange(plain, {})});
        }
    };
    while (!text.empty()) {
        const char first = text.front();
        const bool is_doubled = (first == '{' || first == '}') && text.substr(1).starts_with(first);
        if (first != '{' || is_doubled) {
            plain += first;
            text.remove_prefix(is_doubled ? 2 : 1);
            continue;
        }
        const auto end = text.find('}');
        if (end == std::string_view::npos) {
            return wrong("'" + std::string(text) + "' has no closing brace; write {{ for a brace");
        }
        const auto name = text.substr(1, end - 1);
        const auto field = Name::find(name);
        if (!field) {
            return wrong("there is no field {" + std::string(name) +
                         "}; those are {rank}, {host}, {local_rank}, {stream} and {time}, and {{ "
                         "is a brace");
        }
        end_plain();
        prefix.parts_.push_back({*field, ""});
        text.remove_prefix(end + 1);
    }
    end_plain();
    return prefix;
}

std::vector<std::string> LinePrefix::fill(int rank,
                                          const RankPlace& place,
                                          OutputStream stream) const {
    std::vector<std::string> pieces(1);
    for (const auto& part : parts_) {
        auto& piece = pieces.back();
        switch (part.field) {
            case Field::text: piece += part.text; break;
            case Field::rank: piece += std::to_string(rank); break;
            case Field::host: piece += place.host; break;
            case Field::local_rank: piece += std::to_string(place.local_rank); break;
            case Field::stream: piece += stream == OutputStream::out ? "stdout" : "stderr"; break;
            case Field::time: pieces.emplace_back(); break;
        }
    }
    return pieces;
}

}  // namespace hvd::launch
