// SPDX-License-Identifier: Apache-2.0
//
// Compares what the ranks have announced about the same tensors, aspect by aspect.
#include "collectives/base/text.hpp"
#include "runtime/negotiation/readiness.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <string_view>
#include <utility>

namespace hvd::rt {
namespace {

using coll::Op;

std::string describe(double value) {
    std::array<char, 32> text{};
    char* const end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    return {text.data(), end};
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

bool has_open_rows(const Signature& signature) {
    return has_open_size(signature);
}

bool has_whole_shape(const Signature& signature) {
    return has_tensor(signature) && !has_open_size(signature);
}

bool is_reduction(const Signature& signature) {
    return signature.kind == Kind::collective &&
           (signature.op == Op::allreduce || signature.op == Op::reducescatter);
}

// In this order: an earlier difference explains the later ones.
constexpr auto kAspects = std::to_array<Aspect>({
    {"the operation", describe_operation, always},
    {"the dtype", [](const Signature& s) { return std::string(to_string(s.type)); }, has_tensor},
    {"the dtype that travels (wire_dtype)",
     [](const Signature& s) { return std::string(to_string(wire_type(s.type, s.wire))); },
     is_reduction},
    {"the shape", [](const Signature& s) { return rt::describe(s.shape); }, has_whole_shape},
    {"the number of dimensions", [](const Signature& s) { return std::to_string(s.shape.size()); },
     has_open_rows},
    {"the shape behind the first dimension",
     [](const Signature& s) { return rt::describe(std::span(s.shape).subspan(1)); }, has_open_rows},
    {"the memory layout (strides)", describe_layout, has_tensor},
    {"the device",
     [](const Signature& s) { return std::string(s.device.is_host() ? "host" : "cuda"); },
     has_tensor},
    {"the reduce operation", [](const Signature& s) { return std::string(to_string(s.reduce)); },
     is_reduction},
    {"the prescale factor", [](const Signature& s) { return describe(s.prescale); }, is_reduction},
    {"the postscale factor", [](const Signature& s) { return describe(s.postscale); },
     is_reduction},
    {"what an average divides by",
     [](const Signature& s) {
         return std::string(s.over_contributing ? "the ranks that contribute" : "all ranks");
     },
     is_reduction},
    {"the root rank", [](const Signature& s) { return std::to_string(s.root); },
     [](const Signature& s) { return s.kind == Kind::collective && s.op == Op::broadcast; }},
    {"the ranks of the process set", [](const Signature& s) { return rt::describe(s.splits); },
     [](const Signature& s) { return s.kind == Kind::add_process_set; }},
    {"the process set", [](const Signature& s) { return std::to_string(s.root); },
     [](const Signature& s) { return s.kind == Kind::remove_process_set; }},
});

/// Values in words with the ranks that have them, in the order of their first rank.
using Sides = std::vector<std::pair<std::string, std::vector<int>>>;

Sides sides_of(const AnnouncedGroup& group,
               const std::function<std::string(const Announcement&)>& value) {
    Sides sides;
    for (std::size_t index = 0; index < group.ranks.size(); ++index) {
        auto text = value(group.announcements[index]);
        const auto side =
            std::ranges::find(sides, text, [](const auto& known) { return known.first; });
        if (side == sides.end()) {
            sides.emplace_back(std::move(text), std::vector<int>{group.ranks[index]});
        } else if (side->second.back() != group.ranks[index]) {
            side->second.push_back(group.ranks[index]);
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

/// A group in words that do not grow with it: how many tensors, and the first that differ.
std::string describe_members(const Announcement& announcement, const Announcement& other) {
    constexpr std::size_t kNamed = 3;
    const auto& members = announcement.members;
    std::vector<std::string> names;
    for (std::size_t index = 0; index < members.size(); ++index) {
        if (index >= other.members.size() || members[index].name != other.members[index].name) {
            names.push_back("'" + members[index].name + "'");
        }
    }
    std::string text =
        members.size() == 1 ? "a tensor by itself" : "a group of " + std::to_string(members.size());
    if (!names.empty() && members.size() > 1) {
        const bool is_cut = names.size() > kNamed;
        names.resize(std::min(names.size(), kNamed));
        text += " with " + join(names, ", ") + (is_cut ? ", ..." : "");
    }
    return text;
}

std::optional<Error> find_failure(const AnnouncedGroup& group) {
    for (std::size_t index = 0; index < group.ranks.size(); ++index) {
        const auto& announcement = group.announcements[index];
        if (!announcement.failure.empty()) {
            return Error{Errc::unavailable, "tensor '" + announcement.members.front().name +
                                                "': rank " + std::to_string(group.ranks[index]) +
                                                ": " + announcement.failure};
        }
    }
    return std::nullopt;
}

}  // namespace

std::string describe_ranks(std::span<const int> ranks) {
    return (ranks.size() == 1 ? "rank " : "ranks ") + format_ranges(ranks);
}

std::optional<Error> find_disagreement(const AnnouncedGroup& group) {
    const auto& first = group.announcements.front();
    if (group.follows_mismatch) {
        return Error{Errc::mismatch, "tensor '" + first.members.front().name + "' of " +
                                         describe_ranks(group.ranks) +
                                         ": other ranks had it in another group, which has failed"};
    }
    const auto names = sides_of(
        group, [](const Announcement& announcement) { return group_name(announcement.members); });
    if (names.size() > 1) {
        const auto& second =
            *std::ranges::find_if(group.announcements, [&](const Announcement& announcement) {
                return group_name(announcement.members) != names.front().first;
            });
        return disagreement(first.members.front().name, "its group",
                            sides_of(group, [&](const Announcement& announcement) {
                                const bool is_first =
                                    group_name(announcement.members) == names.front().first;
                                return describe_members(announcement, is_first ? second : first);
                            }));
    }
    for (std::size_t index = 0; index < first.members.size(); ++index) {
        const auto& member = first.members[index];
        for (const auto& aspect : kAspects) {
            if (!aspect.matters(member.signature)) {
                continue;
            }
            const auto sides = sides_of(group, [&](const Announcement& announcement) {
                return aspect.value(announcement.members[index].signature);
            });
            if (sides.size() > 1) {
                return disagreement(member.name, aspect.what, sides);
            }
        }
    }
    return find_failure(group);
}

}  // namespace hvd::rt
