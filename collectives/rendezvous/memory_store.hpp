// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/rendezvous/store.hpp"

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

namespace hvd::coll {

/// A Store inside one process, for ranks that are threads. Thread: any.
class MemoryStore final : public Store {
public:
    [[nodiscard]] Status put(std::string_view key, std::span<const std::byte> value) override;
    [[nodiscard]] Result<std::vector<std::byte>> get(std::string_view key,
                                                     Deadline deadline) override;

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, std::vector<std::byte>, std::less<>> values_;  // guarded by mutex_
};

}  // namespace hvd::coll
