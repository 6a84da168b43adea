// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace hvd::test::gpu {

/// Counts the calls of every function, and knows which of them are to fail or to take long. Result
/// is the library's. Thread: any.
template <class Result>
class CallCounter {
public:
    /// One call: takes its time, and returns the error that it is to return.
    [[nodiscard]] std::optional<Result> call(const std::string& function) {
        std::chrono::microseconds time{0};
        std::optional<Result> result;
        {
            const std::lock_guard lock(mutex_);
            auto& row = rows_[function];
            if (const auto failure = row.failures.find(row.calls); failure != row.failures.end()) {
                result = failure->second;
                row.failures.erase(failure);
            }
            ++row.calls;
            time = row.time;
        }
        if (time.count() != 0) {
            std::this_thread::sleep_for(time);
        }
        return result;
    }

    void fail(const std::string& function, int number, Result result) {
        const std::lock_guard lock(mutex_);
        auto& row = rows_[function];
        row.failures[row.calls + number] = result;
    }

    /// No call fails any more.
    void forgive() {
        const std::lock_guard lock(mutex_);
        for (auto& [function, row] : rows_) {
            row.failures.clear();
        }
    }

    void delay(const std::string& function, std::chrono::microseconds time) {
        const std::lock_guard lock(mutex_);
        rows_[function].time = time;
    }

    [[nodiscard]] int calls(const std::string& function) const {
        const std::lock_guard lock(mutex_);
        const auto row = rows_.find(function);
        return row == rows_.end() ? 0 : row->second.calls;
    }

private:
    struct Row {
        int calls = 0;
        std::map<int, Result> failures;  // by number of the call
        std::chrono::microseconds time{0};
    };

    mutable std::mutex mutex_;
    std::map<std::string, Row> rows_;  // guarded by mutex_
};

}  // namespace hvd::test::gpu
