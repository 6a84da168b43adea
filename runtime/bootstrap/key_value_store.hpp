// SPDX-License-Identifier: Apache-2.0
//
// The key-value stores of the process managers of MPI launchers: one rank puts a text that all
// others get. The launcher's own connections carry it, so that a secret may be in it.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace hvd::rt {

/// Thread: one at a time. There is one for a process, which lives until the process ends: launchers
/// take the end of the connection for the end of the program.
class KeyValueStore {
public:
    virtual ~KeyValueStore() = default;
    KeyValueStore(const KeyValueStore&) = delete;
    KeyValueStore& operator=(const KeyValueStore&) = delete;

    /// "PMI", "PMIx".
    [[nodiscard]] virtual std::string_view name() const noexcept = 0;

    /// Ranks of the world, where the launcher's server tells it.
    [[nodiscard]] virtual std::optional<int> world_size() const { return {}; }

    /// By rank 0; the others call `get` meanwhile. No blanks in either. Errors: timed_out,
    /// unavailable.
    [[nodiscard]] virtual Status put(const std::string& key,
                                     const std::string& text,
                                     Deadline deadline) = 0;

    /// By all others. Errors: timed_out, unavailable.
    [[nodiscard]] virtual Result<std::string> get(const std::string& key, Deadline deadline) = 0;

    /// At the end of the process. Without it launchers take the end for a crash.
    virtual void finish() = 0;

protected:
    KeyValueStore() = default;
};

/// That of this process: PMI-1 at PMI_FD, else PMIx by the library libpmix.so.2. `size` is the
/// world's as the variables say, or 0. Errors: unavailable (why there is none), invalid_argument
/// (it is of another world).
[[nodiscard]] Result<KeyValueStore*> find_key_value_store(const Environment& environment,
                                                          int size,
                                                          Deadline deadline);

/// One dialogue over PMI-1's socket, for find_key_value_store and tests: begins it.
[[nodiscard]] Result<std::unique_ptr<KeyValueStore>> open_pmi(int socket, Deadline deadline);

/// Errors: unavailable, invalid_argument.
[[nodiscard]] Result<std::unique_ptr<KeyValueStore>> open_pmix(int size);

}  // namespace hvd::rt
