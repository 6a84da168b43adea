// SPDX-License-Identifier: Apache-2.0
#include "runtime/negotiation/readiness.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <string_view>
#include <utility>

namespace hvd::rt {
namespace {

std::string describe(double value) {
    std::array<char, 32> text{};
    char* const end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    return {text.data(), end};
}

std::string describe_ranks(const std::vector<int>& ranks) {
    return (ranks.size() == 1 ? "rank " : "ranks ") + format_ranges(ranks);
}

std::string describe_layout(const Signature& signature) {
    return signature.strides.empty() ? "row-major" : rt::describe(signature.strides);
}

/// One thing on which ranks may differ: its name, its value in words, and where it matters.
struct Aspect {
    std::string_view what;
    std::string (*value)(const Signature&);
    bool (*matters)(const Signature&);
};

bool always(const Signature& /*signature*/) {
    return true;
}

bool has_tensor(const Signature& signature) {
    return signature.op != coll::Op::barrier;
}

bool is_gather(const Signature& signature) {
    return signature.op == coll::Op::allgather;
}

bool has_whole_shape(const Signature& signature) {
    return has_tensor(signature) && !is_gather(signature);
}

bool is_reduction(const Signature& signature) {
    return signature.op == coll::Op::allreduce;
}

// In this order: an earlier difference explains the later ones.
constexpr auto kAspects = std::to_array<Aspect>({
    {"the operation", [](const Signature& s) { return std::string(to_string(s.op)); }, always},
    {"the dtype", [](const Signature& s) { return std::string(to_string(s.type)); }, has_tensor},
    {"the shape", [](const Signature& s) { return rt::describe(s.shape); }, has_whole_shape},
    {"the number of dimensions", [](const Signature& s) { return std::to_string(s.shape.size()); },
     is_gather},
    {"the shape behind the first dimension",
     [](const Signature& s) { return rt::describe(std::span(s.shape).subspan(1)); }, is_gather},
    {"the memory layout (strides)", describe_layout, has_tensor},
    {"the device",
     [](const Signature& s) {
         return std::string(s.device == coll::Device::Kind::host ? "host" : "cuda");
     },
     has_tensor},
    {"the reduce operation", [](const Signature& s) { return std::string(to_string(s.reduce)); },
     is_reduction},
    {"the prescale factor", [](const Signature& s) { return describe(s.prescale); }, is_reduction},
    {"the postscale factor", [](const Signature& s) { return describe(s.postscale); },
     is_reduction},
    {"the root rank", [](const Signature& s) { return std::to_string(s.root); },
     [](const Signature& s) { return s.op == coll::Op::broadcast; }},
});

/// Values in words with the ranks that have them, in the order of their first rank.
using Sides = std::vector<std::pair<std::string, std::vector<int>>>;

Sides sides_of(const std::vector<Announcement>& said,
               const std::function<std::string(const Announcement&)>& value) {
    Sides sides;
    for (std::size_t rank = 0; rank < said.size(); ++rank) {
        auto text = value(said[rank]);
        const auto side =
            std::ranges::find(sides, text, [](const auto& known) { return known.first; });
        if (side == sides.end()) {
            sides.emplace_back(std::move(text), std::vector<int>{static_cast<int>(rank)});
        } else {
            side->second.push_back(static_cast<int>(rank));
        }
    }
    return sides;
}

Error disagreement(std::string_view tensor, std::string_view what, const Sides& sides) {
    std::vector<std::string> parts;
    parts.reserve(sides.size());
    for (const auto& [value, ranks] : sides) {
        parts.push_back(value + " on " + describe_ranks(ranks));
    }
    return {Errc::mismatch, "tensor '" + std::string(tensor) + "': ranks disagree on " +
                                std::string(what) + ": " + join(parts, ", ")};
}

}  // namespace

ReadinessTable::ReadinessTable(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

std::optional<std::vector<Announcement>> ReadinessTable::announce(int rank,
                                                                  Announcement announcement) {
    auto& row = rows_[unit_name(announcement)];
    row.said.resize(ranks_);
    auto& place = row.said[static_cast<std::size_t>(rank)];
    if (!place) {
        ++row.count;
    }
    place = std::move(announcement);
    if (row.count < ranks_) {
        return std::nullopt;
    }
    std::vector<Announcement> all;
    all.reserve(ranks_);
    for (auto& said : row.said) {
        all.push_back(std::move(*said));
    }
    rows_.erase(unit_name(all.front()));
    return all;
}

std::vector<ReadinessTable::Waiting> ReadinessTable::waiting() const {
    std::vector<Waiting> list;
    for (const auto& [unit, row] : rows_) {
        Waiting waiting{.unit = unit, .missing = {}};
        for (std::size_t rank = 0; rank < ranks_; ++rank) {
            if (!row.said[rank]) {
                waiting.missing.push_back(static_cast<int>(rank));
            }
        }
        list.push_back(std::move(waiting));
    }
    std::ranges::sort(list, {}, &Waiting::unit);
    return list;
}

std::optional<Error> find_disagreement(const std::vector<Announcement>& said) {
    const auto& first = said.front();
    const auto members = sides_of(said, [](const Announcement& announcement) {
        return std::to_string(announcement.members.size());
    });
    if (members.size() > 1) {
        return disagreement(first.members.front().name, "the number of tensors in its group",
                            members);
    }
    for (std::size_t index = 0; index < first.members.size(); ++index) {
        const auto& member = first.members[index];
        for (const auto& aspect : kAspects) {
            if (!aspect.matters(member.signature)) {
                continue;
            }
            const auto sides = sides_of(said, [&](const Announcement& announcement) {
                return aspect.value(announcement.members[index].signature);
            });
            if (sides.size() > 1) {
                return disagreement(member.name, aspect.what, sides);
            }
        }
    }
    return std::nullopt;
}

}  // namespace hvd::rt
