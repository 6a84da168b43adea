// SPDX-License-Identifier: Apache-2.0
//
// What the process managers of MPI launchers are used for here: one rank leaves a text that all
// others read. The launcher's own connections carry it, so that a secret may be in it.
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
class Board {
public:
    virtual ~Board() = default;
    Board(const Board&) = delete;
    Board& operator=(const Board&) = delete;

    /// "PMI", "PMIx".
    [[nodiscard]] virtual std::string_view name() const noexcept = 0;

    /// Ranks of the world, where the launcher's server tells it.
    [[nodiscard]] virtual std::optional<int> world_size() const { return {}; }

    /// Of rank 0; the others read meanwhile. No blanks in either. Errors: timed_out, unavailable.
    [[nodiscard]] virtual Status post(const std::string& key,
                                      const std::string& text,
                                      Deadline deadline) = 0;

    /// Of all others. Errors: timed_out, unavailable.
    [[nodiscard]] virtual Result<std::string> read(const std::string& key, Deadline deadline) = 0;

    /// At the end of the process. Without it launchers take the end for a crash.
    virtual void farewell() = 0;

protected:
    Board() = default;
};

/// That of this process: PMI-1 at PMI_FD, else PMIx by the library libpmix.so.2. `size` is the
/// world's as the variables say, or 0. Errors: unavailable (why there is none), invalid_argument
/// (it is of another world).
[[nodiscard]] Result<Board*> find_board(const Environment& environment,
                                        int size,
                                        Deadline deadline);

/// One conversation over PMI-1's socket, for find_board and tests: begins it.
[[nodiscard]] Result<std::unique_ptr<Board>> open_pmi(int socket, Deadline deadline);

/// Errors: unavailable, invalid_argument.
[[nodiscard]] Result<std::unique_ptr<Board>> open_pmix(int size);

}  // namespace hvd::rt
