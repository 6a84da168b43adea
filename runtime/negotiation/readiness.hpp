// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/negotiation/messages.hpp"
#include "runtime/negotiation/stall.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace hvd::rt {

/// The announcements of the ranks of one process set about tensors that share a name: the ranks
/// that take part in the decision, ascending, each with its announcement. A rank is there twice
/// where it has announced in two announcements the tensors that another rank has in one group.
struct AnnouncedGroup {
    std::vector<int> ranks;                   // of the world
    std::vector<Announcement> announcements;  // in the order of `ranks`
    bool follows_mismatch = false;            // the counterparts have failed before
};

/// The announcements of the members of one process set. A machine without I/O.
///
/// Groups are matched by the names of their members, so that ranks which group the same tensors in
/// different ways get an error, rather than waiting for each other. Announcements that such a
/// mismatch fails may have counterparts that arrive later, such as the second of two single tensors
/// that another rank has grouped: these fail as well when they arrive.
class ReadinessTable {
public:
    /// `ranks`: the members of the set, ascending.
    explicit ReadinessTable(std::vector<int> ranks) : ranks_(std::move(ranks)) {}

    [[nodiscard]] const std::vector<int>& ranks() const noexcept { return ranks_; }

    /// Records what a member announced. It replaces what the member announced before with one of
    /// the same names. `now` is when it came.
    void announce(int rank, Announcement announcement, Waiting::TimePoint now = {});

    /// Takes out what was announced with `name` if every rank but the `absent` ones has announced
    /// something with that name, or if it belongs to a mismatch of before. Where the ranks group
    /// their tensors differently it comes with everything that shares a name with it.
    [[nodiscard]] std::optional<AnnouncedGroup> take_if_complete(const std::string& name,
                                                                 std::span<const int> absent);

    /// All names that wait, sorted, so that the order in which they are looked at depends on
    /// nothing else.
    [[nodiscard]] std::vector<std::string> names() const;

    /// Names that still wait, with the ranks that have announced them and those that have not.
    [[nodiscard]] std::vector<Waiting> waiting(std::span<const int> absent) const;
    [[nodiscard]] bool has_waiting() const noexcept { return !entries_.empty(); }

private:
    using Key = std::uint64_t;  // of an announcement
    static constexpr Key kNothing = 0;

    struct Row {
        std::vector<Key> keys;  // by place in the set
    };
    using Places = std::vector<bool>;  // by place
    struct Entry {
        std::size_t place = 0;
        Announcement announcement;
        Waiting::TimePoint since{};  // when the rank began to wait
    };

    [[nodiscard]] std::size_t place_of(int rank) const;
    void erase(Key key);
    [[nodiscard]] bool is_complete(const Row& row, std::span<const int> absent) const;
    [[nodiscard]] bool has_same_members(const Row& row) const;
    [[nodiscard]] std::vector<Key> connected_with(const Row& row) const;
    [[nodiscard]] Key find_follower(const std::string& name);
    void expect_counterparts(const AnnouncedGroup& group);

    std::vector<int> ranks_;
    std::unordered_map<std::string, Row> rows_;  // by the name of a tensor
    std::unordered_map<Key, Entry> entries_;
    Key last_key_ = kNothing;
    std::unordered_map<std::string, Places> mismatched_;  // names whose counterparts have failed
};

/// Why these announcements cannot go together: the tensor, the values and the ranks on each side.
/// Nothing where they agree.
[[nodiscard]] std::optional<Error> find_disagreement(const AnnouncedGroup& group);

/// "rank 3", "ranks 0-2,5".
[[nodiscard]] std::string describe_ranks(std::span<const int> ranks);

}  // namespace hvd::rt
