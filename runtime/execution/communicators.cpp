// SPDX-License-Identifier: Apache-2.0
#include "runtime/execution/communicators.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

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
    : backends_(backends), set_(set), communicators_(backends.all.size()) {}

Result<Communicators::Choice> Communicators::choose(const coll::Task& task) {
    auto* const backend = backends_.pick(task, set_);
    if (backend == nullptr) {
        return no_backend(backends_, task);
    }
    const auto at = std::ranges::find(backends_.all, backend, &std::unique_ptr<coll::Backend>::get);
    auto& communicator = communicators_[static_cast<std::size_t>(at - backends_.all.begin())];
    if (!communicator) {
        communicator = backend->open(set_, task.device);
    }
    return Choice{backend, communicator.get()};
}

void Communicators::abort(const Error& cause) {
    for (const auto& communicator : communicators_) {
        if (communicator) {
            communicator->abort(cause);
        }
    }
}

}  // namespace hvd::rt
