// SPDX-License-Identifier: Apache-2.0
#include "runtime/execution/communicators.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace hvd::rt {
namespace {

Error no_backend(const Backends& backends, const coll::Task& task) {
    std::string names;
    for (const auto& backend : backends.all) {
        names += (names.empty() ? "" : ", ") + std::string(backend->name());
    }
    return {Errc::unsupported, "no backend runs " + std::string(to_string(task.op)) + " of " +
                                   std::string(to_string(task.type)) +
                                   (task.device.is_host() ? "" : " on a GPU") + "; there are " +
                                   names};
}

}  // namespace

Communicators::Communicators(const Backends& backends, const coll::ProcessSet& set)
    : backends_(backends), set_(set), entries_(backends.all.size()) {}

Result<Communicators::Choice> Communicators::choose(const coll::Task& task) {
    auto* const backend = backends_.pick(task, set_);
    if (backend == nullptr) {
        return no_backend(backends_, task);
    }
    const auto at = std::ranges::find(backends_.all, backend, &std::unique_ptr<coll::Backend>::get);
    const auto index = static_cast<std::size_t>(at - backends_.all.begin());
    auto& communicator = entries_[index].communicator;
    if (!communicator) {
        communicator = backend->open(set_);
    }
    return Choice{backend, communicator.get(), index};
}

Result<std::optional<Connection>> Communicators::connect(const Choice& choice) {
    if (std::exchange(entries_[choice.index].has_connected, true)) {
        return std::optional<Connection>();
    }
    const auto own = choice.communicator->connection_info();
    if (own.empty()) {
        return std::optional<Connection>();
    }
    const auto members = static_cast<std::size_t>(set_.size());
    coll::Task task{.op = coll::Op::allgather, .type = coll::DataType::u8};
    HVD_TRY(const auto host, choose(task));
    Connection connection;
    connection.communicator = choice.communicator;
    connection.bytes = members * own.size();
    connection.infos.resize(connection.bytes + own.size());
    auto* const mine = connection.infos.data() + connection.bytes;
    std::ranges::copy(own, mine);
    task.segments.push_back({.in = mine,
                             .out = connection.infos.data(),
                             .count = own.size(),
                             .counts = std::vector<std::size_t>(members, own.size())});
    HVD_TRY(connection.work, host.communicator->start(task));
    return std::optional(std::move(connection));
}

void Communicators::abort(const Error& cause) {
    for (const auto& entry : entries_) {
        if (entry.communicator) {
            entry.communicator->abort(cause);
        }
    }
}

}  // namespace hvd::rt
