// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/engine/plan.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

namespace hvd::sim {
namespace {

constexpr int kNames = 5;  // of a set

class Drawer {
public:
    Drawer(std::uint64_t seed, const Traits& traits) : random_(seed), traits_(traits) {}

    Plan draw();

private:
    void add_set();
    void remove_set();
    void add_work(int racing_with);
    void add_burst();
    void add_epoch_with_join();
    [[nodiscard]] Item draw_item(int set, std::vector<std::string> names, bool may_fail);
    void end_phase(Phase phase);
    [[nodiscard]] std::vector<int> draw_members();
    [[nodiscard]] std::vector<std::string> take_names(int set, std::vector<bool>& taken);

    Random random_;
    const Traits& traits_;
    Plan plan_;
    std::vector<int> live_{0};  // sets
    std::map<std::string, int> versions_;
    int next_item_ = 0;
};

std::vector<int> Drawer::draw_members() {
    std::vector<int> members;
    while (members.empty()) {
        for (int rank = 0; rank < traits_.ranks; ++rank) {
            if (random_.one_in(2)) {
                members.push_back(rank);
            }
        }
    }
    return members;
}

void Drawer::end_phase(Phase phase) {
    plan_.phases.push_back(std::move(phase));
    plan_.skips.emplace_back(static_cast<std::size_t>(traits_.ranks), false);
}

void Drawer::add_set() {
    auto members = draw_members();
    for (const int set : live_) {
        if (plan_.sets[static_cast<std::size_t>(set)] == members) {
            return;
        }
    }
    const auto set = static_cast<int>(plan_.sets.size());
    plan_.sets.push_back(std::move(members));
    end_phase({.kind = Phase::Kind::add, .set = set, .items = {}});
    live_.push_back(set);
}

void Drawer::remove_set() {
    if (live_.size() < 2) {
        return;
    }
    const auto index = 1 + random_.below(live_.size() - 1);
    const int set = live_[index];
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(index));
    if (random_.one_in(2)) {
        end_phase({.kind = Phase::Kind::remove, .set = set, .items = {}});
    } else {
        add_work(set);
    }
}

std::vector<std::string> Drawer::take_names(int set, std::vector<bool>& taken) {
    taken.resize(kNames);
    std::vector<std::string> names;
    const int count = random_.one_in(6) ? random_.between(2, 3) : 1;
    for (int name = 0; name < kNames && static_cast<int>(names.size()) < count; ++name) {
        const auto each = static_cast<std::size_t>((name + set) % kNames);
        if (!taken[each] && random_.one_in(2)) {
            taken[each] = true;
            names.push_back("s" + std::to_string(set) + "." + std::to_string(each));
        }
    }
    return names;
}

Item Drawer::draw_item(int set, std::vector<std::string> names, bool may_fail) {
    const auto& members = plan_.sets[static_cast<std::size_t>(set)];
    Item item{.id = next_item_++, .set = set, .names = std::move(names)};
    auto& version = versions_[item.names.front()];
    if (random_.one_in(6)) {
        ++version;
    }
    item.version = version;
    // The kind of an operation belongs to its name, for the cache to be of use.
    Random of_name(
        mix(std::hash<std::string>{}(item.names.front()), static_cast<std::uint64_t>(version) / 3));
    const auto kind = of_name.below(12);
    item.op = kind < 6     ? coll::Op::allreduce
              : kind == 6  ? coll::Op::broadcast
              : kind == 7  ? coll::Op::allgather
              : kind == 8  ? coll::Op::alltoall
              : kind == 9  ? coll::Op::reducescatter
              : kind == 10 ? coll::Op::barrier
                           : coll::Op::allreduce;
    if (item.names.size() > 1) {
        item.op = coll::Op::allreduce;
    }
    constexpr std::array kOps{coll::ReduceOp::sum, coll::ReduceOp::average, coll::ReduceOp::max,
                              coll::ReduceOp::min, coll::ReduceOp::product, coll::ReduceOp::sum};
    item.reduce = kOps[of_name.below(6)];
    item.type = item.reduce == coll::ReduceOp::average || of_name.one_in(3) ? coll::DataType::f64
                                                                            : coll::DataType::i64;
    item.over_contributing = item.reduce == coll::ReduceOp::average && of_name.one_in(2);
    item.root = members[of_name.below(members.size())];
    const bool may_round =
        item.type == coll::DataType::f64 &&
        (item.op == coll::Op::allreduce || item.op == coll::Op::reducescatter) &&
        (item.reduce == coll::ReduceOp::sum || item.reduce == coll::ReduceOp::average);
    if (may_round && of_name.one_in(2)) {
        item.wire = coll::Wire::f16;  // which holds the sums here
    }
    item.is_awaited = random_.one_in(2);
    if (may_fail && members.size() > 1 && item.op != coll::Op::barrier && random_.one_in(20)) {
        item.culprit = members[random_.below(members.size())];
    }
    return item;
}

/// `racing_with`: a set that is removed in the same phase, or -1.
void Drawer::add_work(int racing_with) {
    Phase phase{.kind = Phase::Kind::work, .set = racing_with, .items = {}};
    std::map<int, std::vector<bool>> taken;
    const int count = random_.between(1, 8);
    for (int index = 0; index < count; ++index) {
        int set = random_.one_in(2) ? 0 : live_[random_.below(live_.size())];
        if (racing_with >= 0 && random_.one_in(2)) {
            set = racing_with;
        }
        auto names = take_names(set, taken[set]);
        if (names.empty()) {
            continue;
        }
        auto item = draw_item(set, std::move(names), racing_with < 0);
        item.is_awaited = item.is_awaited && set != racing_with;
        phase.items.push_back(std::move(item));
    }
    end_phase(std::move(phase));
}

/// A burst fills the log of ranks that expect nothing, because they wait for others outside of the
/// engine.
void Drawer::add_burst() {
    const int set = live_.back();
    Phase phase{.kind = Phase::Kind::burst, .items = {}};
    const int count = random_.between(20, 50);
    const int names = random_.between(1, kNames);
    for (int index = 0; index < count; ++index) {
        auto item = draw_item(
            set, {"s" + std::to_string(set) + "." + std::to_string(index % names)}, false);
        item.is_awaited = true;
        phase.items.push_back(std::move(item));
    }
    end_phase(std::move(phase));
    end_phase({.kind = Phase::Kind::outside, .items = {}});
}

/// Ranks stop to contribute one after the other, and join.
void Drawer::add_epoch_with_join() {
    const auto first = plan_.phases.size();
    const auto tail = static_cast<std::size_t>(random_.between(1, 3));
    for (std::size_t index = 0; index < tail; ++index) {
        add_work(-1);
        for (auto& item : plan_.phases.back().items) {
            item.culprit = -1;
        }
    }
    for (int rank = 0; rank < traits_.ranks; ++rank) {
        const auto cut = first + random_.below(tail + 1);
        for (auto phase = cut; phase < first + tail; ++phase) {
            plan_.skips[phase][static_cast<std::size_t>(rank)] = true;
        }
    }
    end_phase({.kind = Phase::Kind::join, .items = {}});
}

Plan Drawer::draw() {
    std::vector<int> world(static_cast<std::size_t>(traits_.ranks));
    std::iota(world.begin(), world.end(), 0);
    plan_.sets.push_back(std::move(world));
    const int parts = random_.between(2, 9);
    const bool may_join = traits_.allocation_fails_one_in == 0;
    for (int part = 0; part < parts; ++part) {
        const auto kind = random_.below(10);
        if (kind < 2) {
            add_set();
        } else if (kind == 2) {
            remove_set();
        } else if (kind == 4) {
            add_burst();
        } else if (kind == 3 && may_join) {
            add_epoch_with_join();
        } else {
            add_work(-1);
        }
    }
    // A rank that leaves ends the sets that it is in. So without a last operation of all ranks,
    // what the others still run in sets without it must go well.
    if (random_.one_in(2)) {
        return std::move(plan_);
    }
    Phase last{.kind = Phase::Kind::work, .items = {}};
    last.items.push_back({.id = next_item_++,
                          .set = 0,
                          .names = {"last"},
                          .op = coll::Op::barrier,
                          .is_awaited = true});
    end_phase(std::move(last));
    return std::move(plan_);
}

}  // namespace

bool Plan::is_member(int set, int rank) const {
    return std::ranges::binary_search(sets[static_cast<std::size_t>(set)], rank);
}

std::vector<int> Plan::joined(const Item& item, std::size_t phase) const {
    std::vector<int> ranks;
    for (const int rank : sets[static_cast<std::size_t>(item.set)]) {
        if (skips[phase][static_cast<std::size_t>(rank)]) {
            ranks.push_back(rank);
        }
    }
    return ranks;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    return Random(Random(Random(a).next() ^ b).next() ^ c).next();
}

Plan draw_plan(std::uint64_t seed, const Traits& traits) {
    return Drawer(mix(seed, 1), traits).draw();
}

Traits draw_traits(std::uint64_t seed) {
    Random random(mix(seed, 2));
    Traits traits;
    traits.ranks = random.one_in(2) ? random.between(2, 3) : random.between(2, 8);
    traits.is_tcp = random.one_in(3);
    constexpr std::array kSwitch{1U, 2U, 4U, 16U, 64U};
    traits.habits.switch_one_in = kSwitch[random.below(5)];
    traits.habits.freeze_one_in = random.one_in(2) ? 0 : 200;
    traits.habits.drain_one_in = random.one_in(3) ? 0 : random.one_in(2) ? 2 : 8;
    constexpr std::array kDelay{0U, 5U, 100U, 2000U};
    traits.delays = {.wakeup_us = kDelay[random.below(4)],
                     .wire_us = kDelay[random.below(4)],
                     .socket_bytes = random.one_in(3) ? 64U : 65536U};
    traits.fabric = {.fusion_bytes = random.one_in(3) ? 40U : 1024U,
                     .max_in_flight = random.one_in(3) ? random.between(2, 3) : 1,
                     .gathers = !random.one_in(4),
                     .enqueues = random.one_in(4),
                     .longest_us = kDelay[random.below(4)]};
    traits.cache_capacity = random.one_in(3) ? random.below(4) : 64;
    if (random.one_in(4)) {
        traits.fusion_bytes = random.below(200);
    }
    traits.cycle_us = random.one_in(5) ? 20 : 0;
    traits.pause_one_in = random.one_in(2) ? 3 : 12;
    const auto disturbance = random.below(8);
    const auto victim = static_cast<int>(random.below(static_cast<std::uint64_t>(traits.ranks)));
    if (disturbance == 0) {
        traits.doomed = victim;
        traits.dies_after_us = static_cast<unsigned>(random.below(random.one_in(2) ? 200 : 5000));
    } else if (disturbance == 1) {
        traits.leaver = victim;
        traits.leaves_before = random.below(6);
    } else if (disturbance == 2) {
        traits.allocation_fails_one_in = 10;
    }
    return traits;
}

std::string describe(const Traits& traits) {
    std::string text = std::to_string(traits.ranks) + " ranks over " +
                       (traits.is_tcp ? "tcp" : "shm") + ", switch 1/" +
                       std::to_string(traits.habits.switch_one_in) + ", freeze 1/" +
                       std::to_string(traits.habits.freeze_one_in) + ", drain 1/" +
                       std::to_string(traits.habits.drain_one_in) + ", wake-up " +
                       std::to_string(traits.delays.wakeup_us) + " us, wire " +
                       std::to_string(traits.delays.wire_us) + " us, cache " +
                       std::to_string(traits.cache_capacity) + ", in flight " +
                       std::to_string(traits.fabric.max_in_flight);
    if (traits.doomed >= 0) {
        text += ", rank " + std::to_string(traits.doomed) + " dies after " +
                std::to_string(traits.dies_after_us) + " us";
    }
    if (traits.leaver >= 0) {
        text += ", rank " + std::to_string(traits.leaver) + " leaves before phase " +
                std::to_string(traits.leaves_before);
    }
    if (traits.allocation_fails_one_in != 0) {
        text += ", allocations fail";
    }
    return text;
}

std::string describe(const Plan& plan) {
    std::string text;
    for (std::size_t index = 0; index < plan.phases.size(); ++index) {
        const auto& phase = plan.phases[index];
        constexpr std::array kKinds{"work", "burst", "outside", "add", "remove", "join"};
        text += "  phase " + std::to_string(index) + ": " +
                kKinds[static_cast<std::size_t>(phase.kind)];
        if (phase.set >= 0) {
            text += " (set " + std::to_string(phase.set) + " of ranks";
            for (const int rank : plan.sets[static_cast<std::size_t>(phase.set)]) {
                text += " " + std::to_string(rank);
            }
            text += ")";
        }
        for (int rank = 0; rank < static_cast<int>(plan.sets.front().size()); ++rank) {
            if (plan.skips[index][static_cast<std::size_t>(rank)]) {
                text += ", without rank " + std::to_string(rank);
            }
        }
        text += "\n";
        for (const auto& item : phase.items) {
            text += "    #" + std::to_string(item.id) + " " + std::string(to_string(item.op)) +
                    " " + std::string(to_string(item.reduce)) + (item.is_awaited ? " awaited" : "");
            for (const auto& name : item.names) {
                text += " " + name;
            }
            if (item.culprit >= 0) {
                text += ", rank " + std::to_string(item.culprit) + " has another shape";
            }
            text += "\n";
        }
    }
    return text;
}

}  // namespace hvd::sim
