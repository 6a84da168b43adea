// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/processes/environment_block.hpp"

#include <algorithm>

namespace hvd::launch::agent {

Environment with_own_environment(Environment environment, bool inherits) {
    if (inherits) {
        environment.merge(current_environment());  // keeps what is there
    }
    return environment;
}

EnvironmentBlock::EnvironmentBlock(const Environment& environment) {
    entries_.reserve(environment.size());
    for (const auto& [name, value] : environment) {
        auto& entry = entries_.emplace_back(Entry{.text = {}, .name_size = name.size()});
        entry.text.reserve(name.size() + 1 + value.size());
        entry.text.append(name).append(1, '=').append(value);
    }
}

std::vector<char*> EnvironmentBlock::with(EnvironmentBlock& changes) {
    std::vector<char*> pointers;
    pointers.reserve(entries_.size() + changes.entries_.size() + 1);
    auto change = changes.entries_.begin();
    const auto take_change = [&] { pointers.push_back((change++)->text.data()); };
    for (auto& entry : entries_) {
        while (change != changes.entries_.end() && change->name() < entry.name()) {
            take_change();
        }
        if (change != changes.entries_.end() && change->name() == entry.name()) {
            take_change();
        } else {
            pointers.push_back(entry.text.data());
        }
    }
    while (change != changes.entries_.end()) {
        take_change();
    }
    pointers.push_back(nullptr);
    return pointers;
}

std::optional<std::string> EnvironmentBlock::find(std::string_view name) const {
    const auto entry = std::ranges::lower_bound(entries_, name, {}, &Entry::name);
    if (entry == entries_.end() || entry->name() != name) {
        return std::nullopt;
    }
    return entry->text.substr(name.size() + 1);
}

}  // namespace hvd::launch::agent
