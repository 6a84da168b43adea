// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

namespace hvd::coll::mpi {

/// While it lives, a call of MPI is under way that nothing can call off: where the ranks that it
/// waits for never come, it never returns. If that lasts beyond the deadline, a thread says on
/// standard error what was waited for, and ends the process with `kStatus`.
///
/// Thread: any.
class Watch {
public:
    static constexpr int kStatus = 124;  // a time limit, as horovodrun's own

    /// "`call` has not returned in time: `reason`". Throws when no thread can be made.
    Watch(Deadline deadline, std::string_view call, std::string_view reason);
    ~Watch() = default;
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

private:
    void run(const std::stop_token& stop, Deadline deadline);

    std::string sentence_;
    std::mutex mutex_;
    std::condition_variable_any nothing_;  // only a stop is waited for
    std::jthread thread_;
};

}  // namespace hvd::coll::mpi
