// SPDX-License-Identifier: Apache-2.0
#include "collectives/reactor.hpp"

#include <algorithm>
#include <vector>

#include <sys/epoll.h>

namespace hvd::coll {

/// The descriptor: readable while something watched is ready.
class Reactor::Table final : public sim::File {
public:
    std::map<int, Watch> watches;

    [[nodiscard]] static std::uint32_t events_of(int fd, const Watch& watch) {
        const auto* const file = sim::Files::current()->find(fd);
        const bool is_edge = (watch.events & EPOLLET) != 0;
        if (file == nullptr || (is_edge && file->edges() == watch.seen)) {
            return 0;
        }
        return file->ready() & watch.events;
    }
    [[nodiscard]] std::uint32_t ready() const override {
        return std::ranges::any_of(
                   watches,
                   [](const auto& each) { return events_of(each.first, each.second) != 0; })
                   ? EPOLLIN
                   : 0U;
    }
    [[nodiscard]] std::optional<sim::Time> next_change() const override {
        std::optional<sim::Time> first;
        for (const auto& [fd, watch] : watches) {
            const auto* const file = sim::Files::current()->find(fd);
            const auto time = file == nullptr ? std::nullopt : file->next_change();
            if (time && (!first || *time < *first)) {
                first = time;
            }
        }
        return first;
    }
};

Reactor::Reactor() : table_(std::make_shared<Table>()), fd_(sim::Files::current()->add(table_)) {}

void Reactor::watch(int fd, std::uint32_t epoll_events, Handler handler) {
    table_->watches[fd] = Watch{.events = epoll_events, .seen = 0, .handler = std::move(handler)};
    sim::Scheduler::current().note_change();
}

void Reactor::forget(int fd) {
    table_->watches.erase(fd);
    sim::Scheduler::current().note_change();
}

bool Reactor::wait(Deadline deadline) const {
    return sim::Scheduler::current().wait(
        "its reactor", [table = table_] { return table->ready() != 0; }, deadline.end(),
        [table = table_] { return table->next_change(); });
}

void Reactor::dispatch() {
    sim::Scheduler::current().touch();
    std::vector<std::pair<int, std::uint32_t>> ready;
    for (auto& [fd, watch] : table_->watches) {
        if (const auto events = Table::events_of(fd, watch); events != 0) {
            watch.seen = sim::Files::current()->find(fd)->edges();
            ready.emplace_back(fd, events);
        }
    }
    for (const auto& [fd, events] : ready) {
        const auto watch = table_->watches.find(fd);
        if (watch != table_->watches.end()) {
            const auto handler = watch->second.handler;
            handler(events);
        }
    }
}

}  // namespace hvd::coll
